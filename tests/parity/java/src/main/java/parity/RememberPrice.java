package parity;

import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;

/** Keeps the newest price of a key by event time; forwards nothing. */
final class RememberPrice implements Processor<String, String, Void, Void> {

    private TimestampedKeyValueStore<String, Long> prices;

    @Override
    public void init(final ProcessorContext<Void, Void> context) {
        prices = context.getStateStore("prices-store");
    }

    @Override
    public void process(final Record<String, String> record) {
        final ValueAndTimestamp<Long> known = prices.get(record.key());
        if (known != null && known.timestamp() > record.timestamp()) {
            return;
        }
        if (record.value() == null) {
            prices.put(record.key(), null);
        } else {
            prices.put(record.key(), ValueAndTimestamp.make(
                Values.amount(record.value()), record.timestamp()));
        }
    }
}
