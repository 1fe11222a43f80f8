package parity;

import static parity.Values.amount;
import static parity.Values.city;
import static parity.Values.orDash;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Printed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.RecordContext;
import org.apache.kafka.streams.processor.TopicNameExtractor;
import org.apache.kafka.streams.state.KeyValueStore;

/** Topologies of streams: without state, and grouped and aggregated. */
final class StreamTopologies {

    private StreamTopologies() {
    }

    /**
     * Every operation without state, with generated names: peek, print, foreach, filter,
     * filterNot, mapValues (both forms), map, flatMap, flatMapValues (both forms), selectKey,
     * merge, to. Null keys and null values pass through the functions.
     */
    static Scenario stateless() {
        final Observations observations = new Observations();
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, String> input = builder.stream("input");

        final KStream<String, String> present = input
            .peek((key, value) -> observations.see("peek", key, value))
            .filter((key, value) -> value != null)
            .filterNot((key, value) -> amount(value) < 10);
        input.print(Printed.<String, String>toFile(observations.printFile()).withLabel("input"));

        present.mapValues(value -> value.toUpperCase(Locale.ROOT)).to("upper");
        present.mapValues((key, value) -> orDash(key) + "=" + value).to("with-key");
        present.map((key, value) -> KeyValue.pair(city(value), amount(value)))
            .to("amounts", Produced.with(Serdes.String(), Serdes.Long()));
        present.flatMap((key, value) -> {
            final List<KeyValue<String, String>> copies = new ArrayList<>();
            for (int copy = 0; copy < amount(value) % 4; copy++) {
                copies.add(KeyValue.pair(orDash(key) + copy, value));
            }
            return copies;
        }).to("copies");
        final KStream<String, String> parts =
            present.flatMapValues(value -> Arrays.asList(value.split(":")));
        final KStream<String, String> keyedParts = present.flatMapValues(
            (key, value) ->
                List.of(orDash(key) + "/" + city(value), String.valueOf(amount(value))));
        parts.merge(keyedParts).to("parts");
        present.selectKey((key, value) -> city(value)).merge(input).to("by-city-and-all");
        input.mapValues(value -> (String) null).to("tombstones");
        input.foreach((key, value) -> observations.see("foreach", key, value));

        final Script script = new Script(1);
        for (int record = 0; record < 80; record++) {
            script.pipe("input", script.name(10), script.cityAmount(10));
        }
        return new Scenario("stateless", builder.build(), script, observations);
    }

    /**
     * stream of a list of topics and of a pattern; split with a prefix, named branches, a branch
     * without a name, withFunction, withConsumer and a default branch; split without names and
     * with noDefaultBranch; to with a TopicNameExtractor that reads topic, offset, timestamp and
     * headers.
     */
    static Scenario branches() {
        final Observations observations = new Observations();
        final StreamsBuilder builder = new StreamsBuilder();

        final KStream<String, String> orders = builder.stream(List.of("orders-eu", "orders-us"));
        final Map<String, KStream<String, String>> kinds = orders.split(Named.as("kind-"))
            .branch((key, value) -> value == null, Branched.as("tombstone"))
            .branch((key, value) -> amount(value) >= 80,
                Branched.withFunction(big -> big.mapValues(value -> "big " + value), "big"))
            .branch((key, value) -> amount(value) >= 60,
                Branched.withConsumer(medium -> medium.to("medium")))
            .branch((key, value) -> amount(value) >= 40)
            .defaultBranch(Branched.as("rest"));
        observations.fact("kinds", new ArrayList<>(new TreeSet<>(kinds.keySet())));
        kinds.get("kind-tombstone").to("tombstones");
        kinds.get("kind-big").to("big");
        kinds.get("kind-4").to(
            extractor((key, value, context) -> "from-" + context.topic()));
        kinds.get("kind-rest").to(extractor((key, value, context) -> {
            final Header route = context.headers().lastHeader("route");
            if (route == null) {
                return context.offset() % 2 == 0 ? "even-offset" : "odd-offset";
            }
            final String text = new String(route.value(), StandardCharsets.UTF_8);
            return text.equals("north") && context.timestamp() % 2 == 0 ? "north-even" : "routed";
        }));

        final KStream<String, String> audits = builder.stream(Pattern.compile("audit-[a-z]+"));
        final Map<String, KStream<String, String>> audited = audits.split()
            .branch((key, value) -> key != null && key.equals("ava"))
            .branch((key, value) -> key == null, Branched.as("-anonymous"))
            .noDefaultBranch();
        observations.fact("audited", new ArrayList<>(new TreeSet<>(audited.keySet())));
        for (final Map.Entry<String, KStream<String, String>> entry : audited.entrySet()) {
            entry.getValue().foreach((key, value) -> observations.see(entry.getKey(), key, value));
        }
        audits.merge(orders).filter((key, value) -> value == null).to("all-tombstones");

        final Script script = new Script(2);
        final List<String> topics =
            List.of("orders-eu", "orders-us", "orders-us", "audit-login", "audit-logout");
        for (int record = 0; record < 120; record++) {
            script.pipe(script.oneOf(topics), script.name(15), script.cityAmount(10));
        }
        return new Scenario("branches", builder.build(), script, observations);
    }

