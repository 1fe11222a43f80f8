package parity.stores;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** A session store; a session is three arguments: key, start and end. */
final class SessionScript implements StoreScript {

    private static final int RETENTION_MS = 120_000;
    private static final int SEGMENT_INTERVAL_MS = 60_000;
    private static final int LONGEST_MS = 5_000;
    private static final int REMEMBERED = 16;

    private final Choices choices = new Choices(7, RETENTION_MS, SEGMENT_INTERVAL_MS, 1_000);
    private final List<Operation> recent = new ArrayList<>();

    @Override
    public String name() {
        return "session";
    }

    @Override
    public StoreBuilder<?> builder() {
        return Stores.sessionStoreBuilder(
            Stores.persistentSessionStore(name(), Duration.ofMillis(RETENTION_MS)),
            Serdes.ByteArray(), Serdes.ByteArray());
    }

    @Override
    public Operation next(final int number) {
        choices.startOf(number);
        final int choice = choices.below(1000);
        if (choice < 550 || recent.isEmpty()) {
            return write(number, choice < 450);
        }
        if (choice < 650) {
            final Operation known = recent.get(choices.below(recent.size()));
            return Operation.of("fetch_session", known.bytes(0), known.number(1), known.number(2));
        }
        final byte[] key = choices.key();
        if (choice < 700) {
            return Operation.of(choice < 675 ? "fetch" : "backward_fetch", key);
        }
        if (choice < 710) {
            return Operation.of(
                choice < 705 ? "fetch_range" : "backward_fetch_range",
                choices.percent(20) ? null : key, choices.keyOrNull());
        }
        final long earliestEnd = choices.readTime();
        final long latestStart = choices.percent(3)
            ? Long.MAX_VALUE : Math.max(0, earliestEnd + choices.below(20_000) - 4_000);
        if (choice < 900) {
            return Operation.of(
                choice < 810 ? "find_sessions" : "backward_find_sessions",
                key, earliestEnd, latestStart);
        }
        return Operation.of(
            choice < 950 ? "find_sessions_range" : "backward_find_sessions_range",
            choices.percent(20) ? null : key, choices.keyOrNull(), earliestEnd, latestStart);
    }

    /** Puts or removes a session, a known one in half of the cases. */
    private Operation write(final int number, final boolean put) {
        final Operation session;
        if (!recent.isEmpty() && choices.percent(put ? 20 : 80)) {
            session = recent.get(choices.below(recent.size()));
        } else {
            final byte[] key = choices.key();
            final long end = choices.time();
            final long start = choices.percent(20)
                ? end : Math.max(0, end - choices.below(LONGEST_MS));
            session = Operation.of("", key, start, end);
            if (recent.size() < REMEMBERED) {
                recent.add(session);
            } else {
                recent.set(choices.below(REMEMBERED), session);
            }
        }
        final List<Object> arguments = new ArrayList<>(session.arguments());
        if (put) {
            arguments.add(choices.value(number, 5));
        }
        return new Operation(put ? "put" : "remove", arguments);
    }

    @Override
    public List<Operation> last() {
        final byte[] key = Choices.KEYS.get(0);
        return List.of(Operation.of("put", key, choices.now(), choices.now(), key));
    }

    @Override
    @SuppressWarnings("unchecked")
    public String apply(final StateStore stateStore, final Operation operation) {
        final var store = (SessionStore<byte[], byte[]>) stateStore;
        switch (operation.name()) {
            case "put" -> store.put(session(operation), operation.bytes(3));
            case "remove" -> store.remove(session(operation));
            case "fetch_session" -> {
                return Line.hex(store.fetchSession(
                    operation.bytes(0), operation.number(1), operation.number(2)));
            }
            default -> {
                return Line.list(readMany(store, operation), ENTRY);
            }
        }
        return "-";
    }

    private static final Function<KeyValue<Windowed<byte[]>, byte[]>, String> ENTRY =
        pair -> Line.window(pair.key) + "=" + Line.hex(pair.value);

    private static KeyValueIterator<Windowed<byte[]>, byte[]> readMany(
            final SessionStore<byte[], byte[]> store, final Operation operation) {
        return switch (operation.name()) {
            case "fetch" -> store.fetch(operation.bytes(0));
            case "backward_fetch" -> store.backwardFetch(operation.bytes(0));
            case "fetch_range" -> store.fetch(operation.bytes(0), operation.bytes(1));
            case "backward_fetch_range" -> store.backwardFetch(
                operation.bytes(0), operation.bytes(1));
            case "find_sessions" -> store.findSessions(
                operation.bytes(0), operation.number(1), operation.number(2));
            case "backward_find_sessions" -> store.backwardFindSessions(
                operation.bytes(0), operation.number(1), operation.number(2));
            case "find_sessions_range" -> store.findSessions(
                operation.bytes(0), operation.bytes(1), operation.number(2), operation.number(3));
            case "backward_find_sessions_range" -> store.backwardFindSessions(
                operation.bytes(0), operation.bytes(1), operation.number(2), operation.number(3));
            default -> throw new IllegalArgumentException(operation.name());
        };
    }

    private static Windowed<byte[]> session(final Operation operation) {
        return new Windowed<>(
            operation.bytes(0), new SessionWindow(operation.number(1), operation.number(2)));
    }
}
