package parity.generated;

import static parity.generated.Serialized.serde;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HashMap;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.kstream.internals.NamedInternal;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/** The options of operations, from the JSON of a step. */
@SuppressWarnings({"rawtypes", "unchecked"})
final class Options {

    private Options() {
    }

    static String text(final JsonNode step, final String field) {
        return step.hasNonNull(field) ? step.get(field).asText() : null;
    }

    static Duration ms(final JsonNode step, final String field) {
        return Duration.ofMillis(step.get(field).asLong());
    }

    static Named named(final JsonNode step) {
        return step.hasNonNull("name") ? Named.as(text(step, "name")) : NamedInternal.empty();
    }

    static Consumed consumed(final JsonNode given) {
        Consumed consumed = Consumed.with(serde(given.get("key")), serde(given.get("value")));
        if (given.hasNonNull("extractor")) {
            final String name = text(given, "extractor");
            consumed = consumed.withTimestampExtractor((record, latest) ->
                Functions.timestamp(name, record.value(), record.timestamp(), latest));
        }
        return given.hasNonNull("name") ? consumed.withName(text(given, "name")) : consumed;
    }

    static Grouped grouped(final JsonNode given) {
        return Grouped.with(
            text(given, "name"), serde(given.get("key")), serde(given.get("value")));
    }

    static Produced produced(final JsonNode given) {
        Produced produced = Produced.with(serde(given.get("key")), serde(given.get("value")));
        if (given.hasNonNull("partitioner")) {
            produced = produced.withStreamPartitioner(partitioner(given));
        }
        return given.hasNonNull("name") ? produced.withName(text(given, "name")) : produced;
    }

    private static StreamPartitioner partitioner(final JsonNode given) {
        final String name = text(given, "partitioner");
        return (topic, key, value, count) -> Functions.partitions(name, key, value);
    }

    static Repartitioned repartitioned(final JsonNode given) {
        Repartitioned repartitioned =
            Repartitioned.with(serde(given.get("key")), serde(given.get("value")));
        if (given.hasNonNull("name")) {
            repartitioned = repartitioned.withName(text(given, "name"));
        }
        if (given.hasNonNull("partitioner")) {
            repartitioned = repartitioned.withStreamPartitioner(partitioner(given));
        }
        return given.hasNonNull("partitions")
            ? repartitioned.withNumberOfPartitions(given.get("partitions").asInt())
            : repartitioned;
    }

    static Joined joined(final JsonNode given) {
        final Joined joined = Joined.with(
            serde(given.get("key")), serde(given.get("value")), serde(given.get("other_value")),
            text(given, "name"));
        return given.hasNonNull("grace_ms") ? joined.withGracePeriod(ms(given, "grace_ms")) : joined;
    }

    // ------------------------------------------------------------------ stores

    static Materialized materialized(final JsonNode given) {
        Materialized kept;
        if (given.hasNonNull("supplier")) {
            kept = suppliedBy(given.get("supplier"));
        } else if (given.hasNonNull("name")) {
            kept = Materialized.as(text(given, "name"));
        } else if (given.hasNonNull("store_type")) {
            kept = Materialized.as(storeType(given));
        } else {
            kept = Materialized.with(serde(given.get("key")), serde(given.get("value")));
        }
        kept = kept.withKeySerde(serde(given.get("key"))).withValueSerde(serde(given.get("value")));
        if (given.hasNonNull("name") && given.hasNonNull("store_type")) {
            kept = kept.withStoreType(storeType(given));
        }
        if (given.hasNonNull("caching")) {
            kept = given.get("caching").asBoolean()
                ? kept.withCachingEnabled() : kept.withCachingDisabled();
        }
        if (given.hasNonNull("logging")) {
            kept = given.get("logging").asBoolean()
                ? kept.withLoggingEnabled(new HashMap<>()) : kept.withLoggingDisabled();
        }
        return given.hasNonNull("retention_ms")
            ? kept.withRetention(ms(given, "retention_ms")) : kept;
    }

    private static Materialized.StoreType storeType(final JsonNode given) {
        return text(given, "store_type").equals("memory")
            ? Materialized.StoreType.IN_MEMORY : Materialized.StoreType.ROCKS_DB;
    }

    private static Materialized<Object, Object, ? extends StateStore> suppliedBy(
            final JsonNode given) {
        final Object supplier = supplier(given);
        if (supplier instanceof KeyValueBytesStoreSupplier keyValue) {
            return Materialized.as(keyValue);
        }
        return supplier instanceof WindowBytesStoreSupplier window
            ? Materialized.as(window) : Materialized.as((SessionBytesStoreSupplier) supplier);
    }

