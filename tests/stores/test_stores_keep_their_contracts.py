"""mypy checks this file: the classes are what the protocols say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pystreams.stores.build import build_store
from pystreams.stores.engines.memory import MemoryEngine
from pystreams.stores.engines.rocksdb import RocksDBEngine
from pystreams.stores.kinds.key_value.plain import TypedKeyValueStore
from pystreams.stores.kinds.key_value.timestamped import TypedTimestampedKeyValueStore
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.stores.support import spec_of

if TYPE_CHECKING:
    from pystreams import StoreBuilder
    from pystreams.stores.contracts import key_value as api


def test_every_class_has_its_protocol() -> None:
    engines: list[api.KeyValueEngine] = [MemoryEngine("s"), RocksDBEngine("s", timestamped=False)]
    stores: list[api.StateStore] = [build_store(spec_of()), build_store(spec_of(timestamped=True))]
    builder: StoreBuilder = StoreSpecBuilder(spec_of())
    plain, timestamped = stores
    assert isinstance(plain, TypedKeyValueStore)
    assert isinstance(timestamped, TypedTimestampedKeyValueStore)
    key_value: api.KeyValueStore[Any, Any] = plain
    with_timestamps: api.TimestampedKeyValueStore[Any, Any] = timestamped
    assert [engine.persistent for engine in engines] == [False, True]
    assert (builder.name, key_value, with_timestamps) == ("s", plain, timestamped)
