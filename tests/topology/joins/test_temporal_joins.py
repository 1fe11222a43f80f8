"""Joins of a stream with a versioned table as of the record's time, with a grace period."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    Materialized,
    Processor,
    ProcessorContext,
    Record,
    RecordMetadata,
    StreamsBuilder,
    Topology,
    TopologyError,
    serdes,
)
from pystreams.testing import TopologyTestDriver
from tests.runtime.running_task import RunningTask

HISTORY_MS = 600_000
GRACE_MS = 10


def join(
    *, grace_period_ms: int | None = GRACE_MS, left: bool = False, history_ms: int = HISTORY_MS
) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("stream", key_serde=serdes.STRING, value_serde=serdes.STRING)
    table = builder.table(
        "table",
        materialized=Materialized(name="history", history_retention_ms=history_ms),
        key_serde=serdes.STRING,
        value_serde=serdes.STRING,
    )
    method = stream.left_join if left else stream.join
    joined = method(table, lambda value, row: f"{value}+{row}", grace_period_ms=grace_period_ms)
    joined.to("joined", key_serde=serdes.STRING, value_serde=serdes.STRING)
    return builder.build()


class Driven:
    """A driver with its topics."""

    def __init__(self, topology: Topology, directory: Path | None = None) -> None:
        self.driver = TopologyTestDriver(topology, state_directory=directory)
        self.stream = self.driver.create_input_topic("stream", serdes.STRING, serdes.STRING)
        self.table = self.driver.create_input_topic("table", serdes.STRING, serdes.STRING)
        self.joined = self.driver.create_output_topic("joined", serdes.STRING, serdes.STRING)

    def out(self) -> list[tuple[str, int]]:
        return [(record.value, record.timestamp) for record in self.joined.read_records()]


def test_record_waits_for_its_grace_period_and_sees_late_updates() -> None:
    driven = Driven(join())
    driven.table.pipe_input("k", "A", timestamp=0)
    driven.stream.pipe_input("k", "1", timestamp=5)
    driven.table.pipe_input("k", "B", timestamp=4)
    assert driven.out() == []

    driven.stream.pipe_input("k", "2", timestamp=15)

    assert driven.out() == [("1+B", 5)]
    driven.driver.close()


def test_record_at_the_end_of_its_grace_period_is_joined_and_a_younger_one_waits() -> None:
    driven = Driven(join())
    driven.table.pipe_input("k", "A", timestamp=0)
    for timestamp in (10, 11, 20):
        driven.stream.pipe_input("k", str(timestamp), timestamp=timestamp)

    assert driven.out() == [("10+A", 10)]
    driven.driver.close()


def test_records_leave_in_order_of_time() -> None:
    driven = Driven(join())
    driven.table.pipe_input("k", "A", timestamp=0)
    for timestamp in (7, 3, 5, 30):
        driven.stream.pipe_input("k", str(timestamp), timestamp=timestamp)

    assert driven.out() == [("3+A", 3), ("5+A", 5), ("7+A", 7)]
    driven.driver.close()


def test_record_later_than_its_grace_period_is_joined_at_once_as_of_its_time() -> None:
    driven = Driven(join())
    driven.table.pipe_input("k", "A", timestamp=0)
    driven.table.pipe_input("k", "B", timestamp=50)
    driven.stream.pipe_input("k", "new", timestamp=100)

    driven.stream.pipe_input("k", "late", timestamp=20)

    assert driven.out() == [("late+A", 20)]
    driven.driver.close()


def test_table_updates_do_not_let_records_go() -> None:
    driven = Driven(join())
    driven.stream.pipe_input("k", "1", timestamp=5)

    driven.table.pipe_input("k", "A", timestamp=1_000)

    assert driven.out() == []
    driven.driver.close()


def test_left_join_lets_a_record_without_a_row_go_as_well() -> None:
    driven = Driven(join(left=True))
    driven.stream.pipe_input("k", "1", timestamp=5)
    driven.stream.pipe_input("other", "2", timestamp=100)

    assert driven.out() == [("1+None", 5)]
    driven.driver.close()


def test_left_join_joins_a_record_without_a_key_at_once() -> None:
    driven = Driven(join(left=True))
    driven.stream.pipe_input(None, "1", timestamp=5)

    assert driven.out() == [("1+None", 5)]
    driven.driver.close()


def test_headers_and_origin_are_those_of_the_waiting_record() -> None:
    driven = Driven(join())
    driven.table.pipe_input("k", "A", timestamp=0)
    driven.driver.pipe_raw("stream", b"k", b"1", 5, (("trace", b"one"),))
    driven.driver.pipe_raw("stream", b"k", b"2", 100, (("trace", b"two"),))

    assert [record.headers for record in driven.joined.read_records()] == [(("trace", b"one"),)]
    driven.driver.close()


def test_records_that_wait_in_two_joins_keep_their_origins() -> None:
    """Both leave the first in one step, and are stored by the second after it."""
    builder = StreamsBuilder()
    joined = builder.stream("stream", key_serde=serdes.STRING, value_serde=serdes.STRING)
    for name in ("one", "two"):
        table = builder.table(
            name,
            materialized=Materialized(name=name, history_retention_ms=HISTORY_MS),
            key_serde=serdes.STRING,
            value_serde=serdes.STRING,
        )
        joined = joined.left_join(
            table,
            lambda value, _: value,
            key_serde=serdes.STRING,
            value_serde=serdes.STRING,
            grace_period_ms=GRACE_MS,
        )
    origins: list[tuple[str, RecordMetadata | None]] = []

    class Witness(Processor[str, str, None, None]):
        def init(self, context: ProcessorContext[None, None]) -> None:
            self.context = context

        def process(self, record: Record[str, str]) -> None:
            origins.append((record.value, self.context.record_metadata()))

    joined.process(Witness)
    with TopologyTestDriver(builder.build()) as driver:
        stream = driver.create_input_topic("stream", serdes.STRING, serdes.STRING)
        for timestamp in (5, 6, 100, 200):
            stream.pipe_input("k", str(timestamp), timestamp=timestamp)

    assert origins == [("5", ("stream", 0, 0)), ("6", ("stream", 0, 1))]


def test_value_that_is_changed_while_it_waits_is_joined_as_it_came(tmp_path: Path) -> None:
    """All in one run: nothing is stored meanwhile."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.JSON)
    table = builder.table(
        "table",
        materialized=Materialized(name="history", history_retention_ms=HISTORY_MS),
        key_serde=serdes.STRING,
        value_serde=serdes.STRING,
    )
    joined = stream.left_join(table, lambda value, _: value, grace_period_ms=GRACE_MS)
    seen: list[list[int]] = []
    joined.foreach(lambda _, value: seen.append(value))
    stream.foreach(lambda _, value: value.append(0))
    running = RunningTask(builder.build(), directory=tmp_path)

    running.run(*(("k", f"[{number}]", 100 * number) for number in range(1, 4)))

    assert seen == [[1], [2]]
    running.task.close()


