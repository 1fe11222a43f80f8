package parity.generated;

import static parity.generated.Options.named;
import static parity.generated.Options.text;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.BranchedKStream;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Printed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueJoinerWithKey;
import org.apache.kafka.streams.processor.RecordContext;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.processor.TopicNameExtractor;

/**
 * Builds the topology of a case with the DSL, a step a call: what {@code build.py} does in Python.
 *
 * A step names what it makes ("out") and what it is called on ("from"), and its options.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
final class CaseTopology {

    final StreamsBuilder builder = new StreamsBuilder();
    final Map<String, List<List<String>>> seen = new TreeMap<>();
    private final Map<String, Object> made = new HashMap<>();
    private final List<JsonNode> readOnly = new ArrayList<>();
    private final String printFile;

    CaseTopology(final JsonNode steps, final String printFile) {
        this.printFile = printFile;
        for (final JsonNode step : steps) {
            final Object result = result(step);
            if (step.hasNonNull("out")) {
                made.put(text(step, "out"), result);
            }
        }
    }

    private Object result(final JsonNode step) {
        final Object from = step.hasNonNull("from") ? made.get(text(step, "from")) : null;
        final Object other = step.hasNonNull("other") ? made.get(text(step, "other")) : null;
        if (from == null) {
            return source(step);
        }
        final Object grouping = Grouping.result(step, from, other);
        if (grouping != null) {
            return grouping;
        }
        return from instanceof KTable table ? ofTable(step, table, other)
            : ofStream(step, (KStream) from, other);
    }

    private Object source(final JsonNode step) {
        switch (text(step, "op")) {
            case "table":
                return table(step);
            case "global_table":
                return globalTable(step);
            case "global_store":
                return Processors.globalStore(builder, step);
            case "read_only_store":
                readOnly.add(step);
                return null;
            default:
                return stream(step);
        }
    }

    private Object stream(final JsonNode step) {
        final JsonNode consumed = step.get("consumed");
        if (step.hasNonNull("pattern")) {
            final Pattern pattern = Pattern.compile(text(step, "pattern"));
            return consumed == null
                ? builder.stream(pattern) : builder.stream(pattern, Options.consumed(consumed));
        }
        final List<String> topics = new ArrayList<>();
        step.get("topics").forEach(topic -> topics.add(topic.asText()));
        return consumed == null
            ? builder.stream(topics) : builder.stream(topics, Options.consumed(consumed));
    }

    private Object table(final JsonNode step) {
        final String topic = text(step, "topic");
        final JsonNode consumed = step.get("consumed");
        final JsonNode kept = step.get("materialized");
        if (consumed != null && kept != null) {
            return builder.table(topic, Options.consumed(consumed), Options.materialized(kept));
        }
        if (consumed != null) {
            return builder.table(topic, Options.consumed(consumed));
        }
        return kept == null
            ? builder.table(topic) : builder.table(topic, Options.materialized(kept));
    }

    private Object globalTable(final JsonNode step) {
        final String topic = text(step, "topic");
        final JsonNode consumed = step.get("consumed");
        final JsonNode kept = step.get("materialized");
        if (consumed != null && kept != null) {
            return builder.globalTable(
                topic, Options.consumed(consumed), Options.materialized(kept));
        }
        if (consumed != null) {
            return builder.globalTable(topic, Options.consumed(consumed));
        }
        return kept == null
            ? builder.globalTable(topic) : builder.globalTable(topic, Options.materialized(kept));
    }

    /** The topology, with what only the Processor API can add. */
    Topology topology(final Properties properties) {
        final Topology topology = builder.build(properties);
        readOnly.forEach(step -> Processors.addReadOnlyStore(topology, step));
        return topology;
    }

    // ------------------------------------------------------------------ streams

    private Object ofStream(final JsonNode step, final KStream stream, final Object other) {
        final String fn = text(step, "fn");
        final boolean withKey = step.path("with_key").asBoolean();
        return switch (text(step, "op")) {
            case "filter" ->
                stream.filter((key, value) -> Functions.test(fn, key, value), named(step));
            case "filter_not" ->
                stream.filterNot((key, value) -> Functions.test(fn, key, value), named(step));
            case "map" ->
                stream.map((key, value) -> Functions.pair(fn, key, value), named(step));
            case "map_values" -> withKey
                ? stream.mapValues((key, value) -> Functions.value(fn, key, value), named(step))
                : stream.mapValues(value -> Functions.value(fn, null, value), named(step));
            case "flat_map" ->
                stream.flatMap((key, value) -> Functions.pairs(fn, key, value), named(step));
            case "flat_map_values" -> withKey
                ? stream.flatMapValues(
                    (key, value) -> Functions.values(fn, key, value), named(step))
                : stream.flatMapValues(value -> Functions.values(fn, null, value), named(step));
            case "select_key" ->
                stream.selectKey((key, value) -> Functions.key(fn, key, value), named(step));
            case "peek" -> stream.peek((key, value) -> see(step, key, value), named(step));
            case "merge" -> stream.merge((KStream) other, named(step));
            case "repartition" -> step.has("repartitioned")
                ? stream.repartition(Options.repartitioned(step.get("repartitioned")))
                : stream.repartition();
            case "to_table" -> toTable(step, stream);
            case "join" -> other instanceof GlobalKTable global
                ? joinedWithGlobalTable(step, stream, global)
                : other instanceof KTable table ? joinedWithTable(step, stream, table)
                : joinedWithStream(step, stream, (KStream) other);
            case "process", "process_values" -> Processors.added(builder, step, stream);
            default -> ending(step, stream);
        };
    }

    private Object ending(final JsonNode step, final KStream stream) {
        switch (text(step, "op")) {
            case "foreach" -> stream.foreach((key, value) -> see(step, key, value), named(step));
            case "print" -> stream.print(printed(step));
            case "split" -> split(step, stream);
            case "to" -> to(step, stream);
            default -> throw Functions.unknown(text(step, "op"));
        }
        return stream;
    }

    private void see(final JsonNode step, final Object key, final Object value) {
        seen.computeIfAbsent(text(step, "label"), unused -> new ArrayList<>())
            .add(List.of(Functions.text(key), Functions.text(value)));
    }

    private Printed printed(final JsonNode step) {
        Printed printed = Printed.toFile(printFile + text(step, "file"));
        if (step.hasNonNull("label")) {
            printed = printed.withLabel(text(step, "label"));
        }
        if (step.path("mapped").asBoolean()) {
            printed = printed.withKeyValueMapper(
                (key, value) -> Functions.text(key) + "->" + Functions.text(value));
        }
        return step.hasNonNull("name") ? printed.withName(text(step, "name")) : printed;
    }

    private void to(final JsonNode step, final KStream stream) {
        final Produced produced = Options.produced(step.path("produced"));
        if (step.path("extractor").asBoolean()) {
            final String topic = text(step, "topic");
            stream.to(new ByWeight(topic), produced);
        } else {
            stream.to(text(step, "topic"), produced);
        }
    }

    /** Chooses one of two topics; is called "function" in a description. */
    private record ByWeight(String topic) implements TopicNameExtractor<Object, Object> {

        @Override
        public String extract(
                final Object key, final Object value, final RecordContext context) {
            return topic + "-" + Functions.weight(value) % 2;
        }

        @Override
        public String toString() {
            return "function";
        }
    }

    private void split(final JsonNode step, final KStream stream) {
        BranchedKStream branched = stream.split(named(step));
        for (final JsonNode branch : step.get("branches")) {
            final String fn = text(branch, "fn");
            branched = branched.branch((key, value) -> Functions.test(fn, key, value),
                Branched.withFunction(part -> kept(branch, (KStream) part), text(branch, "name")));
        }
        if (step.hasNonNull("default")) {
            final JsonNode branch = step.get("default");
            branched.defaultBranch(
                Branched.withFunction(part -> kept(branch, (KStream) part), text(branch, "name")));
        } else {
            branched.noDefaultBranch();
        }
    }

    private KStream kept(final JsonNode branch, final KStream stream) {
        made.put(text(branch, "out"), stream);
        return stream;
    }

    private KTable toTable(final JsonNode step, final KStream stream) {
        return step.has("materialized")
            ? stream.toTable(named(step), Options.materialized(step.get("materialized")))
            : stream.toTable(named(step));
    }

    private KStream joinedWithTable(
            final JsonNode step, final KStream stream, final KTable table) {
        final String fn = text(step, "fn");
        final var joined = Options.joined(step.path("joined"));
        final boolean left = text(step, "kind").equals("left");
        if (step.path("with_key").asBoolean()) {
            return left
                ? stream.leftJoin(table, (key, a, b) -> Functions.join(fn, key, a, b), joined)
                : stream.join(table, (key, a, b) -> Functions.join(fn, key, a, b), joined);
        }
        return left
            ? stream.leftJoin(table, (a, b) -> Functions.join(fn, null, a, b), joined)
            : stream.join(table, (a, b) -> Functions.join(fn, null, a, b), joined);
    }

    private KStream joinedWithGlobalTable(
            final JsonNode step, final KStream stream, final GlobalKTable table) {
        final String fn = text(step, "fn");
        final String selectorName = text(step, "selector");
        final KeyValueMapper selector = (key, value) -> Functions.key(selectorName, key, value);
        final boolean left = text(step, "kind").equals("left");
        if (step.path("with_key").asBoolean()) {
            final ValueJoinerWithKey joiner = (key, a, b) -> Functions.join(fn, key, a, b);
            return left ? stream.leftJoin(table, selector, joiner, named(step))
                : stream.join(table, selector, joiner, named(step));
        }
        final ValueJoiner joiner = (a, b) -> Functions.join(fn, null, a, b);
        return left ? stream.leftJoin(table, selector, joiner, named(step))
            : stream.join(table, selector, joiner, named(step));
    }

    private KStream joinedWithStream(
            final JsonNode step, final KStream stream, final KStream other) {
        final String fn = text(step, "fn");
        final boolean withKey = step.path("with_key").asBoolean();
        final var windows = Options.joinWindows(step.get("windows"));
        final var joined = Options.streamJoined(step.path("joined"));
        return switch (text(step, "kind")) {
            case "inner" -> withKey
                ? stream.join(other, (key, a, b) -> Functions.join(fn, key, a, b), windows, joined)
                : stream.join(other, (a, b) -> Functions.join(fn, null, a, b), windows, joined);
            case "left" -> withKey
                ? stream.leftJoin(
                    other, (key, a, b) -> Functions.join(fn, key, a, b), windows, joined)
                : stream.leftJoin(other, (a, b) -> Functions.join(fn, null, a, b), windows, joined);
            default -> withKey
                ? stream.outerJoin(
                    other, (key, a, b) -> Functions.join(fn, key, a, b), windows, joined)
                : stream.outerJoin(
                    other, (a, b) -> Functions.join(fn, null, a, b), windows, joined);
        };
    }

    // ------------------------------------------------------------------ tables

    private Object ofTable(final JsonNode step, final KTable table, final Object other) {
        final String fn = text(step, "fn");
        final JsonNode kept = step.get("materialized");
        return switch (text(step, "op")) {
            case "filter" -> kept == null
                ? table.filter((key, value) -> Functions.test(fn, key, value), named(step))
                : table.filter((key, value) -> Functions.test(fn, key, value), named(step),
                    Options.materialized(kept));
            case "filter_not" -> kept == null
                ? table.filterNot((key, value) -> Functions.test(fn, key, value), named(step))
                : table.filterNot((key, value) -> Functions.test(fn, key, value), named(step),
                    Options.materialized(kept));
            case "map_values" -> mapped(step, table);
            case "transform_values" -> Transformers.added(builder, step, table);
            case "to_stream" -> step.hasNonNull("fn")
                ? table.toStream((key, value) -> Functions.key(fn, key, value), named(step))
                : table.toStream(named(step));
            case "join" -> step.has("foreign_key")
                ? joinedByForeignKey(step, table, (KTable) other)
                : joinedTables(step, table, (KTable) other);
            case "suppress" -> table.suppress(Options.suppressed(step));
            default -> throw Functions.unknown(text(step, "op"));
        };
    }

    private KTable mapped(final JsonNode step, final KTable table) {
        final String fn = text(step, "fn");
        final JsonNode kept = step.get("materialized");
        if (step.path("with_key").asBoolean()) {
            return kept == null
                ? table.mapValues((key, value) -> Functions.value(fn, key, value), named(step))
                : table.mapValues((key, value) -> Functions.value(fn, key, value), named(step),
                    Options.materialized(kept));
        }
        return kept == null
            ? table.mapValues(value -> Functions.value(fn, null, value), named(step))
            : table.mapValues(value -> Functions.value(fn, null, value), named(step),
                Options.materialized(kept));
    }

    private KTable joinedTables(final JsonNode step, final KTable table, final KTable other) {
        final String fn = text(step, "fn");
        final ValueJoiner joiner = (a, b) -> Functions.join(fn, null, a, b);
        final JsonNode kept = step.get("materialized");
        return switch (text(step, "kind")) {
            case "inner" -> kept == null ? table.join(other, joiner, named(step))
                : table.join(other, joiner, named(step), Options.materialized(kept));
            case "left" -> kept == null ? table.leftJoin(other, joiner, named(step))
                : table.leftJoin(other, joiner, named(step), Options.materialized(kept));
            default -> kept == null ? table.outerJoin(other, joiner, named(step))
                : table.outerJoin(other, joiner, named(step), Options.materialized(kept));
        };
    }

    private KTable joinedByForeignKey(
            final JsonNode step, final KTable table, final KTable other) {
        final String fn = text(step, "fn");
        final String keyName = text(step, "foreign_key");
        final ValueJoiner joiner = (a, b) -> Functions.join(fn, null, a, b);
        final TableJoined joined = tableJoined(step);
        final boolean left = text(step, "kind").equals("left");
        final Materialized kept =
            step.has("materialized") ? Options.materialized(step.get("materialized")) : null;
        if (step.path("with_key").asBoolean()) {
            final BiFunction foreignKey = (key, value) -> Functions.key(keyName, key, value);
            if (kept == null) {
                return left ? table.leftJoin(other, foreignKey, joiner, joined)
                    : table.join(other, foreignKey, joiner, joined);
            }
            return left ? table.leftJoin(other, foreignKey, joiner, joined, kept)
                : table.join(other, foreignKey, joiner, joined, kept);
        }
        final Function foreignKey = value -> Functions.key(keyName, null, value);
        if (kept == null) {
            return left ? table.leftJoin(other, foreignKey, joiner, joined)
                : table.join(other, foreignKey, joiner, joined);
        }
        return left ? table.leftJoin(other, foreignKey, joiner, joined, kept)
            : table.join(other, foreignKey, joiner, joined, kept);
    }

    private TableJoined tableJoined(final JsonNode step) {
        final Map<String, StreamPartitioner> partitioners = new HashMap<>();
        for (final JsonNode side : step.path("partitioners")) {
            partitioners.put(side.asText(), (topic, key, value, count) -> {
                see(step, key, topic + " of " + count);
                return Optional.of(Set.of(0));
            });
        }
        final TableJoined joined =
            TableJoined.with(partitioners.get("this"), partitioners.get("other"));
        return step.hasNonNull("name") ? joined.withName(text(step, "name")) : joined;
    }
}
