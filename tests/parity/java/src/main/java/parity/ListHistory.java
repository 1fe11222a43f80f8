package parity;

import java.util.List;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

/** Uses every operation of a key-value store and forwards what the iterators gave, as text. */
final class ListHistory extends ContextualProcessor<String, Long, String, String> {

    private KeyValueStore<String, Long> history;
    private int count;

    @Override
    public void init(final ProcessorContext<String, String> context) {
        super.init(context);
        history = context.getStateStore("history");
    }

    @Override
    public void process(final Record<String, Long> record) {
        final String key = record.key();
        history.put(key + "/" + count % 3, record.value());
        final Long first = history.putIfAbsent(key, record.value());
        // Kafka Streams' cache shows deletions that wait in it to reverse iterators.
        final boolean reverse = count % 5 == 1 || count % 5 == 3;
        if (count % 4 == 1 && !reverse) {
            final Long gone = history.delete(key + "/0");
            context().forward(record.withValue("deleted " + Values.orDash(gone)));
        }
        if (count % 6 == 2 && !reverse) {
            history.putAll(List.of(
                KeyValue.pair("zz", record.value()), KeyValue.pair(key + "/1", null)));
        }
        context().forward(record.withValue("first " + Values.orDash(first)));
        switch (count % 5) {
            case 0 -> list(record, "range", history.range("b", "ç"));
            case 1 -> list(record, "reverse range", history.reverseRange(null, "ç"));
            case 2 -> list(record, "all", history.all());
            case 3 -> list(record, "reverse all", history.reverseAll());
            default -> list(record, "prefix", history.prefixScan(key, new StringSerializer()));
        }
        count++;
    }

    private void list(
            final Record<String, Long> record, final String label,
            final KeyValueIterator<String, Long> entries) {
        final StringBuilder text = new StringBuilder(label);
        try (entries) {
            entries.forEachRemaining(
                entry -> text.append(' ').append(entry.key).append('=').append(entry.value));
        }
        context().forward(record.withValue(text.toString()));
    }
}
