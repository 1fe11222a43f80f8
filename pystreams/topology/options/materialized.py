"""`Materialized`: how a table is kept. Source: Kafka Streams' `Materialized`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypedDict

from pystreams.errors import TopologyError
from pystreams.serdes import Serde
from pystreams.stores.builder_arguments import topic_settings
from pystreams.stores.contracts.spec import StoreEngine, StoreKind, StoreSupplier
from pystreams.stores.kinds.key_value.kind import KEY_VALUE
from pystreams.stores.retentions import check_number, versioned_retention
from pystreams.topology.options.given_options import CheckedOptions, options_of
from pystreams.topology.options.type_variables import K, V


@dataclass(frozen=True)
class Materialized(CheckedOptions, Generic[K, V]):
    """How a table is kept.

    Attributes:
        name: Name of the state store, and with it of its changelog topic
            (`<application id>-<name>-changelog`); only a named store can be queried.
        key_serde: How keys are stored.
        value_serde: How values are stored.
        caching: Whether only the last update of a key is logged and forwarded at each commit.
        logging: Whether changes go to a changelog topic, from which a lost store is restored.
        log_config: Topic configuration of the changelog, over the defaults.
        store_type: RocksDB or memory; RocksDB when None.
        transactional: Whether writes wait for the commit. False writes them through at once;
            under exactly-once the store is then wiped and restored after each aborted
            transaction and each end that is not a clean one. Spec: KIP-844.
        history_retention_ms: Makes the store a versioned one, which must be named: how far back,
            in stream time, old versions can be read and late ones are taken. Changing it changes
            the segments, unless `segment_interval_ms` says what they were; a store on disk with
            other segments is refused until its directory is deleted. Its changelog topic keeps
            the `min.compaction.lag.ms` it was made with: raise that first.
        segment_interval_ms: Portions in which old versions go away; None chooses by the retention.
        retention_ms: Of a windowed aggregation: how long, in stream time, its windows are kept.
            None keeps them as long as they may still change; queries of older ones need more.
        ttl_ms: How long a row lives, in stream time: once the table has met a record that is later
            than the row's timestamp by more than that, the row is deleted, here and downstream.
            None keeps it for ever. Not in Kafka Streams.
        supplier: Where the store's bytes live, made with `Stores`, in place of `name`,
            `store_type`, `history_retention_ms` and `retention_ms`.
    """

    name: str | None = None
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    caching: bool = True
    logging: bool = True
    log_config: Mapping[str, str] = field(default_factory=dict)
    store_type: StoreEngine | None = None
    transactional: bool = True
    history_retention_ms: int | None = None
    segment_interval_ms: int | None = None
    retention_ms: int | None = None
    ttl_ms: int | None = None
    supplier: StoreSupplier | None = None

    def __post_init__(self) -> None:
        """Refuse options of a wrong type, and such that contradict each other."""
        super().__post_init__()
        topic_settings("Materialized: log_config", self.log_config)
        if self.supplier is not None:
            _check_supplier(self, self.supplier)
        elif self.history_retention_ms is not None:
            if self.name is None:
                raise TopologyError(
                    "Materialized: a table with history_retention_ms keeps its history in a store "
                    "of its own: give it a name=..."
                )
            versioned_retention(self.name, self.history_retention_ms, self.segment_interval_ms)
        elif self.segment_interval_ms is not None:
            raise TopologyError(
                "Materialized: segment_interval_ms goes with history_retention_ms: give that too"
            )
        if self.retention_ms is not None:
            check_number(self.name or "(unnamed)", "retention_ms", self.retention_ms, 0)
            if self.history_retention_ms is not None:
                raise TopologyError(
                    "Materialized: retention_ms is for windows, history_retention_ms for tables "
                    "that keep old versions: leave one of them out"
                )
        if self.ttl_ms is not None:
            _check_expiry(self, self.ttl_ms)

    @property
    def store_name(self) -> str | None:
        """Name of the store, given as such or by the supplier; None when there is none."""
        return self.name if self.supplier is None else self.supplier.name


class MaterializedOptions(TypedDict, Generic[K, V], total=False):
    """Keywords for `Materialized`."""

    name: str | None
    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    caching: bool
    logging: bool
    log_config: Mapping[str, str]
    store_type: StoreEngine | None
    transactional: bool
    history_retention_ms: int | None
    segment_interval_ms: int | None
    retention_ms: int | None
    ttl_ms: int | None
    supplier: StoreSupplier | None


def table_options(
    given: Materialized[K, V] | None, keywords: Mapping[str, Any], where: str
) -> Materialized[K, V]:
    """Return how an operation's table is kept; see `options_of`.

    Raises:
        TopologyError: As `options_of`; or the store asked for can't hold a table.
    """
    options: Materialized[K, V] = options_of(Materialized, given, keywords, where)
    if options.retention_ms is not None:
        raise TopologyError(
            f"{where}: retention_ms is for windows, and this table has none: leave it out, or "
            "group with windowed_by(...) first"
        )
    _check_fits(options.supplier, where, _TABLE)
    return options


def optional_table_options(
    given: Materialized[K, V] | None, keywords: Mapping[str, Any], where: str
) -> Materialized[K, V] | None:
    """Do as `table_options`; return None when there are no options at all."""
    return table_options(given, keywords, where) if given is not None or keywords else None


def windowed_table_options(
    given: Materialized[K, V] | None, keywords: Mapping[str, Any], where: str, *, sessions: bool
) -> Materialized[K, V]:
    """Do as `table_options`, for the table of a windowed aggregation.

    Args:
        given: The object the caller passed, if any.
        keywords: The keywords the caller passed.
        where: The operation, for error messages.
        sessions: Whether the windows are sessions.

    Raises:
        TopologyError: As `options_of`; or the store asked for can't hold such windows.
    """
    options: Materialized[K, V] = options_of(Materialized, given, keywords, where)
    if options.history_retention_ms is not None:
        raise TopologyError(
            f"{where}: results of windows keep no old versions: leave history_retention_ms out; "
            "how long windows are kept is retention_ms"
        )
    if options.ttl_ms is not None:
        raise TopologyError(
            f"{where}: windows go by themselves, so leave ttl_ms out; how long they are kept is "
            "retention_ms"
        )
    _check_fits(options.supplier, where, _SESSIONS if sessions else _WINDOWS)
    return options


class _Content(NamedTuple):
    """What an operation keeps in its store: its name, who can hold it, and which suppliers fit."""

    name: str
    fits: Callable[[StoreKind], bool]
    factories: str


_TABLE = _Content(
    "a table",
    lambda kind: kind.holds_tables,
    "Stores.persistent_timestamped_key_value_store, in_memory_key_value_store or "
    "persistent_versioned_key_value_store",
)
_WINDOWS = _Content(
    "results of windows",
    lambda kind: kind.holds_windows,
    "Stores.persistent_timestamped_window_store or in_memory_window_store",
)
_SESSIONS = _Content(
    "results of sessions",
    lambda kind: kind.holds_sessions,
    "Stores.persistent_session_store or in_memory_session_store",
)


def _check_fits(supplier: StoreSupplier | None, where: str, content: _Content) -> None:
    """Refuse a store of a kind that can't hold what the operation keeps."""
    if supplier is not None and not content.fits(supplier.kind):
        raise TopologyError(
            f"{where}: store {supplier.name!r} is a {supplier.kind.name} store, which can't hold "
            f"{content.name}: make its supplier with {content.factories}"
        )


