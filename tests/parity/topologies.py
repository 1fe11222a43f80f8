"""The parity topologies: one function each, named as the golden file and the Java method.

What each covers stands at the Java method. The shape of both must stay the same, statement by
statement, because the order of declarations decides the generated names.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any

from pystreams import (
    Consumed,
    KStream,
    KTable,
    Materialized,
    StoreEngine,
    Stores,
    StreamsBuilder,
    Topology,
)
from pystreams.serdes import BYTES, DOUBLE, INT, LONG, STRING, UUID
from pystreams.topology.graph.nodes import RecordForRouting
from tests.parity.golden import Observations
from tests.parity.processors import (
    CityKey,
    ListHistory,
    NumberingSupplier,
    PriceOrder,
    RememberPrice,
    Totals,
)
from tests.parity.stream_join_topologies import (
    inner_stream_joins,
    left_stream_joins,
    outer_stream_joins,
)
from tests.parity.transformed_topologies import transformed_tables
from tests.parity.values import amount, city, or_dash

# Null keys and values are part of what is tested; the functions take them as they come.
Stream = KStream[Any, Any]
Table = KTable[Any, Any]


def stateless(observations: Observations) -> Topology:
    builder = StreamsBuilder()
    source: Stream = builder.stream("input")

    present = (
        source.peek(observations.see("peek"))
        .filter(lambda _, value: value is not None)
        .filter_not(lambda _, value: amount(value) < 10)
    )
    source.print(label="input", file=observations.print_file)

    present.map_values(lambda value: value.upper()).to("upper")
    present.map_values(lambda key, value: f"{or_dash(key)}={value}", with_key=True).to("with-key")
    present.map(lambda _, value: (city(value), amount(value))).to(
        "amounts", key_serde=STRING, value_serde=LONG
    )
    present.flat_map(
        lambda key, value: [(f"{or_dash(key)}{copy}", value) for copy in range(amount(value) % 4)]
    ).to("copies")
    parts = present.flat_map_values(lambda value: value.split(":"))
    keyed_parts = present.flat_map_values(
        lambda key, value: [f"{or_dash(key)}/{city(value)}", str(amount(value))], with_key=True
    )
    parts.merge(keyed_parts).to("parts")
    present.select_key(lambda _, value: city(value)).merge(source).to("by-city-and-all")
    source.map_values(lambda _: None).to("tombstones")
    source.foreach(observations.see("foreach"))
    return builder.build()


def branches(observations: Observations) -> Topology:
    builder = StreamsBuilder()

    orders: Stream = builder.stream(["orders-eu", "orders-us"])
    kinds = (
        orders.split(name="kind-")
        .branch(lambda _, value: value is None, name="tombstone")
        .branch(
            lambda _, value: amount(value) >= 80,
            name="big",
            chain=lambda big: big.map_values(lambda value: f"big {value}"),
        )
        .branch(lambda _, value: amount(value) >= 60, chain=lambda medium: medium.to("medium"))
        .branch(lambda _, value: amount(value) >= 40)
        .default_branch(name="rest")
    )
    observations.facts["kinds"] = sorted(kinds)
    kinds["kind-tombstone"].to("tombstones")
    kinds["kind-big"].to("big")
    kinds["kind-4"].to(_from_topic)
    kinds["kind-rest"].to(_route)

    audits: Stream = builder.stream(pattern="audit-[a-z]+")
    audited = (
        audits.split()
        .branch(lambda key, _: key == "ava")
        .branch(lambda key, _: key is None, name="-anonymous")
        .no_default_branch()
    )
    observations.facts["audited"] = sorted(audited)
    # In the order in which Java's map happens to give them: it decides the names of the nodes.
    for name, branch in sorted(audited.items()):
        branch.foreach(observations.see(name))
    audits.merge(orders).filter(lambda _, value: value is None).to("all-tombstones")
    return builder.build()


def _from_topic(_key: str, _value: str, record: Any) -> str:
    return f"from-{record.topic}"


def _route(_key: str, _value: str, record: Any) -> str:
    routes = [value for name, value in record.headers if name == "route"]
    if not routes:
        return "even-offset" if record.offset % 2 == 0 else "odd-offset"
    if routes[-1] == b"north" and record.timestamp % 2 == 0:
        return "north-even"
    return "routed"


def repartitioned_counts(observations: Observations) -> Topology:
    builder = StreamsBuilder()
    source: Stream = builder.stream("input")

    words = (
        source.filter(lambda _, value: value is not None)
        .flat_map_values(lambda value: value.split(":"))
        .group_by(lambda _, word: word)
        .count()
    )
    observations.facts["words"] = or_dash(words.queryable_store_name)
    words.to_stream().to("word-counts", key_serde=STRING, value_serde=LONG)

    by_city: Stream = source.select_key(lambda _, value: None if value is None else city(value))
    unnamed = by_city.group_by_key()
    unnamed.count(name="city-counts", value_serde=LONG).to_stream().to(
        "city-counts-out", key_serde=STRING, value_serde=LONG
    )
    unnamed.reduce(
        lambda left, right: f"{city(left)}:{amount(left) + amount(right)}"
    ).to_stream().to("city-sums-out")

    amounts: Stream = source.map(lambda key, value: (key, None if value is None else amount(value)))
    named = amounts.group_by(
        lambda _, value: "none" if value is None else "odd" if value % 2 else "even",
        name="parity",
        key_serde=STRING,
        value_serde=LONG,
    )
    named.count(node_name="parity-count").to_stream().to(
        "parity-counts", key_serde=STRING, value_serde=LONG
    )
    named.reduce(operator.add, key_serde=STRING, value_serde=LONG).to_stream().to(
        "parity-sums", key_serde=STRING, value_serde=LONG
    )
    return builder.build()


def aggregations(observations: Observations) -> Topology:
    builder = StreamsBuilder()
    source: Stream = builder.stream("input")
    grouped = source.flat_map_values(
        lambda value: (
            [None] if value is None else [value, f"{city(value)}:1", value][: amount(value) % 4]
        )
    ).group_by_key()

    counted = grouped.count()
    observations.facts["count"] = or_dash(counted.queryable_store_name)
    counted.to_stream().to("counts", key_serde=STRING, value_serde=LONG)
    counted_uncached = grouped.count(name="uncached-counts", caching=False)
    observations.facts["named count"] = or_dash(counted_uncached.queryable_store_name)
    counted_uncached.to_stream().to("uncached-counts-out", key_serde=STRING, value_serde=LONG)

    grouped.reduce(
        lambda left, right: left if amount(left) > amount(right) else right
    ).to_stream().to("largest")
    grouped.reduce(
        lambda _, right: None if amount(right) % 5 == 0 else right, name="latest"
    ).to_stream().to("latest-out")

    grouped.aggregate(str, lambda _, value, initials: initials + city(value)[0]).to_stream().to(
        "initials"
    )
    grouped.aggregate(
        lambda: 1000,
        _spend,
        node_name="spend",
        name="budget",
        key_serde=STRING,
        value_serde=LONG,
    ).to_stream().to("budgets", key_serde=STRING, value_serde=LONG)
    return builder.build()


def _spend(_key: str, value: str, left: int) -> Any:
    return None if left < amount(value) else left - amount(value)


def tables(observations: Observations) -> Topology:
    builder = StreamsBuilder()

    plain: Table = builder.table("plain")
    plain.to_stream().to("plain-out")
    plain.filter(lambda _, value: amount(value) >= 50).to_stream().to("plain-large")
    plain.map_values(city).to_stream(lambda key, value: f"{or_dash(value)}/{key}").to(
        "plain-cities"
    )

    stored: Table = builder.table("stored", name="stored-store")
    small = stored.filter_not(lambda _, value: amount(value) >= 50)
    amounts = stored.map_values(amount, key_serde=STRING, value_serde=LONG)
    stored.to_stream().to("stored-out")
    small.to_stream().to("stored-small")
    amounts.to_stream().to("stored-amounts", key_serde=STRING, value_serde=LONG)

    derived: Table = builder.table("derived", key_serde=STRING, value_serde=STRING)
    large = derived.filter(lambda _, value: amount(value) >= 30, name="large")
    labelled = large.map_values(
        lambda key, value: f"{key}@{value}", with_key=True, node_name="label", name="labelled"
    )
    odd = large.filter_not(lambda _, value: amount(value) % 2 == 0, name="odd")
    unstored = labelled.map_values(lambda value: f"{value}!")
    large.to_stream().to("large-out")
    labelled.to_stream().to("labelled-out")
    odd.to_stream(lambda _, value: "gone" if value is None else city(value)).to("odd-out")
    unstored.filter(lambda _, value: not value.startswith("bo@")).to_stream().to("unstored-out")

    unnamed: Table = builder.table(
        "unnamed", materialized=Materialized(key_serde=STRING, value_serde=STRING)
    )
    unnamed.to_stream().to("unnamed-out")

    named = {
        "plain": plain,
        "stored": stored,
        "small": small,
        "amounts": amounts,
        "large": large,
        "labelled": labelled,
        "unnamed": unnamed,
    }
    for label, table in named.items():
        observations.facts[label] = or_dash(table.queryable_store_name)
    return builder.build()


def table_group_by(observations: Observations) -> Topology:
    builder = StreamsBuilder()
    homes: Table = builder.table("homes")

    unnamed = homes.group_by(lambda key, value: (city(value), key))
    unnamed.count().to_stream().to("residents", key_serde=STRING, value_serde=LONG)
    unnamed.aggregate(
        str,
        lambda _, name, everyone: f"{everyone}+{name}",
        lambda _, name, everyone: f"{everyone}-{name}",
    ).to_stream().to("moves")

    named = homes.filter(lambda _, value: amount(value) >= 10).group_by(
        _by_city_unless_huge,
        name="by-city",
        key_serde=STRING,
        value_serde=LONG,
    )
    named.count(name="big-homes").to_stream().to(
        "big-homes-out", key_serde=STRING, value_serde=LONG
    )
    sums = named.reduce(operator.add, operator.sub, name="sums", key_serde=STRING, value_serde=LONG)
    sums.to_stream().to("sums-out", key_serde=STRING, value_serde=LONG)
    named.aggregate(
        int,
        lambda _, value, balance: balance + 2 * value,
        lambda _, value, balance: balance - value,
        node_name="balance",
        name="balances",
        key_serde=STRING,
        value_serde=LONG,
        caching=False,
    ).to_stream().to("balances-out", key_serde=STRING, value_serde=LONG)

    sums.group_by(
        lambda _, total: (f"digits-{len(str(total))}", total), key_serde=STRING, value_serde=LONG
    ).reduce(operator.add, operator.sub, key_serde=STRING, value_serde=LONG).to_stream().to(
        "sums-by-digits", key_serde=STRING, value_serde=LONG
    )
    return builder.build()


def _by_city_unless_huge(_key: str, value: str) -> tuple[Any, int]:
    return None if amount(value) >= 90 else city(value), amount(value)


def stream_table_joins(observations: Observations) -> Topology:
    builder = StreamsBuilder()
    orders: Stream = builder.stream("orders")
    people: Table = builder.table("people")

    orders.join(people, lambda order, person: f"{order} for {person}").to("joined")
    orders.left_join(people, lambda order, person: f"{or_dash(order)} for {or_dash(person)}").to(
        "left-joined"
    )
    orders.join(
        people,
        lambda key, order, person: f"{key}: {order} for {person}",
        with_key=True,
        name="with-key",
    ).to("joined-with-key")

    amounts = people.filter(lambda _, value: amount(value) >= 30).map_values(amount)
    orders.left_join(
        amounts,
        lambda key, _, value: f"{or_dash(key)} has {or_dash(value)}",
        with_key=True,
        name="read-through",
        key_serde=STRING,
    ).to("read-through")
    cities = people.map_values(city, name="cities")
    orders.join(cities, lambda order, home: f"{home}<{order}").to("in-city")

    by_city: Stream = orders.filter(lambda _, value: value is not None).select_key(
        lambda _, value: None if amount(value) % 7 == 0 else city(value)
    )
    countries: Table = builder.table("countries")
    by_city.join(countries, lambda order, country: f"{order} in {country}").to("in-country")
    by_city.left_join(
        countries,
        lambda order, country: f"{order} in {or_dash(country)}",
        key_serde=STRING,
        value_serde=STRING,
        other_value_serde=STRING,
        name="by-city",
    ).to("left-in-country")

    counts = orders.group_by_key().count(name="counts")
    orders.join(counts, lambda order, count: f"{order} #{count}").to("numbered")
    return builder.build()


def repartition_to_table(observations: Observations) -> Topology:
    builder = StreamsBuilder()
    source: Stream = builder.stream("input")

    source.repartition().map_values(
        lambda key, value: or_dash(key) + or_dash(value), with_key=True
    ).to("spread")
    by_city = source.select_key(
        lambda key, value: key if value is None else city(value)
    ).repartition(name="by-city", key_serde=STRING, value_serde=STRING, num_partitions=4)
    by_city.to("by-city-out")
    by_city.group_by_key().count(name="city-counts").to_stream().to(
        "city-counts-out", key_serde=STRING, value_serde=LONG
    )

    latest = by_city.to_table()
    observations.facts["latest"] = or_dash(latest.queryable_store_name)
    latest.to_stream().to("latest-out")
    stored = by_city.filter(lambda key, _: key != "Oslo").to_table(
        node_name="as-table", name="stored"
    )
    observations.facts["stored"] = or_dash(stored.queryable_store_name)
    stored.to_stream().to("stored-out")

    rekeyed = source.select_key(lambda key, _: None if key is None else f"{key}2").to_table()
    rekeyed.to_stream().to("rekeyed-out")
    without_bo: Stream = source.select_key(
        lambda key, _: None if key is None or key == "bo" else f"{key}3"
    )
    rekeyed_stored = without_bo.to_table(
        node_name="rekeyed-named", name="rekeyed-store", key_serde=STRING, value_serde=STRING
    )
    rekeyed_stored.map_values(lambda value: f"{value}?").to_stream().to("rekeyed-named-out")

    by_city.join(stored, lambda value, last: f"{value}|{last}").to("joined")
    by_city.repartition(num_partitions=4).left_join(
        latest, lambda value, last: f"{or_dash(value)}|{or_dash(last)}"
    ).to("left-joined")
    return builder.build()


def process_with_state(observations: Observations) -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(
        Stores.key_value_store_builder(Stores.persistent_key_value_store("totals"), STRING, LONG)
    )
    builder.add_state_store(
        Stores.timestamped_key_value_store_builder(
            Stores.persistent_timestamped_key_value_store("ticks"), STRING, LONG
        ).with_caching_enabled()
    )

    source: Stream = builder.stream("input")
    totals: Stream = source.process(Totals, name="totaller", stores=["totals", "ticks"])
    totals.filter(lambda _key, _value: True, name="updates").to(
        "updates-out", key_serde=STRING, value_serde=LONG
    )
    totals.filter(lambda _key, _value: True, name="summaries").to(
        "summaries-out", key_serde=STRING, value_serde=LONG
    )

    source.process_values(NumberingSupplier()).to("numbered-out")
    source.process(CityKey).group_by_key().count(node_name="cities").to_stream().to(
        "cities-out", key_serde=STRING, value_serde=LONG
    )
    return builder.build()


def processor_api(observations: Observations) -> Topology:
    text: dict[str, Any] = {"key_serde": STRING, "value_serde": STRING}
    prices = Stores.timestamped_key_value_store_builder(
        Stores.persistent_timestamped_key_value_store("prices-store"), STRING, LONG
    )
    seen = Stores.key_value_store_builder(
        Stores.in_memory_key_value_store("seen"), STRING, STRING
    ).with_logging_disabled()
    history = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("history"), STRING, LONG
    ).with_caching_enabled()

    def listing(_key: str, value: str | None, _record: RecordForRouting) -> str:
        return "listing-none" if value is None else f"listing-{len(value) % 2}"

    return (
        Topology()
        .add_source("prices-source", "prices", **text)
        .add_source("orders-source", "orders", "returns", **text)
        .add_processor("remember-price", RememberPrice, "prices-source")
        .add_processor("price-order", PriceOrder, "orders-source", "prices-source")
        .add_processor("list-history", ListHistory, "price-order")
        .add_state_store(prices, "remember-price", "price-order")
        .add_state_store(seen, "price-order")
        .add_state_store(history, "list-history")
        .add_sink("priced-sink", "priced", "price-order", key_serde=STRING, value_serde=LONG)
        .add_sink("first-sink", "first-orders", "price-order", key_serde=STRING, value_serde=LONG)
        .add_sink("listing-sink", listing, "list-history", **text)
        .add_source("notes-source", "notes", **text)
        .add_sink("notes-sink", "notes-copy", "notes-source", **text)
    )


def memory_and_serdes(observations: Observations) -> Topology:
    builder = StreamsBuilder()

    readings: Stream = builder.stream("readings", key_serde=INT, value_serde=DOUBLE)
    readings.group_by_key(key_serde=INT, value_serde=DOUBLE).reduce(
        operator.add, key_serde=INT, value_serde=DOUBLE, store_type=StoreEngine.IN_MEMORY
    ).to_stream().to("sums", key_serde=INT, value_serde=DOUBLE)
    readings.group_by_key(key_serde=INT, value_serde=DOUBLE).count(
        name="readings-count", store_type=StoreEngine.IN_MEMORY, logging=False
    ).to_stream().to("counts", key_serde=INT, value_serde=LONG)
    readings.map(lambda key, value: (value, key)).group_by_key(
        name="by-value", key_serde=DOUBLE, value_serde=INT
    ).aggregate(
        float,
        lambda value, key, total: total + (0 if key is None else key) + value,
        name="by-value-sums",
        store_type=StoreEngine.IN_MEMORY,
        key_serde=DOUBLE,
        value_serde=DOUBLE,
        caching=False,
    ).to_stream().to("by-value", key_serde=DOUBLE, value_serde=DOUBLE)

    documents: Table = builder.table(
        "documents",
        key_serde=UUID,
        value_serde=BYTES,
        materialized=Materialized(name="documents-store", store_type=StoreEngine.IN_MEMORY),
    )
    documents.map_values(
        len, name="lengths", key_serde=UUID, value_serde=INT, caching=False
    ).group_by(lambda _, length: (length % 3, length), key_serde=INT, value_serde=INT).reduce(
        operator.add,
        operator.sub,
        key_serde=INT,
        value_serde=INT,
        store_type=StoreEngine.IN_MEMORY,
    ).to_stream().to("lengths-out", key_serde=INT, value_serde=INT)
    documents.to_stream().to("documents-out", key_serde=UUID, value_serde=BYTES)
    return builder.build()


def named_nodes(observations: Observations) -> Topology:
    builder = StreamsBuilder()
    airlines: Table = builder.table(
        "airlines",
        consumed=Consumed(name="read-airlines", key_serde=STRING, value_serde=STRING),
        materialized=Materialized(name="airlines-store"),
    )
    flights: Stream = builder.stream("flights", name="read-flights")

    delays = (
        flights.peek(observations.see("peek"), name="look")
        .filter(lambda _, value: value is not None, name="present")
        .filter_not(lambda _, value: '"cancelled"' in value, name="flown")
        .select_key(lambda _, value: json.loads(value)["carrier"], name="carrier-key")
        .map_values(lambda value: json.loads(value)["delay"], name="delay")
    )
    delays.print(
        label="delays",
        file=observations.print_file,
        mapper=lambda key, value: f"{key} -> {value}",
        name="print-delays",
    )

    total = delays.group_by_key(
        name="delays-by-carrier", key_serde=STRING, value_serde=LONG
    ).reduce(
        operator.add,
        node_name="sum-delays",
        name="total-delays",
        key_serde=STRING,
        value_serde=LONG,
    )
    total.filter(lambda _, value: value > 50, node_name="late-carriers").to_stream(
        name="late-stream"
    ).to("late-carriers", name="write-late", key_serde=STRING, value_serde=LONG)
    total.map_values(
        lambda value: f"{value} min",
        node_name="in-minutes",
        name="minutes",
        key_serde=STRING,
        value_serde=STRING,
    ).to_stream(lambda key, _: f"{key}!", name="minutes-stream").to(
        "minutes-out", name="write-minutes", key_serde=STRING, value_serde=STRING
    )
    total.group_by(
        lambda _, value: ("late" if value >= 0 else "early", value),
        name="by-sign",
        key_serde=STRING,
        value_serde=LONG,
    ).count(node_name="count-signs", name="signs").to_stream(name="signs-stream").to(
        "signs-out", name="write-signs", key_serde=STRING, value_serde=LONG
    )

    rekeyed = delays.repartition(name="rekeyed", key_serde=STRING, value_serde=LONG)
    (
        rekeyed.left_join(
            airlines,
            lambda delay, airline: f"{or_dash(airline)}: {delay}",
            key_serde=STRING,
            value_serde=LONG,
            other_value_serde=STRING,
            name="name-carrier",
        )
        .flat_map_values(lambda value: [value, f"{value}?"], name="twice")
        .split(name="size-")
        .branch(
            lambda _, value: value.startswith("-"),
            name="unknown",
            chain=lambda unknown: unknown.to("unknown-carriers", name="write-unknown"),
        )
        .default_branch(
            name="known", chain=lambda known: known.to("known-carriers", name="write-known")
        )
    )
    as_text: Stream = rekeyed.map(lambda key, value: (key, str(value)), name="as-text")
    as_text.merge(flights, name="with-flights").flat_map(
        lambda key, value: [] if value is None else [(value, key)], name="swap"
    ).to_table(node_name="swapped", name="swapped-store")
    flights.foreach(observations.see("foreach"), name="end")
    return builder.build()


TOPOLOGIES: dict[str, Callable[[Observations], Topology]] = {
    function.__name__: function
    for function in (
        stateless,
        branches,
        repartitioned_counts,
        aggregations,
        tables,
        table_group_by,
        stream_table_joins,
        repartition_to_table,
        inner_stream_joins,
        left_stream_joins,
        outer_stream_joins,
        process_with_state,
        processor_api,
        transformed_tables,
        memory_and_serdes,
        named_nodes,
    )
}
