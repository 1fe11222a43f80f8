package parity.stores;

import java.time.Duration;
import java.util.List;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.WindowStore;

/** A window store: plain, timestamped, or plain with duplicates. */
final class WindowScript implements StoreScript {

    /** What a store keeps of a value. */
    enum Make { PLAIN, TIMESTAMPED, DUPLICATES }

    private static final int RETENTION_MS = 120_000;
    private static final int SEGMENT_INTERVAL_MS = 60_000;
    private static final int WINDOW_MS = 10_000;

    private final Make make;
    private final Choices choices;

    WindowScript(final Make make) {
        this.make = make;
        choices = new Choices(4 + make.ordinal(), RETENTION_MS, SEGMENT_INTERVAL_MS, 1_000);
    }

    @Override
    public String name() {
        return switch (make) {
            case PLAIN -> "window";
            case TIMESTAMPED -> "timestamped_window";
            case DUPLICATES -> "window_with_duplicates";
        };
    }

    @Override
    public StoreBuilder<?> builder() {
        final Duration retention = Duration.ofMillis(RETENTION_MS);
        final Duration size = Duration.ofMillis(WINDOW_MS);
        return make == Make.TIMESTAMPED
            ? Stores.timestampedWindowStoreBuilder(
                Stores.persistentTimestampedWindowStore(name(), retention, size, false),
                Serdes.ByteArray(), Serdes.ByteArray())
            : Stores.windowStoreBuilder(
                Stores.persistentWindowStore(name(), retention, size, make == Make.DUPLICATES),
                Serdes.ByteArray(), Serdes.ByteArray());
    }

    /** Windows start at whole seconds in most cases, so that many are written again. */
    private long start(final long time) {
        return choices.percent(80) ? time / 1000 * 1000 : time;
    }

    @Override
    public Operation next(final int number) {
        choices.startOf(number);
        final int choice = choices.below(1000);
        final byte[] key = choices.key();
        if (choice < 550) {
            // A deletion is left out where it does nothing, see the README.
            final byte[] value = choices.value(number, make == Make.DUPLICATES ? 0 : 10);
            final long time = choices.time();
            return Operation.of("put", key, value, start(time), time);
        }
        final long from = start(choices.readTime());
        // With duplicates Java finds one value only right after it was put.
        if (choice < 700 && make != Make.DUPLICATES) {
            return Operation.of("fetch", key, from);
        }
        final long to = choices.percent(3)
            ? Long.MAX_VALUE : Math.max(0, from + choices.below(40_000) - 2_000);
        if (choice < 900) {
            return Operation.of(choice < 800 ? "fetch" : "backward_fetch", key, from, to);
        }
        if (choice < 970) {
            return Operation.of(
                choice < 935 ? "fetch_range" : "backward_fetch_range",
                choices.percent(20) ? null : key, choices.keyOrNull(), from, to);
        }
        if (choice < 990) {
            return Operation.of(choice < 980 ? "fetch_all" : "backward_fetch_all", from, to);
        }
        return Operation.of(choice < 995 ? "all" : "backward_all");
    }

    @Override
    public List<Operation> last() {
        final byte[] key = Choices.KEYS.get(0);
        return List.of(Operation.of("put", key, key, choices.now(), choices.now()));
    }

    @Override
    @SuppressWarnings("unchecked")
    public String apply(final StateStore store, final Operation operation) {
        if (make != Make.TIMESTAMPED) {
            return apply((WindowStore<byte[], byte[]>) store, operation,
                operation.name().equals("put") ? operation.bytes(1) : null, Line::hex);
        }
        ValueAndTimestamp<byte[]> value = null;
        if (operation.name().equals("put") && operation.bytes(1) != null) {
            value = ValueAndTimestamp.make(operation.bytes(1), operation.number(3));
        }
        return apply((WindowStore<byte[], ValueAndTimestamp<byte[]>>) store, operation, value,
            stored -> stored == null ? "-" : Line.hex(stored.value()) + "@" + stored.timestamp());
    }

    private static <V> String apply(
            final WindowStore<byte[], V> store, final Operation operation, final V value,
            final Function<V, String> text) {
        final Function<KeyValue<Long, V>, String> entry =
            pair -> pair.key + "=" + text.apply(pair.value);
        switch (operation.name()) {
            case "put" -> store.put(operation.bytes(0), value, operation.number(2));
            case "fetch" -> {
                return operation.arguments().size() == 2
                    ? text.apply(store.fetch(operation.bytes(0), operation.number(1)))
                    : Line.list(store.fetch(
                        operation.bytes(0), operation.number(1), operation.number(2)), entry);
            }
            case "backward_fetch" -> {
                return Line.list(store.backwardFetch(
                    operation.bytes(0), operation.number(1), operation.number(2)), entry);
            }
            default -> {
                return readMany(store, operation, text);
            }
        }
        return "-";
    }

    private static <V> String readMany(
            final WindowStore<byte[], V> store, final Operation operation,
            final Function<V, String> text) {
        final Function<KeyValue<Windowed<byte[]>, V>, String> entry =
            pair -> Line.window(pair.key) + "=" + text.apply(pair.value);
        return switch (operation.name()) {
            case "fetch_range" -> Line.list(
                store.fetch(
                    operation.bytes(0), operation.bytes(1), operation.number(2),
                    operation.number(3)), entry);
            case "backward_fetch_range" -> Line.list(
                store.backwardFetch(
                    operation.bytes(0), operation.bytes(1), operation.number(2),
                    operation.number(3)), entry);
            case "fetch_all" -> Line.list(
                store.fetchAll(operation.number(0), operation.number(1)), entry);
            case "backward_fetch_all" -> Line.list(
                store.backwardFetchAll(operation.number(0), operation.number(1)), entry);
            case "all" -> Line.list(store.all(), entry);
            case "backward_all" -> Line.list(store.backwardAll(), entry);
            default -> throw new IllegalArgumentException(operation.name());
        };
    }
}
