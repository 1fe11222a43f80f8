"""What a user asks a store to be: its kind and plain values, no engine and no file behind them.

The DSL and `Stores` make specs, the topology carries them, `build` turns them into stores. What
differs from kind to kind is asked of the spec's `StoreKind`, by everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from pystreams.errors import TopologyError
from pystreams.serdes import Serde, filled, filled_value
from pystreams.stores.contracts.key_layout import KeyLayout, KeyPart, KeyTime
from pystreams.stores.contracts.local_store import LocalStore
from pystreams.stores.contracts.queries import Query

if TYPE_CHECKING:
    from pystreams.stores.contracts.key_value import KeyValueEngine, StateStore

Answer = Callable[[Any, Any], Any]
"""Called with (view of the store, query)."""


def value_of_key(view: Any, query: Any) -> Any:
    """Answer with what a view has of a query's key: who knows the key needs no query for that."""
    return view.get(query.key)


EngineFactory = Callable[[str], "KeyValueEngine"]
"""Makes an engine from the name of its store."""

RowLookup = Callable[[Any], tuple[Any, int]]
"""Called with a row's key; returns (value, timestamp in ms), or (None, -1) without such a row."""

BytesLookup = Callable[[Any], "bytes | None"]
"""Called with a row's key; returns the bytes of its value, or None without such a row."""

ValuesNear = Callable[[Any, int, int], Iterable[tuple[int, Any]]]
"""Called with (key, first time, last time), both inclusive (ms); returns (time, value) in order."""

Reader = Callable[[bytes], Any]
"""Called with bytes; returns what they mean."""


