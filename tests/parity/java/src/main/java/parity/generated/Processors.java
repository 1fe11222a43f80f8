package parity.generated;

import static parity.generated.Options.text;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/** The processors of generated cases, by kind: those of {@code processors.py}, one for one. */
@SuppressWarnings({"rawtypes", "unchecked"})
final class Processors {

    private Processors() {
    }

    /** The stream with a processor after it; its store, if it has one, is added to the builder. */
    static KStream added(
            final StreamsBuilder builder, final JsonNode step, final KStream stream) {
        final JsonNode store = step.get("store");
        final String[] stores = store == null ? new String[0] : new String[] {text(store, "name")};
        if (store != null) {
            builder.addStateStore(storeBuilder(store));
        }
        final String name = text(step, "name");
        final String storeName = store == null ? null : text(store, "name");
        if (text(step, "op").equals("process_values")) {
            return name == null
                ? stream.processValues(() -> new Numbering(storeName), stores)
                : stream.processValues(() -> new Numbering(storeName), Named.as(name), stores);
        }
        return name == null
            ? stream.process(() -> processor(step, storeName), stores)
            : stream.process(() -> processor(step, storeName), Named.as(name), stores);
    }

    static Object globalStore(final StreamsBuilder builder, final JsonNode step) {
        final JsonNode store = step.get("store");
        final JsonNode consumed = step.has("consumed") ? step.get("consumed") : step;
        builder.addGlobalStore(storeBuilder(store).withLoggingDisabled(), text(step, "topic"),
            Options.consumed(consumed), () -> new Filling(text(store, "name")));
        return null;
    }

    /** A read-only store of a topic, and a processor that looks records up in it. */
    static void addReadOnlyStore(final Topology topology, final JsonNode step) {
        final String name = text(step, "label");
        final String store = text(step.get("store"), "name");
        topology.addReadOnlyStateStore(storeBuilder(step.get("store")), name + "-source",
            (Deserializer) new StringDeserializer(),
            (Deserializer) new StringDeserializer(), text(step, "topic"),
            name + "-filling", () -> new Filling(store));
        topology.addSource(name + "-reads", text(step, "reads"));
        topology.addProcessor(
            name + "-looks", () -> new LookingUp(store, text(step, "fn")), name + "-reads");
        topology.connectProcessorAndStateStores(name + "-looks", store);
        topology.addSink(name + "-writes", text(step, "writes"), name + "-looks");
    }

    static StoreBuilder<?> storeBuilder(final JsonNode given) {
        final Object supplier = Options.supplier(given);
        final var key = Serdes.String();
        final var value = Serdes.String();
        final StoreBuilder<?> builder;
        if (supplier instanceof VersionedBytesStoreSupplier versioned) {
            builder = Stores.versionedKeyValueStoreBuilder(versioned, key, value);
        } else if (supplier instanceof KeyValueBytesStoreSupplier keyValue) {
            builder = text(given, "kind").equals("timestamped")
                ? Stores.timestampedKeyValueStoreBuilder(keyValue, key, value)
                : Stores.keyValueStoreBuilder(keyValue, key, value);
        } else if (supplier instanceof WindowBytesStoreSupplier window) {
            builder = Stores.windowStoreBuilder(window, key, value);
        } else {
            builder = Stores.sessionStoreBuilder((SessionBytesStoreSupplier) supplier, key, value);
        }
        return given.path("caching").asBoolean() ? builder.withCachingEnabled() : builder;
    }

    private static Processor processor(final JsonNode step, final String store) {
        final String kind = text(step, "kind");
        return switch (kind) {
            case "tag" -> new Tagging();
            case "count" -> new Counting(store);
            case "look_up" -> new LookingUp(text(step, "looks_into"), text(step, "fn"));
            case "wall_clock" -> new Ticking(PunctuationType.WALL_CLOCK_TIME, step);
            case "stream_time" -> new Ticking(PunctuationType.STREAM_TIME, step);
            default -> throw Functions.unknown(kind);
        };
    }

    /** Adds a header and a second record a little later. */
    private static final class Tagging implements Processor<Object, Object, Object, Object> {

        private ProcessorContext<Object, Object> context;

        @Override
        public void init(final ProcessorContext<Object, Object> given) {
            context = given;
        }

        @Override
        public void process(final Record<Object, Object> record) {
            final Headers headers = new RecordHeaders(record.headers().toArray());
            headers.add("tag", Functions.text(record.value()).getBytes());
            context.forward(record.withHeaders(headers));
            if (Functions.weight(record.value()) % 3 == 0) {
                context.forward(record.withTimestamp(record.timestamp() + 7)
                    .withValue(Functions.tail(Functions.text(record.value()) + "~")));
            }
        }
    }

