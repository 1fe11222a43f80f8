"""What tests of stores share: contexts, changelog messages, and stores of every make."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from pystreams import (
    StateStoreContext,
    StoreEngine,
    StoreEnvironment,
    TaskId,
    TopicPartition,
    serdes,
)
from pystreams.record import DroppedRecords, OutputBuffer, PresentRecord, StaticMessage
from pystreams.stores.accounting.read_cache import ReadCacheBudget
from pystreams.stores.build import build_store
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.kinds.key_value.kind import KEY_VALUE

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams import StateStore
    from pystreams.stores.spec_builder import StoreSpecBuilder

CHANGELOG = TopicPartition("app-s-changelog", 0)


class Message(StaticMessage):
    """A changelog record as the Kafka client would hand it out."""

    def __init__(
        self,
        message_key: bytes | None,
        message_value: bytes | None,
        message_offset: int = 0,
        timestamp_ms: int = 0,
    ) -> None:
        super().__init__(*CHANGELOG, message_offset, message_key, message_value, timestamp_ms)


@dataclass
class Home:
    """Where one task's store lives: its directory, its changelog, its record context."""

    directory: Path
    cache_enabled: bool = False
    read_cache_bytes: int = 0
    exactly_once: bool = False
    changelog: OutputBuffer = field(
        default_factory=lambda: OutputBuffer(CHANGELOG.topic, CHANGELOG.partition)
    )
    record: PresentRecord = field(default_factory=PresentRecord)
    dropped: DroppedRecords = field(default_factory=DroppedRecords)

    def context(self, **changes: Any) -> StateStoreContext:
        """Return what a store is opened with; changes are of it or of its environment."""
        environment: dict[str, Any] = {
            "application_id": "app",
            "cache_enabled": self.cache_enabled,
            "read_cache_budget": ReadCacheBudget(self.read_cache_bytes),
            "exactly_once": self.exactly_once,
        }
        for option in fields(StoreEnvironment):
            if option.name in changes:
                environment[option.name] = changes.pop(option.name)
        values: dict[str, Any] = {
            "environment": StoreEnvironment(**environment),
            "task_id": TaskId(0, 0),
            "task_directory": self.directory,
            "changelog": self.changelog,
            "record": self.record,
            "dropped": self.dropped,
            "changelog_topic": CHANGELOG.topic,
        }
        return StateStoreContext(**(values | changes))

    def open(self, spec: StoreSpec) -> Any:
        store = built(spec)
        store.init(self.context())
        return store

    def open_builder(self, builder: StoreSpecBuilder) -> StateStore:
        """Open a store of any kind."""
        store = builder.build()
        store.init(self.context())
        return store

    def logged(self) -> list[tuple[bytes | None, bytes | None, int]]:
        """(key, value, timestamp) of what the store logged, oldest first."""
        return [(key, value, timestamp) for key, value, timestamp, _ in self.changelog.records]


def built(spec: StoreSpec) -> Any:
    """Return a store with the methods of its kind, not yet open."""
    return build_store(spec)


def spec_of(
    engine: StoreEngine = StoreEngine.ROCKSDB, *, timestamped: bool = False, **changes: Any
) -> StoreSpec:
    values: dict[str, Any] = {
        "name": "s",
        "kind": KEY_VALUE,
        "engine": engine,
        "timestamped": timestamped,
        "engine_timestamped": timestamped,
        "key_serde": serdes.STRING,
        "value_serde": serdes.LONG,
    }
    return StoreSpec(**(values | changes))
