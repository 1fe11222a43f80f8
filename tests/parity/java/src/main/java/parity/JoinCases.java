package parity;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.test.TestRecord;
import parity.JoinCaseInputs.Case;
import parity.JoinCaseInputs.Step;

/**
 * What each kind of join makes of small inputs: those of {@link JoinCaseInputs}, a case a line.
 *
 * Beside the output, a case has the changelog of what waits: of a join with grace its buffer's, of
 * a left or outer join that of the records without a match. Without timestamps, which Kafka leaves
 * to the producer there.
 */
public final class JoinCases {

    private static final String EMIT_INTERVAL =
        "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__";
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private JoinCases() {
    }

    /**
     * Takes the directory of golden files, and writes {@code join_cases.jsonl} there; with
     * {@code -Dcases=FILE} and {@code -Dseeds=FROM:TO} random cases of these seeds to that file.
     */
    public static void main(final String[] arguments) throws IOException {
        final String file = System.getProperty("cases");
        if (file == null) {
            writeGolden(Path.of(arguments[0]));
            return;
        }
        final String[] seeds = System.getProperty("seeds", "0:1000").split(":");
        final List<Case> cases = new ArrayList<>();
        for (long seed = Long.parseLong(seeds[0]); seed < Long.parseLong(seeds[1]); seed++) {
            cases.addAll(JoinCaseInputs.random(seed));
        }
        write(Path.of(file), cases);
    }

    /** Writes {@code join_cases.jsonl} to a directory. */
    static void writeGolden(final Path directory) throws IOException {
        write(directory.resolve("join_cases.jsonl"), JoinCaseInputs.golden());
    }

    private static void write(final Path file, final List<Case> cases) throws IOException {
        try (Writer writer = Files.newBufferedWriter(file)) {
            for (final Case one : cases) {
                writer.write(MAPPER.writeValueAsString(run(one)));
                writer.write("\n");
            }
        }
    }

    private static Map<String, Object> run(final Case one) throws IOException {
        final Path stateDirectory = Files.createTempDirectory("joins");
        final Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:0");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, stateDirectory.toString());
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(EMIT_INTERVAL, one.emitIntervalMs());
        final Map<String, Object> result = new LinkedHashMap<>();
        result.put("name", one.name());
        result.put("kind", one.kind());
        result.put("before_ms", one.beforeMs());
        result.put("after_ms", one.afterMs());
        result.put("grace_ms", one.graceMs());
        result.put("emit_interval_ms", one.emitIntervalMs());
        result.put("steps", one.steps().stream().map(Step::golden).toList());
        try (TopologyTestDriver driver =
                new TopologyTestDriver(topology(one), properties, Instant.ofEpochMilli(0))) {
            final Map<String, TestInputTopic<String, String>> inputs = new LinkedHashMap<>();
            for (final Step step : one.steps()) {
                if (step.topic() == null) {
                    driver.advanceWallClockTime(Duration.ofMillis(step.timeMs()));
                    continue;
                }
                inputs.computeIfAbsent(step.topic(), topic -> driver.createInputTopic(
                        topic, new StringSerializer(), new StringSerializer()))
                    .pipeInput(new TestRecord<>(
                        step.key(), step.value(), Instant.ofEpochMilli(step.timeMs())));
            }
            result.put("out", out(driver));
            result.put("waiting", waiting(driver));
        } finally {
            Utils.delete(stateDirectory.toFile());
        }
        return result;
    }

    private static List<Object> out(final TopologyTestDriver driver) {
        final List<Object> records = new ArrayList<>();
        for (final TestRecord<String, String> record : driver.createOutputTopic(
                "out", new StringDeserializer(), new StringDeserializer()).readRecordsToList()) {
            records.add(Arrays.asList(record.key(), record.value(), record.timestamp()));
        }
        return records;
    }

    /** What was logged of records that wait, over all such stores: (key, value). */
    private static List<Object> waiting(final TopologyTestDriver driver) {
        final ByteArrayDeserializer raw = new ByteArrayDeserializer();
        final List<Object> records = new ArrayList<>();
        for (final String topic : new TreeSet<>(driver.producedTopicNames())) {
            if (!topic.endsWith("-Buffer-changelog") && !topic.contains("SHARED-")) {
                continue;
            }
            for (final TestRecord<byte[], byte[]> record
                    : driver.createOutputTopic(topic, raw, raw).readRecordsToList()) {
                records.add(Arrays.asList(
                    GoldenFile.base64(record.key()), GoldenFile.base64(record.value())));
            }
        }
        return records;
    }

    private static Topology topology(final Case one) {
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, String> stream = builder.stream("stream");
        final ValueJoiner<String, String, String> joiner = (left, right) -> left + "&" + right;
        if (JoinCaseInputs.WINDOWED.contains(one.kind())) {
            final KStream<String, String> other = builder.stream("other");
            final JoinWindows windows = JoinWindows
                .ofTimeDifferenceAndGrace(
                    Duration.ofMillis(Math.max(one.beforeMs(), one.afterMs())),
                    Duration.ofMillis(one.graceMs()))
                .before(Duration.ofMillis(one.beforeMs()))
                .after(Duration.ofMillis(one.afterMs()));
            switch (one.kind()) {
                case "inner" -> stream.join(other, joiner, windows).to("out");
                case "left" -> stream.leftJoin(other, joiner, windows).to("out");
                default -> stream.outerJoin(other, joiner, windows).to("out");
            }
            return builder.build();
        }
        final KTable<String, String> table = builder.table("other", one.kind().startsWith("table")
            ? Materialized.as("table")
            : Materialized.as(Stores.persistentVersionedKeyValueStore(
                "table", Duration.ofMillis(JoinCaseInputs.HISTORY_MS))));
        Joined<String, String, String> joined = Joined.as("joining");
        if (one.kind().startsWith("grace")) {
            joined = joined.withGracePeriod(Duration.ofMillis(one.graceMs()));
        }
        final boolean left = one.kind().endsWith("left");
        (left ? stream.leftJoin(table, joiner, joined) : stream.join(table, joiner, joined))
            .to("out");
        return builder.build();
    }
}
