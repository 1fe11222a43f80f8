package peer;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.MockProcessorContext;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/**
 * One store, the five jobs of benchmarks/stores.py: the same keys, values and times in the same
 * order; without those that a kind can't do. Prints a line a job: name, operations, nanoseconds,
 * checksum.
 *
 * Arguments: kind, operations, keys, value bytes, directory.
 */
public final class StoreBench {
    private static final Serde<String> KEYS = Serdes.String();
    private static final Serde<byte[]> VALUES = Serdes.ByteArray();
    private static final Duration RETENTION = Duration.ofHours(1);
    private static final long SPAN_MS = 60_000;
    private static final int PUTS_PER_RANGE = 10;
    private static final long MULTIPLIER = 2_654_435_761L;

    interface Store {
        StateStore opened();

        void put(String key, byte[] value, long time);

        byte[] get(String key, long time);

        /** Adds up what a short range read gives. */
        long range(int key, int keys);
    }

    private final Store store;
    private final int operations;
    private final int keys;
    private final int valueBytes;

    private StoreBench(Store store, int operations, int keys, int valueBytes) {
        this.store = store;
        this.operations = operations;
        this.keys = keys;
        this.valueBytes = valueBytes;
    }

    public static void main(String[] arguments) {
        int operations = Integer.parseInt(arguments[1]);
        int keys = Integer.parseInt(arguments[2]);
        String kind = arguments[0];
        Store store = open(kind, keys, new File(arguments[4]));
        StoreBench bench = new StoreBench(store, operations, keys, Integer.parseInt(arguments[3]));
        bench.put();
        if (!kind.equals("window with duplicates")) {
            bench.get();
        }
        if (!kind.equals("LRU map")) {
            bench.range();
        }
        store.opened().close();
    }

    private void put() {
        measure("put", operations, () -> {
            put(0, operations);
            return operations;
        });
    }

    private void get() {
        measure("get", operations, () -> {
            long sum = 0;
            for (int i = 0; i < operations; i++) {
                byte[] found = store.get(name(number(i)), time(i));
                sum += found == null ? 0 : ByteBuffer.wrap(found).getLong();
            }
            return sum;
        });
        measure("read-modify-write", operations, () -> {
            long sum = 0;
            for (int i = 0; i < operations; i++) {
                String key = name(number(i));
                byte[] found = store.get(key, time(i));
                long next = (found == null ? 0 : ByteBuffer.wrap(found).getLong()) + 1;
                store.put(key, value(next), time(i));
                sum += next;
            }
            return sum;
        });
    }

    private void range() {
        int ranges = operations / 100;
        measure("range", ranges, () -> {
            long sum = 0;
            for (int i = 0; i < ranges; i++) {
                sum += store.range(number(i), keys);
            }
            return sum;
        });
        int together = operations / 2 / PUTS_PER_RANGE;
        measure("puts-and-range", together, () -> {
            long sum = 0;
            for (int range = 0; range < together; range++) {
                int begin = range * PUTS_PER_RANGE;
                put(begin, begin + PUTS_PER_RANGE);
                sum += store.range(number(begin), keys);
            }
            return sum;
        });
    }

    private void put(int begin, int end) {
        for (int i = begin; i < end; i++) {
            store.put(name(number(i)), value(i), time(i));
        }
    }

    interface Job {
        long run();
    }

    private static void measure(String name, int operations, Job job) {
        long begin = System.nanoTime();
        long checksum = job.run();
        System.out.println(name + " " + operations + " " + (System.nanoTime() - begin) + " " + checksum);
    }

    private int number(long operation) {
        return (int) (operation * MULTIPLIER % (1L << 32) % keys);
    }

    private long time(long operation) {
        return operation * SPAN_MS / operations;
    }

    private byte[] value(long number) {
        return ByteBuffer.allocate(valueBytes).putLong(number).array();
    }

    static String name(int number) {
        return String.format("%08d", number);
    }

    static long first(byte[] value) {
        return ByteBuffer.wrap(value).getLong();
    }