    /** Puts records into the store of a topic: global, or read-only for the others. */
    private static final class Filling implements Processor<Object, Object, Void, Void> {

        private final String name;
        private KeyValueStore store;

        Filling(final String name) {
            this.name = name;
        }

        @Override
        public void init(final ProcessorContext<Void, Void> context) {
            store = context.getStateStore(name);
        }

        @Override
        public void process(final Record<Object, Object> record) {
            if (record.key() != null) {
                store.put(record.key(), store instanceof TimestampedKeyValueStore
                    ? ValueAndTimestamp.make(record.value(), record.timestamp()) : record.value());
            }
        }
    }

    /** Puts beside each value what a store of others has of a key that it names. */
    private static final class LookingUp implements Processor<Object, Object, Object, Object> {

        private final String name;
        private final String keyName;
        private ProcessorContext<Object, Object> context;
        private KeyValueStore store;

        LookingUp(final String name, final String keyName) {
            this.name = name;
            this.keyName = keyName;
        }

        @Override
        public void init(final ProcessorContext<Object, Object> given) {
            context = given;
            store = given.getStateStore(name);
        }

        @Override
        public void process(final Record<Object, Object> record) {
            final String key = Functions.key(keyName, record.key(), record.value());
            Object found = key == null ? null : store.get(key);
            if (found instanceof ValueAndTimestamp<?> kept) {
                found = Functions.text(kept.value()) + "@" + kept.timestamp();
            }
            context.forward(record.withValue(Functions.tail(
                Functions.text(record.value()) + "?" + Functions.text(found))));
        }
    }

    /** Keeps and forwards what it has seen of each key. */
    private static final class Counting implements Processor<Object, Object, Object, Object> {

        private final String name;
        private ProcessorContext<Object, Object> context;
        private Object store;

        Counting(final String name) {
            this.name = name;
        }

        @Override
        public void init(final ProcessorContext<Object, Object> given) {
            context = given;
            store = given.getStateStore(name);
        }

        @Override
        public void process(final Record<Object, Object> record) {
            final String key = Functions.text(record.key());
            final String value = Functions.text(record.value());
            final String kept;
            if (store instanceof TimestampedKeyValueStore timestamped) {
                final ValueAndTimestamp before = (ValueAndTimestamp) timestamped.get(key);
                kept = before == null ? "none" : before.value() + "@" + before.timestamp();
                timestamped.put(key, record.value() == null
                    ? null : ValueAndTimestamp.make(value, record.timestamp()));
            } else {
                final KeyValueStore plain = (KeyValueStore) store;
                kept = Functions.text(plain.get(key));
                plain.put(key, record.value() == null ? null : value);
            }
            context.forward(record.withValue(Functions.tail(kept + "/" + value)));
        }
    }

    /** Hands records on, and by the clock how many there were. */
    private static final class Ticking implements Processor<Object, Object, Object, Object> {

        private final PunctuationType clock;
        private final JsonNode step;
        private ProcessorContext<Object, Object> context;
        private long count;

        Ticking(final PunctuationType clock, final JsonNode step) {
            this.clock = clock;
            this.step = step;
        }

        @Override
        public void init(final ProcessorContext<Object, Object> given) {
            context = given;
            if (step.has("anchor_ms")) {
                final Instant anchor = Instant.ofEpochMilli(step.get("anchor_ms").asLong());
                given.schedule(anchor, Options.ms(step, "every_ms"), clock, this::tick);
            } else {
                given.schedule(Options.ms(step, "every_ms"), clock, this::tick);
            }
        }

        private void tick(final long time) {
            context.forward(new Record<>("tick", "n" + count, time));
        }

        @Override
        public void process(final Record<Object, Object> record) {
            count++;
            context.forward(record);
        }
    }

    /** Puts a number before each value, of a key if it has a store. */
    private static final class Numbering implements FixedKeyProcessor<Object, Object, Object> {

        private final String name;
        private FixedKeyProcessorContext<Object, Object> context;
        private KeyValueStore<String, String> store;
        private long count;

        Numbering(final String name) {
            this.name = name;
        }

        @Override
        public void init(final FixedKeyProcessorContext<Object, Object> given) {
            context = given;
            store = name == null ? null : given.getStateStore(name);
        }

        @Override
        public void process(final FixedKeyRecord<Object, Object> record) {
            long number = ++count;
            if (store != null) {
                final String key = Functions.text(record.key());
                final String before = store.get(key);
                number = before == null ? 1 : Long.parseLong(before) + 1;
                store.put(key, String.valueOf(number));
            }
            context.forward(
                record.withValue(Functions.tail(number + "." + Functions.text(record.value()))));
        }
    }
}
