package parity.generated;

import static parity.generated.Serialized.shown;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.test.TestRecord;

/** Reads cases, a line of JSON each, and writes what Kafka Streams makes of them, a line each. */
public final class Answers {

    private static final ObjectMapper MAPPER = new ObjectMapper();

    private Answers() {
    }

    /** From standard input to standard output, until that ends. */
    public static void main(final String[] arguments) throws IOException {
        final BufferedReader cases =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            out.println(MAPPER.writeValueAsString(answer(MAPPER.readTree(line))));
        }
    }

    private static Map<String, Object> answer(final JsonNode given) throws IOException {
        final Map<String, Object> answer = new LinkedHashMap<>();
        final Path directory = Files.createTempDirectory("generated");
        final Path printFile = directory.resolve("printed");
        try {
            final CaseTopology built = new CaseTopology(given.get("steps"), printFile.toString());
            final Properties properties = properties(given, directory);
            final Topology topology = built.topology(properties);
            answer.put("description", topology.describe().toString());
            try (TopologyTestDriver driver = new TopologyTestDriver(
                    topology, properties, Instant.ofEpochMilli(given.get("start_ms").asLong()))) {
                final QueueOrder order = QueueOrder.of(driver, topology);
                for (final JsonNode record : given.get("input")) {
                    order.begin();
                    pipe(driver, record);
                }
                answer.put("topics", topics(driver));
                // What the cache holds of windows that have expired is not read.
                DriverTask.of(driver).processorContext().cache().resize(0);
                answer.put("stores", StoreContents.of(driver));
            }
            answer.put("seen", built.seen);
            answer.put("printed", printed(given.get("steps"), printFile.toString()));
        } catch (final RuntimeException error) {
            answer.put("error", error + (error.getCause() == null ? "" : " / " + error.getCause()));
        } finally {
            Utils.delete(directory.toFile());
        }
        return answer;
    }

    private static Properties properties(final JsonNode given, final Path directory) {
        final Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:0");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        if (!given.path("caching").asBoolean(true)) {
            properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0L);
        }
        if (given.hasNonNull("optimization")) {
            properties.put(
                StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, given.get("optimization").asText());
        }
        final long emitIntervalMs = given.path("emit_interval_ms").asLong();
        properties.put(
            "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", emitIntervalMs);
        properties.put("__emit.interval.ms.kstreams.windowed.aggregation__", emitIntervalMs);
        return properties;
    }

    /** A record is [topic, key, value, timestamp, headers]; an advance of the clock one number. */
    private static void pipe(final TopologyTestDriver driver, final JsonNode record) {
        if (record.isNumber()) {
            driver.advanceWallClockTime(Duration.ofMillis(record.asLong()));
            return;
        }
        final RecordHeaders headers = new RecordHeaders();
        if (record.size() > 4) {
            for (final JsonNode header : record.get(4)) {
                headers.add(header.get(0).asText(), bytes(header.get(1)));
            }
        }
        final ByteArraySerializer raw = new ByteArraySerializer();
        driver.createInputTopic(record.get(0).asText(), raw, raw).pipeInput(new TestRecord<>(
            bytes(record.get(1)), bytes(record.get(2)), headers, record.get(3).asLong()));
    }

    private static byte[] bytes(final JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    private static Map<String, Object> printed(final JsonNode steps, final String printFile)
            throws IOException {
        final Map<String, Object> printed = new TreeMap<>();
        for (final JsonNode step : steps) {
            final String file = Options.text(step, "file");
            if (file != null) {
                printed.put(file, Files.readAllLines(Path.of(printFile + file)));
            }
        }
        return printed;
    }

    private static Map<String, Object> topics(final TopologyTestDriver driver) {
        final ByteArrayDeserializer raw = new ByteArrayDeserializer();
        final Map<String, Object> topics = new TreeMap<>();
        for (final String topic : new TreeSet<>(driver.producedTopicNames())) {
            final List<Object> records = new ArrayList<>();
            for (final TestRecord<byte[], byte[]> record
                    : driver.createOutputTopic(topic, raw, raw).readRecordsToList()) {
                final List<Object> fields = new ArrayList<>();
                fields.add(shown(record.key()));
                fields.add(shown(record.value()));
                fields.add(record.timestamp());
                for (final Header header : record.headers()) {
                    final List<String> pair = new ArrayList<>();
                    pair.add(header.key());
                    pair.add(shown(header.value()));
                    fields.add(pair);
                }
                records.add(fields);
            }
            topics.put(topic, records);
        }
        return topics;
    }
}
