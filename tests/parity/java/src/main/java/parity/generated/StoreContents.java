package parity.generated;

import static parity.generated.Functions.text;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;

/** What the stores of a topology hold, read through their interfaces: entries as text. */
@SuppressWarnings({"rawtypes", "unchecked"})
final class StoreContents {

    /** Keys a versioned store is asked for, which can't be listed: all that functions make. */
    private static final List<String> KEYS =
        List.of("a", "b", "ab", "k0", "k1", "k2", "g0", "g1", "null", "tick");

    private StoreContents() {
    }

    static Map<String, Object> of(final TopologyTestDriver driver) {
        final Map<String, Object> stores = new TreeMap<>();
        driver.getAllStateStores().forEach((name, store) -> {
            final List<Object> entries = entries(store);
            if (entries != null) {
                stores.put(name, entries);
            }
        });
        return stores;
    }

    /** None of stores that only operators read: of buffers and lists. */
    private static List<Object> entries(final StateStore store) {
        if (store instanceof VersionedKeyValueStore versioned) {
            return versions(versioned);
        }
        if (store instanceof ReadOnlyWindowStore windows) {
            try {
                return listed(windows.all());
            } catch (final IllegalArgumentException sizeIsZero) {
                return null;
            }
        }
        if (store instanceof ReadOnlySessionStore sessions) {
            return listed(sessions.fetch(null, null));
        }
        final boolean internal = store.name().matches(
            ".*(SHARED-|-shared-join-store|SUBSCRIPTION-STATE-STORE-|-subscription-store).*");
        return store instanceof ReadOnlyKeyValueStore keyValue && !internal
            ? listed(keyValue.all()) : null;
    }

    private static List<Object> listed(final KeyValueIterator iterator) {
        final List<Object> entries = new ArrayList<>();
        try (iterator) {
            while (iterator.hasNext()) {
                final KeyValue entry = (KeyValue) iterator.next();
                entries.add(Arrays.asList(text(entry.key), value(entry.value)));
            }
        }
        return entries;
    }

    private static Object value(final Object value) {
        if (value instanceof ValueTimestampHeaders<?> plain) {
            return text(plain.value());
        }
        return value instanceof ValueAndTimestamp<?> timestamped
            ? text(timestamped.value()) + "@" + timestamped.timestamp() : text(value);
    }

    private static List<Object> versions(final VersionedKeyValueStore store) {
        final List<Object> entries = new ArrayList<>();
        for (final String key : KEYS) {
            final VersionedRecord record = store.get(key);
            if (record != null) {
                entries.add(List.of(key, text(record.value()) + "@" + record.timestamp()));
            }
        }
        return entries;
    }
}
