package parity.generated;

import static parity.generated.Options.named;
import static parity.generated.Options.text;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Initializer;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Merger;
import org.apache.kafka.streams.kstream.Reducer;
import org.apache.kafka.streams.kstream.SessionWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;

/** Steps that group streams and tables, put groups into windows, and aggregate them. */
@SuppressWarnings({"rawtypes", "unchecked"})
final class Grouping {

    private Grouping() {
    }

    /** What the step makes, or null if it is none of these. */
    static Object result(final JsonNode step, final Object from, final Object other) {
        return switch (text(step, "op")) {
            case "group_by_key" -> step.has("grouped")
                ? ((KStream) from).groupByKey(Options.grouped(step.get("grouped")))
                : ((KStream) from).groupByKey();
            case "group_by" -> grouped(step, from);
            case "windowed_by" -> windowed(step, from);
            case "cogroup" -> cogrouped(step, from, other);
            case "count" -> counted(step, from);
            case "reduce" -> reduced(step, from);
            case "aggregate" -> aggregated(step, from);
            default -> null;
        };
    }

    private static Object grouped(final JsonNode step, final Object from) {
        final String fn = text(step, "fn");
        final JsonNode grouped = step.get("grouped");
        if (from instanceof KTable table) {
            return grouped == null
                ? table.groupBy((key, value) -> Functions.pair(fn, key, value))
                : table.groupBy(
                    (key, value) -> Functions.pair(fn, key, value), Options.grouped(grouped));
        }
        final KStream stream = (KStream) from;
        return grouped == null
            ? stream.groupBy((key, value) -> Functions.key(fn, key, value))
            : stream.groupBy(
                (key, value) -> Functions.key(fn, key, value), Options.grouped(grouped));
    }

    private static Object windowed(final JsonNode step, final Object from) {
        final JsonNode windows = step.get("windows");
        final String kind = text(windows, "kind");
        if (from instanceof CogroupedKStream cogrouped) {
            return switch (kind) {
                case "session" -> cogrouped.windowedBy(Options.sessionWindows(windows));
                case "sliding" -> cogrouped.windowedBy(Options.slidingWindows(windows));
                case "unlimited" -> cogrouped.windowedBy(Options.unlimitedWindows(windows));
                default -> cogrouped.windowedBy(Options.timeWindows(windows));
            };
        }
        final KGroupedStream groups = (KGroupedStream) from;
        if (kind.equals("session")) {
            final SessionWindowedKStream sessions =
                groups.windowedBy(Options.sessionWindows(windows));
            return step.hasNonNull("emit")
                ? sessions.emitStrategy(Options.emitStrategy(step)) : sessions;
        }
        final TimeWindowedKStream windowed = switch (kind) {
            case "sliding" -> groups.windowedBy(Options.slidingWindows(windows));
            case "unlimited" -> groups.windowedBy(Options.unlimitedWindows(windows));
            default -> groups.windowedBy(Options.timeWindows(windows));
        };
        return step.hasNonNull("emit")
            ? windowed.emitStrategy(Options.emitStrategy(step)) : windowed;
    }

    private static Object cogrouped(final JsonNode step, final Object from, final Object other) {
        final Aggregator aggregator = aggregator(text(step, "fn"));
        return other == null
            ? ((KGroupedStream) from).cogroup(aggregator)
            : ((CogroupedKStream) from).cogroup((KGroupedStream) other, aggregator);
    }

    private static Aggregator aggregator(final String fn) {
        return (key, value, soFar) -> Functions.aggregate(fn, key, value, soFar);
    }

    private static Reducer reducer(final String fn) {
        return (soFar, value) -> Functions.reduce(fn, soFar, value);
    }

