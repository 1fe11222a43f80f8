package parity;

import static parity.Values.amount;
import static parity.Values.city;
import static parity.Values.orDash;

import java.util.List;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/** Topologies of tables. */
final class TableTopologies {

    private TableTopologies() {
    }

    /**
     * Source tables without a store, with a named store and with a store the DSL names itself;
     * filter, filterNot and mapValues (both forms), with a store of their own and without, the
     * latter also below a table that has none; toStream with and without a key mapper;
     * queryableStoreName. Tombstones, null keys (dropped), late and repeated updates.
     */
    static Scenario tables() {
        final Observations observations = new Observations();
        final StreamsBuilder builder = new StreamsBuilder();

        // No store: nothing below needs one. Tombstones pass filters as tombstones.
        final KTable<String, String> plain = builder.table("plain");
        plain.toStream().to("plain-out");
        plain.filter((key, value) -> amount(value) >= 50).toStream().to("plain-large");
        plain.mapValues(value -> city(value)).toStream((key, value) -> orDash(value) + "/" + key)
            .to("plain-cities");

        // A named store.
        final KTable<String, String> stored =
            builder.table("stored", Materialized.as("stored-store"));
        final KTable<String, String> small = stored.filterNot((key, value) -> amount(value) >= 50);
        final KTable<String, Long> amounts = stored.mapValues(
            value -> amount(value), Materialized.with(Serdes.String(), Serdes.Long()));
        stored.toStream().to("stored-out");
        small.toStream().to("stored-small");
        amounts.toStream().to("stored-amounts", Produced.with(Serdes.String(), Serdes.Long()));

        // Stores of derived tables, below a source table that has none of its own.
        final KTable<String, String> derived = builder.table(
            "derived", Consumed.with(Serdes.String(), Serdes.String()));
        final KTable<String, String> large = derived.filter(
            (key, value) -> amount(value) >= 30, Materialized.as("large"));
        final KTable<String, String> labelled = large.mapValues(
            (key, value) -> key + "@" + value, Named.as("label"), Materialized.as("labelled"));
        final KTable<String, String> odd = large.filterNot(
            (key, value) -> amount(value) % 2 == 0, Materialized.as("odd"));
        final KTable<String, String> unstored = labelled.mapValues(value -> value + "!");
        large.toStream().to("large-out");
        labelled.toStream().to("labelled-out");
        odd.toStream((key, value) -> value == null ? "gone" : city(value)).to("odd-out");
        unstored.filter((key, value) -> !value.startsWith("bo@")).toStream().to("unstored-out");

        // A store without a name, with serdes given.
        final KTable<String, String> unnamed = builder.table(
            "unnamed", Materialized.with(Serdes.String(), Serdes.String()));
        unnamed.toStream().to("unnamed-out");

        observations.fact("plain", orDash(plain.queryableStoreName()));
        observations.fact("stored", orDash(stored.queryableStoreName()));
        observations.fact("small", orDash(small.queryableStoreName()));
        observations.fact("amounts", orDash(amounts.queryableStoreName()));
        observations.fact("large", orDash(large.queryableStoreName()));
        observations.fact("labelled", orDash(labelled.queryableStoreName()));
        observations.fact("unnamed", orDash(unnamed.queryableStoreName()));

        final Script script = new Script(5);
        final List<String> topics =
            List.of("plain", "stored", "derived", "derived", "unnamed");
        for (int record = 0; record < 140; record++) {
            final String topic = script.oneOf(topics);
            final String key = script.name(6);
            final String value = script.cityAmount(20);
            script.pipe(topic, key, value);
            if (script.percent(10)) {
                script.pipe(topic, key, value);
            }
        }
        return new Scenario("tables", builder.build(), script, observations);
    }

    /**
     * KTable groupBy: count, reduce and aggregate with adder and subtractor, with and without
     * names. The repartition topics carry changes (old and new value). Keys and values that the
     * selector makes null; a late update, a tombstone for an unknown key, an unchanged group.
     */
    static Scenario tableGroupBy() {
        final Observations observations = new Observations();
        final StreamsBuilder builder = new StreamsBuilder();
        final KTable<String, String> homes = builder.table("homes");

        // Without names: each aggregation has a repartition topic of its own.
        final KGroupedTable<String, String> unnamed =
            homes.groupBy((key, value) -> KeyValue.pair(city(value), key));
        unnamed.count().toStream().to("residents", Produced.with(Serdes.String(), Serdes.Long()));
        unnamed.aggregate(
                () -> "",
                (city, name, all) -> all + "+" + name,
                (city, name, all) -> all + "-" + name)
            .toStream().to("moves");

        // With a Grouped name: one repartition topic for all three.
        final KGroupedTable<String, Long> named = homes
            .filter((key, value) -> amount(value) >= 10)
            .groupBy((key, value) -> KeyValue.pair(
                    amount(value) >= 90 ? null : city(value), amount(value)),
                Grouped.<String, Long>as("by-city").withKeySerde(Serdes.String())
                    .withValueSerde(Serdes.Long()));
        named.count(Materialized.as("big-homes")).toStream()
            .to("big-homes-out", Produced.with(Serdes.String(), Serdes.Long()));
        final KTable<String, Long> sums = named.reduce(
            Long::sum,
            (total, gone) -> total - gone,
            Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("sums")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()));
        sums.toStream().to("sums-out", Produced.with(Serdes.String(), Serdes.Long()));
        named.<Long>aggregate(
                () -> 0L,
                (city, amount, balance) -> balance + 2 * amount,
                (city, amount, balance) -> balance - amount,
                Named.as("balance"),
                Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("balances")
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long())
                    .withCachingDisabled())
            .toStream().to("balances-out", Produced.with(Serdes.String(), Serdes.Long()));

        // A grouping of an aggregation: sums by the length of their number.
        sums.groupBy((city, sum) -> KeyValue.pair("digits-" + String.valueOf(sum).length(), sum),
                Grouped.with(Serdes.String(), Serdes.Long()))
            .reduce(Long::sum, (total, gone) -> total - gone,
                Materialized.with(Serdes.String(), Serdes.Long()))
            .toStream().to("sums-by-digits", Produced.with(Serdes.String(), Serdes.Long()));

        final Script script = new Script(6);
        for (int record = 0; record < 100; record++) {
            script.pipe("homes", script.name(4), script.cityAmount(20));
        }
        return new Scenario("table_group_by", builder.build(), script, observations);
    }
}
