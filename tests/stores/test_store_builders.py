"""What `Stores` and its builders describe, and what is built from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pystreams import serdes
from pystreams.errors import TopologyError
from pystreams.stores.api import ValueAndTimestamp
from pystreams.stores.engines.memory import MemoryEngine
from pystreams.stores.factories import Stores
from pystreams.stores.spec import StoreEngine, StoreSpec, StoreSupplier
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.stores.support import Home

if TYPE_CHECKING:
    from pathlib import Path


def test_builders_are_changed_by_copy() -> None:
    first = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("s"), serdes.STRING, serdes.LONG
    )
    second = first.with_caching_enabled().with_logging_enabled({"segment.bytes": "1"})
    assert first.spec == StoreSpec("s", key_serde=serdes.STRING, value_serde=serdes.LONG)
    assert (second.spec.caching, second.logging, second.changelog_config) == (
        True,
        True,
        {"segment.bytes": "1"},
    )
    third = second.with_logging_disabled().with_caching_disabled()
    assert (third.name, third.spec.caching, third.logging, third.changelog_config) == (
        "s",
        False,
        False,
        {},
    )


@pytest.mark.parametrize(
    ("supplier", "engine", "engine_timestamped"),
    [
        (Stores.persistent_timestamped_key_value_store("s"), StoreEngine.ROCKSDB, True),
        (Stores.persistent_key_value_store("s"), StoreEngine.ROCKSDB, False),
        (Stores.in_memory_key_value_store("s"), StoreEngine.IN_MEMORY, True),
        (Stores.custom_key_value_store("s", MemoryEngine), StoreEngine.ROCKSDB, False),
        (Stores.custom_key_value_store("s", MemoryEngine, timestamped=True), None, True),
    ],
)
def test_a_timestamped_store_keeps_timestamps_where_the_supplier_can(
    supplier: StoreSupplier, engine: StoreEngine | None, *, engine_timestamped: bool
) -> None:
    """Spec: Kafka TimestampedKeyValueStoreBuilder."""
    spec = Stores.timestamped_key_value_store_builder(supplier).spec
    assert spec.timestamped
    assert spec.engine_timestamped is engine_timestamped
    if engine is not None:
        assert spec.engine is engine


@pytest.mark.parametrize(
    "builder",
    [
        Stores.timestamped_key_value_store_builder(
            Stores.persistent_timestamped_key_value_store("s"), serdes.STRING, serdes.JSON
        ),
        Stores.timestamped_key_value_store_builder(
            Stores.in_memory_key_value_store("s"), serdes.STRING, serdes.JSON
        ),
        Stores.timestamped_key_value_store_builder(
            Stores.custom_key_value_store("s", MemoryEngine, timestamped=True),
            serdes.STRING,
            serdes.JSON,
        ),
    ],
)
def test_what_a_builder_builds_works(builder: StoreSpecBuilder, tmp_path: Path) -> None:
    store: Any = builder.build()
    assert (store.name, store.is_open) == ("s", False)
    store.init(Home(tmp_path).context())
    store.put("a", ValueAndTimestamp([1], 5))
    assert store.get("a") == ([1], 5)
    assert builder.build() is not store
    store.close()


def test_a_plain_store_over_a_timestamped_supplier_is_refused() -> None:
    with pytest.raises(TopologyError, match="use timestamped_key_value_store_builder"):
        Stores.key_value_store_builder(Stores.persistent_timestamped_key_value_store("s"))


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "x" * 250])
def test_names_that_cannot_be_topics_are_refused(name: str) -> None:
    with pytest.raises(TopologyError, match="is not valid"):
        Stores.in_memory_key_value_store(name)
