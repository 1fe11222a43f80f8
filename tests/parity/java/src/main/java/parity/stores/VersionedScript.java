package parity.stores;

import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.VersionedKeyQuery;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;

/** A versioned store whose segments expire all the time. */
final class VersionedScript implements StoreScript {

    private static final int RETENTION_MS = 60_000;
    private static final int SEGMENT_INTERVAL_MS = 10_000;
    private static final int SHORT_RANGE_MS = 2_000;

    private final Choices choices = new Choices(1, RETENTION_MS, SEGMENT_INTERVAL_MS, 100);
    private final Map<String, Long> latestTimes = new HashMap<>();

    @Override
    public String name() {
        return "versioned";
    }

    @Override
    public StoreBuilder<?> builder() {
        return Stores.versionedKeyValueStoreBuilder(
            Stores.persistentVersionedKeyValueStore(
                name(), Duration.ofMillis(RETENTION_MS), Duration.ofMillis(SEGMENT_INTERVAL_MS)),
            Serdes.ByteArray(), Serdes.ByteArray());
    }

    @Override
    public Operation next(final int number) {
        choices.startOf(number);
        final int choice = choices.below(100);
        final byte[] key = choices.key();
        if (choice < 55) {
            final byte[] value = choices.value(number, 15);
            return Operation.of("put", key, value, moved(key, value, choices.time()));
        }
        if (choice < 65) {
            return Operation.of("delete", key, moved(key, null, choices.time()));
        }
        if (choice < 75) {
            return Operation.of("get", key);
        }
        if (choice < 95) {
            return Operation.of("get_as_of", key, choices.readTime());
        }
        final String name = choices.percent(50) ? "versions" : "versions_ascending";
        final long from = choices.readTime();
        final int length = choices.percent(50) ? RETENTION_MS : SHORT_RANGE_MS;
        return Operation.of(name, key, from, from + choices.below(length));
    }

    /**
     * A put's time; a deletion's is never that of the key's latest value, because Kafka Streams
     * forgets such a deletion and takes a late put for the latest.
     */
    private long moved(final byte[] key, final byte[] value, final long time) {
        final long latest = latestTimes.getOrDefault(Line.hex(key), -1L);
        final long moved = value == null && time == latest ? time + 1 : time;
        latestTimes.put(Line.hex(key), Math.max(latest, moved));
        return moved;
    }

    @Override
    public List<Operation> last() {
        final byte[] key = Choices.KEYS.get(0);
        return List.of(
            Operation.of("put", key, key, choices.now()),
            Operation.of("put", key, key, choices.now() + 1));
    }

    @Override
    @SuppressWarnings("unchecked")
    public String apply(final StateStore stateStore, final Operation operation) {
        final var store = (VersionedKeyValueStore<byte[], byte[]>) stateStore;
        final byte[] key = operation.bytes(0);
        return switch (operation.name()) {
            case "put" -> Long.toString(
                store.put(key, operation.bytes(1), operation.number(2)));
            case "delete" -> line(store.delete(key, operation.number(1)));
            case "get" -> line(store.get(key));
            case "get_as_of" -> line(asOf(store, key, operation.number(1)));
            case "versions" -> Line.list(
                versions(store, operation, false), VersionedScript::line);
            case "versions_ascending" -> Line.list(
                versions(store, operation, true), VersionedScript::line);
            default -> throw new IllegalArgumentException(operation.name());
        };
    }

    /** A version with its end, which only queries give; the store's get leaves it out. */
    private static VersionedRecord<byte[]> asOf(
            final VersionedKeyValueStore<byte[], byte[]> store, final byte[] key,
            final long time) {
        final VersionedKeyQuery<byte[], byte[]> query = VersionedKeyQuery
            .<byte[], byte[]>withKey(key).asOf(Instant.ofEpochMilli(time));
        final VersionedRecord<byte[]> answer =
            store.query(query, PositionBound.unbounded(), new QueryConfig(false)).getResult();
        final VersionedRecord<byte[]> got = store.get(key, time);
        final boolean same = answer == null
            ? got == null
            : Arrays.equals(answer.value(), got.value()) && answer.timestamp() == got.timestamp();
        if (!same) {
            throw new IllegalStateException("get and query differ: " + got + ", " + answer);
        }
        return answer;
    }

    private static VersionedRecordIterator<byte[]> versions(
            final StateStore store, final Operation operation, final boolean ascending) {
        MultiVersionedKeyQuery<byte[], byte[]> query = MultiVersionedKeyQuery
            .<byte[], byte[]>withKey(operation.bytes(0))
            .fromTime(Instant.ofEpochMilli(operation.number(1)))
            .toTime(Instant.ofEpochMilli(operation.number(2)));
        query = ascending ? query.withAscendingTimestamps() : query.withDescendingTimestamps();
        return store.query(query, PositionBound.unbounded(), new QueryConfig(false)).getResult();
    }

    private static String line(final VersionedRecord<byte[]> record) {
        if (record == null) {
            return "-";
        }
        return Line.hex(record.value()) + "@" + record.timestamp() + ".."
            + record.validTo().map(Object::toString).orElse("");
    }
}
