package parity;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.Consumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Topologies built with each value of topology.optimization: their descriptions, and what self-joins
 * make of an input. The twin of {@code optimized_topologies.py}.
 */
public final class OptimizedTopologies {

    private static final Duration TEN = Duration.ofMillis(10);

    private OptimizedTopologies() {
    }

    /** Takes the directory of golden files, and writes {@code optimized.json} there. */
    public static void main(final String[] arguments) throws Exception {
        final Map<String, Consumer<StreamsBuilder>> all = new LinkedHashMap<>();
        all.put("several_below_one_key_change", OptimizedTopologies::severalBelowOneKeyChange);
        all.put("one_repartition", OptimizedTopologies::oneRepartition);
        all.put("named_groups", OptimizedTopologies::namedGroups);
        all.put("new_values_in_between", OptimizedTopologies::newValuesInBetween);
        all.put("below_a_merge", OptimizedTopologies::belowAMerge);
        all.put("branches", OptimizedTopologies::branches);
        all.put("joins_of_streams", OptimizedTopologies::joinsOfStreams);
        all.put("explicit_repartition", OptimizedTopologies::explicitRepartition);
        all.put("cogroups", OptimizedTopologies::cogroups);
        all.put("tables", OptimizedTopologies::tables);
        all.put("self_join", OptimizedTopologies::selfJoin);
        all.put("self_join_of_new_keys", OptimizedTopologies::selfJoinOfNewKeys);
        all.put("several_self_joins", OptimizedTopologies::severalSelfJoins);
        all.put("self_join_merged_with_its_stream", OptimizedTopologies::selfJoinMergedWithItsStream);
        final List<Object> written = new ArrayList<>();
        for (final Map.Entry<String, Consumer<StreamsBuilder>> entry : all.entrySet()) {
            final Map<String, Object> one = new LinkedHashMap<>();
            one.put("name", entry.getKey());
            final Map<String, String> descriptions = new LinkedHashMap<>();
            for (final String optimization : List.of("none", "all", "reuse.ktable.source.topics",
                    "merge.repartition.topics", "single.store.self.join")) {
                descriptions.put(optimization, build(entry.getValue(), optimization).describe().toString());
            }
            one.put("descriptions", descriptions);
            written.add(one);
        }
        final Map<String, Object> file = new LinkedHashMap<>();
        file.put("topologies", written);
        file.put("self_joins", selfJoins());
        new ObjectMapper().writerWithDefaultPrettyPrinter()
            .writeValue(Path.of(arguments[0]).resolve("optimized.json").toFile(), file);
    }

