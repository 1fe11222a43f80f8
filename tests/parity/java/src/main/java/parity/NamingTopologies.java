package parity;

import static parity.GoldenFile.member;
import static parity.Values.orDash;

import java.util.List;
import java.util.UUID;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.DoubleSerializer;
import org.apache.kafka.common.serialization.IntegerSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.UUIDSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Printed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** Topologies that differ from the defaults: in stores and serdes, and in the nodes' names. */
final class NamingTopologies {

    private NamingTopologies() {
    }

    /**
     * In-memory stores (withStoreType with and without a name, a supplier), without caching,
     * without logging; keys of UUID and 4-byte integer, values of bytes and double. Sums of
     * doubles are multiples of 0.25, so that they are exact.
     */
    static Scenario memoryAndSerdes() {
        final Observations observations = new Observations();
        final StreamsBuilder builder = new StreamsBuilder();

        final KStream<Integer, Double> readings =
            builder.stream("readings", Consumed.with(Serdes.Integer(), Serdes.Double()));
        readings.groupByKey(Grouped.with(Serdes.Integer(), Serdes.Double()))
            .reduce(Double::sum, Materialized
                .<Integer, Double, KeyValueStore<Bytes, byte[]>>with(
                    Serdes.Integer(), Serdes.Double())
                .withStoreType(Materialized.StoreType.IN_MEMORY))
            .toStream().to("sums", Produced.with(Serdes.Integer(), Serdes.Double()));
        readings.groupByKey(Grouped.with(Serdes.Integer(), Serdes.Double()))
            .count(Materialized.<Integer, Long, KeyValueStore<Bytes, byte[]>>as("readings-count")
                .withStoreType(Materialized.StoreType.IN_MEMORY).withLoggingDisabled())
            .toStream().to("counts", Produced.with(Serdes.Integer(), Serdes.Long()));
        readings.map((key, value) -> KeyValue.pair(value, key))
            .groupByKey(Grouped.with("by-value", Serdes.Double(), Serdes.Integer()))
            .aggregate(() -> 0.0, (value, key, sum) -> sum + (key == null ? 0 : key) + value,
                Materialized.<Double, Double>as(Stores.inMemoryKeyValueStore("by-value-sums"))
                    .withKeySerde(Serdes.Double()).withValueSerde(Serdes.Double())
                    .withCachingDisabled())
            .toStream().to("by-value", Produced.with(Serdes.Double(), Serdes.Double()));

        final KTable<UUID, byte[]> documents = builder.table("documents",
            Consumed.with(Serdes.UUID(), Serdes.ByteArray()),
            Materialized.as(Stores.inMemoryKeyValueStore("documents-store")));
        documents.mapValues(bytes -> bytes.length,
                Materialized.<UUID, Integer, KeyValueStore<Bytes, byte[]>>as("lengths")
                    .withKeySerde(Serdes.UUID()).withValueSerde(Serdes.Integer())
                    .withCachingDisabled())
            .groupBy((id, length) -> KeyValue.pair(length % 3, length),
                Grouped.with(Serdes.Integer(), Serdes.Integer()))
            .reduce(Integer::sum, (total, gone) -> total - gone,
                Materialized
                    .<Integer, Integer, KeyValueStore<Bytes, byte[]>>with(
                        Serdes.Integer(), Serdes.Integer())
                    .withStoreType(Materialized.StoreType.IN_MEMORY))
            .toStream().to("lengths-out", Produced.with(Serdes.Integer(), Serdes.Integer()));
        documents.toStream().to("documents-out", Produced.with(Serdes.UUID(), Serdes.ByteArray()));

        final Script script = new Script(11);
        final List<UUID> ids = List.of(
            new UUID(0, 1), new UUID(-1, -1),
            UUID.fromString("123e4567-e89b-12d3-a456-426614174000"),
            new UUID(script.randomLong(), script.randomLong()));
        for (int record = 0; record < 110; record++) {
            if (script.percent(60)) {
                final Integer key = script.percent(8)
                    ? null : script.oneOf(List.of(-1, 0, 7, Integer.MAX_VALUE));
                final Double value = script.percent(8) ? null : (script.below(41) - 20) * 0.25;
                script.pipe(
                    "readings", new IntegerSerializer(), key, new DoubleSerializer(), value);
            } else {
                final UUID key = script.percent(5) ? null : script.oneOf(ids);
                byte[] value = null;
                if (!script.percent(15)) {
                    value = new byte[script.below(8)];
                    for (int index = 0; index < value.length; index++) {
                        value[index] = (byte) script.below(256);
                    }
                }
                script.pipe(
                    "documents", new UUIDSerializer(), key, new ByteArraySerializer(), value);
            }
        }
        return new Scenario("memory_and_serdes", builder.build(), script, observations);
    }

