"""Topologies with sub-topologies that read what they have written, themselves or through others."""

from __future__ import annotations

import asyncio

from pystreams import StreamsBuilder, Topology
from tests.backfill.table_topologies import TEXT


def numbered(value: str, count: int) -> str:
    return f"{value}: {count}"


def repartitioned() -> Topology:
    """Orders with a key of their own, and how many of it there are.

    `map` keeps the key here, but a repartition follows, as in Kafka Streams.
    """
    builder = StreamsBuilder()
    orders = builder.stream("orders", **TEXT)
    counts = orders.group_by_key(**TEXT).count(name="counts")
    upper = orders.map(lambda key, value: (key, (value or "none").upper()))
    upper.join(counts, numbered, **TEXT).to("numbered", **TEXT)
    return builder.build()


def read_again(topic: str = "alerts") -> Topology:
    """Some orders go through a topic."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", **TEXT)
    counts = orders.group_by_key(**TEXT).count(name="counts")
    orders.filter(lambda _, value: value == "tea").to(topic, **TEXT)
    builder.stream(topic, **TEXT).join(counts, numbered).to("numbered", **TEXT)
    return builder.build()


def read_again_before() -> Topology:
    """The topic's name comes before that of the orders."""
    return read_again("alerts")


def read_again_behind() -> Topology:
    """The topic's name comes behind that of the orders."""
    return read_again("z-alerts")


def through_another() -> Topology:
    """Another sub-topology makes of them what comes back."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", **TEXT)
    counts = orders.group_by_key(**TEXT).count(name="counts")
    orders.filter(lambda _, value: value == "tea").to("middle", **TEXT)
    builder.stream("middle", **TEXT).map_values(str.upper).to("alerts", **TEXT)
    builder.stream("alerts", **TEXT).join(counts, numbered).to("numbered", **TEXT)
    return builder.build()


def read_twice() -> Topology:
    """What is made of a topic's records goes through another one, whose name comes before it."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", **TEXT)
    counts = orders.group_by_key(**TEXT).count(name="counts")
    orders.filter(lambda _, value: value == "tea").to("b-alerts", **TEXT)
    alerts = builder.stream("b-alerts", **TEXT)
    of_alerts = alerts.group_by_key(**TEXT).count(name="of-alerts")
    alerts.join(counts, numbered).to("alerts", **TEXT)
    builder.stream("alerts", **TEXT).join(of_alerts, numbered).to("numbered", **TEXT)
    return builder.build()


async def asked(value: str) -> str:
    await asyncio.sleep(0)
    return value


def held_back() -> Topology:
    """Operators hold records back on their way to the topic."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", **TEXT)
    counts = orders.group_by_key(**TEXT).count(name="counts")
    answered = orders.map_values_async(asked, max_in_flight=4)
    batched = answered.map_values_batch(list, max_batch=3)
    batched.filter(lambda _, value: value == "tea").to("alerts", **TEXT)
    builder.stream("alerts", **TEXT).join(counts, numbered).to("numbered", **TEXT)
    return builder.build()


def own_records() -> Topology:
    """A repartitioned stream and a topic in the middle, both joined with a table of their own."""
    builder = StreamsBuilder()
    left = builder.stream("left", **TEXT)
    counts = left.group_by_key(**TEXT).count(name="counts")
    upper = left.map(lambda key, value: (key, (value or "none").upper()))
    upper.join(counts, numbered, **TEXT).to("numbered", **TEXT)
    left.filter(lambda _, value: value in ("v1", "v2")).to("alerts", **TEXT)
    alerts = builder.stream("alerts", **TEXT)
    alerts.join(counts, numbered).to("alerted", **TEXT)
    return builder.build()
