package parity;

import static parity.Values.amount;
import static parity.Values.city;
import static parity.Values.orDash;

import java.util.List;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.state.KeyValueStore;

/** Topologies that join a stream with a table, and that repartition by hand. */
final class JoinTopologies {

    private JoinTopologies() {
    }

    /**
     * Stream-table join and leftJoin, value joiners with and without the key: with a source
     * table, with derived tables that have no store (filter, mapValues) and that have one, with
     * an aggregation; on a stream that needs a repartition first, unnamed and with a Joined name.
     * Null keys and values of the stream, tombstones of the table.
     */
    static Scenario streamTableJoins() {
        final Observations observations = new Observations();
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, String> orders = builder.stream("orders");
        final KTable<String, String> people = builder.table("people");

        orders.join(people, (order, person) -> order + " for " + person).to("joined");
        orders.leftJoin(people, (order, person) -> orDash(order) + " for " + orDash(person))
            .to("left-joined");
        orders.join(people, (key, order, person) -> key + ": " + order + " for " + person,
            Joined.as("with-key")).to("joined-with-key");

        // Tables without a store of their own: the join reads through to the source's.
        final KTable<String, Long> amounts = people
            .filter((key, value) -> amount(value) >= 30)
            .mapValues(value -> amount(value));
        orders.leftJoin(amounts,
                (key, order, amount) -> orDash(key) + " has " + orDash(amount),
                Joined.<String, String, Long>as("read-through").withKeySerde(Serdes.String()))
            .to("read-through");
        final KTable<String, String> cities =
            people.mapValues(value -> city(value), Materialized.as("cities"));
        orders.join(cities, (order, city) -> city + "<" + order).to("in-city");

        // A stream whose key was changed: the stream is repartitioned, the table is not.
        final KStream<String, String> byCity = orders
            .filter((key, value) -> value != null)
            .selectKey((key, value) -> amount(value) % 7 == 0 ? null : city(value));
        final KTable<String, String> countries = builder.table("countries");
        byCity.join(countries, (order, country) -> order + " in " + country).to("in-country");
        byCity.leftJoin(countries, (order, country) -> order + " in " + orDash(country),
                Joined.with(Serdes.String(), Serdes.String(), Serdes.String(), "by-city"))
            .to("left-in-country");

        // With an aggregation of the same stream.
        final KTable<String, Long> counts = orders.groupByKey().count(Materialized.as("counts"));
        orders.join(counts, (order, count) -> order + " #" + count).to("numbered");

        final Script script = new Script(7);
        for (int record = 0; record < 150; record++) {
            final String topic =
                script.oneOf(List.of("orders", "orders", "orders", "people", "countries"));
            final String key = topic.equals("countries")
                ? (script.percent(5) ? null : script.oneOf(Script.CITIES))
                : script.name(10);
            script.pipe(topic, key, script.cityAmount(15));
        }
        return new Scenario("stream_table_joins", builder.build(), script, observations);
    }

    /**
     * repartition without a name, with a name, with a number of partitions; toTable with and
     * without a store name, of a stream whose key is unchanged and of one whose key was changed
     * (which repartitions); a join of the repartitioned stream with such a table. Several
     * sub-topologies in a chain. toTable drops null keys and takes null values as tombstones.
     */
    static Scenario repartitionToTable() {
        final Observations observations = new Observations();
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, String> input = builder.stream("input");

        input.repartition().mapValues((key, value) -> orDash(key) + orDash(value)).to("spread");
        final KStream<String, String> byCity = input
            .selectKey((key, value) -> value == null ? key : city(value))
            .repartition(Repartitioned.<String, String>as("by-city")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.String())
                .withNumberOfPartitions(4));
        byCity.to("by-city-out");
        byCity.groupByKey().count(Materialized.as("city-counts")).toStream()
            .to("city-counts-out", Produced.with(Serdes.String(), Serdes.Long()));

        final KTable<String, String> latest = byCity.toTable();
        observations.fact("latest", orDash(latest.queryableStoreName()));
        latest.toStream().to("latest-out");
        final KTable<String, String> stored = byCity.filter((key, value) -> !"Oslo".equals(key))
            .toTable(Named.as("as-table"), Materialized.as("stored"));
        observations.fact("stored", orDash(stored.queryableStoreName()));
        stored.toStream().to("stored-out");

        // A changed key: toTable repartitions, unnamed and named.
        final KTable<String, String> rekeyed = input
            .selectKey((key, value) -> key == null ? null : key + "2")
            .toTable();
        rekeyed.toStream().to("rekeyed-out");
        final KTable<String, String> rekeyedStored = input
            .selectKey((key, value) -> key == null || key.equals("bo") ? null : key + "3")
            .toTable(Named.as("rekeyed-named"),
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("rekeyed-store")
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()));
        rekeyedStored.mapValues(value -> value + "?").toStream().to("rekeyed-named-out");

        byCity.join(stored, (value, last) -> value + "|" + last).to("joined");
        byCity.repartition(Repartitioned.numberOfPartitions(4))
            .leftJoin(latest, (value, last) -> orDash(value) + "|" + orDash(last))
            .to("left-joined");

        final Script script = new Script(8);
        for (int record = 0; record < 80; record++) {
            script.pipe("input", script.name(10), script.cityAmount(15));
        }
        return new Scenario("repartition_to_table", builder.build(), script, observations);
    }
}
