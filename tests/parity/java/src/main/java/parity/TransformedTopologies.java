package parity;

import static parity.Values.city;
import static parity.Values.orDash;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** Tables with transformers, anchored punctuations, and partitioners that drop and repeat. */
final class TransformedTopologies {

    private TransformedTopologies() {
    }

    /**
     * transformValues with a store, named, not kept; without one, not kept, below a filter, a
     * grouping, a join of tables and one with a stream, which look up rows that are not there;
     * kept, with and without a name of the node, with a grouping below; toStream with a key;
     * punctuations anchored at a time on both clocks; partitioners that return sets.
     */
    static Scenario transformedTables() {
        final StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore("turns"), Serdes.String(), Serdes.Long()));
        final KTable<String, String> people = builder.table("people");
        people.transformValues(Turns::new, Named.as("turned"), "turns")
            .toStream((key, value) -> key + "!", Named.as("turns-of")).to("turned-out");

        final KTable<String, String> marked = people.transformValues(Marks::new);
        marked.filter((key, value) -> value.length() % 2 == 0).toStream().to("even-out");
        marked.groupBy((key, value) -> KeyValue.pair(value, key),
                Grouped.with(Serdes.String(), Serdes.String()))
            .count().toStream().to("marks-out", Produced.with(Serdes.String(), Serdes.Long()));

        final KTable<String, String> kept = people.transformValues(
            Marks::new,
            Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("kept")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()));
        kept.groupBy((key, value) -> KeyValue.pair(value, key),
                Grouped.with(Serdes.String(), Serdes.String()))
            .count().toStream().to("kept-out", Produced.with(Serdes.String(), Serdes.Long()));

        final KTable<String, String> others = builder.table("others");
        marked.outerJoin(others, (mark, other) -> orDash(mark) + "|" + orDash(other))
            .toStream().to("both-out");

        final KStream<String, String> orders = builder.stream("orders");
        orders.leftJoin(marked, (order, mark) -> orDash(order) + "|" + orDash(mark))
            .to("marked-orders", Produced.<String, String>streamPartitioner(
                (topic, key, value, count) -> key == null ? Optional.empty()
                    : key.length() > 3 ? Optional.of(Set.of()) : Optional.of(Set.of(0))));
        orders.leftJoin(kept, (order, mark) -> orDash(order) + "|" + orDash(mark))
            .to("kept-orders");
        orders.process(Anchored::new).to("anchored-out");

        final Script script = new Script(31);
        for (int record = 0; record < 120; record++) {
            final String topic = script.oneOf(java.util.List.of("people", "people", "others", "orders"));
            script.pipe(topic, script.name(10), script.cityAmount(15));
            if (script.percent(15)) {
                script.advanceWallClock(script.oneOf(java.util.List.of(1L, 400L, 1_000L, 7_000L)));
            }
        }
        return new Scenario("transformed_tables", builder.build(), script, new Observations());
    }

    /** Numbers the values of a key. */
    private static final class Turns implements ValueTransformerWithKey<String, String, String> {
        private KeyValueStore<String, Long> turns;

        @Override
        @SuppressWarnings("unchecked")
        public void init(final org.apache.kafka.streams.processor.ProcessorContext context) {
            turns = context.getStateStore("turns");
        }

        @Override
        public String transform(final String key, final String value) {
            final Long before = turns.get(key);
            final long turn = before == null ? 1 : before + 1;
            turns.put(key, turn);
            return turn % 7 == 0 ? null : turn + ". " + orDash(value);
        }

        @Override
        public void close() {
        }
    }

    /** The city; of a row that is not there something too, of some no row. */
    private static final class Marks implements ValueTransformerWithKey<String, String, String> {
        @Override
        public void init(final org.apache.kafka.streams.processor.ProcessorContext context) {
        }

        @Override
        public String transform(final String key, final String value) {
            if (value == null) {
                return key.length() == 2 ? "nobody" : null;
            }
            return value.endsWith("3") ? null : city(value);
        }

        @Override
        public void close() {
        }
    }

    /** Tells when it is called. */
    private static final class Anchored implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;

        @Override
        public void init(final ProcessorContext<String, String> newContext) {
            context = newContext;
            anchor(Script.START_MS - 1_234, 700, PunctuationType.STREAM_TIME);
            anchor(Script.START_MS + 9_999, 1_500, PunctuationType.STREAM_TIME);
            anchor(0, 1_700, PunctuationType.WALL_CLOCK_TIME);
            anchor(Script.START_MS + 20_000, 3_000, PunctuationType.WALL_CLOCK_TIME);
        }

        private void anchor(final long start, final long interval, final PunctuationType type) {
            context.schedule(Instant.ofEpochMilli(start), Duration.ofMillis(interval), type, time ->
                context.forward(new Record<>(type + "/" + interval, Long.toString(time), time)));
        }

        @Override
        public void process(final Record<String, String> record) {
        }
    }
}