HeldEntry = tuple[bytes, bytes, int, Mapping[str, "int | None"]]
"""(logged key, value, timestamp in ms, times in ms by name that are in neither)."""


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
        time_ordered: Whether a window or session store is laid out in order of time, with an index
            by key: for an aggregation that reads what has closed (`time_segments.time_order`).
        reads_while_live: Whether what is older than the retention is read as long as its segment is
            there: for a store that several operators write, each with a stream time of its own.
    """

    retention_ms: int
    segment_interval_ms: int
    window_size_ms: int | None = None
    retain_duplicates: bool = False
    time_ordered: bool = False
    reads_while_live: bool = False


class StoreKind:
    """What is to be known of a kind of store. One object a kind, which specs and builders carry.

    Nobody asks which kind a store is of, but what its kind can do. So a kind of your own takes a
    subclass that says what it does differently, and nothing else has to know of it. The defaults
    are those of a store that operations keep for themselves, whose logged key is its key.

    Attributes:
        name: Stands in messages and in the manifests of exports.
        factory: The method of `Stores` that makes a supplier of one; "" without any.
        contract: The class in `pystreams.testing` whose tests its stores pass.
        caches: Whether there may be a record cache: it keeps one value a key.
        has_serdes: Whether keys and values are the user's, with the serdes of the spec.
        holds_tables: Whether a table of the DSL may live in it: its stores have
            `get_with_timestamp`, `put_with_timestamp` and `set_flush_listener`.
        holds_windows: Whether a windowed aggregation may keep its results in it: its stores are
            window stores with timestamps.
        holds_sessions: Whether an aggregation of sessions may: its stores are session stores, and
            have `stream_time`, `segment_interval_ms`, `keep_from` and `find_kept_sessions` as ours.
        holds_joined_streams: Whether a join of two streams may keep its records in it: its stores
            are window stores.
        keeps_timestamps: Whether its stores know the time of the record that wrote an entry,
            whatever their engine keeps (`StoreSpec.engine_timestamped`).
        keeps_versions: Whether it keeps the history of each key: its stores have `get_as_of`, and
            the last changelog record of a key and time counts, else that of a key.
        expires_rows: Whether rows expire, by `StoreSpec.ttl_ms`: its stores have `rows`, `leave`
            and `leave_as_read` as ours.
        segmented: Whether stored keys begin with a segment of time, and go with it.
        ordered_by_key: Whether a restore must meet the records of a key in the order of logged
            keys, where otherwise that of their timestamps will do.
        key_layout: Where the record's key stands in a logged key.
        answers: How the view of a store answers queries; those of a class of your own, the store's
            `query` may answer as well.
        how_to_ask: What to do when a query is none of those.
        local_store: What `KafkaStreams.store` returns, over the stores' `read_only`; None if they
            are not for reading.
    """

    name: str
    factory = ""
    contract = "StateStoreContract"
    caches = True
    has_serdes = True
    holds_tables = False
    holds_windows = False
    holds_sessions = False
    holds_joined_streams = False
    keeps_timestamps = False
    keeps_versions = False
    expires_rows = False
    segmented = False
    ordered_by_key = False
    key_layout = KeyLayout()
    answers: ClassVar[Mapping[type[Query[Any]], Answer]] = {}
    how_to_ask = "ask it with a query that its query() knows"
    local_store: type[LocalStore] | None = None

    def build(self, spec: StoreSpec, engine: KeyValueEngine) -> StateStore:
        """Return a new store, not yet open.

        Args:
            engine: Holds its bytes: RocksDB, memory, one that loads in bulk, or the user's. The
                store's own from now on.
        """
        raise TopologyError(f"store {spec.name!r}: {self.name} stores are built by their builders")

    def changelog_defaults(
        self, retention: Retention | None, additional_retention_ms: int
    ) -> Mapping[str, str]:
        """Return the changelog topic's settings, the weakest of all.

        Args:
            retention: How long the store keeps records.
            additional_retention_ms: `windowstore.changelog.additional.retention.ms`.
        """
        return {"cleanup.policy": "compact"}

    def row_lookup(self, store: Any) -> RowLookup:
        """Return the function that looks up a row of a table whose store is of this kind."""
        lookup: RowLookup = store.get_with_timestamp
        return lookup

    def sent_row_lookup(self, store: Any) -> RowLookup:
        """Return the same for rows as they were sent downstream, not those a cache holds back.

        Of a store that says it `caches`, that is its `sent_with_timestamp`.
        """
        if not getattr(store, "caches", False):
            return self.row_lookup(store)
        lookup: RowLookup = store.sent_with_timestamp
        return lookup

    def sent_bytes_lookup(self, store: Any) -> BytesLookup | None:
        """Return the function that looks up the bytes of a row's value as it was sent downstream.

        None of a store that has no `sent_bytes`: nobody knows what it holds.
        """
        lookup: BytesLookup | None = getattr(store, "sent_bytes", None)
        return lookup

    def values_near(self, store: Any) -> ValuesNear:
        """Return the function that finds the values of a key of some time: a join's partners."""
        near: ValuesNear = store.fetch
        return near

    def metrics_scope(self, spec: StoreSpec) -> str:
        """Return the store's type in the tags of its metrics, as Kafka's suppliers name it."""
        return "rocksdb" if spec.engine is StoreEngine.ROCKSDB else "in-memory"

    def samples(self, store: Any) -> Mapping[str, float]:
        """Return what is to be sampled of a store at `metrics.recording.level` DEBUG.

        By what stands before `-avg` and `-max` in the names of its metrics. Asked at each commit.

        Args:
            store: As `build` made it.
        """
        return {}

    def key_times(self, retention: Retention | None) -> Mapping[str, KeyTime]:
        """Return the times in a logged key that stand beside its key where that is shown."""
        return {}

    def key_columns(self, retention: Retention | None) -> Mapping[str, KeyPart]:
        """Return what a logged key has beside the record's key, by the columns of an export."""
        return self.key_times(retention)

    def key_in(self, logged: bytes) -> bytes:
        """Return the record's key in a logged key."""
        layout = self.key_layout
        return logged[layout.head_bytes : len(logged) - layout.tail_bytes]

    def entry_readers(self, read_key: Reader, read_value: Reader) -> tuple[Reader, Reader]:
        """Return what shows logged keys and values, made of what the spec's serdes read with."""
        return lambda logged: read_key(self.key_in(logged)), read_value

    def held(self, store: Any) -> Iterator[HeldEntry]:
        """Return what a store holds, deletions left out, of one that has `changelog_records`."""
        for logged, value, timestamp, _ in store.changelog_records():
            if value is not None:
                yield logged or b"", value, timestamp, {}

    def record_key_serde(self, key_serde: Serde[Any] | None) -> Serde[Any] | None:
        """Return the serde of what `key_in` returns, given the spec's; None if nobody knows it."""
        return key_serde

    def form(self, spec: StoreSpec) -> str:
        """Return as what a store is read and written: `get_<form>` of the test driver gives it.

        "" where only `get_state_store` does; `get_key_value_store` then tries, too.
        """
        return ""

    def answer(self, query: Query[Any], spec: StoreSpec) -> Answer | None:
        """Return what answers a query of a store; None if its view can't."""
        return self.answers.get(type(query))

    def unknown_query(self, query: Query[Any], spec: StoreSpec) -> str:
        """Return what to say of a query that nothing answers."""
        return (
            f"state store {spec.name!r} is a {self.name} store and can't answer {query}: "
            f"{self.how_to_ask}"
        )

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"<{self.name} stores>"


