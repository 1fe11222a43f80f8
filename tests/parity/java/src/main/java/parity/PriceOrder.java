package parity;

import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;

/** Multiplies an order's amount by the price known for its key; -1 where none is known. */
final class PriceOrder extends ContextualProcessor<String, String, String, Long> {

    private TimestampedKeyValueStore<String, Long> prices;
    private KeyValueStore<String, String> seen;

    @Override
    public void init(final ProcessorContext<String, Long> context) {
        super.init(context);
        prices = context.getStateStore("prices-store");
        seen = context.getStateStore("seen");
    }

    @Override
    public void process(final Record<String, String> record) {
        final String topic = context().recordMetadata().orElseThrow().topic();
        if (record.value() == null || topic.equals("prices")) {
            return;
        }
        final ValueAndTimestamp<Long> price = prices.get(record.key());
        final long total = price == null ? -1 : price.value() * Values.amount(record.value());
        final Record<String, Long> priced = record.withValue(total);
        context().forward(priced, "priced-sink");
        if (seen.putIfAbsent(record.key(), record.value()) == null) {
            context().forward(priced, "first-sink");
        }
        context().forward(priced, "list-history");
    }
}