    private static Topology build(final Consumer<StreamsBuilder> declare, final String optimization) {
        final StreamsBuilder builder = new StreamsBuilder();
        declare.accept(builder);
        final Properties properties = new Properties();
        properties.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, optimization);
        return builder.build(properties);
    }

    private static void severalBelowOneKeyChange(final StreamsBuilder builder) {
        final KStream<String, String> stream = builder.stream("in");
        final KStream<String, String> keyed = stream.selectKey((key, value) -> value);
        keyed.filter((key, value) -> true).groupByKey().count().toStream().to("a");
        keyed.groupByKey().reduce((left, right) -> right).toStream().to("b");
        final KTable<String, String> table = builder.table("tab");
        keyed.join(table, (left, right) -> left).to("c");
        keyed.peek((key, value) -> { }).to("d");
    }

    private static void oneRepartition(final StreamsBuilder builder) {
        final KStream<String, String> stream = builder.stream("in");
        stream.groupBy((key, value) -> value).count().toStream().to("a");
        stream.map((key, value) -> KeyValue.pair(value, key)).toTable().toStream().to("b");
    }

    private static void namedGroups(final StreamsBuilder builder) {
        final KStream<String, String> stream = builder.stream("in");
        final KStream<String, String> keyed = stream.selectKey((key, value) -> value);
        final KGroupedStream<String, String> grouped = keyed.groupByKey(Grouped.as("mine"));
        grouped.count().toStream().to("a");
        grouped.reduce((left, right) -> right).toStream().to("b");
        keyed.groupByKey(Grouped.as("other")).count(Materialized.as("named")).toStream().to("c");
    }

    private static void newValuesInBetween(final StreamsBuilder builder) {
        final KStream<String, String> stream = builder.stream("in");
        final KStream<String, String> keyed = stream.selectKey((key, value) -> value);
        keyed.mapValues(value -> value + "!").groupByKey().count().toStream().to("a");
        keyed.groupByKey().count().toStream().to("b");
    }

    private static void belowAMerge(final StreamsBuilder builder) {
        final KStream<String, String> one = builder.stream("in");
        final KStream<String, String> two = builder.stream("in-2");
        final KStream<String, String> merged = one.selectKey((key, value) -> value)
            .merge(two.selectKey((key, value) -> value));
        merged.groupByKey().count().toStream().to("a");
        merged.groupByKey().reduce((left, right) -> right).toStream().to("b");
    }

    private static void branches(final StreamsBuilder builder) {
        final KStream<String, String> stream = builder.stream("in");
        stream.selectKey((key, value) -> value).split()
            .branch((key, value) -> true, Branched.withConsumer(
                branch -> branch.groupByKey().count().toStream().to("a")))
            .defaultBranch(Branched.withConsumer(branch -> branch.to("b")));
    }

    private static void joinsOfStreams(final StreamsBuilder builder) {
        final KStream<String, String> one = builder.stream("in");
        final KStream<String, String> two = builder.stream("in-2");
        final KStream<String, String> keyed = one.selectKey((key, value) -> value);
        keyed.leftJoin(two, (left, right) -> left, JoinWindows.ofTimeDifferenceWithNoGrace(TEN)).to("a");
        keyed.join(two, (left, right) -> left, JoinWindows.ofTimeDifferenceWithNoGrace(TEN),
            StreamJoined.<String, String, String>as("named").withName("joined")).to("b");
        keyed.groupByKey().count().toStream().to("c");
    }

    private static void explicitRepartition(final StreamsBuilder builder) {
        final KStream<String, String> stream = builder.stream("in");
        final KStream<String, String> keyed = stream.selectKey((key, value) -> value);
        keyed.repartition(Repartitioned.<String, String>as("mine").withNumberOfPartitions(4))
            .groupByKey().count().toStream().to("a");
        keyed.groupByKey().count().toStream().to("b");
    }

    private static void cogroups(final StreamsBuilder builder) {
        final KStream<String, String> one = builder.stream("in");
        final KStream<String, String> two = builder.stream("in-2");
        final KStream<String, String> keyed = one.selectKey((key, value) -> value);
        final KGroupedStream<String, String> first = keyed.groupByKey(Grouped.as("first"));
        final KGroupedStream<String, String> second = two.groupByKey();
        first.<String>cogroup((key, value, total) -> total + value)
            .cogroup(second, (key, value, total) -> total + value)
            .aggregate(() -> "").toStream().to("a");
        keyed.groupByKey().count().toStream().to("b");
    }

    private static void tables(final StreamsBuilder builder) {
        final KTable<String, String> table = builder.table("tab");
        final KTable<String, String> named = builder.table("tab-2", Materialized.as("named"));
        table.join(named, (left, right) -> left).toStream().to("a");
        builder.<String, String>table("tab-3").toStream().to("b");
        named.groupBy((key, value) -> KeyValue.pair(value, key)).count().toStream().to("c");
    }

    private static void selfJoin(final StreamsBuilder builder) {
        final KStream<String, String> stream = builder.stream("in", Consumed.with(Serdes.String(), Serdes.String()));
        stream.join(stream, (left, right) -> left + right, JoinWindows.ofTimeDifferenceWithNoGrace(TEN).before(Duration.ofMillis(5))).to("a");
    }

    private static void selfJoinOfNewKeys(final StreamsBuilder builder) {
        final KStream<String, String> stream = builder.stream("in");
        final KStream<String, String> keyed = stream.selectKey((key, value) -> value);
        keyed.join(keyed, (left, right) -> left, JoinWindows.ofTimeDifferenceWithNoGrace(TEN)).to("a");
        keyed.groupByKey().count().toStream().to("b");
    }

    private static void severalSelfJoins(final StreamsBuilder builder) {
        final KStream<String, String> stream = builder.stream("in");
        final KStream<String, String> same = builder.stream("in");
        final KStream<String, String> joined = stream.join(same, (left, right) -> left, JoinWindows.ofTimeDifferenceWithNoGrace(TEN));
        joined.join(stream, (left, right) -> left, JoinWindows.ofTimeDifferenceWithNoGrace(TEN)).to("a");
        stream.join(same, (left, right) -> left, JoinWindows.ofTimeDifferenceAndGrace(TEN, TEN),
            StreamJoined.as("named")).to("b");
    }

    private static void selfJoinMergedWithItsStream(final StreamsBuilder builder) {
        final KStream<String, String> stream = builder.stream("in");
        final KStream<String, String> keyed = stream.selectKey((key, value) -> value);
        keyed.join(keyed, (left, right) -> left, JoinWindows.ofTimeDifferenceWithNoGrace(TEN)).merge(stream);
    }

    /** What a join of a stream with itself makes of records that are late, without keys, without values. */
    private static Map<String, Object> selfJoins() {
        final Map<String, Object> made = new LinkedHashMap<>();
        final List<List<Object>> input = new ArrayList<>();
        final java.util.Random random = new java.util.Random(7);
        long time = 100;
        for (int number = 0; number < 120; number++) {
            time += random.nextInt(7) - 1;
            final long late = random.nextInt(9) == 0 ? random.nextInt(40) : 0;
            final List<Object> record = new ArrayList<>();
            record.add(random.nextInt(14) == 0 ? null : random.nextBoolean() ? "a" : "b");
            record.add(random.nextInt(12) == 0 ? null : "v" + number);
            record.add(Math.max(0, time - late));
            input.add(record);
        }
        made.put("input", input);
        for (final String optimization : List.of("none", "single.store.self.join")) {
            final Properties properties = new Properties();
            properties.put(StreamsConfig.STATE_DIR_CONFIG, "/tmp/self-join-" + System.nanoTime());
            properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
            properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
            properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
            properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
            final List<List<Object>> output = new ArrayList<>();
            try (TopologyTestDriver driver = new TopologyTestDriver(build(OptimizedTopologies::selfJoin, optimization), properties)) {
                final var topic = driver.createInputTopic("in", new StringSerializer(), new StringSerializer());
                for (final List<Object> record : input) {
                    topic.pipeInput((String) record.get(0), (String) record.get(1), (long) record.get(2));
                }
                for (final TestRecord<String, String> record : driver.createOutputTopic("a", new StringDeserializer(), new StringDeserializer()).readRecordsToList()) {
                    output.add(List.of(record.key(), record.value(), record.timestamp()));
                }
            }
            made.put(optimization, output);
        }
        return made;
    }
}
