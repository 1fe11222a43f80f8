"""State on its way to new partitions: each key's is whole there, and nobody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystreams import TopicPartition
from pystreams.backfill.plan.rows import Result, ResultKind
from pystreams.backfill.plan.store_changelogs import StoreChangelog
from pystreams.backfill.publishing.publication import PartitionHistory
from pystreams.backfill.rescaling.move_plan import MovedSubtopology, MovedTopic
from pystreams.backfill.rescaling.moved_rows import moved_rows
from pystreams.backfill.spark.failures import failure_in
from pystreams.kernel.partitioner import partition_of
from pystreams.record import RecordMetadata
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.kinds.buffer.kind import BUFFER
from pystreams.stores.kinds.buffer.waiting_record import WaitingRecord
from pystreams.stores.kinds.suppress.buffered_change import VERSION_3
from pystreams.stores.kinds.suppress.buffered_change import packed as packed_change
from pystreams.stores.kinds.suppress.kind import SuppressKind
from pystreams.topology.operators.joins.foreign_key_serdes import combined_key
from tests.backfill.logged_stores import KEYS, Logged, changelog, content, frame, logged
from tests.backfill.table_topologies import foreign_key_joins
from tests.every_store import BUILDERS
from tests.stores.support import Message
from tests.stores.waiting import packed, stored_key


def subtopology(one: StoreChangelog, old: int, new: int) -> MovedSubtopology:
    return MovedSubtopology(0, [MovedTopic("in", "in", old, new)], [one], old, new, True)


def begins(new: int) -> dict[TopicPartition, PartitionHistory]:
    return {
        TopicPartition("in", number): PartitionHistory(number, number, 10 * number)
        for number in range(new)
    }


def moved(spark: Any, one: StoreChangelog, changelogs: Logged, old: int, new: int) -> list[Result]:
    """The rows, in the order in which they are staged."""
    records = frame(spark, one.store, changelogs)
    rows = moved_rows(spark, records, subtopology(one, old, new), begins(new)).collect()
    return [
        Result(
            ResultKind(row.kind),
            row.task,
            row.name,
            row.partition,
            row.sequence,
            row.timestamp,
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            (),
        )
        for row in rows
    ]


def messages(rows: list[Result], task: int) -> list[Message]:
    return [
        Message(row.key, row.value, row.sequence, row.timestamp)
        for row in rows
        if row.kind is ResultKind.STATE and row.task == task
    ]


def places(store: str, rows: list[Result]) -> set[tuple[bytes, int]]:
    """Which key is in which task."""
    layout = changelog(store, 1).spec.kind.key_layout
    head, tail = layout.head_bytes, layout.tail_bytes
    return {
        (row.key[head : len(row.key) - tail], row.task)
        for row in rows
        if row.kind is ResultKind.STATE and row.key is not None
    }


@pytest.mark.parametrize("store", BUILDERS)
@pytest.mark.parametrize(("old", "new"), [(2, 4), pytest.param(3, 2, marks=pytest.mark.sweep)])
def test_what_new_tasks_restore_is_what_old_ones_held(
    store: str, old: int, new: int, spark: Any, tmp_path: Path
) -> None:
    changelogs = logged(store, tmp_path / "written", old)
    before: dict[bytes, Any] = {}
    for number, has in changelogs.items():
        before |= content(store, has, tmp_path / f"old-{number}")

    rows = moved(spark, changelog(store, old), changelogs, old, new)

    assert places(store, rows) == {(key, partition_of(key, new)) for key, _ in places(store, rows)}
    after: dict[bytes, Any] = {}
    for task in range(new):
        numbers = [message.message_offset for message in messages(rows, task)]
        assert numbers == list(range(len(numbers)))
        after |= content(store, messages(rows, task), tmp_path / f"new-{task}")
    if new > old:
        assert after == before
    else:
        # Tasks that were ahead of others had forgotten more; now that they are one, all have.
        assert after
        for key, has in after.items():
            assert has == (before[key][: len(has)] if store == "versioned" else before[key])


def test_ends_say_where_to_go_on_and_with_what_time(spark: Any) -> None:
    rows = moved(spark, changelog("plain", 1), {0: []}, 1, 3)

    ends = [
        (row.name, row.partition, row.sequence, row.timestamp)
        for row in sorted(rows)
        if row.kind is ResultKind.END
    ]
    assert ends == [("in", 0, 0, 0), ("in", 1, 1, 10), ("in", 2, 2, 20)]


def test_buffered_records_go_where_their_keys_go(spark: Any) -> None:
    waiting = [WaitingRecord(key.encode(), b"v", at) for at, key in enumerate(KEYS)]
    own = [
        Message(stored_key(record, 1), packed(record) + bytes(8), at, record.timestamp)
        for at, record in enumerate(waiting)
    ]
    old: Logged = {
        number: [
            key for key, has in zip(own, waiting, strict=True) if partition_of(has.key, 2) == number
        ]
        for number in range(2)
    }
    one = StoreChangelog(StoreSpec("buffer", BUFFER), "app-buffer-changelog", 0, 2)

    rows = moved(spark, one, old, 2, 5)

    found = {row.key: row.task for row in rows if row.kind is ResultKind.STATE}
    assert found == {stored_key(record, 1): partition_of(record.key, 5) for record in waiting}


def test_windows_that_a_suppression_holds_back_go_where_their_keys_go(spark: Any) -> None:
    """With the header without which their changelog can't be read."""
    windowed = {key.encode() + start.to_bytes(8, "big"): key for key in KEYS for start in (0, 60)}
    held = packed_change(1, (), RecordMetadata("in", 0, 0), None, None, b"v", 60)
    old: Logged = {
        number: [
            Message(stored, held, at, 1)
            for at, (stored, key) in enumerate(windowed.items())
            if partition_of(key.encode(), 2) == number
        ]
        for number in range(2)
    }
    for message in (*old[0], *old[1]):
        message.message_headers = VERSION_3
    store = StoreChangelog(
        StoreSpec("held", SuppressKind(window_bytes=8)), "app-held-changelog", 0, 2
    )
    records = frame(spark, "held", old)

    rows = moved_rows(spark, records, subtopology(store, 2, 5), begins(5)).collect()

    states = [row for row in rows if row.kind == int(ResultKind.STATE)]
    assert {bytes(row.key): row.task for row in states} == {
        stored: partition_of(key.encode(), 5) for stored, key in windowed.items()
    }
    for row in states:
        assert [(header["key"], bytes(header["value"])) for header in row.headers] == [
            ("v", b"\x03")
        ]


