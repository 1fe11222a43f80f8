package parity.stores;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.internals.OffsetCheckpoint;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.WriteOptions;

/**
 * State directories of an application with a plain, a timestamped and a versioned store.
 *
 * <p>The application's task, stores and directories are Kafka Streams' own; only the broker is the
 * test driver's. "clean" was closed; "killed" is a copy made while its stores were open, after
 * RocksDB had written some of their data to disk on its own; "older" is the layout of Kafka
 * Streams before 4.3, made by hand: no column family "offsets", but files ".checkpoint" and
 * "(store).position" with the text format of {@link OffsetCheckpoint}.
 */
final class StateDirectories {

    private static final String APPLICATION_ID = "shop";
    private static final String TOPIC = "orders";
    private static final List<String> STORES = List.of("names", "totals", "prices");
    private static final int CLEAN_RECORDS = 100;
    private static final int KILLED_RECORDS = 4_000;
    private static final int KEYS = 250;
    private static final long START_MS = 1_700_000_000_000L;

    private StateDirectories() {
    }

    /** Packs the directories into an archive and returns what they hold. */
    static Map<String, Object> write(final Path archive) throws IOException, RocksDBException {
        final Path directory = Files.createTempDirectory("directories");
        final Map<String, Object> content = new LinkedHashMap<>();
        for (final String name : List.of("clean", "killed", "older")) {
            final Path state = Files.createDirectory(directory.resolve(name));
            switch (name) {
                case "clean" -> closed(state);
                case "killed" -> killed(state);
                default -> older(state);
            }
            content.put(name, content(state.resolve(APPLICATION_ID).resolve("0_0")));
        }
        pack(directory, archive);
        Utils.delete(directory.toFile());
        return content;
    }

    private static void closed(final Path state) throws IOException {
        final TopologyTestDriver driver = new TopologyTestDriver(topology(), configuration(state));
        pipe(driver, CLEAN_RECORDS);
        // Closing the driver would delete the directory.
        driver.getAllStateStores().values().forEach(StateStore::close);
    }

    private static void killed(final Path state) throws IOException {
        final Path live = Files.createTempDirectory("live");
        final Properties configuration = configuration(live);
        configuration.put(
            StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, SmallWriteBuffers.class);
        final TopologyTestDriver driver = new TopologyTestDriver(topology(), configuration);
        pipe(driver, KILLED_RECORDS);
        waitUntilQuiet(live);
        copy(live, state);
        driver.close();
        Utils.delete(live.toFile());
    }

    private static void older(final Path state) throws IOException, RocksDBException {
        final Path task = Files.createDirectories(state.resolve(APPLICATION_ID).resolve("0_0"));
        final String timestamped = "keyValueWithTimestamp";
        olderStore(task.resolve("rocksdb").resolve("names"), null, "");
        olderStore(
            task.resolve("rocksdb").resolve("totals"), timestamped, "0000018bcfe56800");
        new OffsetCheckpoint(task.resolve(".checkpoint").toFile()).write(Map.of(
            new TopicPartition(APPLICATION_ID + "-names-changelog", 0), 99L,
            new TopicPartition(APPLICATION_ID + "-totals-changelog", 0), 41L));
        for (final String store : List.of("names", "totals")) {
            new OffsetCheckpoint(task.resolve(store + ".position").toFile()).write(Map.of(
                new TopicPartition(TOPIC, 0), 77L, new TopicPartition("payments", 0), 5L));
        }
    }

    private static void olderStore(
            final Path database, final String family, final String valuePrefix)
            throws IOException, RocksDBException {
        Files.createDirectories(database);
        try (Options options = new Options().setCreateIfMissing(true);
                WriteOptions unlogged = new WriteOptions().setDisableWAL(true);
                RocksDB db = RocksDB.open(options, database.toString())) {
            final ColumnFamilyHandle handle = family == null
                ? db.getDefaultColumnFamily()
                : db.createColumnFamily(new ColumnFamilyDescriptor(
                    family.getBytes(StandardCharsets.UTF_8)));
            for (int number = 0; number < 20; number++) {
                db.put(
                    handle, unlogged, ("key" + number).getBytes(StandardCharsets.UTF_8),
                    HexFormat.of().parseHex(valuePrefix + "6f6c64" + "%02x".formatted(number)));
            }
            handle.close();
        }
    }

