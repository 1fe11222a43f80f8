"""What Spark makes of a changelog restores what the changelog restores, and nothing is too much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystreams.backfill.spark.changelog_state import current_state
from pystreams.stores.kinds.versioned.kind import VERSIONED
from tests.backfill.logged_stores import PUTS, Logged, changelog, content, frame, logged
from tests.every_store import BUILDERS
from tests.stores.support import Message

PARTITIONS = 2


def state(spark: Any, store: str, changelogs: Logged) -> Logged:
    """The state, by partition, in order of time: the order in which versions are put."""
    rows = current_state(frame(spark, store, changelogs), changelog(store, PARTITIONS)).collect()
    rows.sort(key=lambda row: (row.timestamp, row.offset))
    return {
        number: [
            Message(
                bytes(row.key),
                None if row.value is None else bytes(row.value),
                row.offset,
                row.timestamp,
            )
            for row in rows
            if row.partition == number
        ]
        for number in range(PARTITIONS)
    }


@pytest.mark.parametrize("store", BUILDERS)
def test_state_restores_what_the_changelog_restores_and_no_more(
    store: str, spark: Any, tmp_path: Path
) -> None:
    changelogs = logged(store, tmp_path / "written", PARTITIONS)

    found = state(spark, store, changelogs)

    for number, messages in changelogs.items():
        expected = content(store, messages, tmp_path / "all" / str(number))
        assert expected, "the test shows something"
        assert content(store, found[number], tmp_path / "state" / str(number)) == expected
    records = sum(map(len, found.values()))
    assert records < PUTS, "what is overwritten, deleted and expired is left out"
    check_no_record_is_too_much(store, found)


def check_no_record_is_too_much(store: str, found: Logged) -> None:
    """One a key, or a key and time; and no deletion, but a version's end."""
    versioned = BUILDERS[store].spec.kind is VERSIONED
    keys = [
        (number, message.message_key, message.timestamp_ms if versioned else 0)
        for number, messages in found.items()
        for message in messages
    ]
    assert len(keys) == len(set(keys))
    if not versioned:
        assert all(record.message_value is not None for has in found.values() for record in has)


def test_a_version_ends_where_the_next_one_or_a_deletion_begins(spark: Any) -> None:
    puts = [(b"a", b"1", 1000), (b"a", b"3", 3000), (b"a", b"2", 2000), (b"a", None, 4000)]
    puts += [(b"b", b"9", 1500), (b"a", b"2!", 2000)]
    messages = [Message(key, value, at, time) for at, (key, value, time) in enumerate(puts)]

    rows = current_state(frame(spark, "versioned", {0: messages}), changelog("versioned", 1))

    found = {
        (bytes(row.key), row.timestamp): (row.value and bytes(row.value), row.valid_to)
        for row in rows.collect()
    }
    assert found == {
        (b"a", 1000): (b"1", 2000),
        (b"a", 2000): (b"2!", 3000),
        (b"a", 3000): (b"3", 4000),
        (b"a", 4000): (None, None),
        (b"b", 1500): (b"9", None),
    }


def test_a_put_that_came_after_the_history_retention_is_not_taken(spark: Any) -> None:
    """Kafka Streams logs such a put all the same; a restore drops it again."""
    retention = BUILDERS["versioned"].spec.retention
    assert retention is not None
    late = 10_000
    messages = [
        Message(b"a", b"new", 0, late + retention.retention_ms + 1),
        Message(b"b", b"late", 1, late),
        Message(b"c", b"in time", 2, late + 1),
    ]

    rows = current_state(frame(spark, "versioned", {0: messages}), changelog("versioned", 1))

    assert {bytes(row.key) for row in rows.collect()} == {b"a", b"c"}
