"""Joins by a foreign key, record by record: what each makes, and what the result keeps.

Source: Kafka's `KTableKTableForeignKeyJoinIntegrationTest`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from pystreams import KTable, Materialized, StreamsBuilder
from pystreams.serdes import STRING
from pystreams.testing import TestInputTopic, TestOutputTopic, TopologyTestDriver

LEFT, RIGHT = "left", "right"
HISTORY_MS = 300_000
Rows = dict[str, str | None]


def table_of(builder: StreamsBuilder, topic: str, *, versioned: bool) -> KTable[str, str]:
    kept = Materialized[str, str](name=topic, history_retention_ms=HISTORY_MS)
    return builder.table(
        topic, key_serde=STRING, value_serde=STRING, materialized=kept if versioned else None
    )


def named_in(value: str) -> str | None:
    """Return the foreign key behind the bar; "none" is none."""
    name = value.partition("|")[2]
    return None if name == "none" else name


@dataclass
class Running:
    """A join that runs.

    Attributes:
        left: Whether it is a left join.
        kept: Whether its result is kept in "joined".
        again: Whether the result is joined with the left table once more.
    """

    driver: TopologyTestDriver
    left: bool
    kept: bool
    again: bool

    def pipe(
        self, topic: str, key: str, value: str | None, timestamp: int
    ) -> tuple[Rows, Rows, Rows]:
        """Return what comes of a record: of the join, of the second one, and what is kept."""
        pipe: TestInputTopic[str, str] = self.driver.create_input_topic(topic, STRING, STRING)
        pipe.pipe_input(key, value, timestamp=timestamp)
        outputs: list[TestOutputTopic[str, str]] = [
            self.driver.create_output_topic(name, STRING, STRING) for name in ("out", "again")
        ]
        made, again = (each.read_key_values() for each in outputs)
        return (
            once(made),
            dict(again),
            dict(self.driver.get_key_value_store("joined").all()) if self.kept else {},
        )

    def expect(
        self, topic: str, key: str, value: str | None, timestamp: int, inner: Rows, left: Rows
    ) -> None:
        """Pipe a record; see that it makes these rows, and that the kept ones follow."""
        expected = left if self.left else inner
        before = dict(self.driver.get_key_value_store("joined").all()) if self.kept else {}

        made, _, kept = self.pipe(topic, key, value, timestamp)

        assert made == expected
        if self.kept:
            assert kept == {
                row: joined for row, joined in (before | expected).items() if joined is not None
            }


def once(records: list[tuple[str, str | None]]) -> Rows:
    """Return the records' rows, none of which came twice."""
    rows = dict(records)
    assert len(rows) == len(records)
    return rows


@contextmanager
def running(join: Join) -> Iterator[Running]:
    builder = StreamsBuilder()
    left = table_of(builder, LEFT, versioned=join.left_versioned)
    right = table_of(builder, RIGHT, versioned=join.right_versioned)
    options: Any = {"name": "joined"} if join.kept else {}
    method = left.left_join if join.left else left.join
    joined: KTable[str, str] = method(
        right,
        lambda row, other: f"({row},{other})",
        foreign_key=named_in,
        value_serde=STRING,
        **options,
    )
    joined.to_stream().to("out", key_serde=STRING, value_serde=STRING)
    if join.again:
        joined.join(left, lambda row, other: f"again({row},{other})").to_stream().to(
            "again", key_serde=STRING, value_serde=STRING
        )
    with TopologyTestDriver(builder.build(), {"statestore.cache.max.bytes": 0}) as driver:
        yield Running(driver, join.left, join.kept, join.again)


@dataclass(frozen=True)
class Join:
    """A way to declare the join."""

    left: bool
    kept: bool
    again: bool
    left_versioned: bool
    right_versioned: bool

    def __str__(self) -> str:
        chosen = [name for name, value in vars(self).items() if value]
        return "-".join(chosen) or "inner"


