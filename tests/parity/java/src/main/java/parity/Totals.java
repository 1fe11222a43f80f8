package parity;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;

/** Sums amounts a key, forwards each sum to "updates" and, by stream time, all to "summaries". */
final class Totals implements Processor<String, String, String, Long> {

    private static final Duration SUMMARY_INTERVAL = Duration.ofMillis(5_000);
    private static final Duration TICK_INTERVAL = Duration.ofMillis(1_000);
    private static final int GREETINGS_MAX = 3;

    private ProcessorContext<String, Long> context;
    private KeyValueStore<String, Long> totals;
    private TimestampedKeyValueStore<String, Long> ticks;
    private Cancellable greeting;
    private int greetings;

    @Override
    public void init(final ProcessorContext<String, Long> newContext) {
        context = newContext;
        totals = context.getStateStore("totals");
        ticks = context.getStateStore("ticks");
        context.schedule(SUMMARY_INTERVAL, PunctuationType.STREAM_TIME, this::summarize);
        context.schedule(TICK_INTERVAL, PunctuationType.WALL_CLOCK_TIME, this::tick);
        greeting = context.schedule(SUMMARY_INTERVAL, PunctuationType.STREAM_TIME, this::greet);
    }

    @Override
    public void process(final Record<String, String> record) {
        if (record.value() == null) {
            totals.delete(record.key());
            context.forward(record.withValue(null)); // To both children.
            return;
        }
        final Long before = totals.get(record.key());
        final long total = (before == null ? 0 : before) + Values.amount(record.value());
        totals.put(record.key(), total);
        context.forward(
            record.withValue(total).withHeaders(withOrigin(record.headers())), "updates");
    }

    /** The record's headers and one more: "topic/partition/offset@stream time". */
    private Headers withOrigin(final Headers headers) {
        final RecordMetadata origin = context.recordMetadata().orElseThrow();
        final String text = origin.topic() + "/" + origin.partition() + "/" + origin.offset()
            + "@" + context.currentStreamTimeMs();
        return new RecordHeaders(headers)
            .add("origin", text.getBytes(StandardCharsets.UTF_8));
    }

    private void summarize(final long streamTimeMs) {
        try (KeyValueIterator<String, Long> all = totals.all()) {
            while (all.hasNext()) {
                final KeyValue<String, Long> entry = all.next();
                context.forward(new Record<>(entry.key, entry.value, streamTimeMs), "summaries");
            }
        }
        final Long summaries = totals.get("#summaries");
        totals.put("#summaries", summaries == null ? 1 : summaries + 1);
    }

    private void tick(final long wallClockMs) {
        final ValueAndTimestamp<Long> before = ticks.get("ticks");
        final long count = before == null ? 1 : before.value() + 1;
        ticks.put("ticks", ValueAndTimestamp.make(count, wallClockMs));
        // Kafka Streams gives metadata in a punctuation too, but of no topic.
        final String topic = context.recordMetadata().map(RecordMetadata::topic).orElse(null);
        context.forward(new Record<>(
            "tick" + Values.orDash(topic), count, context.currentSystemTimeMs()));
    }

    private void greet(final long streamTimeMs) {
        greetings++;
        context.forward(new Record<>("greeting", (long) greetings, streamTimeMs), "updates");
        if (greetings == GREETINGS_MAX) {
            greeting.cancel();
        }
    }
}
