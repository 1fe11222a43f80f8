"""What `TopologyTestDriver` hands out of the stores of a topology."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pystreams import (
    Processor,
    ProcessorContext,
    Stores,
    Topology,
    TopologyError,
    ValueAndTimestamp,
    VersionedRecord,
    Window,
    Windowed,
)
from pystreams.serdes import LONG, STRING
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.testing import TopologyTestDriver

TYPES = (STRING, LONG)
MINUTE_MS = 60_000
BUILDERS: dict[str, StoreSpecBuilder] = {
    "key_value_store": Stores.key_value_store_builder(
        Stores.in_memory_key_value_store("key_value_store"), *TYPES
    ),
    "timestamped_key_value_store": Stores.timestamped_key_value_store_builder(
        Stores.in_memory_key_value_store("timestamped_key_value_store"), *TYPES
    ),
    "versioned_key_value_store": Stores.versioned_key_value_store_builder(
        Stores.in_memory_versioned_key_value_store("versioned_key_value_store", MINUTE_MS), *TYPES
    ),
    "window_store": Stores.window_store_builder(
        Stores.in_memory_window_store("window_store", MINUTE_MS, 1000), *TYPES
    ),
    "timestamped_window_store": Stores.timestamped_window_store_builder(
        Stores.in_memory_window_store("timestamped_window_store", MINUTE_MS, 1000), *TYPES
    ),
    "session_store": Stores.session_store_builder(
        Stores.in_memory_session_store("session_store", MINUTE_MS), *TYPES
    ),
}
PLAIN_READERS = {
    "timestamped_key_value_store": "key_value_store",
    "timestamped_window_store": "window_store",
}


class Filing(Processor[str, int, str, int]):
    """Puts each value into all stores."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self._stores: dict[str, Any] = {name: context.get_state_store(name) for name in BUILDERS}

    def process(self, record: Any) -> None:
        key, value, time = record.key, record.value, record.timestamp
        stores = self._stores
        stores["key_value_store"].put(key, value)
        stores["timestamped_key_value_store"].put_with_timestamp(key, value, time)
        stores["versioned_key_value_store"].put(key, value, time)
        stores["window_store"].put(key, value, time)
        stores["timestamped_window_store"].put_with_timestamp(key, value, time, time)
        stores["session_store"].put(Windowed(key, Window(time, time)), value)


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    topology = Topology()
    topology.add_source("source", "in", key_serde=STRING, value_serde=LONG)
    topology.add_processor("file", Filing, "source")
    for builder in BUILDERS.values():
        topology.add_state_store(builder, "file")
    with TopologyTestDriver(topology) as made:
        made.create_input_topic("in", STRING, LONG).pipe_input("a", 1, timestamp=5)
        yield made


def test_each_kind_of_store_is_read_as_what_it_is(driver: TopologyTestDriver) -> None:
    stamped = ValueAndTimestamp(1, 5)
    store = driver.get_timestamped_key_value_store("timestamped_key_value_store")
    assert store.get("a") == stamped
    versions = driver.get_versioned_key_value_store("versioned_key_value_store")
    assert versions.get("a", 6) == VersionedRecord(1, 5)
    windows = driver.get_timestamped_window_store("timestamped_window_store")
    assert windows.fetch("a", 5) == stamped
    sessions = driver.get_session_store("session_store")
    assert sessions.fetch_session("a", 5, 5) == 1


@pytest.mark.parametrize("name", ["key_value_store", "timestamped_key_value_store"])
def test_a_key_value_store_is_read_and_written_as_plain_values(
    driver: TopologyTestDriver, name: str
) -> None:
    store = driver.get_key_value_store(name)
    assert store.get("a") == 1

    store.put_all([("b", 2), ("c", 3)])
    assert store.put_if_absent("b", 9) == 2
    assert store.put_if_absent("d", 4) is None
    assert store.delete("c") == 3

    assert list(store.all()) == [("a", 1), ("b", 2), ("d", 4)]
    assert list(store.reverse_all()) == [("d", 4), ("b", 2), ("a", 1)]
    assert list(store.range("b", None)) == [("b", 2), ("d", 4)]
    assert list(store.reverse_range(None, "b")) == [("b", 2), ("a", 1)]
    assert list(store.prefix_scan(b"d")) == [("d", 4)]
    assert store.approximate_num_entries() >= 3


@pytest.mark.parametrize("name", ["window_store", "timestamped_window_store"])
def test_a_window_store_is_read_and_written_as_plain_values(
    driver: TopologyTestDriver, name: str
) -> None:
    store = driver.get_window_store(name)
    assert store.fetch("a", 5) == 1

    store.put("a", 2, 6)
    store.put("b", 3, 6)
    store.put("b", None, 5)

    starts = ("a", 5), ("a", 6), ("b", 6)
    a5, a6, b6 = (Windowed(key, Window(at, at + 1000)) for key, at in starts)
    everything = [(a5, 1), (a6, 2), (b6, 3)]
    assert list(store.fetch("a", 0, 9)) == [(5, 1), (6, 2)]
    assert list(store.backward_fetch("a", 0, 9)) == [(6, 2), (5, 1)]
    assert list(store.fetch_range("a", "a", 0, 9)) == everything[:2]
    assert list(store.backward_fetch_range("a", "b", 6, 9)) == [(b6, 3), (a6, 2)]
    assert list(store.fetch_all(6, 6)) == everything[1:]
    assert list(store.backward_fetch_all(0, 9)) == everything[::-1]
    assert list(store.all()) == everything
    assert list(store.backward_all()) == everything[::-1]


def test_what_is_put_as_a_plain_value_has_no_known_time(driver: TopologyTestDriver) -> None:
    driver.get_key_value_store("timestamped_key_value_store").put("b", 2)
    driver.get_window_store("timestamped_window_store").put("b", 3, 7)

    store = driver.get_timestamped_key_value_store("timestamped_key_value_store")
    assert store.get("b") == ValueAndTimestamp(2, -1)
    windows = driver.get_timestamped_window_store("timestamped_window_store")
    assert windows.fetch("b", 7) == ValueAndTimestamp(3, -1)


@pytest.mark.parametrize("kind", BUILDERS)
@pytest.mark.parametrize("name", BUILDERS)
def test_a_store_of_another_kind_is_refused_and_the_right_method_named(
    driver: TopologyTestDriver, kind: str, name: str
) -> None:
    get = getattr(driver, f"get_{kind}")
    if kind in {name, PLAIN_READERS.get(name)}:
        assert get(name) is not None
    else:
        with pytest.raises(TopologyError, match=f"state store '{name}' is a .*: use get_{name}$"):
            get(name)


@pytest.mark.parametrize("kind", BUILDERS)
def test_a_store_that_does_not_exist_is_refused_by_name(
    driver: TopologyTestDriver, kind: str
) -> None:
    with pytest.raises(TopologyError, match="there is no state store 'none'; there are: "):
        getattr(driver, f"get_{kind}")("none")
