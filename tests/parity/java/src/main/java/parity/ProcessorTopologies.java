package parity;

import static parity.Values.amount;
import static parity.Values.city;

import java.util.List;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.RecordContext;
import org.apache.kafka.streams.processor.TopicNameExtractor;
import org.apache.kafka.streams.state.Stores;

/** Topologies of the user's own processors, inside the DSL and without it. */
final class ProcessorTopologies {

    private ProcessorTopologies() {
    }

    /**
     * process and processValues in the DSL: stores added to the builder and connected by name
     * (one plain and logged, one timestamped, logged and cached), a store brought by the
     * supplier; punctuators on stream time and on wall-clock time, one cancelled by itself;
     * forward to all children and to one by name; headers read and replaced; metadata of the
     * record; writes and forwards from a punctuator; a store no record's processor is given.
     */
    static Scenario processWithState() {
        final Observations observations = new Observations();
        final StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore("totals"), Serdes.String(), Serdes.Long()));
        builder.addStateStore(Stores.timestampedKeyValueStoreBuilder(
            Stores.persistentTimestampedKeyValueStore("ticks"), Serdes.String(), Serdes.Long())
            .withCachingEnabled());

        final KStream<String, String> input = builder.stream("input");
        final KStream<String, Long> totals =
            input.process(Totals::new, Named.as("totaller"), "totals", "ticks");
        totals.filter((key, value) -> true, Named.as("updates"))
            .to("updates-out", Produced.with(Serdes.String(), Serdes.Long()));
        totals.filter((key, value) -> true, Named.as("summaries"))
            .to("summaries-out", Produced.with(Serdes.String(), Serdes.Long()));

        input.processValues(new Numbering.Supplier()).to("numbered-out");
        // Without a name and without stores; the key changes, so that counting repartitions.
        input.process(CityKey::new)
            .groupByKey()
            .count(Named.as("cities"))
            .toStream().to("cities-out", Produced.with(Serdes.String(), Serdes.Long()));

        final Script script = new Script(9);
        for (int record = 0; record < 90; record++) {
            script.pipe("input", script.name(0), script.cityAmount(12));
            if (script.percent(15)) {
                script.advanceWallClock(script.oneOf(List.of(1L, 400L, 1_000L, 2_500L, 7_000L)));
            }
        }
        return new Scenario("process_with_state", builder.build(), script, observations);
    }

    /**
     * Topology.addSource, addProcessor, addSink and addStateStore without the DSL: two sources
     * that feed one processor, two processors that share a store, a source of two topics, sinks
     * with a fixed and with a chosen topic, forward to a sink by name; a timestamped store, an
     * in-memory store without logging, a plain store with caching; put, putIfAbsent, putAll,
     * delete, get, range, reverseRange, all, reverseAll and prefixScan; a second sub-topology.
     */
    static Scenario processorApi() {
        final StringDeserializer reader = new StringDeserializer();
        final StringSerializer writer = new StringSerializer();
        final TopicNameExtractor<String, String> byCity = new TopicNameExtractor<>() {
            @Override
            public String extract(
                    final String key, final String value, final RecordContext context) {
                return value == null ? "listing-none" : "listing-" + value.length() % 2;
            }

            @Override
            public String toString() {
                return "function";
            }
        };
        final Topology topology = new Topology()
            .addSource("prices-source", reader, reader, "prices")
            .addSource("orders-source", reader, reader, "orders", "returns")
            .addProcessor("remember-price", RememberPrice::new, "prices-source")
            .addProcessor("price-order", PriceOrder::new, "orders-source", "prices-source")
            .addProcessor("list-history", ListHistory::new, "price-order")
            .addStateStore(Stores.timestampedKeyValueStoreBuilder(
                    Stores.persistentTimestampedKeyValueStore("prices-store"),
                    Serdes.String(), Serdes.Long()),
                "remember-price", "price-order")
            .addStateStore(Stores.keyValueStoreBuilder(
                    Stores.inMemoryKeyValueStore("seen"), Serdes.String(), Serdes.String())
                .withLoggingDisabled(), "price-order")
            .addStateStore(Stores.keyValueStoreBuilder(
                    Stores.persistentKeyValueStore("history"), Serdes.String(), Serdes.Long())
                .withCachingEnabled(), "list-history")
            .addSink("priced-sink", "priced", writer, new LongSerializer(), "price-order")
            .addSink("first-sink", "first-orders", writer, new LongSerializer(), "price-order")
            .addSink("listing-sink", byCity, writer, writer, "list-history")
            .addSource("notes-source", reader, reader, "notes")
            .addSink("notes-sink", "notes-copy", writer, writer, "notes-source");

        final Script script = new Script(10);
        final List<String> topics = List.of("prices", "orders", "orders", "returns", "notes");
        for (int record = 0; record < 110; record++) {
            final String topic = script.oneOf(topics);
            script.pipe(topic, script.name(topic.equals("notes") ? 20 : 0), script.cityAmount(8));
        }
        return new Scenario("processor_api", topology, script, new Observations());
    }
}
