"""The contract for stores of a user: ours keep it, a minimal one does, broken ones do not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pytest

from pystreams import StateStore, StoreEngine, TopicPartition, ValueAndTimestamp, serdes
from pystreams.stores.build import build_store
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.kinds.key_value.kind import KEY_VALUE
from pystreams.testing import KeyValueStoreContract, StateStoreContract
from tests.stores.custom import OffsetKeepingStore, SqliteStore, TellingStore
from tests.testing.contract_failures import failures_of


class OurStore(KeyValueStoreContract):
    """Our stores, by their spec."""

    changes: ClassVar[Mapping[str, Any]] = {}

    def make_store(self) -> Any:
        return build_store(StoreSpec("ours", KEY_VALUE, **self.changes))


class TestRocksDBStore(OurStore):
    pass


class TestMemoryStore(OurStore):
    changes: ClassVar = {"engine": StoreEngine.IN_MEMORY}


class TestTimestampedRocksDBStore(OurStore):
    changes: ClassVar = {"timestamped": True, "engine_timestamped": True}
    values: ClassVar = tuple(ValueAndTimestamp(text, 1_000) for text in "12345")


class TestTimestampedMemoryStore(TestTimestampedRocksDBStore):
    changes: ClassVar = {
        "engine": StoreEngine.IN_MEMORY,
        "timestamped": True,
        "engine_timestamped": True,
    }


class TestRocksDBStoreOfNumbers(OurStore):
    changes: ClassVar = {"key_serde": serdes.LONG, "value_serde": serdes.DOUBLE}
    keys: ClassVar = (0, 1, 2, 255, 256)
    values: ClassVar = (0.0, 0.5, 1.5, -1.0, 2.0)


class TestRocksDBStoreThatWritesThrough(OurStore):
    changes: ClassVar = {"transactional": False}


class TestMemoryStoreThatWritesThrough(OurStore):
    changes: ClassVar = {"engine": StoreEngine.IN_MEMORY, "transactional": False}


class TestCachingRocksDBStore(OurStore):
    changes: ClassVar = {"caching": True}

    environment = replace(StateStoreContract.environment, cache_enabled=True)


class TestMinimalCustomStore(KeyValueStoreContract):
    def make_store(self) -> SqliteStore:
        return SqliteStore("minimal")


class TestCustomStoreThatTells(KeyValueStoreContract):
    def make_store(self) -> TellingStore:
        return TellingStore("telling")


class TestCustomStoreWithOffsets(KeyValueStoreContract):
    def make_store(self) -> OffsetKeepingStore:
        return OffsetKeepingStore("keeping")


class TestStoreWithMethodsOfItsOwn(StateStoreContract):
    """A store that is not one of our kinds says how its entries are written and read."""

    def make_store(self) -> OffsetKeepingStore:
        return OffsetKeepingStore("own")

    def put_entry(self, store: OffsetKeepingStore, key: str, value: str) -> None:
        store.put(key, value)

    def delete_entry(self, store: OffsetKeepingStore, key: str) -> None:
        store.delete(key)

    def entries(self, store: OffsetKeepingStore) -> list[tuple[str, str]]:
        return list(store.all())


# Broken stores


class LosesUncommittedOnGet(OffsetKeepingStore):
    """Reads what was committed only."""

    def get(self, key: str) -> str | None:
        if self._uncommitted_bytes:
            return None
        return super().get(key)


class CommitsOnRollback(OffsetKeepingStore):
    def rollback(self) -> None:
        self._end("commit")


class ForgetsOffsets(OffsetKeepingStore):
    """Keeps its offsets in memory."""

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        self._offsets = dict(changelog_offsets)
        self._end("commit")

    def committed_offset(self, partition: TopicPartition) -> int | None:
        found: dict[TopicPartition, int] = getattr(self, "_offsets", {})
        return found.get(partition)


class CommitsOnClose(OffsetKeepingStore):
    def close(self) -> None:
        if self.is_open:
            self._end("commit")
        super().close()


class LogsWhatItRestores(SqliteStore):
    def restore(self, messages: Any) -> None:
        for message in messages:
            value = message.value()
            self.put(message.key().decode(), None if value is None else value.decode())


class IgnoresTombstones(SqliteStore):
    def restore(self, messages: Any) -> None:
        super().restore([message for message in messages if message.value() is not None])


class LogsNothing(SqliteStore):
    def put(self, key: str, value: str | None) -> None:
        self._write(key.encode(), None if value is None else value.encode())


class ExcludesTheEnd(SqliteStore):
    def _between(self, start: str | None, end: str | None) -> list[tuple[str, str]]:
        return [entry for entry in super()._between(start, end) if entry[0] != end]


class SaysItHoldsNothing(TellingStore):
    def holds_data(self) -> bool:
        return False


class DestroysNothing(SqliteStore):
    def destroy(self) -> None:
        self.close()


BROKEN = {
    LosesUncommittedOnGet: "test_the_owner_reads_its_own_uncommitted_writes",
    CommitsOnRollback: "test_a_rollback_takes_back_what_is_not_committed",
    ForgetsOffsets: "test_managed_offsets_outlive_close",
    CommitsOnClose: "test_what_is_not_committed_does_not_outlive_close",
    LogsWhatItRestores: "test_a_store_restored_from_its_changelog_is_equal",
    IgnoresTombstones: "test_a_store_restored_from_its_changelog_is_equal",
    LogsNothing: "test_a_store_restored_from_its_changelog_is_equal",
    ExcludesTheEnd: "test_ranges_are_inclusive_and_in_order_of_keys",
    SaysItHoldsNothing: "test_what_it_says_of_holding_data_is_so",
    DestroysNothing: "test_a_destroyed_store_is_empty_when_it_is_opened_again",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_store_fails_by_the_promise_it_breaks(kind: type[SqliteStore]) -> None:
    failures = failures_of(KeyValueStoreContract, lambda: kind("broken"))

    assert BROKEN[kind] in failures
    assert "and should be" in failures[BROKEN[kind]]


def test_the_whole_stores_fail_nothing() -> None:
    for whole in (SqliteStore, TellingStore, OffsetKeepingStore):
        assert failures_of(KeyValueStoreContract, partial(whole, "whole")) == {}


def test_a_store_without_the_least_can_not_be_made() -> None:
    class NoStore(StateStore):
        pass

    with pytest.raises(TypeError, match=r"abstract.*destroy"):
        NoStore()  # type: ignore[abstract]


def test_the_contract_imports_no_pytest() -> None:
    program = (
        "import sys, pystreams.testing, pystreams.testing.store_contract; "
        "print('pytest' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert done.stdout.strip() == "False"
