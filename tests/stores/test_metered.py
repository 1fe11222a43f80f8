"""Metering of stores: nothing at INFO, the declared methods at DEBUG, whatever the kind."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

from pystreams import StoreEngine, TopologyError, ValueAndTimestamp, Window, Windowed
from pystreams.metrics import Recording, RecordingLevel
from pystreams.metrics.definitions import OPERATIONS
from pystreams.stores.accounting.metered import MeteredStore, StoreMeters, as_processors_see_it
from pystreams.stores.build import build_store
from pystreams.stores.contracts.spec import Retention
from pystreams.stores.kinds.list.kind import LIST
from pystreams.stores.kinds.session.kind import SESSION
from pystreams.stores.kinds.versioned.kind import VERSIONED
from pystreams.stores.kinds.window.kind import WINDOW
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.stores.custom import SqliteStore
from tests.stores.support import Home, spec_of

RETENTION = Retention(60_000, 30_000, window_size_ms=1000)
TIMED = ValueAndTimestamp(1, 5)
ONE_SESSION = Windowed("a", Window(1, 5))
Calls = list[tuple[Any, ...]]
"""(Method, its arguments ...)."""


class Kind(NamedTuple):
    """A kind of store.

    Attributes:
        spec: What makes it one, as changes to a spec.
        calls: By operation, a call of each method that is measured as it.
    """

    spec: dict[str, Any]
    calls: dict[str, Calls]


READS: dict[str, Calls] = {
    "all": [("all",), ("reverse_all",)],
    "get": [("get", "a")],
    "prefix-scan": [("prefix_scan", b"a")],
    "range": [("range", "a", "b"), ("reverse_range", "a", "b")],
}
FETCHES: Calls = [
    ("all",),
    ("backward_all",),
    ("backward_fetch", "a", 0, 9),
    ("backward_fetch_all", 0, 9),
    ("backward_fetch_range", "a", "b", 0, 9),
    ("fetch", "a", 0),
    ("fetch", "a", 0, 9),
    ("fetch_all", 0, 9),
    ("fetch_kept", 0, 9),
    ("fetch_range", "a", "b", 0, 9),
]
KINDS = {
    "key-value": Kind(
        {},
        READS
        | {
            "delete": [("delete", "a")],
            "put": [("put", "a", 1)],
            "put-all": [("put_all", [("a", 1)])],
            "put-if-absent": [("put_if_absent", "a", 1)],
        },
    ),
    "timestamped": Kind(
        {"timestamped": True},
        READS
        | {
            "delete": [("delete", "a")],
            "get": [("get", "a"), ("get_with_timestamp", "a"), ("sent_with_timestamp", "a")],
            "put": [("put", "a", TIMED), ("put_with_timestamp", "a", 1, 5)],
            "put-all": [("put_all", [("a", TIMED)])],
            "put-if-absent": [("put_if_absent", "a", TIMED)],
        },
    ),
    "window": Kind(
        {"kind": WINDOW, "retention": RETENTION},
        {"fetch": [*FETCHES, ("values_near", "a", 0, 9)], "put": [("put", "a", 1, 0)]},
    ),
    "timestamped window": Kind(
        {"kind": WINDOW, "retention": RETENTION, "timestamped": True},
        {
            "fetch": [
                *FETCHES,
                ("fetch_with_timestamp", "a", 0),
                ("fetch_row", b"a", 0),
                ("rows_latest_first", b"a", 0, 9),
                ("values_near", "a", 0, 9),
                ("sent_with_timestamp", ONE_SESSION),
            ],
            "put": [
                ("put", "a", TIMED, 0),
                ("put_with_timestamp", "a", 1, 5, 0),
                ("put_row", b"a", 1, 5, 0),
            ],
        },
    ),
    "session": Kind(
        {"kind": SESSION, "retention": RETENTION},
        {
            "fetch": [
                ("backward_fetch", "a"),
                ("backward_fetch_range", "a", "b"),
                ("backward_find_sessions", "a", 0, 9),
                ("backward_find_sessions_range", "a", "b", 0, 9),
                ("fetch", "a"),
                ("fetch_range", "a", "b"),
                ("fetch_session", "a", 1, 5),
                ("find_kept_sessions", 0, 9),
                ("find_sessions", "a", 0, 9),
                ("find_sessions_by_end", 0, 9),
                ("find_sessions_range", "a", "b", 0, 9),
                ("sent_with_timestamp", ONE_SESSION),
                ("sessions_near", "a", 0, 9),
            ],
            "put": [("put", ONE_SESSION, 1)],
            "remove": [("remove", ONE_SESSION)],
        },
    ),
    # Kafka has no method like `get_range`: versions in a range of time are only queried there.
    "versioned": Kind(
        {"kind": VERSIONED, "retention": RETENTION},
        {
            "delete": [("delete", "a", 5)],
            "get": [
                ("get", "a"),
                ("get", "a", 5),
                ("get_as_of", "a", 5),
                ("get_with_timestamp", "a"),
            ],
            "put": [("put", "a", 1, 5), ("put_with_timestamp", "a", 1, 5)],
            "range": [("get_range", "a")],
        },
    ),
    "list-value": Kind(
        {"kind": LIST},
        {
            "all": [("all",)],
            "delete": [("delete", "a"), ("discard", "a")],
            "put": [("put", "a", 1)],
        },
    ),
}
ALL_CALLS = [
    pytest.param(kind.spec, operation, call, id=f"{name}-{call}")
    for name, kind in KINDS.items()
    for operation, calls in kind.calls.items()
    for call in calls
]


class Timer:
    """A clock on which each look is 2 ms after the one before."""

    def __init__(self) -> None:
        self.ms = 0.0

    def __call__(self) -> float:
        self.ms += 2
        return self.ms


def meters_at(level: RecordingLevel) -> StoreMeters:
    return StoreMeters("rocksdb", Recording(level, monotonic_ms=Timer()))


@pytest.fixture
def metered(tmp_path: Path) -> Iterator[tuple[Any, StoreMeters]]:
    store = Home(tmp_path).open(spec_of(StoreEngine.IN_MEMORY))
    meters = meters_at(RecordingLevel.DEBUG)
    yield as_processors_see_it(store, meters), meters
    store.close()


def counts(meters: StoreMeters) -> dict[str, int]:
    return {name: values.count for name, values in meters.operations.items() if values.count}


def test_processors_are_given_the_store_itself_at_info(tmp_path: Path) -> None:
    store = Home(tmp_path).open(spec_of(StoreEngine.IN_MEMORY))
    meters = meters_at(RecordingLevel.INFO)

    assert as_processors_see_it(store, meters) is store
    assert meters.operations == {}


@pytest.mark.parametrize("level", [RecordingLevel.DEBUG, RecordingLevel.TRACE])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_of_store_has_the_operations_that_kafka_has(
    kind: Kind, level: RecordingLevel
) -> None:
    store: Any = build_store(spec_of(StoreEngine.IN_MEMORY, **kind.spec))
    meters = meters_at(level)

    seen = as_processors_see_it(store, meters)

    assert isinstance(seen, MeteredStore)
    assert meters.operations.keys() == kind.calls.keys()
    assert meters.operations.keys() <= set(OPERATIONS)
    called = {call[0] for calls in kind.calls.values() for call in calls}
    assert store.metered_methods.keys() == called


@pytest.mark.parametrize(("changes", "operation", "call"), ALL_CALLS)
def test_a_call_is_measured_as_its_operation_and_as_nothing_else(
    changes: dict[str, Any], operation: str, call: tuple[Any, ...], tmp_path: Path
) -> None:
    method, *arguments = call
    builder = StoreSpecBuilder(spec_of(StoreEngine.IN_MEMORY, **changes))
    store = Home(tmp_path).open_builder(builder)
    meters = meters_at(RecordingLevel.DEBUG)
    seen = as_processors_see_it(store, meters)

    found = getattr(seen, method)(*arguments)
    if hasattr(found, "__next__"):
        list(found)

    assert counts(meters) == {operation: 1}
    store.close()


def test_calls_are_counted_by_operation(metered: tuple[Any, StoreMeters]) -> None:
    store, meters = metered

    store.put("a", 1)
    store.put("b", 2)
    assert store.get("a") == 1
    assert store.put_if_absent("a", 7) == 1
    assert store.delete("b") == 2

    assert counts(meters) == {"put": 2, "get": 1, "put-if-absent": 1, "delete": 1}


def test_a_call_is_timed(metered: tuple[Any, StoreMeters]) -> None:
    store, meters = metered

    store.put("a", 1)

    assert meters.operation("put").read(meters.monotonic_ms()).average == 2


def test_what_a_store_calls_on_itself_is_not_metered(metered: tuple[Any, StoreMeters]) -> None:
    store, meters = metered

    store.put_all([("a", 1), ("b", 2)])

    assert counts(meters) == {"put-all": 1}


def test_a_call_that_raises_is_not_recorded(metered: tuple[Any, StoreMeters]) -> None:
    store, meters = metered

    with pytest.raises(Exception, match="serial"):
        store.put("a", "no long")

    assert counts(meters) == {}


def test_a_range_is_timed_up_to_the_end_of_its_iterator(metered: tuple[Any, StoreMeters]) -> None:
    store, meters = metered
    store.put_all([("a", 1), ("b", 2)])
    entries = store.range(None, None)

    assert meters.open_iterators == 1
    assert counts(meters) == {"put-all": 1}

    assert list(entries) == [("a", 1), ("b", 2)]
    assert meters.open_iterators == 0
    assert counts(meters) == {"put-all": 1, "range": 1}


def test_an_iterator_ends_once_when_it_is_exhausted_and_closed(
    metered: tuple[Any, StoreMeters],
) -> None:
    store, meters = metered
    store.put("a", 1)
    entries = store.all()

    assert list(entries) == [("a", 1)]
    entries.close()
    entries.close()
    del entries
    gc.collect()

    assert meters.open_iterators == 0
    assert counts(meters)["all"] == 1


def test_an_iterator_that_is_closed_early_or_dropped_counts_as_ended(
    metered: tuple[Any, StoreMeters],
) -> None:
    store, meters = metered
    store.put("a", 1)
    closed, dropped = store.all(), store.all()
    assert meters.open_iterators == 2

    closed.close()
    del dropped
    gc.collect()

    assert meters.open_iterators == 0
    assert counts(meters)["all"] == 2


def test_what_is_not_metered_is_the_stores_own(metered: tuple[Any, StoreMeters]) -> None:
    store, meters = metered

    assert store.name == "s"
    assert store.approximate_num_entries() == 0
    assert counts(meters) == {}
    with pytest.raises(AttributeError):
        store.no_such_method()


def test_a_store_that_declares_nothing_is_given_as_it_is() -> None:
    store = SqliteStore("own")

    assert as_processors_see_it(store, meters_at(RecordingLevel.DEBUG)) is store


def test_a_store_that_declares_an_unknown_operation_is_refused() -> None:
    class Own(SqliteStore):
        metered_methods: ClassVar[dict[str, str]] = {"look": "peek"}

    with pytest.raises(TopologyError, match=r"Own\.metered_methods names \['peek'\]"):
        as_processors_see_it(Own("own"), meters_at(RecordingLevel.DEBUG))


@pytest.mark.parametrize(
    ("changes", "scope"),
    [
        ({}, "rocksdb"),
        ({"engine": StoreEngine.IN_MEMORY}, "in-memory"),
        ({"engine": StoreEngine.IN_MEMORY, "max_entries": 3}, "in-memory-lru"),
        ({"kind": WINDOW}, "rocksdb-window"),
        ({"kind": SESSION, "engine": StoreEngine.IN_MEMORY}, "in-memory-session"),
        ({"kind": VERSIONED}, "rocksdb"),
        ({"engine_factory": lambda _name: None}, "custom"),
    ],
)
def test_the_type_in_the_tags_is_the_suppliers_name_of_it(
    changes: dict[str, Any], scope: str
) -> None:
    assert spec_of(**changes).metrics_scope == scope