    /** A topic chooser that `describe` shows as "function". */
    private static TopicNameExtractor<String, String> extractor(
            final TopicNameExtractor<String, String> function) {
        return new TopicNameExtractor<>() {
            @Override
            public String extract(
                    final String key, final String value, final RecordContext context) {
                return function.extract(key, value, context);
            }

            @Override
            public String toString() {
                return "function";
            }
        };
    }

    /**
     * Operations that change the key lead to a repartition topic by themselves: groupBy and
     * groupByKey without names (a topic for each aggregation) and with Grouped names (one topic
     * for two aggregations). Several sub-topologies. Null keys are dropped before the repartition
     * topic; a null value is repartitioned and dropped by the aggregation.
     */
    static Scenario repartitionedCounts() {
        final Observations observations = new Observations();
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, String> input = builder.stream("input");

        // No names anywhere: the topic is called after the aggregation's store.
        final KTable<String, Long> words = input
            .filter((key, value) -> value != null)
            .flatMapValues(value -> Arrays.asList(value.split(":")))
            .groupBy((key, word) -> word)
            .count();
        observations.fact("words", orDash(words.queryableStoreName()));
        words.toStream().to("word-counts", Produced.with(Serdes.String(), Serdes.Long()));

        // An unnamed grouping used twice: two repartition topics.
        final KGroupedStream<String, String> unnamed = input
            .selectKey((key, value) -> value == null ? null : city(value))
            .groupByKey();
        unnamed.count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("city-counts")
                .withValueSerde(Serdes.Long()))
            .toStream().to("city-counts-out", Produced.with(Serdes.String(), Serdes.Long()));
        unnamed.reduce((left, right) -> city(left) + ":" + (amount(left) + amount(right)))
            .toStream().to("city-sums-out");

        // A named grouping used twice: one repartition topic.
        final KGroupedStream<String, Long> named = input
            .map((key, value) -> KeyValue.pair(key, value == null ? null : amount(value)))
            .groupBy((key, value) -> value == null ? "none" : value % 2 == 0 ? "even" : "odd",
                Grouped.<String, Long>as("parity").withKeySerde(Serdes.String())
                    .withValueSerde(Serdes.Long()));
        named.count(Named.as("parity-count")).toStream()
            .to("parity-counts", Produced.with(Serdes.String(), Serdes.Long()));
        named.reduce(Long::sum, Materialized.with(Serdes.String(), Serdes.Long()))
            .toStream().to("parity-sums", Produced.with(Serdes.String(), Serdes.Long()));

        final Script script = new Script(3);
        for (int record = 0; record < 70; record++) {
            script.pipe("input", script.name(10), script.cityAmount(12));
        }
        return new Scenario("repartitioned_counts", builder.build(), script, observations);
    }

    /**
     * groupByKey without a repartition: count, reduce and aggregate, each with and without a
     * store name. Null keys and null values are dropped; late records raise no timestamp. One
     * input record gives several updates of a key: with caching only the last is logged and
     * forwarded, without caching all are. An aggregate that returns null deletes.
     */
    static Scenario aggregations() {
        final Observations observations = new Observations();
        final StreamsBuilder builder = new StreamsBuilder();
        final KGroupedStream<String, String> grouped = builder.<String, String>stream("input")
            .flatMapValues(value -> value == null
                ? Arrays.asList((String) null)
                : Arrays.asList(value, city(value) + ":1", value)
                    .subList(0, (int) amount(value) % 4))
            .groupByKey();

        final KTable<String, Long> counted = grouped.count();
        observations.fact("count", orDash(counted.queryableStoreName()));
        counted.toStream().to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        final KTable<String, Long> countedUncached = grouped.count(
            Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("uncached-counts")
                .withCachingDisabled());
        observations.fact("named count", orDash(countedUncached.queryableStoreName()));
        countedUncached.toStream()
            .to("uncached-counts-out", Produced.with(Serdes.String(), Serdes.Long()));

        grouped.reduce((left, right) -> amount(left) > amount(right) ? left : right)
            .toStream().to("largest");
        grouped.reduce(
                (left, right) -> amount(right) % 5 == 0 ? null : right, Materialized.as("latest"))
            .toStream().to("latest-out");

        grouped.aggregate(() -> "", (key, value, all) -> all + city(value).charAt(0))
            .toStream().to("initials");
        grouped.<Long>aggregate(
                () -> 1000L,
                (key, value, left) -> left < amount(value) ? null : left - amount(value),
                Named.as("spend"),
                Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("budget")
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream().to("budgets", Produced.with(Serdes.String(), Serdes.Long()));

        final Script script = new Script(4);
        for (int record = 0; record < 110; record++) {
            script.pipe("input", script.name(8), script.cityAmount(8));
        }
        return new Scenario("aggregations", builder.build(), script, observations);
    }
}
