"""A store given as changelog records, and restored from them, is the same store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pystreams import (
    StateStore,
    StateStoreError,
    Stores,
    ValueAndTimestamp,
    Window,
    Windowed,
    serdes,
)
from pystreams.record import ProducedRecord
from pystreams.runtime.tasks.foreign_records import records_that_undo
from pystreams.stores.contracts.state_store import GivesRecordsByKey
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.stores.time_segments.segments import segment_id_of
from tests.stores.support import CHANGELOG, Home, Message

RETENTION_MS = 600_000
TYPES = (serdes.STRING, serdes.LONG)
Write = Callable[[Any, str, int | None, int], object]


def put_timestamped(store: Any, key: str, number: int | None, time: int) -> None:
    store.put(key, None if number is None else ValueAndTimestamp(number, time))


def put_window(store: Any, key: str, number: int | None, time: int) -> None:
    store.put(key, number, time // 1000 * 1000)


def put_session(store: Any, key: str, number: int | None, time: int) -> None:
    store.put(Windowed(key, Window(time // 5000 * 5000, time // 1000 * 1000)), number)


CASES: dict[str, tuple[StoreSpecBuilder, Write]] = {
    "plain": (
        Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), *TYPES),
        lambda store, key, number, _: store.put(key, number),
    ),
    "timestamped": (
        Stores.timestamped_key_value_store_builder(
            Stores.persistent_timestamped_key_value_store("s"), *TYPES
        ),
        put_timestamped,
    ),
    "window": (
        Stores.window_store_builder(
            Stores.persistent_window_store("s", RETENTION_MS, 1000), *TYPES
        ),
        put_window,
    ),
    "session": (
        Stores.session_store_builder(Stores.persistent_session_store("s", RETENTION_MS), *TYPES),
        put_session,
    ),
    "versioned": (
        Stores.versioned_key_value_store_builder(
            Stores.persistent_versioned_key_value_store("s", RETENTION_MS), *TYPES
        ),
        lambda store, key, number, time: store.put(key, number, time),
    ),
}


def live_entries(store: Any) -> dict[bytes, bytes]:
    """What a store holds, by stored key, without what it no longer gives out."""
    segments = getattr(store, "_segments", None) or getattr(store._buffer, "_segments", None)
    entries = dict(store._buffer.engine_range(None, None))
    if segments is None:
        return entries
    oldest = segments.oldest_live
    return {key: value for key, value in entries.items() if not 0 <= segment_id_of(key) < oldest}


def write_much(store: Any, write: Write, random: Random) -> None:
    """Write, delete and commit, some of it late."""
    time = 0
    for _ in range(1500):
        time += random.randint(0, 3000)
        late = random.choice([0, 0, 0, random.randint(0, RETENTION_MS)])
        number = None if random.random() < 0.2 else random.randint(0, 99)
        write(store, f"k{random.randrange(12)}", number, max(0, time - late))
        if random.random() < 0.02:
            store.commit({CHANGELOG: 1})
    store.commit({CHANGELOG: 2})


def restored_from(records: Sequence[ProducedRecord], builder: StoreSpecBuilder, home: Home) -> Any:
    store: Any = home.open_builder(builder)
    messages = [
        Message(key, value, message_offset=offset, timestamp_ms=timestamp)
        for offset, (key, value, timestamp, _) in enumerate(records)
    ]
    for first in range(0, len(messages), 100):
        store.restore(messages[first : first + 100])
    return store


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", list(CASES))
def test_restored_dump_is_the_store(kind: str, seed: int, tmp_path: Path) -> None:
    builder, write = CASES[kind]
    random = Random(seed)
    home = Home(tmp_path / "first")
    store: Any = home.open_builder(builder)
    write_much(store, write, random)

    records = list(store.changelog_records())
    copy = restored_from(records, builder, Home(tmp_path / "second"))

    assert records
    assert list(copy.changelog_records()) == records
    if isinstance(store, GivesRecordsByKey):
        assert [store.changelog_record(key or b"") for key, *_ in records] == records
        assert store.changelog_record(b"absent") is None
    if kind != "versioned":  # Whose rows may differ in tombstones that end nothing.
        assert live_entries(copy) == live_entries(store)
    store.close()
    copy.close()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", list(CASES))
def test_old_records_that_come_late_are_undone_by_what_the_store_holds_of_their_keys(
    kind: str, seed: int, tmp_path: Path
) -> None:
    builder, write = CASES[kind]
    random = Random(seed)
    home = Home(tmp_path / "first")
    store: Any = home.open_builder(builder)
    write_much(store, write, random)
    logged = list(home.changelog.records)
    first = random.randrange(len(logged) - 50)
    late = logged[first : first + 50]
    times = {key: time for key, _, time, _ in late if key is not None}

    undoing = records_that_undo(store, times)
    copy = restored_from([*logged, *late, *undoing], builder, Home(tmp_path / "second"))

    assert list(copy.changelog_records()) == list(store.changelog_records())
    store.close()
    copy.close()


def test_versions_that_began_before_the_history_are_kept(tmp_path: Path) -> None:
    """Of a key that never changed, while others moved the stream time on."""
    builder, _ = CASES["versioned"]
    store: Any = Home(tmp_path / "first").open_builder(builder)
    for number in range(5):
        store.put(f"old{number}", number, 1000 - number)
    store.put("young", 9, 10 * RETENTION_MS)
    store.commit({CHANGELOG: 0})

    copy: Any = Home(tmp_path / "second").open_builder(builder)
    copy.restore(
        [
            Message(key, value, message_offset=offset, timestamp_ms=timestamp)
            for offset, (key, value, timestamp, _) in enumerate(store.changelog_records())
        ]
    )

    assert [copy.get(f"old{number}").value for number in range(5)] == list(range(5))
    assert copy.get("young").value == 9
    store.close()
    copy.close()


def test_store_that_can_not_be_dumped_says_what_to_write() -> None:
    class Own(StateStore):
        name = "own"
        persistent = True
        is_open = True

        def init(self, context: object) -> None: ...
        def restore(self, messages: object) -> None: ...
        def close(self) -> None: ...
        def destroy(self) -> None: ...

    with pytest.raises(StateStoreError, match=r"'own'.*changelog_records\(\)"):
        Own().changelog_records()
