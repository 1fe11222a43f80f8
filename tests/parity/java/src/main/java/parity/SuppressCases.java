package parity;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
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
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.test.TestRecord;
import parity.SuppressCaseInputs.Case;
import parity.SuppressCaseInputs.Step;

/**
 * What suppressions make of small inputs: those of {@link SuppressCaseInputs}, a case a line.
 *
 * Beside the output, a case has what was logged of the buffer: without timestamps, which Kafka
 * leaves to the producer there, and in the order of keys within one step.
 */
public final class SuppressCases {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    private SuppressCases() {
    }

    /**
     * Takes the directory of golden files, and writes {@code suppress_cases.jsonl} there; with
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
            cases.addAll(SuppressCaseInputs.random(seed));
        }
        write(Path.of(file), cases);
    }

    /** Writes {@code suppress_cases.jsonl} to a directory. */
    static void writeGolden(final Path directory) throws IOException {
        write(directory.resolve("suppress_cases.jsonl"), SuppressCaseInputs.golden());
    }

    private static void write(final Path file, final List<Case> cases) throws IOException {
        try (Writer writer = Files.newBufferedWriter(file)) {
            for (final Case each : cases) {
                writer.write(MAPPER.writeValueAsString(run(each)));
                writer.write("\n");
            }
        }
    }

    private static Map<String, Object> run(final Case each) throws IOException {
        final Path stateDirectory = Files.createTempDirectory("suppress");
        final Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:0");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, stateDirectory.toString());
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        final Map<String, Object> result = new LinkedHashMap<>();
        result.put("name", each.name());
        result.put("kind", each.kind());
        result.put("wait_ms", each.waitMs());
        result.put("size_ms", each.sizeMs());
        result.put("grace_ms", each.graceMs());
        result.put("max_records", each.maxRecords());
        result.put("max_bytes", each.maxBytes());
        result.put("steps", each.steps().stream().map(Step::golden).toList());
        final List<Object> logged = new ArrayList<>();
        final Topology topology = topology(each);
        result.put("description", topology.describe().toString());
        try (TopologyTestDriver driver =
                new TopologyTestDriver(topology, properties, Instant.ofEpochMilli(0))) {
            for (final Step step : each.steps()) {
                driver.createInputTopic(
                    step.topic(), new StringSerializer(), new StringSerializer()).pipeInput(
                        new TestRecord<>(
                            step.key(), step.value(), headers(step.note()),
                            Instant.ofEpochMilli(step.timeMs())));
                logged.add(logged(driver));
            }
            result.put("out", out(driver));
            result.put("logged", logged);
        } finally {
            Utils.delete(stateDirectory.toFile());
        }
        return result;
    }

    private static Headers headers(final String note) {
        final RecordHeaders headers = new RecordHeaders();
        if (note != null) {
            headers.add("n", note.getBytes(StandardCharsets.UTF_8));
        }
        return headers;
    }

    private static List<Object> out(final TopologyTestDriver driver) {
        final List<Object> records = new ArrayList<>();
        for (final TestRecord<String, String> record : driver.createOutputTopic(
                "out", new StringDeserializer(), new StringDeserializer()).readRecordsToList()) {
            records.add(Arrays.asList(
                record.key(), record.value(), record.timestamp(), noted(record.headers())));
        }
        return records;
    }

    private static List<Object> noted(final Headers headers) {
        final List<Object> notes = new ArrayList<>();
        for (final Header header : headers) {
            notes.add(Arrays.asList(header.key(), GoldenFile.base64(header.value())));
        }
        return notes;
    }

    /** What a step has logged of buffers: (key, value, headers), by topic and then by key. */
    private static List<Object> logged(final TopologyTestDriver driver) {
        final ByteArrayDeserializer raw = new ByteArrayDeserializer();
        final List<Object> records = new ArrayList<>();
        for (final String topic : new TreeSet<>(driver.producedTopicNames())) {
            if (!topic.contains("SUPPRESS")) {
                continue;
            }
            driver.createOutputTopic(topic, raw, raw).readRecordsToList().stream()
                .sorted((some, other) -> Arrays.compareUnsigned(some.key(), other.key()))
                .forEach(record -> records.add(Arrays.asList(
                    GoldenFile.base64(record.key()), GoldenFile.base64(record.value()),
                    noted(record.headers()))));
        }
        return records;
    }

    private static BufferConfig<?> room(final Case each) {
        if (each.maxRecords() >= 0) {
            return BufferConfig.maxRecords(each.maxRecords());
        }
        return each.maxBytes() >= 0
            ? BufferConfig.maxBytes(each.maxBytes()) : BufferConfig.unbounded();
    }

    private static Topology topology(final Case each) {
        final StreamsBuilder builder = new StreamsBuilder();
        final Suppressed<Object> limited =
            Suppressed.untilTimeLimit(Duration.ofMillis(each.waitMs()), room(each));
        if (each.kind().equals("table")) {
            builder.<String, String>table("in").suppress(limited).toStream().to("out");
            return builder.build();
        }
        if (each.kind().equals("joined")) {
            final KTable<String, String> table =
                builder.<String, String>table("in").suppress(limited);
            builder.<String, String>stream("stream")
                .leftJoin(table, (value, row) -> value + "&" + row).to("out");
            return builder.build();
        }
        // Kafka wraps no default serdes for windowed keys here.
        final Serde<String> text = Serdes.String();
        final KGroupedStream<String, String> grouped =
            builder.<String, String>stream("in").groupByKey(Grouped.with(text, text));
        final Duration size = Duration.ofMillis(each.sizeMs());
        final Duration grace = Duration.ofMillis(each.graceMs());
        final TimeWindows windows = TimeWindows.ofSizeAndGrace(size, grace);
        final KTable<Windowed<String>, String> counts = switch (each.kind()) {
            case "session" -> grouped.windowedBy(
                SessionWindows.ofInactivityGapAndGrace(size, grace))
                .aggregate(() -> "", (key, value, all) -> all + value,
                    (key, some, more) -> some + "+" + more, Materialized.with(text, text));
            case "sliding" -> grouped.windowedBy(
                SlidingWindows.ofTimeDifferenceAndGrace(size, grace))
                .aggregate(() -> "", (key, value, all) -> all + value, Materialized.with(text, text));
            default -> grouped.windowedBy(windows)
                .aggregate(() -> "", (key, value, all) -> all + value, Materialized.with(text, text));
        };
        final KTable<Windowed<String>, String> results = switch (each.kind()) {
            case "window-limit" -> counts.suppress(limited);
            case "two" -> counts.filter((key, value) -> !value.endsWith("1"))
                .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()))
                // What is logged under a name is not compared: old values differ on purpose.
                .suppress(Suppressed.<Windowed<String>>untilTimeLimit(
                    Duration.ofMillis(each.waitMs()), BufferConfig.unbounded())
                    .withName("second"));
            default -> counts.suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()));
        };
        final KStream<String, String> told = results.toStream(
            (key, value) -> key.key() + "@" + key.window().start() + "/" + key.window().end());
        told.to("out");
        return builder.build();
    }
}