@pytest.mark.parametrize("serde", [serdes.STRING, serdes.BYTES, serdes.INT, serdes.DOUBLE])
def test_values_that_wait_are_what_their_serde_reads(
    serde: serdes.Serde[Any], tmp_path: Path
) -> None:
    """Whether they were stored meanwhile or not, and of whatever class they came."""

    class Text(str):
        """Not a plain string."""

        __slots__ = ()

    values = {"STRING": Text("é"), "BYTES": bytearray(b"\xff"), "INT": True, "DOUBLE": 2}
    value = values[repr(serde).removeprefix("serdes.")]
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    table = builder.table(
        "table",
        materialized=Materialized(name="history", history_retention_ms=HISTORY_MS),
        key_serde=serdes.STRING,
        value_serde=serdes.STRING,
    )
    seen: list[Any] = []
    stream.map_values(lambda _: value).left_join(
        table, lambda value, _: value, value_serde=serde, grace_period_ms=GRACE_MS
    ).foreach(lambda _, value: seen.append(value))
    running = RunningTask(builder.build(), directory=tmp_path)
    running.run(*(("k", "v", 100 * number) for number in range(1, 4)))
    running.commit()
    running.run(("k", "v", 500))
    running.task.close()

    read = serde.deserializer("")(serde.serializer("")(value))
    assert [(type(found), found) for found in seen] == [(type(read), read)] * 3


