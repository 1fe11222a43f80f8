package parity;

import java.util.Set;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** Puts a number a key before each value; drops records that have a "route" header. */
final class Numbering implements FixedKeyProcessor<String, String, String> {

    /** Brings the store "numbers": plain, 4-byte integers, logged. */
    static final class Supplier implements FixedKeyProcessorSupplier<String, String, String> {
        @Override
        public FixedKeyProcessor<String, String, String> get() {
            return new Numbering();
        }

        @Override
        public Set<StoreBuilder<?>> stores() {
            return Set.of(Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore("numbers"), Serdes.String(), Serdes.Integer()));
        }
    }

    private FixedKeyProcessorContext<String, String> context;
    private KeyValueStore<String, Integer> numbers;

    @Override
    public void init(final FixedKeyProcessorContext<String, String> newContext) {
        context = newContext;
        numbers = context.getStateStore("numbers");
    }

    @Override
    public void process(final FixedKeyRecord<String, String> record) {
        if (record.headers().lastHeader("route") != null) {
            return;
        }
        final Integer before = numbers.get(record.key());
        final int number = before == null ? 1 : before + 1;
        numbers.put(record.key(), number);
        final String value = record.value();
        context.forward(record.withValue(value == null ? null : number + ". " + value));
        if (number % 5 == 0) {
            context.forward(record.withValue("fifth").withTimestamp(record.timestamp() + 1));
        }
    }
}