    private static KTable counted(final JsonNode step, final Object from) {
        final JsonNode kept = step.get("materialized");
        if (from instanceof KGroupedStream groups) {
            return kept == null ? groups.count(named(step))
                : groups.count(named(step), Options.materialized(kept));
        }
        if (from instanceof KGroupedTable groups) {
            return kept == null ? groups.count(named(step))
                : groups.count(named(step), Options.materialized(kept));
        }
        if (from instanceof TimeWindowedKStream windowed) {
            return kept == null ? windowed.count(named(step))
                : windowed.count(named(step), Options.materialized(kept));
        }
        final SessionWindowedKStream sessions = (SessionWindowedKStream) from;
        return kept == null ? sessions.count(named(step))
            : sessions.count(named(step), Options.materialized(kept));
    }

    private static KTable reduced(final JsonNode step, final Object from) {
        final JsonNode kept = step.get("materialized");
        final Reducer reducer = reducer(text(step, "fn"));
        if (from instanceof KGroupedStream groups) {
            return kept == null ? groups.reduce(reducer)
                : groups.reduce(reducer, named(step), Options.materialized(kept));
        }
        if (from instanceof KGroupedTable groups) {
            final Reducer subtractor = reducer(text(step, "subtractor"));
            return kept == null ? groups.reduce(reducer, subtractor)
                : groups.reduce(reducer, subtractor, named(step), Options.materialized(kept));
        }
        if (from instanceof TimeWindowedKStream windowed) {
            return kept == null ? windowed.reduce(reducer, named(step))
                : windowed.reduce(reducer, named(step), Options.materialized(kept));
        }
        final SessionWindowedKStream sessions = (SessionWindowedKStream) from;
        return kept == null ? sessions.reduce(reducer, named(step))
            : sessions.reduce(reducer, named(step), Options.materialized(kept));
    }

    private static KTable aggregated(final JsonNode step, final Object from) {
        final JsonNode kept = step.get("materialized");
        final String initial = text(step, "initial");
        final Initializer initializer = () -> Functions.initial(initial);
        final Aggregator aggregator = step.hasNonNull("fn") ? aggregator(text(step, "fn")) : null;
        final String mergerName = text(step, "merger");
        final Merger merger = (key, one, two) -> Functions.reduce(mergerName, one, two);
        if (from instanceof KGroupedStream groups) {
            return kept == null ? groups.aggregate(initializer, aggregator)
                : groups.aggregate(
                    initializer, aggregator, named(step), Options.materialized(kept));
        }
        if (from instanceof KGroupedTable groups) {
            final Aggregator subtractor = aggregator(text(step, "subtractor"));
            return kept == null ? groups.aggregate(initializer, aggregator, subtractor, named(step))
                : groups.aggregate(initializer, aggregator, subtractor, named(step),
                    Options.materialized(kept));
        }
        if (from instanceof TimeWindowedKStream windowed) {
            return kept == null ? windowed.aggregate(initializer, aggregator, named(step))
                : windowed.aggregate(
                    initializer, aggregator, named(step), Options.materialized(kept));
        }
        if (from instanceof SessionWindowedKStream sessions) {
            return kept == null ? sessions.aggregate(initializer, aggregator, merger, named(step))
                : sessions.aggregate(
                    initializer, aggregator, merger, named(step), Options.materialized(kept));
        }
        return cogroupAggregated(step, from, initializer, merger);
    }

    private static KTable cogroupAggregated(
            final JsonNode step, final Object from, final Initializer initializer,
            final Merger merger) {
        final JsonNode kept = step.get("materialized");
        if (from instanceof CogroupedKStream cogrouped) {
            return kept == null ? cogrouped.aggregate(initializer, named(step))
                : cogrouped.aggregate(initializer, named(step), Options.materialized(kept));
        }
        if (from instanceof TimeWindowedCogroupedKStream windowed) {
            return kept == null ? windowed.aggregate(initializer, named(step))
                : windowed.aggregate(initializer, named(step), Options.materialized(kept));
        }
        final SessionWindowedCogroupedKStream sessions = (SessionWindowedCogroupedKStream) from;
        return kept == null ? sessions.aggregate(initializer, merger, named(step))
            : sessions.aggregate(initializer, merger, named(step), Options.materialized(kept));
    }
}
