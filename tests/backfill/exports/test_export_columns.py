"""Exported stores: typed keys and values, and times that any reader takes for times."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pystreams import StoreKind, serdes
from pystreams.backfill.exports.columns import exported
from pystreams.backfill.plan.store_changelogs import StoreChangelog
from pystreams.backfill.spark.changelog_state import current_state
from pystreams.stores.contracts.spec import Retention, StoreSpec
from pystreams.stores.kinds.buffer.kind import BUFFER
from pystreams.stores.kinds.buffer.waiting_record import WaitingRecord
from pystreams.stores.kinds.custom.kind import CUSTOM
from pystreams.stores.kinds.key_value.kind import KEY_VALUE
from pystreams.stores.kinds.list.kind import LIST
from pystreams.stores.kinds.list.store import with_value
from pystreams.stores.kinds.session.keys import session_key
from pystreams.stores.kinds.session.kind import SESSION
from pystreams.stores.kinds.suppress.kind import SuppressKind
from pystreams.stores.kinds.versioned.kind import VERSIONED
from pystreams.stores.kinds.window.keys import window_key
from pystreams.stores.kinds.window.kind import WINDOW
from pystreams.topology.operators.joins.held_back_serdes import (
    TimestampedKeyAndJoinSide,
    TimestampedKeyAndJoinSideSerde,
)
from tests.backfill.logged_stores import frame
from tests.stores.support import Message
from tests.stores.waiting import packed, stored_key

AT_MS = 1_700_000_000_000
LONG = struct.Struct(">q").pack


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(AT_MS / 1000 + seconds, UTC).replace(tzinfo=None)


def rows(spark: Any, changelog: StoreChangelog, messages: list[Message]) -> list[dict[str, Any]]:
    state = current_state(frame(spark, changelog.store, {0: messages}), changelog)
    found = exported(state, changelog, changelog.spec.key_serde, changelog.spec.value_serde)
    return sorted((row.asDict() for row in found.collect()), key=str)


def changelog(kind: StoreKind, retention: Retention | None = None) -> StoreChangelog:
    spec = StoreSpec(
        "s", kind, retention=retention, key_serde=serdes.STRING, value_serde=serdes.LONG
    )
    return StoreChangelog(spec, "app-s-changelog", 0, 1)


def test_key_value_store(spark: Any) -> None:
    messages = [Message(b"a", LONG(-7), 0, AT_MS), Message(b"b", LONG(1 << 40), 1, AT_MS + 500)]

    assert rows(spark, changelog(KEY_VALUE), messages) == [
        {"partition": 0, "key": "a", "value": -7, "timestamp": at(0)},
        {"partition": 0, "key": "b", "value": 1 << 40, "timestamp": at(0.5)},
    ]


@pytest.mark.parametrize("retain_duplicates", [False, True])
def test_window_store(spark: Any, retain_duplicates: bool) -> None:
    retention = Retention(60_000, 60_000, 10_000, retain_duplicates)
    keys = [window_key(b"a", AT_MS, number if retain_duplicates else 0) for number in (1, 2)]
    messages = [Message(key, LONG(at), at, AT_MS + 3000) for at, key in enumerate(keys)]

    found = rows(spark, changelog(WINDOW, retention), messages)

    own = {"partition": 0, "key": "a", "window_start": at(0), "window_end": at(10)}
    expected: list[dict[str, Any]] = [{"value": 1}]
    if retain_duplicates:
        expected = [{"sequence": 1, "value": 0}, {"sequence": 2, "value": 1}]
    assert found == [{**own, **row, "timestamp": at(3)} for row in expected]


def test_window_without_end_has_none(spark: Any) -> None:
    retention = Retention((1 << 63) - 1, 60_000, (1 << 63) - 1)
    messages = [Message(window_key(b"a", 0), LONG(1), 0, AT_MS)]

    (row,) = rows(spark, changelog(WINDOW, retention), messages)

    assert (row["window_start"], row["window_end"]) == (at(-AT_MS / 1000), None)


def test_session_store(spark: Any) -> None:
    messages = [Message(session_key(b"a", AT_MS, AT_MS + 4000), LONG(3), 0, AT_MS + 4000)]

    found = rows(spark, changelog(SESSION, Retention(60_000, 60_000)), messages)

    assert found == [
        {
            "partition": 0,
            "key": "a",
            "window_start": at(0),
            "window_end": at(4),
            "value": 3,
            "timestamp": at(4),
        }
    ]


def test_versioned_store_has_all_versions_and_no_deletions(spark: Any) -> None:
    puts = [(LONG(1), AT_MS), (LONG(2), AT_MS + 1000), (None, AT_MS + 2000)]
    messages = [Message(b"a", value, at, time) for at, (value, time) in enumerate(puts)]

    found = rows(spark, changelog(VERSIONED, Retention(60_000, 20_000)), messages)

    assert found == [
        {"partition": 0, "key": "a", "valid_from": at(0), "valid_to": at(1), "value": 1},
        {"partition": 0, "key": "a", "valid_from": at(1), "valid_to": at(2), "value": 2},
    ]


def test_what_an_outer_join_holds_back_has_its_time_and_side(spark: Any) -> None:
    """Two records of a key, one of each stream, at one time are two rows that can be told apart."""
    keys = TimestampedKeyAndJoinSideSerde(serdes.STRING)
    spec = StoreSpec("s", LIST, key_serde=keys)
    waiting = [
        TimestampedKeyAndJoinSide(AT_MS, left=True, key="a"),
        TimestampedKeyAndJoinSide(AT_MS, left=False, key="a"),
    ]
    logged = map(keys.serializer(""), waiting)
    messages = [Message(key, with_value(None, b"v"), at, AT_MS) for at, key in enumerate(logged)]

    found = rows(spark, StoreChangelog(spec, "app-s-changelog", 0, 1), messages)

    value = with_value(None, b"v")
    assert found == [
        {
            "partition": 0,
            "key": "a",
            "time": at(0),
            "left": left,
            "value": value,
            "timestamp": at(0),
        }
        for left in (False, True)
    ]


def test_buffer_and_store_of_one_s_own_stay_bytes(spark: Any) -> None:
    waiting = WaitingRecord(b"a", b"value", AT_MS)
    buffered = [
        Message(stored_key(waiting, number), packed(waiting) + bytes(8), number, AT_MS)
        for number in (1, 2)
    ]
    unknown = [Message(b"k", b"v", 0, -1)]

    def untyped(kind: StoreKind) -> StoreChangelog:
        return StoreChangelog(StoreSpec("s", kind), "app-s-changelog", 0, 1)

    of_buffer, another = rows(spark, untyped(BUFFER), buffered)
    (of_own,) = rows(spark, untyped(CUSTOM), unknown)

    assert bytes(of_buffer["key"]) == bytes(another["key"]) == b"a"
    assert sorted(row["sequence"] for row in (of_buffer, another)) == [1, 2]
    assert (bytes(of_own["key"]), bytes(of_own["value"]), of_own["timestamp"]) == (b"k", b"v", None)


@pytest.mark.parametrize(
    ("suffix", "times"),
    [
        (AT_MS.to_bytes(8, "big"), {"window_start": at(0)}),
        (
            (AT_MS + 1000).to_bytes(8, "big") + AT_MS.to_bytes(8, "big"),
            {"window_start": at(0), "window_end": at(1)},
        ),
    ],
)
def test_windows_that_a_suppression_holds_back_have_their_times(
    suffix: bytes, times: dict[str, Any], spark: Any
) -> None:
    kind = SuppressKind(window_bytes=len(suffix))
    held = StoreChangelog(StoreSpec("s", kind), "app-s-changelog", 0, 1)

    (found,) = rows(spark, held, [Message(b"a" + suffix, b"change", 0, AT_MS)])

    assert bytes(found["key"]) == b"a"
    assert {name: found[name] for name in times} == times


def test_files_are_read_by_arrow_as_well(spark: Any, tmp_path: Path) -> None:
    from pyarrow import parquet

    one = changelog(KEY_VALUE)
    state = current_state(frame(spark, "s", {0: [Message(b"a", LONG(1), 0, AT_MS)]}), one)
    exported(state, one, serdes.STRING, serdes.LONG).write.parquet(str(tmp_path / "s"))

    table = parquet.read_table(tmp_path / "s")

    assert table.column_names == ["partition", "key", "value", "timestamp"]
    assert table.column("key").to_pylist() == ["a"]
