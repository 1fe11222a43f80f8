"""`KafkaStreams.store`: what each kind of local store reads, across the tasks of the instance."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import pytest

from pystreams import (
    IsolationLevel,
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyVersionedKeyValueStore,
    ReadOnlyWindowStore,
    StoreKind,
    StoreNotAvailableError,
    TopologyError,
    ValueAndTimestamp,
    VersionedRecord,
)
from pystreams.runtime.queries.local_stores import local_store, views_of
from pystreams.stores.contracts.local_store import LocalStore
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.kinds.buffer.kind import BUFFER
from pystreams.stores.kinds.key_value.kind import KEY_VALUE
from pystreams.stores.kinds.key_value.local import LocalKeyValueStore
from pystreams.stores.kinds.session.kind import SESSION
from pystreams.stores.kinds.session.local import LocalSessionStore
from pystreams.stores.kinds.versioned.kind import VERSIONED
from pystreams.stores.kinds.versioned.local import LocalVersionedKeyValueStore
from pystreams.stores.kinds.window.kind import WINDOW
from pystreams.stores.kinds.window.local import LocalWindowStore
from tests.runtime.query.filing import BUILDERS, filing
from tests.runtime.running_task import RunningTask
from tests.stores.custom import SqliteStore

UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED


@pytest.fixture
def two() -> list[RunningTask]:
    """Two tasks: `a` in the first, `b` in the second, three records each."""
    running = [RunningTask(filing(), partition=number) for number in (0, 1)]
    for task, key in zip(running, "ab", strict=True):
        task.run((key, f"{key}1", 1), (key, f"{key}12", 12), (key, f"{key}15", 15))
    return running


def local(running: Iterable[RunningTask], store: str, level: IsolationLevel = UNCOMMITTED) -> Any:
    stores = [owner.task.state_manager.stores()[store] for owner in running]
    spec = BUILDERS[store].spec
    return local_store(spec, lambda: views_of(store, level, stores, ready=True))


def windows(entries: Iterable[tuple[Any, Any]]) -> list[tuple[str, Any]]:
    return [(str(windowed), getattr(value, "value", value)) for windowed, value in entries]


def test_a_buffer_is_not_for_reading() -> None:
    with pytest.raises(TopologyError, match="'waiting' can't be read: it is what an operation"):
        local_store(StoreSpec("waiting", kind=BUFFER), list)


@pytest.mark.parametrize(
    ("local_class", "reads"),
    [
        (LocalKeyValueStore, ReadOnlyKeyValueStore),
        (LocalWindowStore, ReadOnlyWindowStore),
        (LocalSessionStore, ReadOnlySessionStore),
        (LocalVersionedKeyValueStore, ReadOnlyVersionedKeyValueStore),
    ],
)
def test_all_reads_of_a_kind_of_store_are_there(
    local_class: type[LocalStore], reads: type[Any]
) -> None:
    for name, read in inspect.getmembers(reads, inspect.isfunction):
        if not name.startswith("_"):
            mine = inspect.signature(getattr(local_class, name)).parameters
            assert list(mine) == list(inspect.signature(read).parameters), name


def test_a_store_of_a_users_own_without_views_is_told_how_to_ask_it() -> None:
    with pytest.raises(TopologyError, match=r"'own' gives .* no view .* KafkaStreams\.query"):
        views_of("own", UNCOMMITTED, [SqliteStore("own")], ready=True)


def test_key_value_stores_are_read_task_by_task(two: list[RunningTask]) -> None:
    store: LocalKeyValueStore = local(two, "timed")

    assert store.get("b") == ValueAndTimestamp("b15", 15)
    assert store.get("c") is None
    a, b = ("a", ValueAndTimestamp("a15", 15)), ("b", ValueAndTimestamp("b15", 15))
    assert list(store.all()) == list(store.reverse_all()) == [a, b]
    assert list(store.range("b", None)) == list(store.reverse_range("b", "b")) == [b]
    assert list(store.prefix_scan(b"a")) == [a]
    assert store.approximate_num_entries() == 2


def test_window_stores_are_read_task_by_task(two: list[RunningTask]) -> None:
    store: LocalWindowStore = local(two, "windows")
    a0, a10 = ("[a@0/10]", "a1"), ("[a@10/20]", "a15")
    b0, b10 = ("[b@0/10]", "b1"), ("[b@10/20]", "b15")

    assert store.fetch("b", 0) == ValueAndTimestamp("b1", 1)
    assert store.fetch("b", 20) is None
    assert [start for start, _ in store.fetch("b", 0, 10)] == [0, 10]
    assert [start for start, _ in store.backward_fetch("b", 0, 10)] == [10, 0]
    assert windows(store.fetch_range("b", None, 0, 9)) == [b0]
    assert windows(store.backward_fetch_range(None, "a", 0, 10)) == [a10, a0]
    assert windows(store.fetch_all(0, 10)) == windows(store.all()) == [a0, a10, b0, b10]
    assert windows(store.backward_fetch_all(0, 10)) == [a10, a0, b10, b0]
    assert windows(store.backward_all()) == [a10, a0, b10, b0]


def test_session_stores_are_read_task_by_task(two: list[RunningTask]) -> None:
    store: LocalSessionStore = local(two, "sessions")
    b1, b12, b15 = ("[b@1/1]", "b1"), ("[b@12/12]", "b12"), ("[b@15/15]", "b15")

    assert store.fetch_session("b", 12, 12) == "b12"
    assert store.fetch_session("b", 12, 13) is None
    assert windows(store.fetch("b")) == [b1, b12, b15]
    assert windows(store.backward_fetch("b")) == [b15, b12, b1]
    assert windows(store.fetch_range("b", None)) == [b1, b12, b15]
    assert windows(store.backward_fetch_range("b", "b")) == [b15, b12, b1]
    assert windows(store.find_sessions("b", 12, 14)) == [b12]
    assert windows(store.backward_find_sessions("b", 2, 20)) == [b15, b12]
    assert windows(store.find_sessions_range("a", None, 12, 14)) == [("[a@12/12]", "a12"), b12]
    assert windows(store.backward_find_sessions_range("b", "b", 2, 20)) == [b15, b12]
    assert windows(store.find_sessions_by_end(0, 5)) == [("[a@1/1]", "a1"), b1]


def test_versioned_stores_are_read_task_by_task(two: list[RunningTask]) -> None:
    store: LocalVersionedKeyValueStore = local(two, "versions")

    assert store.get("b") == VersionedRecord("b15", 15)
    assert store.get("b", as_of=3) == VersionedRecord("b1", 1, 12)
    assert store.get("c") is None
    assert [version.value for version in store.get_range("b", 12)] == ["b12", "b15"]
    assert [version.value for version in store.get_range("b", descending=True)] == [
        "b15",
        "b12",
        "b1",
    ]


@pytest.mark.parametrize("store", BUILDERS)
def test_committed_reads_see_a_record_after_its_commit(two: list[RunningTask], store: str) -> None:
    committed: LocalStore = local(two, store, IsolationLevel.READ_COMMITTED)
    reads: dict[StoreKind, Any] = {
        KEY_VALUE: lambda: committed.get("a"),  # type: ignore[attr-defined]
        WINDOW: lambda: committed.fetch("a", 0),  # type: ignore[attr-defined]
        SESSION: lambda: committed.fetch_session("a", 1, 1),  # type: ignore[attr-defined]
        VERSIONED: lambda: committed.get("a"),  # type: ignore[attr-defined]
    }
    read = reads[BUILDERS[store].spec.kind]
    assert read() is None

    two[0].commit()

    assert read() is not None


def test_reads_fail_while_a_task_restores_or_none_is_here() -> None:
    with pytest.raises(StoreNotAvailableError, match="restored or moving"):
        LocalKeyValueStore(lambda: views_of("s", UNCOMMITTED, [], ready=False)).get("a")
    with pytest.raises(StoreNotAvailableError, match="no partition on this instance"):
        list(LocalWindowStore(lambda: views_of("s", UNCOMMITTED, [], ready=True)).all())
