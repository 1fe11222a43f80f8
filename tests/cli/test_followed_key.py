"""Which events `pystreams replay --key` shows."""

from __future__ import annotations

import click
import pytest

from pystreams import EmitStrategy, StreamsBuilder, StreamsConfig, TimeWindows, Topology
from pystreams.cli.application.followed_key import FollowedKey
from pystreams.serdes import BYTES, INT, STRING
from pystreams.testing import TopologyTestDriver, TraceEvent
from pystreams.topology.plan.topology_plan import TopologyPlan

CONFIG = StreamsConfig.of(
    {
        "application.id": "app",
        "bootstrap.servers": "none:1",
        "statestore.cache.max.bytes": 0,
        "window.emit.interval.ms": 0,
        "default.key.serde": "string",
    }
)


def final_counts() -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("in", value_serde=STRING).group_by_key()
    windows = groups.windowed_by(TimeWindows.of_size_with_no_grace(10))
    counts = windows.emit_strategy(EmitStrategy.on_window_close()).count(name="counts")
    counts.to_stream(lambda key, _: f"{key.key} is final").to("out")
    return builder.build()


def under_the_other_key() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", value_serde=STRING).group_by(lambda _, value: value)
    stream.count(name="counts")
    return builder.build()


def shown(topology: Topology, key: str, *records: tuple[str, str, int]) -> list[list[str]]:
    """What is shown of each record: of each event its node, store or topic."""
    followed = FollowedKey(TopologyPlan(topology, "app"), CONFIG, key, ["in"])
    events: list[TraceEvent] = []
    names = []
    with TopologyTestDriver(topology, CONFIG, trace=events.append) as driver:
        for own, value, timestamp in records:
            events.clear()
            followed.takes("in", own.encode())
            driver.pipe_raw("in", own.encode(), value.encode(), timestamp)
            names.append(
                [f"{event[0]}".split("-0")[0] for event in events if followed.follows(event)]
            )
    return names


def test_all_that_a_record_of_the_key_sets_off_is_shown_and_nothing_of_others() -> None:
    names = shown(final_counts(), "a", ("a", "x", 1), ("b", "x", 2))

    assert names == [["KSTREAM-SOURCE", "KSTREAM-AGGREGATE", "counts"], []]


def test_the_result_of_the_key_is_shown_with_the_record_that_closes_its_window() -> None:
    names = shown(final_counts(), "a", ("a", "x", 1), ("b", "x", 2), ("b", "x", 30))

    # Its window, and what becomes of it; not that of the other key, closed by the same record.
    assert names[1:] == [[], ["KTABLE-TOSTREAM", "KSTREAM-KEY-SELECT", "KSTREAM-SINK", "out"]]


def test_a_record_that_gets_such_a_key_on_its_way_is_shown_from_the_repartition_topic_on() -> None:
    names = shown(under_the_other_key(), "a", ("b", "a", 1), ("a", "b", 2), ("b", "c", 3))

    assert names[0] == ["counts-repartition-source", "KSTREAM-AGGREGATE", "counts"]
    assert names[1][0] == "KSTREAM-SOURCE"
    assert names[1][-1] == "counts"
    assert names[2] == []


def test_bytes_that_are_no_text_are_given_as_they_are_shown() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key_serde=BYTES, value_serde=STRING).to("out", key_serde=BYTES)
    plan = TopologyPlan(builder.build(), "app")

    followed = FollowedKey(plan, CONFIG, '{"base64": "AP8="}', ["in"])

    assert followed.takes("in", b"\x00\xff")
    assert not followed.takes("in", b'{"base64": "AP8="}')


def test_a_key_that_fits_no_topic_is_refused() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key_serde=INT, value_serde=STRING).to("out", key_serde=INT)
    plan = TopologyPlan(builder.build(), "app")

    with pytest.raises(click.UsageError, match="no topic has such keys; topic 'in': 'a' does not"):
        FollowedKey(plan, CONFIG, "a", ["in"])
