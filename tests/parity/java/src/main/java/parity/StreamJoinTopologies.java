package parity;

import static parity.Values.amount;
import static parity.Values.city;
import static parity.Values.orDash;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;

/** Topologies that join two streams. */
final class StreamJoinTopologies {

    private static final String EMIT_INTERVAL =
        "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__";

    private StreamJoinTopologies() {
    }

    /**
     * KStream-KStream join: windows with equal and with different sides, one of them negative,
     * with grace and without; joiners with and without the key; named nodes, named stores, both;
     * a stream joined with itself; streams whose key was changed, which repartition, unnamed
     * (twice, sharing the topic) and named; an aggregation of the result. Null keys and values,
     * several records of a key in one window, records out of order and later than the retention.
     */
    static Scenario innerStreamJoins() {
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, String> left = builder.stream("left");
        final KStream<String, String> right = builder.stream("right");

        left.join(right, (one, other) -> one + "+" + other, around(3000, 2000)).to("joined");
        left.join(right, (key, one, other) -> key + ":" + one + "+" + other,
            around(1000, 0).before(Duration.ofMillis(4000)).after(Duration.ofMillis(500)))
            .to("joined-with-key");
        left.join(right, (one, other) -> one + "+" + other,
            around(0, 700).after(Duration.ofMillis(2500)).before(Duration.ofMillis(-200)),
            StreamJoined.<String, String, String>as("later").withName("afterwards"))
            .to("afterwards-out");
        left.join(right, (one, other) -> one + "+" + other, around(1500, 0),
            StreamJoined.<String, String, String>with(null, null, null).withName("nodes"))
            .groupByKey().count(Materialized.as("matches")).toStream()
            .to("matches-out", Produced.with(Serdes.String(), Serdes.Long()));
        left.join(left, (one, other) -> one + "&" + other, around(2000, 1000)).to("with-itself");

        final KStream<String, String> byCity = right
            .filter((key, value) -> value != null)
            .selectKey((key, value) -> amount(value) % 7 == 0 ? null : city(value));
        final KStream<String, String> places = builder.stream("places");
        byCity.join(places, (one, place) -> one + "@" + place, around(2000, 0)).to("places-out");
        places.join(byCity, (place, one) -> place + "<" + one, around(1000, 500)).to("found");
        byCity.join(byCity.mapValues(value -> value + "!"), (one, other) -> one + other,
            around(800, 0),
            StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String())
                .withName("cities").withStoreName("cities"))
            .to("cities-out");
        return scenario("inner_stream_joins", builder, 21, 220, 0);
    }

    /**
     * leftJoin: windows with equal and with different sides, none after the record, grace; named;
     * a stream that repartitions, where records without a key are kept. The wall clock moves on,
     * less than a second at a time too, so that looks for records without a match, a
     * second apart at least, are skipped.
     */
    static Scenario leftStreamJoins() {
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, String> left = builder.stream("left");
        final KStream<String, String> right = builder.stream("right");

        left.leftJoin(right, (one, other) -> one + "+" + orDash(other), around(1500, 1000))
            .to("joined");
        left.leftJoin(right, (key, one, other) -> orDash(key) + ":" + one + "+" + orDash(other),
            around(0, 0).before(Duration.ofMillis(3000)),
            StreamJoined.<String, String, String>as("kept").withName("named"))
            .to("named-out");
        left.leftJoin(right, (one, other) -> one + "+" + orDash(other),
            around(200, 2500).before(Duration.ofMillis(100)).after(Duration.ofMillis(4000)))
            .to("afterwards");
        left.leftJoin(right, (one, other) -> one + "+" + orDash(other), around(0, 0)).to("at-once");

        final KStream<String, String> byCity = left
            .filter((key, value) -> value != null)
            .selectKey((key, value) -> amount(value) % 5 == 0 ? null : city(value));
        final KStream<String, String> places = builder.stream("places");
        byCity.leftJoin(places, (one, place) -> one + "@" + orDash(place), around(2000, 300))
            .to("places-out");
        places.leftJoin(byCity, (place, one) -> place + "<" + orDash(one), around(900, 0))
            .to("found");
        return scenario("left_stream_joins", builder, 22, 320, 1000);
    }

    /** outerJoin, as {@link #leftStreamJoins}, of both sides what has no match; a look a record. */
    static Scenario outerStreamJoins() {
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, String> left = builder.stream("left");
        final KStream<String, String> right = builder.stream("right");

        left.outerJoin(right, (one, other) -> orDash(one) + "+" + orDash(other),
            around(1500, 1000)).to("joined");
        left.outerJoin(right,
            (key, one, other) -> orDash(key) + ":" + orDash(one) + "+" + orDash(other),
            around(0, 0).before(Duration.ofMillis(3000)),
            StreamJoined.<String, String, String>as("kept").withName("named"))
            .to("named-out");
        left.outerJoin(right, (one, other) -> orDash(one) + "+" + orDash(other),
            around(200, 2500).before(Duration.ofMillis(100)).after(Duration.ofMillis(4000)))
            .to("afterwards");
        left.outerJoin(right, (one, other) -> orDash(one) + "+" + orDash(other), around(0, 6000))
            .to("at-one-time");
        left.outerJoin(left, (one, other) -> orDash(one) + "&" + orDash(other), around(400, 0))
            .to("with-itself");

        final KStream<String, String> byCity = left
            .filter((key, value) -> value != null)
            .selectKey((key, value) -> amount(value) % 5 == 0 ? null : city(value));
        final KStream<String, String> places = builder.stream("places");
        byCity.outerJoin(places, (one, place) -> orDash(one) + "@" + orDash(place),
            around(2000, 300),
            StreamJoined.<String, String, String>with(null, null, null).withName("by-place"))
            .to("places-out");
        return scenario("outer_stream_joins", builder, 23, 320, 0);
    }

    private static JoinWindows around(final long differenceMs, final long graceMs) {
        return JoinWindows.ofTimeDifferenceAndGrace(
            Duration.ofMillis(differenceMs), Duration.ofMillis(graceMs));
    }

    private static Scenario scenario(
            final String name, final StreamsBuilder builder, final long seed, final int records,
            final long emitIntervalMs) {
        final Script script = new Script(seed);
        for (int record = 0; record < records; record++) {
            if (script.percent(30)) {
                script.advanceWallClock(script.below(1800));
            }
            final String topic = script.oneOf(List.of("left", "left", "right", "right", "places"));
            final String key = topic.equals("places")
                ? (script.percent(5) ? null : script.oneOf(Script.CITIES))
                : script.name(6);
            script.pipe(topic, key, script.cityAmount(8));
        }
        return new Scenario(name, builder.build(), script, new Observations(),
            Map.of(EMIT_INTERVAL, emitIntervalMs));
    }
}
