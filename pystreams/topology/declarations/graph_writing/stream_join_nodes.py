"""The nodes of a join of two streams: names, stores, and what is written of them.

    <this>  --> KSTREAM-WINDOWED-n    --> KSTREAM-JOINTHIS-n+2  --+
                                                                  +--> KSTREAM-MERGE-n+4
    <other> --> KSTREAM-WINDOWED-n+1  --> KSTREAM-JOINOTHER-n+3 --+

A stream whose missing matches are joined with None gives its name to the other side's join
(KSTREAM-OUTERTHIS-, KSTREAM-OUTEROTHER-). Stores are named after the joins, `<join>-store`; the one
that holds back what has no match after this side's, KSTREAM-OUTERSHARED-n+2-store. A name of the
user's replaces all of these, with suffixes; five numbers are used up all the same.

Source: Kafka Streams' `KStreamImplJoin`, `StreamStreamJoinNode`, `StreamJoinedStoreFactory`,
`OuterStreamJoinStoreFactory`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pystreams.errors import TopologyError
from pystreams.stores.contracts.spec import StoreEngine, StoreSpec, StoreSupplier
from pystreams.stores.factories import Stores
from pystreams.stores.kinds.list.kind import LIST
from pystreams.stores.kinds.window.kind import WINDOW
from pystreams.stores.retentions import window_retention
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.topology.contracts.operator import Operator
from pystreams.topology.declarations.logical_graph.graph_node import GraphNode, Place
from pystreams.topology.graph import naming
from pystreams.topology.graph.naming import NameCounter
from pystreams.topology.graph.topology import Topology
from pystreams.topology.operators.joins.held_back_serdes import (
    LeftOrRightValueSerde,
    TimestampedKeyAndJoinSideSerde,
)
from pystreams.topology.operators.joins.outer_join import OuterJoinOperator
from pystreams.topology.operators.joins.self_join import SelfJoinOperator
from pystreams.topology.operators.joins.stream_stream_join import (
    PairJoiner,
    StreamStreamJoinOperator,
)
from pystreams.topology.operators.records.stateless import PassThroughOperator
from pystreams.topology.options.join_windows import JoinWindows
from pystreams.topology.options.stream_joined import StreamJoined


@dataclass(frozen=True, slots=True)
class StreamJoin:
    """What is joined, and how.

    Attributes:
        windows: How far apart in time records may be.
        joiner: Called with (key, left value, right value).
        left_outer: Whether left records without a match are joined with None.
        right_outer: Whether right records without a match are.
        joined: The user's options, with serdes filled in where the streams have them.
        idle_timeout_ms: After how much silence the wall clock lets go of what has no match; None
            for never.
    """

    windows: JoinWindows
    joiner: PairJoiner
    left_outer: bool
    right_outer: bool
    joined: StreamJoined[Any, Any, Any]
    idle_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class JoinNames:
    """Names of the nodes of one join, and what the names of its stores begin with.

    Attributes:
        this_windowed: Keeps the left stream's records.
        other_windowed: Keeps the right stream's.
        this: The left side's join.
        other: The right side's.
        merge: Where both sides' results meet.
        this_store: The store of the left stream's records.
        other_store: The store of the right stream's records.
        held_back: The store of records without a match; there is none for an inner join.
    """

    this_windowed: str
    other_windowed: str
    this: str
    other: str
    merge: str
    this_store: str
    other_store: str
    held_back: str

    @classmethod
    def of(cls, join: StreamJoin, names: NameCounter) -> JoinNames:
        """Choose the names; five numbers are used up, whatever the user has named."""
        joined = join.joined
        this_windowed = names.suffixed_or(joined.name, "-this-windowed", naming.STREAM_WINDOWED)
        other_windowed = names.suffixed_or(joined.name, "-other-windowed", naming.STREAM_WINDOWED)
        this_suffix = "-outer-this-join" if join.right_outer else "-this-join"
        other_suffix = "-outer-other-join" if join.left_outer else "-other-join"
        this_prefix = naming.STREAM_OUTER_THIS if join.right_outer else naming.STREAM_JOIN_THIS
        other_prefix = naming.STREAM_OUTER_OTHER if join.left_outer else naming.STREAM_JOIN_OTHER
        this, other = names.node(this_prefix), names.node(other_prefix)
        given = None if joined.store_name is None else joined.store_name + this_suffix
        this_store = _store_name(names, joined.this_store_supplier, given, this)
        given = None if joined.store_name is None else joined.store_name + other_suffix
        other_store = _store_name(names, joined.other_store_supplier, given, other)
        base = joined.store_name if joined.this_store_supplier is None else this_store
        shared_suffix = "-outer-shared-join" if join.right_outer else "-left-shared-join"
        if base is None:
            number = this[len(this_prefix) :]
            held_back = names.made_of(this, f"{naming.STREAM_OUTER_SHARED}{number}-store")
        else:
            held_back = f"{base}{shared_suffix}-store"
        if joined.name is not None:
            this, other = joined.name + this_suffix, joined.name + other_suffix
        return cls(
            this_windowed=this_windowed,
            other_windowed=other_windowed,
            this=this,
            other=other,
            merge=names.suffixed_or(joined.name, "-merge", naming.STREAM_MERGE),
            this_store=this_store,
            other_store=other_store,
            held_back=held_back,
        )


def _store_name(
    names: NameCounter, supplier: StoreSupplier | None, given: str | None, node: str
) -> str:
    """Return the name of one side's store: its supplier's, a given one, or that of its node."""
    if supplier is not None:
        return supplier.name
    if given is not None:
        return f"{given}-store"
    return names.made_of(node, f"{node}-store")


@dataclass(frozen=True, eq=False)
class StreamStreamJoinNode(GraphNode):
    """The joins of both sides and the node that merges them; the window nodes are its siblings.

    Attributes:
        join: What is joined, and how.
    """

    names: JoinNames
    join: StreamJoin

    def write(self, topology: Topology, place: Place) -> None:
        """Add the joins, the merge and the stores, connected to all that use them.

        Raises:
            TopologyError: A store has the name of another operation's.
        """
        names, join = self.names, self.join
        this, other = self._side(left=True), self._side(left=False)
        topology.add_operator(
            names.this, this, (names.this_windowed,), looks_into=(names.other_store,)
        )
        topology.add_operator(
            names.other, other, (names.other_windowed,), looks_into=(names.this_store,)
        )
        topology.add_operator(names.merge, PassThroughOperator(), (names.this, names.other))
        joined = join.joined
        this_store = self._window_store(
            names.this_store, joined.this_store_supplier, joined.value_serde
        )
        other_store = self._window_store(
            names.other_store, joined.other_store_supplier, joined.other_value_serde
        )
        self._add_store(topology, this_store, names.this_windowed, names.other)
        self._add_store(topology, other_store, names.other_windowed, names.this)
        if join.left_outer:
            self._add_store(topology, self._held_back_store(), names.this, names.other)

    def _add_store(self, topology: Topology, builder: StoreSpecBuilder, *users: str) -> None:
        """Add a store of this join's own: one that is shared would hold the records of both."""
        if builder.name in topology.stores:
            raise TopologyError(
                f"join {self.name!r} needs a store {builder.name!r}, and another operation has one "
                "of that name: give one of them another store_name"
            )
        topology.add_state_store(builder, *users)

    def _side(self, *, left: bool) -> Operator:
        """Return the join of one side, which looks for the other's records."""
        names, join, windows = self.names, self.join, self.join.windows
        store, joiner = names.other_store, join.joiner
        before_ms, after_ms = windows.before_ms, windows.after_ms
        outer, other_outer = join.left_outer, join.right_outer
        if not left:
            store, joiner = names.this_store, _mirrored(joiner)
            before_ms, after_ms = after_ms, before_ms
            outer, other_outer = other_outer, outer
        if not join.left_outer:
            return StreamStreamJoinOperator(store, joiner, before_ms, after_ms)
        return OuterJoinOperator(
            store,
            names.held_back,
            joiner,
            left=left,
            outer=outer,
            other_outer=other_outer,
            before_ms=before_ms,
            after_ms=after_ms,
            grace_period_ms=windows.grace_period_ms,
            idle_timeout_ms=join.idle_timeout_ms if left else None,
        )

    def _window_store(
        self, name: str, supplier: StoreSupplier | None, value_serde: Any
    ) -> StoreSpecBuilder:
        """Return the builder of one side's store; no changelog of unique keys is compacted."""
        joined, windows = self.join.joined, self.join.windows
        if supplier is None:
            supplier = StoreSupplier(
                name,
                kind=WINDOW,
                engine=joined.store_type or StoreEngine.ROCKSDB,
                retention=window_retention(
                    name, windows.retention_ms, windows.size_ms, retain_duplicates=True
                ),
            )
        spec = Stores.window_store_builder(supplier, joined.key_serde, value_serde).spec
        builder = StoreSpecBuilder(replace(spec, logs_headers=True))
        return self._as_asked(builder, {**joined.log_config, "cleanup.policy": "delete"})

    def _held_back_store(self) -> StoreSpecBuilder:
        """Return the builder of the store that both sides share."""
        joined = self.join.joined
        engine = joined.store_type
        if engine is None and joined.this_store_supplier is not None:
            engine = joined.this_store_supplier.engine
        spec = StoreSpec(
            self.names.held_back,
            kind=LIST,
            engine=engine or StoreEngine.ROCKSDB,
            key_serde=TimestampedKeyAndJoinSideSerde(joined.key_serde),
            value_serde=LeftOrRightValueSerde(joined.value_serde, joined.other_value_serde),
        )
        return self._as_asked(StoreSpecBuilder(spec), dict(joined.log_config))

    def _as_asked(self, builder: StoreSpecBuilder, log_config: dict[str, str]) -> StoreSpecBuilder:
        """Return the builder with the user's options of logging and transactions."""
        joined = self.join.joined
        if not joined.transactional:
            builder = builder.with_transactional_disabled()
        if joined.logging:
            return builder.with_logging_enabled(log_config)
        return builder.with_logging_disabled()


@dataclass(frozen=True, eq=False)
class SelfJoinNode(StreamStreamJoinNode):
    """The inner join of a stream with itself: the left side's store serves both."""

    def write(self, topology: Topology, place: Place) -> None:
        """Add the join and its store."""
        names, windows, joined = self.names, self.join.windows, self.join.joined
        operator = SelfJoinOperator(
            names.this_store,
            self.join.joiner,
            windows.before_ms,
            windows.after_ms,
            windows.retention_ms,
        )
        topology.add_operator(
            self.name, operator, (names.this_windowed,), looks_into=(names.this_store,)
        )
        store = self._window_store(names.this_store, joined.this_store_supplier, joined.value_serde)
        self._add_store(topology, store, names.this_windowed, self.name)


def _mirrored(joiner: PairJoiner) -> PairJoiner:
    """Return the joiner as the right side calls it, with its own value first."""

    def join(key: Any, right: Any, left: Any) -> Any:
        return joiner(key, left, right)

    return join
