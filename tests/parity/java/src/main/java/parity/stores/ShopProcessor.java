package parity.stores;

import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;

/** Writes each record into a plain, a timestamped and a versioned store. */
final class ShopProcessor implements Processor<String, String, Void, Void> {

    private KeyValueStore<String, String> names;
    private TimestampedKeyValueStore<String, Long> totals;
    private VersionedKeyValueStore<String, String> prices;

    @Override
    public void init(final ProcessorContext<Void, Void> context) {
        names = context.getStateStore("names");
        totals = context.getStateStore("totals");
        prices = context.getStateStore("prices");
    }

    @Override
    public void process(final Record<String, String> record) {
        names.put(record.key(), record.value());
        final ValueAndTimestamp<Long> total = totals.get(record.key());
        totals.put(record.key(), ValueAndTimestamp.make(
            total == null ? 1L : total.value() + 1, record.timestamp()));
        prices.put(record.key(), record.value(), record.timestamp());
    }
}