JOINS = [
    Join(left, kept, again, *versioned)
    for left in (False, True)
    for kept in (False, True)
    for again in (False, True)
    for versioned in ((False, False), (True, False), (False, True), (True, True))
]
every_join = pytest.mark.parametrize("join", JOINS, ids=str)
left_joins = pytest.mark.parametrize("join", [join for join in JOINS if join.left], ids=str)
joined_again = pytest.mark.parametrize("join", [join for join in JOINS if join.again], ids=str)
of_one_kind = pytest.mark.parametrize(
    "join", [join for join in JOINS if join.left_versioned == join.right_versioned], ids=str
)


@every_join
def test_left_rows_come_and_one_is_deleted(join: Join) -> None:
    with running(join) as run:
        for number in (1, 2, 3):
            run.expect(RIGHT, f"r{number}", f"R{number}", number, {}, {})
        run.expect(LEFT, "l1", "L1|r1", 4, {"l1": "(L1|r1,R1)"}, {"l1": "(L1|r1,R1)"})
        run.expect(LEFT, "l2", "L2|r2", 5, {"l2": "(L2|r2,R2)"}, {"l2": "(L2|r2,R2)"})
        run.expect(LEFT, "l3", "L3|r1", 6, {"l3": "(L3|r1,R1)"}, {"l3": "(L3|r1,R1)"})
        run.expect(LEFT, "l1", None, 7, {"l1": None}, {"l1": None})


@every_join
def test_right_rows_come_and_one_is_deleted(join: Join) -> None:
    with running(join) as run:
        run.expect(LEFT, "l1", "L1|r1", 1, {}, {"l1": "(L1|r1,None)"})
        run.expect(LEFT, "l2", "L2|r2", 2, {}, {"l2": "(L2|r2,None)"})
        run.expect(LEFT, "l3", "L3|r1", 3, {}, {"l3": "(L3|r1,None)"})
        rows: Rows = {"l1": "(L1|r1,R1)", "l3": "(L3|r1,R1)"}
        run.expect(RIGHT, "r1", "R1", 4, rows, rows)
        run.expect(RIGHT, "r2", "R2", 5, {"l2": "(L2|r2,R2)"}, {"l2": "(L2|r2,R2)"})
        run.expect(RIGHT, "r3", "R3", 6, {}, {})
        run.expect(
            RIGHT,
            "r1",
            None,
            7,
            {"l1": None, "l3": None},
            {"l1": "(L1|r1,None)", "l3": "(L3|r1,None)"},
        )


@every_join
def test_a_row_that_was_joined_with_nothing_is_deleted_downstream_all_the_same(join: Join) -> None:
    with running(join) as run:
        run.expect(LEFT, "l1", "L1|r1", 1, {}, {"l1": "(L1|r1,None)"})
        run.expect(LEFT, "l1", None, 2, {"l1": None}, {"l1": None})
        run.expect(LEFT, "l1", None, 3, {}, {})


@every_join
def test_a_deletion_of_a_row_that_never_was_makes_nothing(join: Join) -> None:
    with running(join) as run:
        run.expect(LEFT, "l1", None, 1, {}, {})


@every_join
def test_a_row_that_names_rows_which_are_not_there(join: Join) -> None:
    with running(join) as run:
        run.expect(LEFT, "l1", "L1|r1", 1, {}, {"l1": "(L1|r1,None)"})
        # Nobody knows whether the former row was there: the result is deleted in any case.
        run.expect(LEFT, "l1", "L1|r2", 2, {"l1": None}, {"l1": "(L1|r2,None)"})
        run.expect(LEFT, "l1", "L1|r3", 3, {"l1": None}, {"l1": "(L1|r3,None)"})
        run.expect(RIGHT, "r1", "R1", 4, {}, {})
        run.expect(LEFT, "l1", "L1|r1", 5, {"l1": "(L1|r1,R1)"}, {"l1": "(L1|r1,R1)"})
        run.expect(LEFT, "l1", "L1|r2", 6, {"l1": None}, {"l1": "(L1|r2,None)"})


