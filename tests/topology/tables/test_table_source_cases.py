"""Tables that are read from topics, update by update. Source: Kafka's `KTableSourceTest`."""

from __future__ import annotations

from typing import Any

import pytest

from pystreams import StreamsBuilder
from pystreams.serdes import STRING


@pytest.mark.parametrize("name", [None, "rows"], ids=["computed", "kept"])
def test_an_update_that_says_the_same_again_goes_on_with_its_time(
    builder: StreamsBuilder, drive: Any, name: str | None
) -> None:
    builder.table("in", name=name).to_stream().to("out")
    driver = drive(statestore_cache_max_bytes=0)
    rows = driver.create_input_topic("in", STRING, STRING)

    for value, timestamp in (("x", 10), ("x", 12), ("x", 9), (None, 13), (None, 14)):
        rows.pipe_input("a", value, timestamp=timestamp)

    out = driver.create_output_topic("out", STRING, STRING).read_records()
    assert [(each.value, each.timestamp) for each in out] == [
        ("x", 10),
        ("x", 12),
        ("x", 9),
        (None, 13),
        (None, 14),
    ]


@pytest.mark.parametrize("late", [False, True], ids=["in order", "late"])
def test_what_looks_into_a_table_finds_its_last_update_late_or_not(
    builder: StreamsBuilder, drive: Any, late: bool
) -> None:
    table = builder.table("in")
    builder.stream("looks").left_join(table, lambda _, row: f"{row}").to("out")
    driver = drive()
    rows = driver.create_input_topic("in", STRING, STRING)
    looks = driver.create_input_topic("looks", STRING, STRING)

    rows.pipe_input("a", "first", timestamp=10)
    looks.pipe_input("a", "?", timestamp=10)
    rows.pipe_input("a", "second", timestamp=5 if late else 15)
    looks.pipe_input("a", "?", timestamp=20)
    rows.pipe_input("a", None, timestamp=3 if late else 20)
    looks.pipe_input("a", "?", timestamp=21)

    out = driver.create_output_topic("out", STRING, STRING)
    assert [value for _, value in out.read_key_values()] == ["first", "second", "None"]


def test_old_values_are_what_was_there_before_late_or_not(
    builder: StreamsBuilder, drive: Any
) -> None:
    names = builder.table("in").group_by(lambda key, value: ("all", f"{key}{value}"))
    names.aggregate(
        str,
        lambda _, row, seen: f"{seen}+{row}",
        lambda _, row, seen: f"{seen}-{row}",
        value_serde=STRING,
    ).to_stream().to("out", key_serde=STRING, value_serde=STRING)
    driver = drive(statestore_cache_max_bytes=0)
    rows = driver.create_input_topic("in", STRING, STRING)

    for value, timestamp in (("1", 10), ("2", 8), ("3", 12), (None, 15), ("4", 9)):
        rows.pipe_input("a", value, timestamp=timestamp)

    out = driver.create_output_topic("out", STRING, STRING)
    assert out.read_key_values()[-1] == ("all", "+a1-a1+a2-a2+a3-a3+a4")
