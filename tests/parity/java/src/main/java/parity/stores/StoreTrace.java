package parity.stores;

import java.io.IOException;
import java.util.List;
import org.rocksdb.RocksDBException;

/** Prints what Kafka Streams' store answered to some operations, to explain a difference. */
public final class StoreTrace {

    private StoreTrace() {
    }

    /** Reads system properties: store (a golden file's name), from and to (operations' numbers). */
    public static void main(final String[] arguments) throws IOException, RocksDBException {
        final String store = System.getProperty("store");
        final int from = Integer.getInteger("from", 0);
        final int to = Integer.getInteger("to", from + 1);
        final StoreScript script = StoreGoldenData.SCRIPTS.get(store).get();
        final int portion = StoreRun.OPERATIONS_A_RECORD;
        final List<String> lines = StoreRun.lines(script, (to + portion - 1) / portion * portion);
        for (int number = from; number < Math.min(to, lines.size()); number++) {
            System.out.println(number + " " + lines.get(number));
        }
    }
}
