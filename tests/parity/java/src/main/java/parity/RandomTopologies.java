package parity;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Small topologies at random, told as data together with what Kafka Streams does with them:
 * in which order processors begin, punctuate and end; how joins of random names are described; what
 * joins with uneven windows find near the beginning of time; when a task waits for an empty topic.
 */
public final class RandomTopologies {

    private static final StringDeserializer READER = new StringDeserializer();
    private static final StringSerializer WRITER = new StringSerializer();

    private final Random random = new Random(4);

    private RandomTopologies() {
    }

    /** The content of the golden file. */
    static Map<String, Object> all() throws Exception {
        final RandomTopologies topologies = new RandomTopologies();
        final Map<String, Object> content = new LinkedHashMap<>();
        content.put("orders", topologies.times(60, topologies::orders));
        content.put("descriptions", topologies.times(120, topologies::description));
        content.put("windows", topologies.times(40, topologies::windows));
        content.put("idle", topologies.times(30, topologies::idle));
        content.put("timestamps", List.of(timestamp(0), timestamp(-1), timestamp(-5)));
        return content;
    }

    private interface Case {
        Map<String, Object> make() throws Exception;
    }

    private List<Object> times(final int count, final Case one) throws Exception {
        final List<Object> cases = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            cases.add(one.make());
        }
        return cases;
    }

    // ------------------------------------------------------------------ orders

    /** Tells when it begins, punctuates and ends. */
    private record Telling(String name, List<String> told, int streamMs, int wallMs)
            implements Processor<String, String, String, String> {

        @Override
        public void init(final ProcessorContext<String, String> context) {
            told.add("init " + name);
            if (streamMs > 0) {
                context.schedule(Duration.ofMillis(streamMs), PunctuationType.STREAM_TIME,
                    time -> told.add("stream " + name + " " + time));
            }
            if (wallMs > 0) {
                context.schedule(Duration.ofMillis(wallMs), PunctuationType.WALL_CLOCK_TIME,
                    time -> told.add("wall " + name + " " + time));
            }
        }

        @Override
        public void process(final Record<String, String> record) {
        }

        @Override
        public void close() {
            told.add("close " + name);
        }
    }

    private Map<String, Object> orders() throws Exception {
        final Topology topology = new Topology();
        final List<Object> nodes = new ArrayList<>();
        final List<String> parents = new ArrayList<>();
        final List<String> told = new ArrayList<>();
        final int count = 3 + random.nextInt(8);
        final List<String> processors = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            final String name = name(number);
            if (number == 0 || random.nextInt(5) == 0) {
                topology.addSource(name, READER, READER, "topic-" + name);
                nodes.add(List.of(name));
            } else {
                final List<String> chosen = some(parents);
                final int[] intervals = {0, 5, 10, 10, 20};
                final int streamMs = intervals[random.nextInt(5)];
                final int wallMs = intervals[random.nextInt(5)];
                topology.addProcessor(name, () -> new Telling(name, told, streamMs, wallMs),
                    chosen.toArray(new String[0]));
                nodes.add(List.of(name, chosen, streamMs, wallMs));
                processors.add(name);
            }
            parents.add(name);
        }
        // All in one sub-topology.
        final String last = "z" + name(99);
        final List<String> sources = parents.stream().filter(p -> !processors.contains(p)).toList();
        topology.addProcessor(last, () -> new Telling(last, told, 0, 0),
            sources.toArray(new String[0]));
        nodes.add(List.of(last, sources, 0, 0));
        told.clear();
        final List<Object> steps = new ArrayList<>();
        try (Driver driver = new Driver(topology, Map.of())) {
            for (int step = 0; step < 8; step++) {
                final long time = random.nextInt(40);
                if (random.nextBoolean()) {
                    final String source = sources.get(random.nextInt(sources.size()));
                    driver.pipe("topic-" + source, "k", "v", time);
                    steps.add(List.of("topic-" + source, time));
                } else {
                    driver.driver.advanceWallClockTime(Duration.ofMillis(time));
                    steps.add(List.of("", time));
                }
                told.add("step");
            }
        }
        return told(Map.of("nodes", nodes, "steps", steps, "told", told));
    }

    // ------------------------------------------------------------------ descriptions

    private Map<String, Object> description() {
        final StreamsBuilder builder = new StreamsBuilder();
        final List<Object> joins = new ArrayList<>();
        final int count = 1 + random.nextInt(3);
        for (int number = 0; number < count; number++) {
            final String kind = List.of("table", "grace", "inner", "left", "outer")
                .get(random.nextInt(5));
            final boolean left = random.nextBoolean();
            final boolean rekeyed = random.nextInt(3) == 0;
            final String join = random.nextBoolean() ? name(number) + "-j" : null;
            final String store = random.nextBoolean() ? name(number) + "-s" : null;
            KStream<String, String> stream = builder.stream("in-" + number);
            if (rekeyed) {
                stream = stream.selectKey((key, value) -> value);
            }
            joined(builder, stream, kind, left, join, store, number).to("out-" + number);
            final Map<String, Object> told = new LinkedHashMap<>();
            told.put("kind", kind);
            told.put("left", left);
            told.put("rekeyed", rekeyed);
            told.put("join", join);
            told.put("store", store);
            joins.add(told);
        }
        return told(Map.of("joins", joins, "description", builder.build().describe().toString()));
    }

    private KStream<String, String> joined(
            final StreamsBuilder builder, final KStream<String, String> stream, final String kind,
            final boolean left, final String join, final String store, final int number) {
        if (kind.equals("table") || kind.equals("grace")) {
            Joined<String, String, String> joined = Joined.as(join);
            final KTable<String, String> table;
            if (kind.equals("grace")) {
                joined = joined.withGracePeriod(Duration.ofMillis(5));
                table = builder.table("t-" + number, Materialized.as(
                    Stores.persistentVersionedKeyValueStore(
                        store == null ? "versions-" + number : store, Duration.ofMinutes(5))));
            } else {
                table = store == null
                    ? builder.table("t-" + number)
                    : builder.table("t-" + number, Materialized.as(store));
            }
            return left
                ? stream.leftJoin(table, (one, other) -> one + other, joined)
                : stream.join(table, (one, other) -> one + other, joined);
        }
        final KStream<String, String> other = builder.stream("other-" + number);
        StreamJoined<String, String, String> joined =
            StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String());
        joined = join == null ? joined : joined.withName(join);
        joined = store == null ? joined : joined.withStoreName(store);
        final JoinWindows windows = JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMillis(7));
        return switch (kind) {
            case "inner" -> stream.join(other, (a, b) -> a + b, windows, joined);
            case "left" -> stream.leftJoin(other, (a, b) -> a + b, windows, joined);
            default -> stream.outerJoin(other, (a, b) -> a + b, windows, joined);
        };
    }

    // ------------------------------------------------------------------ windows

    private Map<String, Object> windows() throws Exception {
        final int beforeMs = random.nextInt(30) - 8;
        final int afterMs = Math.max(-beforeMs, random.nextInt(30) - 15);
        final int graceMs = random.nextInt(3) * 10;
        final String kind = List.of("inner", "left", "outer").get(random.nextInt(3));
        final JoinWindows windows = JoinWindows
            .ofTimeDifferenceAndGrace(Duration.ofMillis(0), Duration.ofMillis(graceMs));
        final JoinWindows uneven = beforeMs >= 0
            ? windows.before(Duration.ofMillis(beforeMs)).after(Duration.ofMillis(afterMs))
            : windows.after(Duration.ofMillis(afterMs)).before(Duration.ofMillis(beforeMs));
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, String> left = builder.stream("left");
        final KStream<String, String> right = builder.stream("right");
        final KStream<String, String> joined = switch (kind) {
            case "inner" -> left.join(right, (a, b) -> a + b, uneven);
            case "left" -> left.leftJoin(right, (a, b) -> a + b, uneven);
            default -> left.outerJoin(right, (a, b) -> a + b, uneven);
        };
        joined.to("out");
        final List<Object> records = new ArrayList<>();
        final List<Object> results = new ArrayList<>();
        try (Driver driver = new Driver(builder.build(), Map.of(
                "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L))) {
            for (int number = 0; number < 25; number++) {
                final String topic = random.nextBoolean() ? "left" : "right";
                final long time = number < 15 ? random.nextInt(20) : random.nextInt(60);
                final String key = random.nextBoolean() ? "a" : "b";
                final String value = topic.charAt(0) + "" + number;
                records.add(List.of(topic, key, value, time));
                driver.pipe(topic, key, value, time);
                final List<Object> found = new ArrayList<>();
                for (final TestRecord<String, String> record : driver.read("out")) {
                    found.add(List.of(record.key(), record.value(), record.timestamp()));
                }
                results.add(found);
            }
        }
        return told(Map.of("kind", kind, "before_ms", beforeMs, "after_ms", afterMs,
            "grace_ms", graceMs, "records", records, "results", results));
    }

    // ------------------------------------------------------------------ idle tasks

    private Map<String, Object> idle() throws Exception {
        final long idleMs = List.of(-1L, 0L, 10L, 50L).get(random.nextInt(4));
        // Of three Kafka waits for the second only when it has waited for the first.
        final int topics = 1 + random.nextInt(2);
        final Topology topology = new Topology();
        final List<String> sources = new ArrayList<>();
        for (int number = 0; number < topics; number++) {
            topology.addSource("source-" + number, READER, READER, "in-" + number);
            sources.add("source-" + number);
        }
        topology.addSink("sink", "out", WRITER, WRITER, sources.toArray(new String[0]));
        final List<Object> steps = new ArrayList<>();
        final List<Object> results = new ArrayList<>();
        try (Driver driver = new Driver(topology, Map.of("max.task.idle.ms", idleMs))) {
            for (int step = 0; step < 25; step++) {
                if (random.nextInt(3) > 0) {
                    final String topic = "in-" + random.nextInt(topics);
                    // Never two of one time: which topic then comes first differs.
                    final long time = random.nextInt(50) * 25 + step;
                    steps.add(List.of(topic, "v" + step, time));
                    driver.pipe(topic, "k", "v" + step, time);
                } else {
                    final long time = 1 + random.nextInt(30);
                    steps.add(List.of("", "", time));
                    driver.driver.advanceWallClockTime(Duration.ofMillis(time));
                }
                final List<Object> found = new ArrayList<>();
                for (final TestRecord<String, String> record : driver.read("out")) {
                    found.add(record.value());
                }
                results.add(found);
            }
        }
        return told(Map.of("max_task_idle_ms", idleMs, "topics", topics, "steps", steps,
            "results", results));
    }

    // ------------------------------------------------------------------ timestamps

    /** What becomes of a record that a processor gives a timestamp. */
    private static Map<String, Object> timestamp(final long timestamp) throws Exception {
        final Topology topology = new Topology()
            .addSource("source", READER, READER, "in")
            .addProcessor("stamp", () -> new Processor<String, String, String, String>() {
                private ProcessorContext<String, String> context;

                @Override
                public void init(final ProcessorContext<String, String> given) {
                    context = given;
                }

                @Override
                public void process(final Record<String, String> record) {
                    context.forward(record.withTimestamp(timestamp));
                }
            }, "source")
            .addSink("sink", "out", WRITER, WRITER, "stamp");
        String answer = "taken";
        try (Driver driver = new Driver(topology, Map.of())) {
            driver.pipe("in", "k", "v", 5);
        } catch (final RuntimeException error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            answer = cause.getMessage();
        }
        final Map<String, Object> told = new LinkedHashMap<>();
        told.put("timestamp", timestamp);
        told.put("answer", answer);
        return told;
    }

    // ------------------------------------------------------------------ inside

    private String name(final int number) {
        final StringBuilder name = new StringBuilder();
        for (int letter = 0; letter < 1 + random.nextInt(6); letter++) {
            name.append((char) ('a' + random.nextInt(26)));
        }
        return name.append(number).toString();
    }

    private List<String> some(final List<String> names) {
        final List<String> chosen = new ArrayList<>();
        for (final String name : names) {
            if (random.nextInt(names.size()) < 2) {
                chosen.add(name);
            }
        }
        return chosen.isEmpty() ? List.of(names.get(names.size() - 1)) : chosen;
    }

    /** The same with the keys in order: those of `Map.of` come in another at each run. */
    private static Map<String, Object> told(final Map<String, Object> content) {
        return new java.util.TreeMap<>(content);
    }

    /** The test driver with a directory of its own. */
    private static final class Driver implements AutoCloseable {

        private final Path directory = Files.createTempDirectory("parity");
        private final TopologyTestDriver driver;

        Driver(final Topology topology, final Map<String, Object> config) throws Exception {
            final Properties properties = new Properties();
            properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "parity");
            properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:0");
            properties.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
            properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
            properties.put(
                StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
            properties.putAll(config);
            driver = new TopologyTestDriver(topology, properties, Instant.ofEpochMilli(0));
        }

        void pipe(final String topic, final String key, final String value, final long time) {
            driver.createInputTopic(topic, WRITER, WRITER).pipeInput(key, value, time);
        }

        List<TestRecord<String, String>> read(final String topic) {
            return driver.createOutputTopic(topic, READER, READER).readRecordsToList();
        }

        @Override
        public void close() throws Exception {
            driver.close();
            Utils.delete(directory.toFile());
        }
    }

    /** Takes one argument: the directory to write to. */
    public static void main(final String[] arguments) throws Exception {
        GoldenFile.write(
            Path.of(arguments[0]).normalize().resolve("random_topologies.json"), all());
    }
}
