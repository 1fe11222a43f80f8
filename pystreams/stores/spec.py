"""What a user asks a store to be: plain values, no engine and no file behind them.

The DSL and `Stores` make specs, the topology carries them, `build` turns them into stores.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pystreams.serdes import Serde
    from pystreams.stores.api import KeyValueEngine, StateStore


VERSIONED_ADDITIONAL_LAG_MS = 86_400_000
"""Added to the history retention of a versioned store in its changelog's compaction lag: brokers
compact by the wall clock, history goes by stream time. Spec: KIP-889."""


class StoreKind(Enum):
    """What a store is indexed by."""

    KEY_VALUE = "key-value"
    WINDOW = "window"
    SESSION = "session"
    VERSIONED = "versioned"
    BUFFER = "buffer"
    LIST_VALUE = "list-value"


class StoreEngine(Enum):
    """Where a store keeps its bytes; the values are those of `default.dsl.store`."""

    ROCKSDB = "rocksDB"
    IN_MEMORY = "in_memory"


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a window, session or versioned store keeps records, and in what portions.

    Attributes:
        retention_ms: How long, in stream time; the history retention of a versioned store.
        segment_interval_ms: What one segment covers; records go away a segment at a time.
        window_size_ms: Length of the windows of a window store, else None.
        retain_duplicates: Whether a window store keeps every value put for one key and window.
    """

    retention_ms: int
    segment_interval_ms: int
    window_size_ms: int | None = None
    retain_duplicates: bool = False


@dataclass(frozen=True, slots=True)
class StoreSupplier:
    """Where a store's bytes shall live; what `Stores.persistent_...` and `in_memory_...` return.

    Was: KeyValueBytesStoreSupplier.

    Attributes:
        name: The store's name.
        kind: What the store is indexed by.
        engine: RocksDB or memory; ignored when `engine_factory` is set.
        timestamped: Whether the engine keeps a timestamp with each value.
        engine_factory: Makes an engine of the user's own from the store's name; None for ours.
        retention: How long records are kept; None for key-value stores.
        max_entries: How many keys an `lru_map` keeps; None for all others.
    """

    name: str
    kind: StoreKind = StoreKind.KEY_VALUE
    engine: StoreEngine = StoreEngine.ROCKSDB
    timestamped: bool = False
    engine_factory: Callable[[str], KeyValueEngine] | None = None
    retention: Retention | None = None
    max_entries: int | None = None


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """Everything needed to build a store and its changelog topic.

    Attributes:
        name: The store's name, unique in its topology.
        kind: What the store is indexed by.
        engine: RocksDB or memory; ignored when `engine_factory` is set.
        timestamped: Whether the typed store gives and takes timestamps.
        engine_timestamped: Whether the engine keeps them. False under a timestamped store means
            the user supplied a plain engine: timestamps are logged, and read back as -1.
        key_serde: None takes `default.key.serde`.
        value_serde: None takes `default.value.serde`.
        caching: Whether only the last update of a key is logged and forwarded at a commit; holds
            if the runtime has cache to give (`statestore.cache.max.bytes` above 0).
        logging: Whether the store has a changelog topic.
        changelog_config: Topic settings that override the library's and the configuration's.
        engine_factory: Makes an engine of the user's own from the store's name; None for ours.
        retention: How long records are kept; None for key-value stores.
        max_entries: How many keys an `lru_map` keeps; None for all others.
        transactional: Whether writes wait for the commit, as KIP-892 has it; False writes them
            through at once, as a store before it did.
        logs_headers: Whether the changelog has the headers of the records that were written, as
            Kafka Streams 4.3 logs them for joins of two streams; only window stores can.
    """

    name: str
    kind: StoreKind = StoreKind.KEY_VALUE
    engine: StoreEngine = StoreEngine.ROCKSDB
    timestamped: bool = False
    engine_timestamped: bool = False
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    caching: bool = False
    logging: bool = True
    changelog_config: Mapping[str, str] = field(default_factory=dict)
    engine_factory: Callable[[str], KeyValueEngine] | None = None
    retention: Retention | None = None
    max_entries: int | None = None
    transactional: bool = True
    logs_headers: bool = False

    def changelog_defaults(self, additional_retention_ms: int) -> Mapping[str, str]:
        """Return the changelog topic's settings by the store's kind, the weakest of all.

        Args:
            additional_retention_ms: `windowstore.changelog.additional.retention.ms`, for window
                and session stores.

        Spec: Kafka WindowedChangelogTopicConfig, VersionedChangelogTopicConfig.
        """
        if self.retention is None:
            return {"cleanup.policy": "compact"}
        retention_ms = self.retention.retention_ms
        if self.kind is StoreKind.VERSIONED:
            lag_ms = retention_ms + VERSIONED_ADDITIONAL_LAG_MS
            return {"cleanup.policy": "compact", "min.compaction.lag.ms": str(lag_ms)}
        kept_ms = retention_ms + additional_retention_ms
        return {"cleanup.policy": "compact,delete", "retention.ms": str(kept_ms)}

    @property
    def metrics_scope(self) -> str:
        """The store's type in the tags of its metrics, as Kafka's suppliers name it.

        "custom" over an engine of the user's own. Spec: Kafka StoreSupplier.metricsScope.
        """
        if self.engine_factory is not None:
            return "custom"
        if self.max_entries is not None:
            return "in-memory-lru"
        engine = "rocksdb" if self.engine is StoreEngine.ROCKSDB else "in-memory"
        windowed = self.kind in {StoreKind.WINDOW, StoreKind.SESSION}
        return f"{engine}-{self.kind.value}" if windowed else engine

    @classmethod
    def of(
        cls,
        supplier: StoreSupplier,
        key_serde: Serde[Any] | None = None,
        value_serde: Serde[Any] | None = None,
        *,
        timestamped: bool = False,
    ) -> StoreSpec:
        """Return the spec of a store over what a supplier says.

        A plain supplier in memory keeps timestamps all the same, because its bytes outlive
        nothing; a plain persistent one does not, because its files may be a plain store's.
        Spec: Kafka TimestampedKeyValueStoreBuilder.maybeWrap.
        """
        ours_in_memory = (
            supplier.engine_factory is None and supplier.engine is StoreEngine.IN_MEMORY
        )
        return cls(
            name=supplier.name,
            kind=supplier.kind,
            engine=supplier.engine,
            timestamped=timestamped,
            engine_timestamped=timestamped and (supplier.timestamped or ours_in_memory),
            key_serde=key_serde,
            value_serde=value_serde,
            engine_factory=supplier.engine_factory,
            retention=supplier.retention,
            max_entries=supplier.max_entries,
        )


class StoreBuilder(Protocol):
    """What `add_state_store` takes: names a store and can build it, once a task.

    A builder of a user's own subclasses it and writes `name` and `build`; the rest has defaults.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The store's name."""

    @property
    def logging(self) -> bool:
        """Whether the store has a changelog topic; True by default."""
        return True

    @property
    def changelog_config(self) -> Mapping[str, str]:
        """Topic settings that override the library's and the configuration's; none by default."""
        return {}

    @property
    def metrics_scope(self) -> str:
        """The store's type in the tags of its metrics, as in `rocksdb-state-id`."""
        return "custom"

    def changelog_defaults(self, additional_retention_ms: int) -> Mapping[str, str]:
        """Return the changelog topic's settings by the store's kind, the weakest of all.

        A compacted topic by default.
        """
        return {"cleanup.policy": "compact"}

    @abstractmethod
    def build(self) -> StateStore:
        """Return a new store, not yet open."""
