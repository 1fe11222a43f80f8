package parity;

import static parity.GoldenFile.base64;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.SegmentedBytesStore;
import org.apache.kafka.streams.state.internals.WrappedStateStore;
import org.apache.kafka.streams.test.TestRecord;

/** Runs a scenario through Kafka Streams' test driver and collects all that it did. */
final class ScenarioRun {

    private static final String APPLICATION_ID = "parity";

    private ScenarioRun() {
    }

    /** The content of the scenario's golden file. */
    static Map<String, Object> run(final Scenario scenario) throws IOException {
        final Map<String, Object> golden = new LinkedHashMap<>();
        golden.put("name", scenario.name());
        golden.put("application_id", APPLICATION_ID);
        golden.put("initial_wall_clock_ms", Script.START_MS);
        if (!scenario.config().isEmpty()) {
            golden.put("config", scenario.config());
        }
        golden.put("description", scenario.topology().describe().toString());

        final List<Object> steps = new ArrayList<>();
        final Path stateDirectory = Files.createTempDirectory("parity");
        try (TopologyTestDriver driver = new TopologyTestDriver(
                scenario.topology(),
                configuration(stateDirectory, scenario.config()),
                Instant.ofEpochMilli(Script.START_MS))) {
            for (final Script.Step step : scenario.script().steps()) {
                steps.add(step.toGolden());
                step.run(driver);
            }
            golden.put("steps", steps);
            golden.put("produced", produced(driver));
            golden.put("stores", stores(driver));
        } finally {
            Utils.delete(stateDirectory.toFile());
        }
        golden.put("seen", scenario.observations().seen());
        golden.put("printed", scenario.observations().printed());
        golden.put("facts", scenario.observations().facts());
        return golden;
    }

    private static Properties configuration(
            final Path stateDirectory, final Map<String, Object> config) {
        final Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION_ID);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:0");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, stateDirectory.toString());
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.putAll(config);
        return properties;
    }

    /** All records of all topics, internal ones too; topics in order of their names. */
    private static Map<String, Object> produced(final TopologyTestDriver driver) {
        final ByteArrayDeserializer raw = new ByteArrayDeserializer();
        final Map<String, Object> topics = new LinkedHashMap<>();
        for (final String topic : new TreeSet<>(driver.producedTopicNames())) {
            final List<Object> records = new ArrayList<>();
            for (final TestRecord<byte[], byte[]> record
                    : driver.createOutputTopic(topic, raw, raw).readRecordsToList()) {
                records.add(GoldenFile.record(
                    record.key(), record.value(), record.timestamp(), record.headers()));
            }
            topics.put(topic, records);
        }
        return topics;
    }

    private static Map<String, Object> stores(final TopologyTestDriver driver) {
        final Map<String, Object> stores = new LinkedHashMap<>();
        new TreeMap<>(driver.getAllStateStores()).forEach((name, store) -> {
            final boolean timestamped = store instanceof TimestampedKeyValueStore;
            final Map<String, Object> content = new LinkedHashMap<>();
            final boolean windows = store instanceof WindowStore;
            content.put("kind",
                timestamped ? "timestamped" : windows ? "window" : "keyvalue");
            content.put("entries", entries(store));
            stores.put(name, content);
        });
        return stores;
    }

    /** The stored bytes below metering, caching and logging: what lies in the database. */
    @SuppressWarnings("unchecked")
    private static List<List<String>> entries(final StateStore store) {
        StateStore inner = store;
        while (inner instanceof WrappedStateStore || isAdapter(inner)) {
            inner = inner instanceof WrappedStateStore<?, ?, ?> wrapper
                ? wrapper.wrapped() : adapted(inner);
        }
        final List<List<String>> entries = new ArrayList<>();
        try (KeyValueIterator<Bytes, byte[]> all = inner instanceof SegmentedBytesStore segmented
                ? segmented.all() : ((KeyValueStore<Bytes, byte[]>) inner).all()) {
            while (all.hasNext()) {
                final KeyValue<Bytes, byte[]> entry = all.next();
                entries.add(List.of(base64(entry.key.get()), base64(entry.value)));
            }
        }
        return entries;
    }

    private static boolean isAdapter(final StateStore store) {
        return store.getClass().getSimpleName().endsWith("Adapter");
    }

    /** The store below an adapter that lets stores of an older format look like newer ones. */
    private static StateStore adapted(final StateStore adapter) {
        try {
            final Field store = adapter.getClass().getDeclaredField("store");
            store.setAccessible(true);
            return (StateStore) store.get(adapter);
        } catch (final ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