    /**
     * A name on every node that can have one: Consumed, Named on each operation, Branched,
     * Grouped, Joined, Repartitioned, Materialized, Printed and Produced. Values are JSON text.
     * Sub-topologies: flights, flights by carrier, carriers of the table.
     */
    static Scenario namedNodes() {
        final Observations observations = new Observations();
        final StreamsBuilder builder = new StreamsBuilder();
        final KTable<String, String> airlines = builder.table("airlines",
            Consumed.<String, String>as("read-airlines")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()),
            Materialized.as("airlines-store"));
        final KStream<String, String> flights =
            builder.stream("flights", Consumed.as("read-flights"));

        final KStream<String, Long> delays = flights
            .peek((key, value) -> observations.see("peek", key, value), Named.as("look"))
            .filter((key, value) -> value != null, Named.as("present"))
            .filterNot((key, value) -> value.contains("\"cancelled\""), Named.as("flown"))
            .selectKey((key, value) -> member(value, "carrier"), Named.as("carrier-key"))
            .mapValues(value -> Long.parseLong(member(value, "delay")), Named.as("delay"));
        delays.print(Printed.<String, Long>toFile(observations.printFile())
            .withLabel("delays").withName("print-delays")
            .withKeyValueMapper((key, value) -> key + " -> " + value));

        final KTable<String, Long> total = delays
            .groupByKey(Grouped.with("delays-by-carrier", Serdes.String(), Serdes.Long()))
            .reduce(Long::sum, Named.as("sum-delays"),
                Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("total-delays")
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()));
        total.filter((key, value) -> value > 50, Named.as("late-carriers"))
            .toStream(Named.as("late-stream"))
            .to("late-carriers", Produced.<String, Long>as("write-late")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()));
        total.mapValues(value -> value + " min", Named.as("in-minutes"),
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("minutes")
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()))
            .toStream((key, value) -> key + "!", Named.as("minutes-stream"))
            .to("minutes-out", Produced.<String, String>as("write-minutes")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()));
        total.groupBy((key, value) -> KeyValue.pair(value >= 0 ? "late" : "early", value),
                Grouped.with("by-sign", Serdes.String(), Serdes.Long()))
            .count(Named.as("count-signs"), Materialized.as("signs"))
            .toStream(Named.as("signs-stream"))
            .to("signs-out", Produced.<String, Long>as("write-signs")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()));

        final KStream<String, Long> rekeyed = delays.repartition(
            Repartitioned.<String, Long>as("rekeyed")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()));
        rekeyed.leftJoin(airlines, (delay, airline) -> orDash(airline) + ": " + delay,
                Joined.with(Serdes.String(), Serdes.Long(), Serdes.String(), "name-carrier"))
            .flatMapValues(value -> List.of(value, value + "?"), Named.as("twice"))
            .split(Named.as("size-"))
            .branch((key, value) -> value.startsWith("-"), Branched.withConsumer(
                unknown -> unknown.to("unknown-carriers", Produced.as("write-unknown")), "unknown"))
            .defaultBranch(Branched.withConsumer(
                known -> known.to("known-carriers", Produced.as("write-known")), "known"));
        rekeyed.map((key, value) -> KeyValue.pair(key, String.valueOf(value)), Named.as("as-text"))
            .merge(flights, Named.as("with-flights"))
            .flatMap((key, value) -> value == null
                ? List.<KeyValue<String, String>>of()
                : List.of(KeyValue.pair(value, key)), Named.as("swap"))
            .toTable(Named.as("swapped"), Materialized.as("swapped-store"));
        flights.foreach((key, value) -> observations.see("foreach", key, value), Named.as("end"));

        final Script script = new Script(12);
        final List<String> carriers = List.of("AA", "UA", "Łot", "B6");
        for (int record = 0; record < 100; record++) {
            if (script.percent(15)) {
                final String carrier = script.oneOf(carriers);
                script.pipe("airlines", carrier, script.percent(20) ? null
                    : "{\"carrier\":\"" + carrier + "\",\"name\":\"" + script.oneOf(Script.CITIES)
                        + " Air\"}");
                continue;
            }
            final String status = script.percent(10) ? ",\"status\":\"cancelled\"" : "";
            script.pipe("flights", script.name(10), script.percent(8) ? null
                : "{\"carrier\":\"" + script.oneOf(carriers) + "\",\"delay\":"
                    + (script.below(60) - 25) + status + "}");
        }
        return new Scenario("named_nodes", builder.build(), script, observations);
    }
}