@every_join
def test_a_row_hears_no_more_of_the_row_that_it_named_before(join: Join) -> None:
    with running(join) as run:
        run.expect(RIGHT, "r1", "R1", 1, {}, {})
        run.expect(RIGHT, "r2", "R2", 2, {}, {})
        run.expect(LEFT, "l1", "L1|r1", 3, {"l1": "(L1|r1,R1)"}, {"l1": "(L1|r1,R1)"})
        run.expect(LEFT, "l1", "L1|r2", 4, {"l1": "(L1|r2,R2)"}, {"l1": "(L1|r2,R2)"})
        run.expect(RIGHT, "r1", "R1 again", 5, {}, {})


@every_join
def test_a_row_that_names_another_one_and_then_the_first_again(join: Join) -> None:
    with running(join) as run:
        run.expect(RIGHT, "r1", "R1", 1, {}, {})
        run.expect(RIGHT, "r2", "R2", 2, {}, {})
        for timestamp, name in ((4, 1), (6, 2), (7, 1)):
            rows: Rows = {"l1": f"(L1|r{name},R{name})"}
            run.expect(LEFT, "l1", f"L1|r{name}", timestamp, rows, rows)
        run.expect(RIGHT, "r2", "R2 again", 8, {}, {})
        rows = {"l1": "(L1|r1,R1 again)"}
        run.expect(RIGHT, "r1", "R1 again", 9, rows, rows)


@left_joins
def test_a_row_that_names_none_is_joined_with_none_and_no_longer_subscribed(join: Join) -> None:
    with running(join) as run:
        subscriptions = run.driver.get_all_state_stores()[
            next(name for name in run.driver.get_all_state_stores() if "SUBSCRIPTION" in name)
        ]
        run.expect(LEFT, "l1", "L1|r1", 1, {}, {"l1": "(L1|r1,None)"})
        assert len(list(subscriptions.all())) == 1  # type: ignore[attr-defined]
        run.expect(LEFT, "l1", "L1|none", 2, {}, {"l1": "(L1|none,None)"})
        assert list(subscriptions.all()) == []  # type: ignore[attr-defined]


@joined_again
def test_the_result_can_be_joined_again(join: Join) -> None:
    with running(join) as run:
        run.pipe(RIGHT, "r1", "R1", 1)
        _, again, _ = run.pipe(LEFT, "l1", "L1|r1", 2)
        assert again == {"l1": "again((L1|r1,R1),L1|r1)"}
        _, again, _ = run.pipe(LEFT, "l1", None, 3)
        assert again == {"l1": None}


@of_one_kind
def test_late_records_are_passed_over_by_versioned_tables_alone(join: Join) -> None:
    versioned = join.left_versioned
    with running(join) as run:
        run.expect(RIGHT, "r1", "R1", 5, {}, {})
        run.expect(LEFT, "l1", "L1|r1", 4, {"l1": "(L1|r1,R1)"}, {"l1": "(L1|r1,R1)"})
        run.expect(LEFT, "l2", "L2|r1", 6, {"l2": "(L2|r1,R1)"}, {"l2": "(L2|r1,R1)"})
        late: Rows = {} if versioned else {"l2": "(late|r1,R1)"}
        run.expect(LEFT, "l2", "late|r1", 3, late, late)
        second = "L2" if versioned else "late"
        rows: Rows = {} if versioned else {"l1": "(L1|r1,late)", "l2": f"({second}|r1,late)"}
        run.expect(RIGHT, "r1", "late", 2, rows, rows)
        rows = {"l1": "(L1|r1,new)", "l2": f"({second}|r1,new)"}
        run.expect(RIGHT, "r1", "new", 7, rows, rows)