@pytest.mark.parametrize("old", [1, 2])
def test_subscriptions_go_where_the_rows_are_that_they_are_for(old: int, spark: Any) -> None:
    """By a foreign key: what is stored begins with it, and the primary key lies elsewhere."""
    foreign_keys = {combined_key(key.encode(), b"primary"): key.encode() for key in KEYS}
    changelogs: Logged = {
        number: [
            Message(stored, b"subscription", at, 1)
            for at, (stored, key) in enumerate(foreign_keys.items())
            if partition_of(key, old) == number
        ]
        for number in range(old)
    }
    stores = foreign_key_joins().stores
    name = next(name for name in stores if "SUBSCRIPTION" in name.upper())
    held = StoreChangelog(stores[name].spec, f"app-{name}-changelog", 0, old)

    rows = moved(spark, held, changelogs, old, 5)

    states = {row.key: row.task for row in rows if row.kind is ResultKind.STATE}
    assert states == {stored: partition_of(key, 5) for stored, key in foreign_keys.items()}


def test_store_that_is_not_partitioned_by_its_keys_is_refused(spark: Any) -> None:
    key = KEYS[0].encode()
    wrong = 1 - partition_of(key, 2)

    with pytest.raises(Exception, match="pystreams-failure") as raised:
        moved(spark, changelog("plain", 2), {wrong: [Message(key, b"v", 5, 0)]}, 2, 4)

    failure = failure_in(str(raised.value))
    assert failure is not None
    assert "store 'plain' is not partitioned by its keys" in str(failure)
    assert f"app-plain-changelog-{wrong} at offset 5" in str(failure)


def test_state_of_a_sub_topology_that_keeps_its_tasks_stays_where_it_is(spark: Any) -> None:
    key = KEYS[0].encode()
    wrong = 1 - partition_of(key, 2)

    rows = moved(spark, changelog("plain", 2), {wrong: [Message(key, b"v", 5, 0)]}, 2, 2)

    assert [row.task for row in rows if row.kind is ResultKind.STATE] == [wrong]