    /** A supplier of {@code Stores}; its kind says which. */
    static Object supplier(final JsonNode given) {
        final String name = text(given, "name");
        final boolean duplicates = given.path("duplicates").asBoolean();
        return switch (text(given, "kind")) {
            case "key_value" -> Stores.persistentKeyValueStore(name);
            case "timestamped" -> Stores.persistentTimestampedKeyValueStore(name);
            case "memory" -> Stores.inMemoryKeyValueStore(name);
            case "lru" -> Stores.lruMap(name, given.get("entries").asInt());
            case "versioned" -> Stores.persistentVersionedKeyValueStore(
                name, ms(given, "retention_ms"));
            case "versioned_segments" -> Stores.persistentVersionedKeyValueStore(
                name, ms(given, "retention_ms"), ms(given, "segment_ms"));
            case "window" -> Stores.persistentWindowStore(
                name, ms(given, "retention_ms"), ms(given, "size_ms"), duplicates);
            case "timestamped_window" -> Stores.persistentTimestampedWindowStore(
                name, ms(given, "retention_ms"), ms(given, "size_ms"), duplicates);
            case "memory_window" -> Stores.inMemoryWindowStore(
                name, ms(given, "retention_ms"), ms(given, "size_ms"), duplicates);
            case "session" -> Stores.persistentSessionStore(name, ms(given, "retention_ms"));
            case "memory_session" -> Stores.inMemorySessionStore(name, ms(given, "retention_ms"));
            default -> throw Functions.unknown(text(given, "kind"));
        };
    }

    static StreamJoined streamJoined(final JsonNode given) {
        StreamJoined joined = StreamJoined.with(
            serde(given.get("key")), serde(given.get("value")), serde(given.get("other_value")));
        if (given.hasNonNull("name")) {
            joined = joined.withName(text(given, "name"));
        }
        if (given.hasNonNull("store_name")) {
            joined = joined.withStoreName(text(given, "store_name"));
        }
        if (given.hasNonNull("this_supplier")) {
            joined = joined.withThisStoreSupplier(
                (WindowBytesStoreSupplier) supplier(given.get("this_supplier")));
        }
        if (given.hasNonNull("other_supplier")) {
            joined = joined.withOtherStoreSupplier(
                (WindowBytesStoreSupplier) supplier(given.get("other_supplier")));
        }
        if (given.hasNonNull("store_type")) {
            joined = joined.withDslStoreSuppliers(storeType(given));
        }
        if (given.hasNonNull("logging")) {
            joined = given.get("logging").asBoolean()
                ? joined.withLoggingEnabled(new HashMap<>()) : joined.withLoggingDisabled();
        }
        return joined;
    }

    // ------------------------------------------------------------------ windows

    static JoinWindows joinWindows(final JsonNode given) {
        final JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(
            Duration.ofMillis(Math.max(
                given.get("before_ms").asLong(), given.get("after_ms").asLong())),
            ms(given, "grace_ms"));
        return windows.before(ms(given, "before_ms")).after(ms(given, "after_ms"));
    }

    static TimeWindows timeWindows(final JsonNode given) {
        final TimeWindows windows = given.hasNonNull("grace_ms")
            ? TimeWindows.ofSizeAndGrace(ms(given, "size_ms"), ms(given, "grace_ms"))
            : TimeWindows.ofSizeWithNoGrace(ms(given, "size_ms"));
        return given.hasNonNull("advance_ms")
            ? windows.advanceBy(ms(given, "advance_ms")) : windows;
    }

    static SlidingWindows slidingWindows(final JsonNode given) {
        return given.hasNonNull("grace_ms")
            ? SlidingWindows.ofTimeDifferenceAndGrace(ms(given, "size_ms"), ms(given, "grace_ms"))
            : SlidingWindows.ofTimeDifferenceWithNoGrace(ms(given, "size_ms"));
    }

    static SessionWindows sessionWindows(final JsonNode given) {
        return given.hasNonNull("grace_ms")
            ? SessionWindows.ofInactivityGapAndGrace(ms(given, "size_ms"), ms(given, "grace_ms"))
            : SessionWindows.ofInactivityGapWithNoGrace(ms(given, "size_ms"));
    }

    static UnlimitedWindows unlimitedWindows(final JsonNode given) {
        return UnlimitedWindows.of()
            .startOn(java.time.Instant.ofEpochMilli(given.get("size_ms").asLong()));
    }

    static EmitStrategy emitStrategy(final JsonNode step) {
        return text(step, "emit").equals("close")
            ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
    }

    static Suppressed suppressed(final JsonNode step) {
        final JsonNode buffer = step.get("buffer");
        BufferConfig config = buffer.hasNonNull("max_records")
            ? BufferConfig.maxRecords(buffer.get("max_records").asLong())
            : buffer.hasNonNull("max_bytes")
                ? BufferConfig.maxBytes(buffer.get("max_bytes").asLong())
                : BufferConfig.unbounded();
        if (buffer.hasNonNull("max_records") && buffer.hasNonNull("max_bytes")) {
            config = config.withMaxBytes(buffer.get("max_bytes").asLong());
        }
        final String full = text(buffer, "full");
        if (full != null) {
            config = full.equals("emit") ? config.emitEarlyWhenFull() : config.shutDownWhenFull();
        }
        if (buffer.hasNonNull("logging")) {
            config = buffer.get("logging").asBoolean()
                ? config.withLoggingEnabled(new HashMap<>()) : config.withLoggingDisabled();
        }
        final Suppressed suppressed = step.hasNonNull("wait_ms")
            ? Suppressed.untilTimeLimit(ms(step, "wait_ms"), config)
            : Suppressed.untilWindowCloses((Suppressed.StrictBufferConfig) config);
        return step.hasNonNull("name") ? (Suppressed) suppressed.withName(text(step, "name"))
            : suppressed;
    }
}