def test_restarted_join_lets_go_what_it_held(tmp_path: Path) -> None:
    """The buffer also says what time it was."""
    first = Driven(join(), tmp_path)
    first.table.pipe_input("k", "A", timestamp=0)
    first.stream.pipe_input("k", "1", timestamp=5)
    first.stream.pipe_input("k", "2", timestamp=12)
    first.driver.close()

    second = Driven(join(), tmp_path)
    second.stream.pipe_input("k", "late", timestamp=1)
    assert second.out() == [("late+A", 1)]
    second.stream.pipe_input("k", "3", timestamp=16)

    assert second.out() == [("1+A", 5)]
    second.driver.close()


def test_zero_grace_joins_as_of_the_record_s_time_without_waiting() -> None:
    driven = Driven(join(grace_period_ms=0))
    driven.table.pipe_input("k", "A", timestamp=0)
    driven.table.pipe_input("k", "B", timestamp=10)
    for timestamp in (12, 4):
        driven.stream.pipe_input("k", str(timestamp), timestamp=timestamp)

    assert driven.out() == [("12+B", 12), ("4+A", 4)]
    driven.driver.close()


def test_buffer_is_a_store_of_the_join_with_a_changelog() -> None:
    driven = Driven(join())
    driven.stream.pipe_input("k", "1", timestamp=5)

    assert "KSTREAM-JOIN-0000000003-Buffer" in driven.driver.get_all_state_stores()
    changelog = "test-driver-KSTREAM-JOIN-0000000003-Buffer-changelog"
    ((key, value, _, _),) = driven.driver.produced_raw(changelog)
    assert key is not None
    assert value is not None
    assert (key[:9].hex(), value[-8:].hex()) == ("00" + f"{5:016x}", "0" * 16)
    driven.driver.close()


def test_plain_table_can_not_be_joined_with_a_grace_period() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("stream", key_serde=serdes.STRING, value_serde=serdes.STRING)
    table = builder.table("table", key_serde=serdes.STRING, value_serde=serdes.STRING)

    with pytest.raises(TopologyError, match=r"not a versioned table: .*history_retention_ms"):
        stream.join(table, lambda value, row: f"{value}{row}", grace_period_ms=5)


def test_history_that_is_shorter_than_the_grace_period_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"waits 70000 ms .* history of 60000 ms"):
        join(grace_period_ms=70_000, history_ms=60_000)


def test_grace_period_below_zero_is_refused() -> None:
    with pytest.raises(TopologyError, match="grace_period_ms must be 0 or more"):
        join(grace_period_ms=-1)


def test_started_again_join_goes_on_from_where_silence_has_moved_its_time(tmp_path: Path) -> None:
    builder = StreamsBuilder(idle_timeout_ms=50)
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    table = builder.table(
        "table",
        materialized=Materialized(name="history", history_retention_ms=HISTORY_MS),
        key_serde=serdes.STRING,
        value_serde=serdes.STRING,
    )
    seen: list[str] = []
    joined = stream.left_join(table, lambda value, _: value, grace_period_ms=GRACE_MS)
    joined.foreach(lambda _, value: seen.append(value))
    running = RunningTask(builder.build(), directory=tmp_path)
    running.run(("k", "1", 100))
    running.task.punctuate_wall_clock(0)
    running.task.punctuate_wall_clock(1_000)
    assert seen == ["1"]
    ((_, committed),) = running.task.offsets_to_commit().items()
    running.commit()

    running.restart(committed.next_offset, committed.metadata)
    running.run(("k", "late", 95))

    assert seen == ["1", "late"]
    running.task.close()