    private static <T extends StateStore> T started(T store, File directory) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "stores");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        MockProcessorContext<Void, Void> context =
            new MockProcessorContext<>(settings, new TaskId(0, 0), directory);
        context.setRecordMetadata("input", 0, 0);
        store.init(context.getStateStoreContext(), store);
        return store;
    }

    private static Store open(String kind, int keys, File directory) {
        switch (kind) {
            case "key-value":
                return keyValue(Stores.persistentKeyValueStore("s"), directory);
            case "key-value in memory":
                return keyValue(Stores.inMemoryKeyValueStore("s"), directory);
            case "LRU map":
                return keyValue(Stores.lruMap("s", keys / 2), directory);
            case "timestamped":
                return timestamped(directory);
            case "window":
                return window(directory, false);
            case "window with duplicates":
                return window(directory, true);
            case "timestamped window":
                return timestampedWindow(directory);
            case "session":
                return session(directory);
            case "versioned":
                return versioned(directory);
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private static Store keyValue(KeyValueBytesStoreSupplier supplier, File directory) {
        KeyValueStore<String, byte[]> store = started(
            Stores.keyValueStoreBuilder(supplier, KEYS, VALUES).withLoggingDisabled().build(),
            directory);
        return new Store() {
            public StateStore opened() {
                return store;
            }

            public void put(String key, byte[] value, long time) {
                store.put(key, value);
            }

            public byte[] get(String key, long time) {
                return store.get(key);
            }

            public long range(int key, int keys) {
                long sum = 0;
                try (KeyValueIterator<String, byte[]> entries =
                         store.range(name(key), name(Math.min(key + 99, keys - 1)))) {
                    while (entries.hasNext()) {
                        sum += first(entries.next().value);
                    }
                }
                return sum;
            }
        };
    }

    private static Store timestamped(File directory) {
        TimestampedKeyValueStore<String, byte[]> store = started(
            Stores.timestampedKeyValueStoreBuilder(
                Stores.persistentTimestampedKeyValueStore("s"), KEYS, VALUES)
                .withLoggingDisabled().build(), directory);
        return new Store() {
            public StateStore opened() {
                return store;
            }

            public void put(String key, byte[] value, long time) {
                store.put(key, ValueAndTimestamp.make(value, time));
            }

            public byte[] get(String key, long time) {
                ValueAndTimestamp<byte[]> found = store.get(key);
                return found == null ? null : found.value();
            }

            public long range(int key, int keys) {
                long sum = 0;
                try (KeyValueIterator<String, ValueAndTimestamp<byte[]>> entries =
                         store.range(name(key), name(Math.min(key + 99, keys - 1)))) {
                    while (entries.hasNext()) {
                        sum += first(entries.next().value.value());
                    }
                }
                return sum;
            }
        };
    }

    private static Store window(File directory, boolean retainDuplicates) {
        WindowStore<String, byte[]> store = started(
            Stores.windowStoreBuilder(
                Stores.persistentWindowStore(
                    "s", RETENTION, Duration.ofSeconds(1), retainDuplicates),
                KEYS, VALUES).withLoggingDisabled().build(), directory);
        return new Store() {
            public StateStore opened() {
                return store;
            }

            public void put(String key, byte[] value, long time) {
                store.put(key, value, time / 1000 * 1000);
            }

            public byte[] get(String key, long time) {
                return store.fetch(key, time / 1000 * 1000);
            }

            public long range(int key, int keys) {
                long sum = 0;
                try (WindowStoreIterator<byte[]> entries = store.fetch(
                    name(key), Instant.ofEpochMilli(0), Instant.ofEpochMilli(SPAN_MS))) {
                    while (entries.hasNext()) {
                        sum += first(entries.next().value);
                    }
                }
                return sum;
            }
        };
    }

    private static Store timestampedWindow(File directory) {
        TimestampedWindowStore<String, byte[]> store = started(
            Stores.timestampedWindowStoreBuilder(
                Stores.persistentTimestampedWindowStore(
                    "s", RETENTION, Duration.ofSeconds(1), false),
                KEYS, VALUES).withLoggingDisabled().build(), directory);
        return new Store() {
            public StateStore opened() {
                return store;
            }

            public void put(String key, byte[] value, long time) {
                store.put(key, ValueAndTimestamp.make(value, time), time / 1000 * 1000);
            }

            public byte[] get(String key, long time) {
                ValueAndTimestamp<byte[]> found = store.fetch(key, time / 1000 * 1000);
                return found == null ? null : found.value();
            }

            public long range(int key, int keys) {
                long sum = 0;
                try (WindowStoreIterator<ValueAndTimestamp<byte[]>> entries = store.fetch(
                    name(key), Instant.ofEpochMilli(0), Instant.ofEpochMilli(SPAN_MS))) {
                    while (entries.hasNext()) {
                        sum += first(entries.next().value.value());
                    }
                }
                return sum;
            }
        };
    }

    private static Store session(File directory) {
        SessionStore<String, byte[]> store = started(
            Stores.sessionStoreBuilder(
                Stores.persistentSessionStore("s", RETENTION), KEYS, VALUES)
                .withLoggingDisabled().build(), directory);
        return new Store() {
            public StateStore opened() {
                return store;
            }

            public void put(String key, byte[] value, long time) {
                long start = time / 1000 * 1000;
                store.put(new Windowed<>(key, new SessionWindow(start, start + 500)), value);
            }

            public byte[] get(String key, long time) {
                long start = time / 1000 * 1000;
                return store.fetchSession(key, start, start + 500);
            }

            public long range(int key, int keys) {
                long sum = 0;
                try (KeyValueIterator<Windowed<String>, byte[]> entries =
                         store.findSessions(name(key), 0, SPAN_MS)) {
                    while (entries.hasNext()) {
                        sum += first(entries.next().value);
                    }
                }
                return sum;
            }
        };
    }

    private static Store versioned(File directory) {
        VersionedKeyValueStore<String, byte[]> store = started(
            Stores.versionedKeyValueStoreBuilder(
                Stores.persistentVersionedKeyValueStore("s", RETENTION), KEYS, VALUES)
                .withLoggingDisabled().build(), directory);
        return new Store() {
            public StateStore opened() {
                return store;
            }

            public void put(String key, byte[] value, long time) {
                store.put(key, value, time);
            }

            public byte[] get(String key, long time) {
                VersionedRecord<byte[]> found = store.get(key);
                return found == null ? null : found.value();
            }

            public long range(int key, int keys) {
                long sum = 0;
                for (int part = 0; part < 10; part++) {
                    VersionedRecord<byte[]> found = store.get(name(key), SPAN_MS * part / 10);
                    sum += found == null ? 0 : first(found.value());
                }
                return sum;
            }
        };
    }
}
