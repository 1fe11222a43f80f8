"""What `TopologyTestDriver(..., trace=...)` tells of each record."""

from __future__ import annotations

from typing import Any

import pytest

from pystreams import JoinWindows, StreamsBuilder, TimeWindows, Topology
from pystreams.serdes import LONG, STRING
from pystreams.testing import Hop, StateChange, TopologyTestDriver, TraceEvent, Written

CONFIG: dict[str, Any] = {"statestore.cache.max.bytes": 0, "default.key.serde": "string"}


def counted_by_value() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("words", value_serde=STRING).filter(lambda _, value: value != "the")
    counts = stream.group_by(lambda _, value: value).count(name="counts")
    counts.to_stream().to("totals", value_serde=LONG)
    return builder.build()


def traced(topology: Topology, *records: tuple[str, str, int]) -> list[TraceEvent]:
    events: list[TraceEvent] = []
    with TopologyTestDriver(topology, CONFIG, trace=events.append) as driver:
        words = driver.create_input_topic("words", STRING, STRING)
        for key, value, timestamp in records:
            words.pipe_input(key, value, timestamp)
    return events


def test_every_node_that_takes_a_record_is_told_below_the_one_that_forwards_it() -> None:
    hops = [hop for hop in traced(counted_by_value(), ("1", "sea", 5)) if isinstance(hop, Hop)]

    assert [hop.node.split("-00")[0] for hop in hops] == [
        "KSTREAM-SOURCE",
        "KSTREAM-FILTER",
        "KSTREAM-KEY-SELECT",
        "counts-repartition-filter",
        "counts-repartition-sink",
        "counts-repartition-source",
        "KSTREAM-AGGREGATE",
        "KTABLE-TOSTREAM",
        "KSTREAM-SINK",
    ]
    assert [hop.depth for hop in hops] == [0, 1, 2, 3, 4, 0, 1, 2, 3]
    assert [hop.parent for hop in hops[1:5]] == [hop.node for hop in hops[:4]]
    assert [hop.key for hop in hops] == ["1", "1", "1", *["sea"] * 6]
    assert (hops[5].parent, hops[8].value, hops[8].timestamp) == (None, 1, 5)


def test_what_a_filter_drops_ends_there() -> None:
    last = traced(counted_by_value(), ("1", "the", 5))[-1]

    assert isinstance(last, Hop)
    assert last.node.startswith("KSTREAM-FILTER")


def test_a_change_of_state_is_told_with_what_was_there() -> None:
    events = traced(counted_by_value(), ("1", "sea", 5), ("2", "sea", 7))
    changes = [event for event in events if isinstance(event, StateChange)]

    assert changes == [
        StateChange("counts", "sea", {}, None, 1, 5),
        StateChange("counts", "sea", {}, 1, 2, 7),
    ]


def test_the_times_of_a_window_are_told_beside_its_key() -> None:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(10)
    stream = builder.stream("words", value_serde=STRING).group_by_key()
    stream.windowed_by(windows).count(name="counts")
    changes = [
        event for event in traced(builder.build(), ("a", "sea", 25)) if "old" in event._fields
    ]

    assert changes == [
        StateChange("counts", "a", {"window_start": 20, "window_end": 30}, None, 1, 25)
    ]


def test_what_an_outer_join_holds_back_is_told_with_its_time_and_side() -> None:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, value_serde=STRING) for topic in ("left", "words"))
    windows = JoinWindows.of_time_difference_with_no_grace(10)
    left.outer_join(right, lambda *_: "never", windows, store_name="meeting")
    events = traced(builder.build(), ("k", "sea", 5), ("k", "sky", 5))
    held_back = "meeting-outer-shared-join-store"
    changes = [event for event in events if isinstance(event, StateChange)]

    sea, sky = (False, "sea"), (False, "sky")
    assert [change for change in changes if change.store == held_back] == [
        StateChange(held_back, (5, False, "k"), {}, None, [sea], 5),
        StateChange(held_back, (5, False, "k"), {}, [sea], [sea, sky], 5),
    ]


def test_records_for_topics_are_told_as_their_serdes_read_them() -> None:
    events = traced(counted_by_value(), ("1", "sea", 5))
    written = [event for event in events if isinstance(event, Written)]

    assert written == [
        Written("test-driver-counts-repartition", "sea", "sea", 5, ()),
        Written("totals", "sea", 1, 5, ()),
    ]


def test_print_shows_a_readable_tree(capsys: pytest.CaptureFixture[str]) -> None:
    topology = Topology()
    topology.add_source("in", "words", key_serde=STRING, value_serde=STRING)
    topology.add_sink("out", "copies", "in", key_serde=STRING, value_serde=STRING)
    with TopologyTestDriver(topology, CONFIG, trace=print) as driver:
        driver.pipe_raw("words", b"a", b"sea", 3)

    assert (
        capsys.readouterr().out
        == "in: a, sea at 3\n  out: a, sea at 3\n  topic copies: a, sea at 3\n"
    )


def test_what_stores_begin_with_is_counted_on_and_told_as_what_was_there() -> None:
    events: list[TraceEvent] = []
    with TopologyTestDriver(counted_by_value(), CONFIG, trace=events.append) as driver:
        driver.restore_stores({"counts": [(b"sea", LONG.serializer("")(41), 3, ())]})
        driver.pipe_raw("words", b"1", b"sea", 5)
        store = driver.get_key_value_store("counts")

        assert store.get("sea") == 42
    assert StateChange("counts", "sea", {}, 41, 42, 5) in events


def test_tracing_changes_nothing_of_what_is_written() -> None:
    records = [(str(number), "sea" if number % 3 else "the", number) for number in range(20)]
    outputs = []
    for trace in (None, lambda _: None):
        with TopologyTestDriver(counted_by_value(), CONFIG, trace=trace) as driver:
            for key, value, timestamp in records:
                driver.pipe_raw("words", key.encode(), value.encode(), timestamp)
            outputs.append(driver.produced_raw("totals"))

    assert outputs[0] == outputs[1] != []
