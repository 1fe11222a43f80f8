"""Each kind of store names its contract; stores that joins keep for themselves keep one too."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from pystreams import StoreEngine, StoreKind, serdes, testing
from pystreams.stores.build import build_store
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.kinds.list.kind import LIST
from pystreams.stores.kinds.list.store import ListValueStore
from pystreams.stores.kinds.suppress.buffered_change import FIRST_BY_KEY, unpacked
from pystreams.stores.kinds.suppress.kind import SUPPRESS
from pystreams.stores.kinds.suppress.store import SuppressionBuffer
from pystreams.testing import StateStoreContract
from tests.every_store import ALL_KINDS


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_every_kind_names_the_contract_that_its_stores_keep(kind: StoreKind) -> None:
    assert kind.contract in testing.__all__
    assert issubclass(getattr(testing, kind.contract), StateStoreContract)


class TestListStore(StateStoreContract):
    """Each list has one value here."""

    changes: ClassVar[dict[str, Any]] = {}

    def make_store(self) -> Any:
        return build_store(StoreSpec("lists", LIST, **self.changes))

    def put_entry(self, store: ListValueStore[str, str], key: str, value: str) -> None:
        store.discard(key)
        store.put(key, value)

    def delete_entry(self, store: ListValueStore[str, str], key: str) -> None:
        store.discard(key)

    def entries(self, store: ListValueStore[str, str]) -> list[tuple[str, str]]:
        return [(key, value) for key, values in store.all() for value in values]


class TestSuppressionBuffer(StateStoreContract):
    """A change to nothing, which waits as any other, stands for a deletion here."""

    changes: ClassVar[dict[str, Any]] = {}

    def make_store(self) -> Any:
        types: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
        return build_store(StoreSpec("waiting", SUPPRESS, **types, **self.changes))

    def put_entry(self, store: SuppressionBuffer[str, str], key: str, value: str) -> None:
        store.put(5, key, (value, None), self.record)

    def delete_entry(self, store: SuppressionBuffer[str, str], key: str) -> None:
        store.put(5, key, (None, None), self.record)

    def entries(self, store: SuppressionBuffer[str, str]) -> list[tuple[str, str]]:
        held = store._buffer.range(FIRST_BY_KEY, None)
        typed = [store.typed(key[1:], unpacked(stored)) for key, stored in held]
        return [(key, new) for key, (new, _) in typed if new is not None]


class TestSuppressionBufferInMemory(TestSuppressionBuffer):
    changes: ClassVar = {"engine": StoreEngine.IN_MEMORY}


class TestListStoreInMemory(TestListStore):
    changes: ClassVar = {"engine": StoreEngine.IN_MEMORY}


class TestListStoreThatWritesThrough(TestListStore):
    changes: ClassVar = {"transactional": False}
