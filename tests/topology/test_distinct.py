"""Repeated records are dropped within a time, by key or by what a function tells apart."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams import StreamsBuilder, Topology, TopologyError
from pystreams.serdes import JSON, STRING
from pystreams.testing import TopologyTestDriver

Sent = tuple[str | None, Any, int]
"""(key, value, timestamp in ms)."""


def distinct(**options: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=STRING, value_serde=JSON)
    stream.distinct(**options).to("out")
    return builder.build()


def run(topology: Topology, *records: Sent, directory: Path | None = None) -> list[Sent]:
    with TopologyTestDriver(
        topology, {"application.id": "app"}, state_directory=directory
    ) as driver:
        return piped(driver, *records)


def piped(driver: TopologyTestDriver, *records: Sent) -> list[Sent]:
    source = driver.create_input_topic("in", STRING, JSON)
    for key, value, timestamp in records:
        source.pipe_input(key, value, timestamp)
    found = driver.create_output_topic("out", STRING, JSON).read_records()
    return [(record.key, record.value, record.timestamp) for record in found]


def test_a_key_is_handed_on_once_within_the_time() -> None:
    found = run(
        distinct(within_ms=10),
        ("a", 1, 0),
        ("a", 2, 10),
        ("b", 3, 10),
        ("a", 4, 11),
        ("a", 5, 12),
    )

    assert found == [("a", 1, 0), ("b", 3, 10), ("a", 4, 11)]


def test_what_was_dropped_prolongs_nothing() -> None:
    every_six = [("a", number, 6 * number) for number in range(6)]

    found = run(distinct(within_ms=10), *every_six)

    assert [value for _, value, _ in found] == [0, 2, 4]


def test_a_record_out_of_order_repeats_a_newer_one_too() -> None:
    found = run(
        distinct(within_ms=10, grace_period_ms=100),
        ("a", "new", 100),
        ("a", "ten before", 90),
        ("a", "eleven before", 89),
    )

    assert [value for _, value, _ in found] == ["new", "eleven before"]


def test_a_late_record_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    topology = distinct(within_ms=9, grace_period_ms=5)

    found = run(topology, ("a", 1, 1_000), ("b", 2, 986), ("c", 3, 985))

    assert found == [("a", 1, 1_000), ("b", 2, 986)]
    assert "late" in caplog.text


def test_records_of_one_key_are_told_apart_by_a_function() -> None:
    topology = distinct(within_ms=10, by=lambda key, order: order["id"])

    found = run(
        topology,
        ("a", {"id": 1}, 0),
        ("a", {"id": 2}, 1),
        ("b", {"id": 1}, 2),
        ("a", {"id": 1}, 3),
    )

    assert found == [("a", {"id": 1}, 0), ("a", {"id": 2}, 1), ("b", {"id": 1}, 2)]


def test_a_record_that_the_function_does_not_tell_is_handed_on() -> None:
    topology = distinct(within_ms=10, by=lambda key, order: order.get("id"))

    assert len(run(topology, ("a", {}, 0), ("a", {}, 1))) == 2


def test_records_without_a_value_are_records() -> None:
    found = run(distinct(within_ms=10), ("a", None, 0), ("a", None, 1), ("a", None, 30))

    assert found == [("a", None, 0), ("a", None, 30)]


def test_a_record_without_a_key_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    assert run(distinct(within_ms=10), (None, 1, 0)) == []
    assert "null key" in caplog.text


def test_headers_and_timestamps_are_handed_on(builder: StreamsBuilder, drive: Any) -> None:
    builder.stream("in").distinct(within_ms=10).to("out")
    driver = drive()

    driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v", 7, (("h", b"1"),))

    [record] = driver.create_output_topic("out", STRING, STRING).read_records()
    assert (record.timestamp, record.headers) == (7, (("h", b"1"),))


def test_new_keys_go_through_a_repartition_topic(builder: StreamsBuilder, drive: Any) -> None:
    words = builder.stream("in", key_serde=STRING, value_serde=STRING)
    words.select_key(lambda key, value: value).distinct(
        within_ms=10, key_serde=STRING, name="once"
    ).to("out")
    driver = drive()
    source = driver.create_input_topic("in", STRING, STRING)

    for key in "abc":
        source.pipe_input(key, "same", 0)

    assert driver.create_output_topic("out", STRING, STRING).read_key_values() == [("same", "same")]
    assert list(builder.build().repartition_topics) == ["once-repartition"]


def test_its_names_are_numbered_or_the_users(builder: StreamsBuilder) -> None:
    stream = builder.stream("in")
    stream.distinct(within_ms=10).distinct(within_ms=10, name="again")

    topology = builder.build()

    assert list(topology.stores) == ["KSTREAM-DISTINCT-0000000001-store", "again-store"]
    assert set(topology.nodes) >= {"KSTREAM-DISTINCT-0000000001", "again"}


def test_what_it_keeps_expires_by_itself() -> None:
    hour = 3_600_000
    with TopologyTestDriver(distinct(within_ms=hour), {"application.id": "app"}) as driver:
        records = [(f"k{number}", number, number * 60_000) for number in range(1_000)]

        assert len(piped(driver, *records)) == 1_000

        kept = list(driver.get_window_store("KSTREAM-DISTINCT-0000000001-store").all())
        assert len(kept) < 5 * 60


def test_a_function_that_fails_is_the_nodes_error() -> None:
    with pytest.raises(Exception, match="KSTREAM-DISTINCT-0000000001"):
        run(distinct(within_ms=1, by=lambda key, value: value["id"]), ("a", {}, 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"within_ms": -1}, "within_ms must be a whole number of 0 or more ms, not -1"),
        ({"within_ms": 1.5}, "within_ms must be a whole number"),
        ({"within_ms": 1, "grace_period_ms": "1"}, "grace_period_ms must be a whole number"),
        ({"within_ms": 1, "by": lambda value: value}, r"distinct calls its function with \(key, v"),
        ({"within_ms": 1, "by": "id"}, "distinct takes a function of"),
    ],
)
def test_wrong_options_are_refused(options: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        distinct(**options)


def test_a_missing_key_serde_is_told(builder: StreamsBuilder) -> None:
    builder.stream("in", key_serde=STRING, value_serde=JSON).map(
        lambda key, value: (value, key)
    ).distinct(within_ms=1)

    with pytest.raises(
        TopologyError, match=r"distinct\(\.\.\.\) at .* Give key_serde=\.\.\. to dis"
    ):
        TopologyTestDriver(builder.build(), {"application.id": "app"})


# ---------------------------------------------------------------------- a model

WITHIN_MS, GRACE_MS = 7, 12
RECORDS = st.lists(
    st.tuples(st.sampled_from("ab"), st.none(), st.integers(0, 80)), min_size=1, max_size=30
)


def model(records: list[Sent]) -> list[Sent]:
    """What is handed on, from the whole history of what was."""
    found: list[Sent] = []
    for record in records:
        key, _, timestamp = record
        newest = max((sent for _, _, sent in found), default=-1)
        stream_time = newest - newest % (WITHIN_MS + 1)
        late = timestamp < stream_time - WITHIN_MS - GRACE_MS
        repeats = any(
            key == other and abs(timestamp - sent) <= WITHIN_MS for other, _, sent in found
        )
        if not late and not repeats:
            found.append(record)
    return found


@pytest.mark.property
@settings(deadline=None, max_examples=60)
@given(records=RECORDS)
def test_it_answers_as_if_all_was_kept(records: list[Sent]) -> None:
    topology = distinct(within_ms=WITHIN_MS, grace_period_ms=GRACE_MS)

    assert run(topology, *records) == model(records)


@pytest.mark.property
@settings(deadline=None, max_examples=15)
@given(records=RECORDS, cut=st.integers(0, 30))
def test_a_restart_changes_nothing(
    records: list[Sent], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("state")
    topology = distinct(within_ms=WITHIN_MS, grace_period_ms=GRACE_MS)

    before = run(topology, *records[:cut], directory=directory)
    after = run(topology, *records[cut:], directory=directory)

    assert before + after == model(records)