@dataclass(frozen=True, slots=True)
class StoreSupplier:
    """Where a store's bytes shall live; what `Stores.persistent_...` and `in_memory_...` return.

    Was: KeyValueBytesStoreSupplier.

    Attributes:
        engine: RocksDB or memory; ignored when `engine_factory` is set.
        timestamped: Whether the engine keeps a timestamp with each value.
        engine_factory: Makes an engine of the user's own from the store's name; None for ours.
        retention: How long records are kept; None for key-value stores.
        max_entries: How many keys an `lru_map` keeps; None for all others.
    """

    name: str
    kind: StoreKind
    engine: StoreEngine = StoreEngine.ROCKSDB
    timestamped: bool = False
    engine_factory: EngineFactory | None = None
    retention: Retention | None = None
    max_entries: int | None = None


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """Everything needed to build a store and its changelog topic.

    Attributes:
        name: The store's name, unique in its topology.
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
        ttl_ms: How long a row lives, in stream time; None for ever.
        transactional: Whether writes wait for the commit, as KIP-892 has it; False writes them
            through at once, as a store before it did.
        logs_headers: Whether the changelog has the headers of the records that were written, as
            Kafka Streams 4.3 logs them for joins of two streams, and by foreign keys; window and
            key-value stores can.
        length_prefixed_keys: Whether a key begins with its length (int32) and the key by which
            records are partitioned; what tells entries of that key apart follows.
    """

    name: str
    kind: StoreKind
    _: KW_ONLY
    engine: StoreEngine = StoreEngine.ROCKSDB
    timestamped: bool = False
    engine_timestamped: bool = False
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    caching: bool = False
    logging: bool = True
    changelog_config: Mapping[str, str] = field(default_factory=dict)
    engine_factory: EngineFactory | None = None
    retention: Retention | None = None
    max_entries: int | None = None
    ttl_ms: int | None = None
    transactional: bool = True
    logs_headers: bool = False
    length_prefixed_keys: bool = False

    def changelog_defaults(self, additional_retention_ms: int) -> Mapping[str, str]:
        """Return the changelog topic's settings by the store's kind, the weakest of all.

        Args:
            additional_retention_ms: `windowstore.changelog.additional.retention.ms`, for window
                and session stores.
        """
        return self.kind.changelog_defaults(self.retention, additional_retention_ms)

    def filled_serdes(
        self, default_key: Serde[Any] | None, default_value: Serde[Any] | None
    ) -> tuple[Serde[Any] | None, Serde[Any] | None]:
        """Return the serdes of keys and values, with the configured defaults where they are open.

        None where they are bytes, which another part of the program reads.
        """
        if not self.kind.has_serdes:
            return None, None
        value_serde = filled_value(self.value_serde, default_value, default_key)
        return filled(self.key_serde, default_key), value_serde

    def parts_of_key(self, logged: bytes) -> tuple[bytes, dict[str, int]]:
        """Return the record's key in a logged key, and the times (ms) beside it, by name."""
        times = {
            name: int.from_bytes(logged[time.begins :][:8], signed=True) + time.plus_ms
            for name, time in self.kind.key_times(self.retention).items()
        }
        return self.kind.key_in(logged), times

    @property
    def metrics_scope(self) -> str:
        """The store's type in the tags of its metrics, as Kafka's suppliers name it.

        "custom" over an engine of the user's own. Spec: Kafka StoreSupplier.metricsScope.
        """
        return "custom" if self.engine_factory is not None else self.kind.metrics_scope(self)

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
