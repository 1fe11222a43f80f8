package parity.stores;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueAndTimestamp;

/** A key-value store, plain or timestamped; a value and its timestamp are two arguments. */
final class KeyValueScript implements StoreScript {

    private static final int LATEST_MS = 60_000;
    private static final int ENTRIES_OF_PUT_ALL = 3;

    private final boolean timestamped;
    private final Choices choices;

    KeyValueScript(final boolean timestamped) {
        this.timestamped = timestamped;
        choices = new Choices(timestamped ? 3 : 2, LATEST_MS, 10_000, 40);
    }

    @Override
    public String name() {
        return timestamped ? "timestamped_key_value" : "key_value";
    }

    @Override
    public StoreBuilder<?> builder() {
        return timestamped
            ? Stores.timestampedKeyValueStoreBuilder(
                Stores.persistentTimestampedKeyValueStore(name()),
                Serdes.ByteArray(), Serdes.ByteArray())
            : Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(name()), Serdes.ByteArray(), Serdes.ByteArray());
    }

    /** One of the keys, none at all, or one of them with a last byte of its own. */
    private byte[] key() {
        final byte[] stem = choices.key();
        final int suffix = choices.below(8);
        if (suffix > 4) {
            return suffix == 7 && choices.percent(10) ? new byte[0] : stem;
        }
        final byte[] key = java.util.Arrays.copyOf(stem, stem.length + 1);
        key[stem.length] = (byte) (suffix * 63);
        return key;
    }

    private byte[] bound() {
        return choices.percent(20) ? null : key();
    }

    @Override
    public Operation next(final int number) {
        choices.startOf(number);
        final int choice = choices.below(1000);
        if (choice < 400) {
            return Operation.of("put", key(), choices.value(number, 10), choices.time());
        }
        if (choice < 500) {
            return Operation.of("put_if_absent", key(), choices.value(number, 0), choices.time());
        }
        if (choice < 600) {
            return Operation.of("delete", key());
        }
        if (choice < 800) {
            return Operation.of("get", key());
        }
        if (choice < 900) {
            return Operation.of(choice < 850 ? "range" : "reverse_range", bound(), bound());
        }
        if (choice < 960) {
            return Operation.of("prefix_scan", choices.key());
        }
        if (choice < 980) {
            return Operation.of(choice < 970 ? "all" : "reverse_all");
        }
        final List<Object> arguments = new ArrayList<>();
        for (int entry = 0; entry < ENTRIES_OF_PUT_ALL; entry++) {
            arguments.addAll(Operation.of("", key(), choices.value(number, 10), choices.time())
                .arguments());
        }
        return new Operation("put_all", arguments);
    }

    @Override
    public List<Operation> last() {
        return List.of();
    }

    @Override
    @SuppressWarnings("unchecked")
    public String apply(final StateStore store, final Operation operation) {
        return timestamped
            ? apply(
                (KeyValueStore<byte[], ValueAndTimestamp<byte[]>>) store, operation,
                (value, time) -> value == null ? null : ValueAndTimestamp.make(value, time),
                stored -> stored == null
                    ? "-" : Line.hex(stored.value()) + "@" + stored.timestamp())
            : apply(
                (KeyValueStore<byte[], byte[]>) store, operation,
                (value, time) -> value, Line::hex);
    }

    /** Makes what the store keeps from a value and a timestamp. */
    private interface Maker<V> {
        V make(byte[] value, long timestamp);
    }

    private static <V> String apply(
            final KeyValueStore<byte[], V> store, final Operation operation,
            final Maker<V> maker, final Function<V, String> text) {
        final Function<KeyValue<byte[], V>, String> entry =
            pair -> Line.hex(pair.key) + "=" + text.apply(pair.value);
        switch (operation.name()) {
            case "put" -> store.put(operation.bytes(0), value(operation, 1, maker));
            case "put_all" -> {
                final List<KeyValue<byte[], V>> entries = new ArrayList<>();
                for (int at = 0; at < operation.arguments().size(); at += 3) {
                    entries.add(
                        KeyValue.pair(operation.bytes(at), value(operation, at + 1, maker)));
                }
                store.putAll(entries);
            }
            default -> {
                return read(store, operation, maker, text, entry);
            }
        }
        return "-";
    }

    private static <V> String read(
            final KeyValueStore<byte[], V> store, final Operation operation,
            final Maker<V> maker, final Function<V, String> text,
            final Function<KeyValue<byte[], V>, String> entry) {
        return switch (operation.name()) {
            case "put_if_absent" -> text.apply(
                store.putIfAbsent(operation.bytes(0), value(operation, 1, maker)));
            case "delete" -> text.apply(store.delete(operation.bytes(0)));
            case "get" -> text.apply(store.get(operation.bytes(0)));
            case "range" -> Line.list(
                store.range(operation.bytes(0), operation.bytes(1)), entry);
            case "reverse_range" -> Line.list(
                store.reverseRange(operation.bytes(0), operation.bytes(1)), entry);
            case "prefix_scan" -> Line.list(
                store.prefixScan(operation.bytes(0), new ByteArraySerializer()), entry);
            case "all" -> Line.list(store.all(), entry);
            case "reverse_all" -> Line.list(store.reverseAll(), entry);
            default -> throw new IllegalArgumentException(operation.name());
        };
    }

    private static <V> V value(
            final Operation operation, final int index, final Maker<V> maker) {
        return maker.make(operation.bytes(index), operation.number(index + 1));
    }
}
