"""`StreamJoined`: options of a join of two streams. Source: Kafka Streams' `StreamJoined`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypedDict

from pystreams.errors import TopologyError
from pystreams.serdes import Serde
from pystreams.stores.contracts.spec import StoreEngine, StoreSupplier
from pystreams.topology.operators.idle_time import checked_timeout
from pystreams.topology.options.given_options import CheckedOptions
from pystreams.topology.options.join_windows import JoinWindows
from pystreams.topology.options.type_variables import K, V, VOther


@dataclass(frozen=True)
class StreamJoined(CheckedOptions, Generic[K, V, VOther]):
    """How two streams are joined: how their records are kept until they match, and under what name.

    Attributes:
        key_serde: How keys are written, to stores and to repartition topics; the left stream's own
            when None, then the right one's, then the configured default.
        value_serde: How the left stream's values are written; its own when None, then the default.
        other_value_serde: How the right stream's values are written; likewise.
        name: Begins the names of the join's nodes and of its repartition topics
            (`<application id>-<name>-left-repartition`, `...-right-repartition`).
        store_name: Begins the names of its stores, and with them of their changelog topics.
        logging: Whether the stores have changelog topics, from which lost ones are restored.
        log_config: Topic configuration of the changelogs, over the defaults.
        store_type: RocksDB or memory; RocksDB when None.
        transactional: Whether writes to the stores wait for the commit, see `Materialized`.
        this_store_supplier: Where the left stream's records are kept, in place of `store_name` and
            `store_type`: made with `Stores.persistent_window_store` or `in_memory_window_store`,
            with the retention and size of the join's windows, and with `retain_duplicates=True`.
        other_store_supplier: Where the right stream's records are kept.
        idle_timeout_ms: How long the input of a left or outer join is silent, on the wall clock
            (ms), before stream time goes on with the clock; as `StreamsBuilder` says when None,
            never when -1.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    other_value_serde: Serde[VOther] | None = None
    name: str | None = None
    store_name: str | None = None
    logging: bool = True
    log_config: Mapping[str, str] = field(default_factory=dict)
    store_type: StoreEngine | None = None
    transactional: bool = True
    this_store_supplier: StoreSupplier | None = None
    other_store_supplier: StoreSupplier | None = None
    idle_timeout_ms: int | None = None

    def __post_init__(self) -> None:
        """Refuse options of a wrong type, and stores of one name."""
        super().__post_init__()
        checked_timeout(self.idle_timeout_ms, "StreamJoined")
        this, other = self.this_store_supplier, self.other_store_supplier
        if this is not None and other is not None and this.name == other.name:
            raise TopologyError(
                f"StreamJoined: both stores are named {this.name!r}: give them different names"
            )

    def check_suppliers(self, windows: JoinWindows) -> None:
        """Refuse suppliers of stores in which the join would not find its records.

        Raises:
            TopologyError: A store is of another kind, or its times are not those of the windows.
        """
        for option in ("this_store_supplier", "other_store_supplier"):
            supplier = getattr(self, option)
            if supplier is not None:
                _check_supplier(option, supplier, windows)


class StreamJoinedOptions(TypedDict, Generic[K, V, VOther], total=False):
    """Keywords for `StreamJoined`."""

    key_serde: Serde[K] | None
    value_serde: Serde[V] | None
    other_value_serde: Serde[VOther] | None
    name: str | None
    store_name: str | None
    logging: bool
    log_config: Mapping[str, str]
    store_type: StoreEngine | None
    transactional: bool
    this_store_supplier: StoreSupplier | None
    other_store_supplier: StoreSupplier | None
    idle_timeout_ms: int | None


def _check_supplier(option: str, supplier: Any, windows: JoinWindows) -> None:
    where = f"StreamJoined: {option}"
    makers = "Stores.persistent_window_store or in_memory_window_store"
    if not isinstance(supplier, StoreSupplier):
        raise TopologyError(f"{where} must be made with {makers}, not {supplier!r}")
    if not supplier.kind.holds_joined_streams:
        raise TopologyError(
            f"{where}: store {supplier.name!r} is a {supplier.kind.name} store, in which a join "
            f"finds no windows: its supplier must be made with {makers}"
        )
    retention = supplier.retention
    assert retention is not None, f"store {supplier.name}: a window store has a retention"
    if not retention.retain_duplicates:
        raise TopologyError(
            f"{where}: store {supplier.name!r} keeps one record of those with equal key and time, "
            "and a join needs all: make it with retain_duplicates=True"
        )
    times = (retention.retention_ms, retention.window_size_ms)
    if times != (windows.retention_ms, windows.size_ms):
        raise TopologyError(
            f"{where}: store {supplier.name!r} has retention_ms={times[0]} and window_size_ms="
            f"{times[1]}, but {windows} need {windows.retention_ms} and {windows.size_ms}"
        )
