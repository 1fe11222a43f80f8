"""Declares that repeated records are dropped: operator and store, and a repartition if needed.

Records of one key must meet in one task; where keys are new, they are sent through a repartition
topic first, as for an aggregation. Ours alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pystreams.errors import TopologyError
from pystreams.serdes import BYTES, LONG, Serde
from pystreams.stores.contracts.spec import StoreEngine, StoreSpec, StoreSupplier
from pystreams.stores.kinds.window.kind import WINDOW
from pystreams.stores.retentions import window_retention
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.topology.contracts.user_functions import KEY_VALUE, checked
from pystreams.topology.declarations.declared_stream import DeclaredStream
from pystreams.topology.declarations.logical_graph.graph_nodes import StoringNode
from pystreams.topology.graph import naming
from pystreams.topology.operators.records.distinct import DistinctOperator
from pystreams.topology.options.operation_options import Repartitioned


@dataclass(frozen=True)
class DistinctCall:
    """What the user asked for; see `KStream.distinct`."""

    within_ms: int
    grace_period_ms: int
    by: Callable[..., Any] | None
    by_serde: Serde[Any]
    key_serde: Serde[Any] | None
    store_type: StoreEngine | None
    name: str | None

    def __post_init__(self) -> None:
        """Refuse what would only fail when the first record arrives."""
        for option in ("within_ms", "grace_period_ms"):
            given = getattr(self, option)
            if not isinstance(given, int) or isinstance(given, bool) or given < 0:
                raise TopologyError(
                    f"distinct: {option} must be a whole number of 0 or more ms, not {given!r}"
                )
        if self.by is not None:
            checked(self.by, "distinct", KEY_VALUE)


def distinct_stream(stream: DeclaredStream, call: DistinctCall) -> DeclaredStream:
    """Declare the operation and return the stream without repeated records."""
    name = stream.graph.names.node_or(call.name, naming.STREAM_DISTINCT)
    key_serde = call.key_serde or stream.key_serde
    if stream.repartition_required:
        stream = stream.repartitioned(name, Repartitioned(key_serde))
    operator = DistinctOperator(
        stream.graph.names.made_of(name, f"{name}-store"),
        call.within_ms,
        call.grace_period_ms,
        key_serde,
        call.by,
        call.by_serde,
    )
    supplier = StoreSupplier(
        operator.store,
        WINDOW,
        call.store_type or StoreEngine.ROCKSDB,
        retention=window_retention(
            operator.store, operator.retention_ms, operator.stretch_ms, retain_duplicates=False
        ),
    )
    spec = StoreSpec.of(supplier, BYTES, LONG)
    builder = StoreSpecBuilder(replace(spec, length_prefixed_keys=call.by is not None))
    node = StoringNode(name, operator, builder)
    return stream.followed_by(node, key_serde, stream.value_serde)