def _check_expiry(options: Materialized[Any, Any], ttl_ms: int) -> None:
    """Refuse a time to live where rows can't expire."""
    name = options.store_name or "(unnamed)"
    check_number(name, "ttl_ms", ttl_ms, 1)
    if options.history_retention_ms is not None:
        raise TopologyError(
            "Materialized: ttl_ms is for tables that keep the latest rows alone, and with "
            "history_retention_ms old versions are kept: leave one of them out"
        )
    supplier = options.supplier
    if supplier is not None and (supplier.kind != KEY_VALUE or supplier.max_entries is not None):
        raise TopologyError(
            f"Materialized: rows of store {name!r} can't expire, which is a {supplier.kind.name} "
            "store or one of limited size: leave ttl_ms out, or make its supplier with "
            "Stores.persistent_timestamped_key_value_store or in_memory_key_value_store"
        )


def _check_supplier(options: Materialized[Any, Any], supplier: StoreSupplier) -> None:
    if not isinstance(supplier, StoreSupplier):
        raise TopologyError(
            f"Materialized: supplier must be made with Stores.persistent_... or in_memory_..., not "
            f"{supplier!r}"
        )
    for option in (
        "name",
        "store_type",
        "history_retention_ms",
        "segment_interval_ms",
        "retention_ms",
    ):
        if getattr(options, option) is not None:
            raise TopologyError(
                f"Materialized: the supplier of {supplier.name!r} says what {option}= would say: "
                "leave one of them out"
            )
