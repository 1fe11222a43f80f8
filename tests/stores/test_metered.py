"""Metering of stores: nothing at INFO, the declared methods at DEBUG, whatever the kind."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pystreams.errors import TopologyError
from pystreams.metrics import Recording, RecordingLevel
from pystreams.metrics.definitions import OPERATIONS
from pystreams.stores.build import build_store
from pystreams.stores.metered import MeteredStore, StoreMeters, as_processors_see_it
from pystreams.stores.spec import Retention, StoreEngine, StoreKind
from tests.stores.support import Home, spec_of

RETENTION = Retention(60_000, 30_000, window_size_ms=1000)
KINDS = [
    {"timestamped": False},
    {"timestamped": True},
    {"kind": StoreKind.WINDOW, "retention": RETENTION},
    {"kind": StoreKind.WINDOW, "retention": RETENTION, "timestamped": True},
    {"kind": StoreKind.SESSION, "retention": RETENTION},
    {"kind": StoreKind.VERSIONED, "retention": RETENTION},
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
@pytest.mark.parametrize("changes", KINDS)
def test_every_kind_of_store_declares_known_operations_of_its_own_methods(
    changes: dict[str, Any], level: RecordingLevel
) -> None:
    store = build_store(spec_of(StoreEngine.IN_MEMORY, **changes))
    meters = meters_at(level)

    seen = as_processors_see_it(store, meters)

    assert isinstance(seen, MeteredStore)
    assert {"put", "fetch"} & meters.operations.keys()
    assert meters.operations.keys() <= set(OPERATIONS)


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
    store = object()

    assert as_processors_see_it(store, meters_at(RecordingLevel.DEBUG)) is store


def test_a_store_that_declares_an_unknown_operation_is_refused() -> None:
    class Own:
        metered_methods: ClassVar[dict[str, str]] = {"look": "peek"}

    with pytest.raises(TopologyError, match=r"Own\.metered_methods names \['peek'\]"):
        as_processors_see_it(Own(), meters_at(RecordingLevel.DEBUG))


@pytest.mark.parametrize(
    ("changes", "scope"),
    [
        ({}, "rocksdb"),
        ({"engine": StoreEngine.IN_MEMORY}, "in-memory"),
        ({"engine": StoreEngine.IN_MEMORY, "max_entries": 3}, "in-memory-lru"),
        ({"kind": StoreKind.WINDOW}, "rocksdb-window"),
        ({"kind": StoreKind.SESSION, "engine": StoreEngine.IN_MEMORY}, "in-memory-session"),
        ({"kind": StoreKind.VERSIONED}, "rocksdb"),
        ({"engine_factory": lambda _name: None}, "custom"),
    ],
)
def test_the_type_in_the_tags_is_the_suppliers_name_of_it(
    changes: dict[str, Any], scope: str
) -> None:
    assert spec_of(**changes).metrics_scope == scope