    private static Topology topology() {
        final Topology topology = new Topology();
        topology.addSource("source", TOPIC);
        topology.addProcessor("shop", ShopProcessor::new, "source");
        topology.addStateStore(
            Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore("names"), Serdes.String(), Serdes.String()),
            "shop");
        topology.addStateStore(
            Stores.timestampedKeyValueStoreBuilder(
                Stores.persistentTimestampedKeyValueStore("totals"),
                Serdes.String(), Serdes.Long()),
            "shop");
        topology.addStateStore(
            Stores.versionedKeyValueStoreBuilder(
                Stores.persistentVersionedKeyValueStore("prices", Duration.ofMinutes(5)),
                Serdes.String(), Serdes.String()),
            "shop");
        return topology;
    }

    private static void pipe(final TopologyTestDriver driver, final int records) {
        final TestInputTopic<String, String> input =
            driver.createInputTopic(TOPIC, new StringSerializer(), new StringSerializer());
        for (int number = 0; number < records; number++) {
            input.pipeInput(
                "customer " + number * 7 % KEYS, number % 9 == 8 ? null : "order " + number,
                START_MS + number * 1000L);
        }
    }

    private static Properties configuration(final Path state) {
        final Properties properties = StoreRun.configuration(state);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION_ID);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        return properties;
    }

    /** For each store the lines of its column families, and what "offsets" means. */
    private static Map<String, Object> content(final Path task)
            throws IOException, RocksDBException {
        final Map<String, Object> stores = new LinkedHashMap<>();
        for (final String store : STORES) {
            final Path database = task.resolve("rocksdb").resolve(store);
            if (!Files.isDirectory(database)) {
                continue;
            }
            final Map<String, List<String>> families = DatabaseDump.families(database);
            final Map<String, Object> facts = new LinkedHashMap<>();
            facts.put("families", families);
            for (final String line : families.getOrDefault("offsets", List.of())) {
                final String[] parts = line.split(" ");
                final String name = new String(bytes(parts[0]), StandardCharsets.UTF_8);
                facts.put(name, name.equals("position")
                    ? Positions.read(bytes(parts[1])) : ByteBuffer.wrap(bytes(parts[1])).getLong());
            }
            stores.put(store, facts);
        }
        return stores;
    }

    private static byte[] bytes(final String hex) {
        return HexFormat.of().parseHex(hex.substring(1));
    }

    /** Waits until RocksDB has written no table for two seconds. */
    private static void waitUntilQuiet(final Path directory) throws IOException {
        long size = -1;
        while (size != sizeOf(directory)) {
            size = sizeOf(directory);
            Utils.sleep(2_000);
        }
    }

    private static long sizeOf(final Path directory) throws IOException {
        try (Stream<Path> paths = Files.walk(directory)) {
            return paths.filter(Files::isRegularFile).mapToLong(path -> path.toFile().length())
                .sum();
        }
    }

    private static void copy(final Path from, final Path to) throws IOException {
        try (Stream<Path> paths = Files.walk(from)) {
            for (final Path path : (Iterable<Path>) paths::iterator) {
                final Path copy = to.resolve(from.relativize(path));
                if (Files.isDirectory(path)) {
                    Files.createDirectories(copy);
                } else {
                    Files.copy(path, copy);
                }
            }
        }
    }

    /** Leaves out files that name directories of the machine; RocksDB does without them. */
    private static void pack(final Path directory, final Path archive) throws IOException {
        try {
            final int status = new ProcessBuilder(
                "tar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0",
                "--exclude=LOG", "--exclude=LOCK", "--exclude=OPTIONS-*", "--exclude=IDENTITY",
                "-czf", archive.toAbsolutePath().toString(), "-C", directory.toString(), ".")
                .inheritIO().start().waitFor();
            if (status != 0) {
                throw new IOException("tar ended with " + status);
            }
        } catch (final InterruptedException error) {
            throw new IOException(error);
        }
    }

    /** Makes RocksDB write its data to disk often. */
    public static final class SmallWriteBuffers implements RocksDBConfigSetter {
        @Override
        public void setConfig(
                final String store, final Options options, final Map<String, Object> configs) {
            options.setWriteBufferSize(32 * 1024L);
            options.setArenaBlockSize(4 * 1024L);
        }

        @Override
        public void close(final String store, final Options options) {
        }
    }
}
