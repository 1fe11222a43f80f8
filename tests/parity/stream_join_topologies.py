"""The parity topologies that join two streams: see `topologies`, and the Java class of the name."""

from __future__ import annotations

from typing import Any

from pystreams import JoinWindows, KStream, StreamJoined, StreamsBuilder, Topology
from pystreams.serdes import LONG, STRING
from tests.parity.golden import Observations
from tests.parity.values import amount, city, or_dash

Stream = KStream[Any, Any]
around = JoinWindows.of_time_difference_and_grace


def plus(one: Any, other: Any) -> str:
    return f"{or_dash(one)}+{or_dash(other)}"


def key_and_plus(key: Any, one: Any, other: Any) -> str:
    return f"{or_dash(key)}:{plus(one, other)}"


def inner_stream_joins(observations: Observations) -> Topology:
    builder = StreamsBuilder()
    left: Stream = builder.stream("left")
    right: Stream = builder.stream("right")

    left.join(right, plus, around(3000, 2000)).to("joined")
    left.join(right, key_and_plus, around(1000, 0).before(4000).after(500), with_key=True).to(
        "joined-with-key"
    )
    left.join(
        right,
        plus,
        around(0, 700).after(2500).before(-200),
        name="afterwards",
        store_name="later",
    ).to("afterwards-out")
    left.join(right, plus, around(1500, 0), name="nodes").group_by_key().count(
        name="matches"
    ).to_stream().to("matches-out", key_serde=STRING, value_serde=LONG)
    left.join(left, lambda value, other: f"{value}&{other}", around(2000, 1000)).to("with-itself")

    by_city: Stream = right.filter(lambda _, value: value is not None).select_key(
        lambda _, value: None if amount(value) % 7 == 0 else city(value)
    )
    places: Stream = builder.stream("places")
    by_city.join(places, lambda value, place: f"{value}@{place}", around(2000, 0)).to("places-out")
    places.join(by_city, lambda place, one: f"{place}<{one}", around(1000, 500)).to("found")
    by_city.join(
        by_city.map_values(lambda value: f"{value}!"),
        lambda value, other: f"{value}{other}",
        around(800, 0),
        joined=StreamJoined(STRING, STRING, STRING, name="cities", store_name="cities"),
    ).to("cities-out")
    return builder.build()


def left_stream_joins(observations: Observations) -> Topology:
    builder = StreamsBuilder()
    left: Stream = builder.stream("left")
    right: Stream = builder.stream("right")

    left.left_join(right, plus, around(1500, 1000)).to("joined")
    left.left_join(
        right,
        key_and_plus,
        around(0, 0).before(3000),
        with_key=True,
        name="named",
        store_name="kept",
    ).to("named-out")
    left.left_join(right, plus, around(200, 2500).before(100).after(4000)).to("afterwards")
    left.left_join(right, plus, around(0, 0)).to("at-once")

    by_city: Stream = left.filter(lambda _, value: value is not None).select_key(
        lambda _, value: None if amount(value) % 5 == 0 else city(value)
    )
    places: Stream = builder.stream("places")
    by_city.left_join(
        places, lambda value, place: f"{value}@{or_dash(place)}", around(2000, 300)
    ).to("places-out")
    places.left_join(by_city, lambda place, one: f"{place}<{or_dash(one)}", around(900, 0)).to(
        "found"
    )
    return builder.build()


def outer_stream_joins(observations: Observations) -> Topology:
    builder = StreamsBuilder()
    left: Stream = builder.stream("left")
    right: Stream = builder.stream("right")

    left.outer_join(right, plus, around(1500, 1000)).to("joined")
    left.outer_join(
        right,
        key_and_plus,
        around(0, 0).before(3000),
        with_key=True,
        name="named",
        store_name="kept",
    ).to("named-out")
    left.outer_join(right, plus, around(200, 2500).before(100).after(4000)).to("afterwards")
    left.outer_join(right, plus, around(0, 6000)).to("at-one-time")
    left.outer_join(
        left, lambda value, other: f"{or_dash(value)}&{or_dash(other)}", around(400, 0)
    ).to("with-itself")

    by_city: Stream = left.filter(lambda _, value: value is not None).select_key(
        lambda _, value: None if amount(value) % 5 == 0 else city(value)
    )
    places: Stream = builder.stream("places")
    by_city.outer_join(
        places,
        lambda value, place: f"{or_dash(value)}@{or_dash(place)}",
        around(2000, 300),
        name="by-place",
    ).to("places-out")
    return builder.build()
