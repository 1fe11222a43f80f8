"""What tests of versioned stores share: one store of strings and its home."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pystreams import StoreEngine, Stores, VersionedRecord, serdes
from pystreams.stores.build import build_store
from pystreams.stores.contracts.spec import StoreSpec
from tests.stores.support import CHANGELOG, Home, Message

HISTORY_RETENTION_MS = 300_000
SEGMENT_INTERVAL_MS = HISTORY_RETENTION_MS // 3


def versioned_spec(
    engine: StoreEngine = StoreEngine.ROCKSDB,
    history_retention_ms: int = HISTORY_RETENTION_MS,
    segment_interval_ms: int | None = SEGMENT_INTERVAL_MS,
    *,
    transactional: bool = True,
) -> StoreSpec:
    supply = (
        Stores.persistent_versioned_key_value_store
        if engine is StoreEngine.ROCKSDB
        else Stores.in_memory_versioned_key_value_store
    )
    supplier = supply("s", history_retention_ms, segment_interval_ms)
    builder = Stores.versioned_key_value_store_builder(supplier, serdes.STRING, serdes.STRING)
    return (builder if transactional else builder.with_transactional_disabled()).spec


class VersionedHome:
    """One versioned store of strings, with its home."""

    def __init__(self, directory: Path, spec: StoreSpec, *, exactly_once: bool = False) -> None:
        self.home = Home(directory, exactly_once=exactly_once)
        self.spec = spec
        self.offset = -1
        self.open()

    def open(self) -> None:
        self.store: Any = build_store(self.spec)
        self.store.init(self.home.context())

    def reopen(self) -> None:
        self.store.close()
        self.open()

    def put(self, key: str, value: str | None, timestamp: int) -> int:
        code: int = self.store.put(key, value, timestamp)
        return code

    def get(self, key: str, as_of: int | None = None) -> VersionedRecord[str] | None:
        found: VersionedRecord[str] | None = self.store.get(key, as_of)
        return found

    def versions(self, key: str, *times: int | None, descending: bool = False) -> list[Any]:
        return list(self.store.get_range(key, *times, descending=descending))

    def commit(self) -> None:
        self.offset += len(self.home.changelog.records)
        self.home.changelog.records.clear()
        self.store.commit({CHANGELOG: self.offset})

    def restore(self, *records: tuple[str, str | None, int]) -> None:
        messages = [
            Message(key.encode(), None if value is None else value.encode(), offset, timestamp)
            for offset, (key, value, timestamp) in enumerate(records, self.offset + 1)
        ]
        self.offset += len(records)
        self.store.restore(messages)

    def logged(self) -> list[tuple[str, str | None, int]]:
        return [
            ((key or b"").decode(), None if value is None else value.decode(), timestamp)
            for key, value, timestamp in self.home.logged()
        ]
