"""`KStream`: a stream of records. Source: Kafka Streams' `KStream`, `KStreamImpl`."""

# ruff: noqa: SLF001 - streams look into the streams and tables they are put together with.

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TextIO, Unpack, overload

from pystreams.errors import TopologyError
from pystreams.serdes import Serde
from pystreams.topology import naming
from pystreams.topology.branched import BranchedKStream
from pystreams.topology.functions import (
    KEY_VALUE,
    VALUE,
    checked,
    checked_supplier,
    with_or_without_key,
)
from pystreams.topology.graph import StreamsGraph
from pystreams.topology.graph_nodes import (
    GraphNode,
    ProcessorGraphNode,
    SinkGraphNode,
    UserProcessorNode,
)
from pystreams.topology.grouped import KGroupedStream
from pystreams.topology.joinable import JoinableStream
from pystreams.topology.ktable import KTable
from pystreams.topology.materialization import TableStore
from pystreams.topology.nodes import TopicNameExtractor
from pystreams.topology.operator import Operator
from pystreams.topology.options import (
    Grouped,
    GroupedOptions,
    Materialized,
    MaterializedOptions,
    Produced,
    ProducedOptions,
    Repartitioned,
    RepartitionedOptions,
    options_of,
)
from pystreams.topology.processor import FixedKeyProcessor, Processor
from pystreams.topology.processors.printing import PrintOperator
from pystreams.topology.processors.stateless import (
    FilterOperator,
    FlatMapOperator,
    FlatMapValuesOperator,
    MapOperator,
    MapValuesOperator,
    PassThroughOperator,
    PeekOperator,
    SelectKeyOperator,
)
from pystreams.topology.processors.table import TableSourceOperator
from pystreams.topology.repartitioning import new_repartition
from pystreams.topology.type_variables import K2, V2, K, V


class KStream(JoinableStream[K, V]):
    """A stream of records; each operation returns a new stream and leaves this one as it is.

    Functions are called with (key, value) or with the value alone, as the operation says;
    `with_key=True` asks for both where the value alone is the rule. They run on the task's thread
    and must not change keys and values in place, which other branches of the stream may share.
    An exception in one goes to the processing handler, and the record is dropped if that says to
    go on.

    `name` names the operation's node, instead of the generated `KSTREAM-FILTER-0000000001`.
    Operations that may change the key make a later grouping or join send the records through a
    repartition topic.
    """

    def __init__(
        self,
        graph: StreamsGraph,
        node: GraphNode,
        *,
        sources: frozenset[str],
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        repartition_required: bool = False,
    ) -> None:
        self._graph = graph
        self._node = node
        self._sources = sources
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._repartition_required = repartition_required
        self._join_repartition: GraphNode | None = None

    # ------------------------------------------------------------------ one record at a time

    def filter(
        self, predicate: Callable[[K, V], bool], *, name: str | None = None
    ) -> KStream[K, V]:
        """Keep the records for which `predicate(key, value)` is true."""
        return self._same_key(
            FilterOperator(checked(predicate, "filter", KEY_VALUE)),
            naming.STREAM_FILTER,
            name,
            self._value_serde,
        )

    def filter_not(
        self, predicate: Callable[[K, V], bool], *, name: str | None = None
    ) -> KStream[K, V]:
        """Keep the records for which `predicate(key, value)` is false."""
        operator = FilterOperator(checked(predicate, "filter_not", KEY_VALUE), negate=True)
        return self._same_key(operator, naming.STREAM_FILTER, name, self._value_serde)

    def map(
        self, mapper: Callable[[K, V], tuple[K2, V2]], *, name: str | None = None
    ) -> KStream[K2, V2]:
        """Replace each record by the pair that `mapper(key, value)` returns."""
        operator = MapOperator(checked(mapper, "map", KEY_VALUE))
        return self._new_key(operator, naming.STREAM_MAP, name, None)

    @overload
    def map_values(
        self,
        mapper: Callable[[V], V2],
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> KStream[K, V2]: ...

    @overload
    def map_values(
        self, mapper: Callable[[K, V], V2], *, with_key: Literal[True], name: str | None = None
    ) -> KStream[K, V2]: ...

    def map_values(
        self, mapper: Callable[..., V2], *, with_key: bool = False, name: str | None = None
    ) -> KStream[K, V2]:
        """Replace each value by `mapper(value)`, or by `mapper(key, value)` with the key."""
        with_or_without_key(mapper, "map_values", VALUE, with_key=with_key)
        operator = MapValuesOperator(mapper, with_key=with_key)
        return self._same_key(operator, naming.STREAM_MAP_VALUES, name, None)

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[K2, V2]]], *, name: str | None = None
    ) -> KStream[K2, V2]:
        """Replace each record by any number of pairs, those that `mapper(key, value)` returns."""
        operator = FlatMapOperator(checked(mapper, "flat_map", KEY_VALUE))
        return self._new_key(operator, naming.STREAM_FLAT_MAP, name, None)

    @overload
    def flat_map_values(
        self,
        mapper: Callable[[V], Iterable[V2]],
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> KStream[K, V2]: ...

    @overload
    def flat_map_values(
        self,
        mapper: Callable[[K, V], Iterable[V2]],
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> KStream[K, V2]: ...

    def flat_map_values(
        self,
        mapper: Callable[..., Iterable[V2]],
        *,
        with_key: bool = False,
        name: str | None = None,
    ) -> KStream[K, V2]:
        """Replace each value by any number of values, those that `mapper(value)` returns."""
        with_or_without_key(mapper, "flat_map_values", VALUE, with_key=with_key)
        operator = FlatMapValuesOperator(mapper, with_key=with_key)
        return self._same_key(operator, naming.STREAM_FLAT_MAP_VALUES, name, None)

    def select_key(
        self, selector: Callable[[K, V], K2], *, name: str | None = None
    ) -> KStream[K2, V]:
        """Replace each key by `selector(key, value)`."""
        operator = SelectKeyOperator(checked(selector, "select_key", KEY_VALUE))
        return self._new_key(operator, naming.STREAM_SELECT_KEY, name, self._value_serde)

    def peek(self, action: Callable[[K, V], object], *, name: str | None = None) -> KStream[K, V]:
        """Call `action(key, value)` for each record and hand the record on."""
        operator = PeekOperator(checked(action, "peek", KEY_VALUE))
        return self._same_key(operator, naming.STREAM_PEEK, name, self._value_serde)

    def foreach(self, action: Callable[[K, V], object], *, name: str | None = None) -> None:
        """Call `action(key, value)` for each record; the stream ends here.

        What the action does outside of the topology is not part of exactly-once.
        """
        operator = PeekOperator(checked(action, "foreach", KEY_VALUE))
        self._same_key(operator, naming.STREAM_FOREACH, name, None)

    def print(
        self,
        *,
        label: str | None = None,
        file: TextIO | None = None,
        mapper: Callable[[K, V], str] | None = None,
        name: str | None = None,
    ) -> None:
        """Write each record as a line `[label]: key, value`; the stream ends here.

        Args:
            label: What stands in brackets; the name of this stream's node when None.
            file: Where to write; the standard output when None. Stays open.
            mapper: Called with (key, value); returns what stands after the label.
            name: Name of the node.
        """
        if mapper is not None:
            checked(mapper, "print", KEY_VALUE)
        operator = PrintOperator(label or self._node.name, file, mapper)
        self._same_key(operator, naming.STREAM_PRINT, name, None)

    # ------------------------------------------------------------------ several streams

    def merge(self, other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
        """Return the records of both streams, in no order between the two.

        Raises:
            TopologyError: The streams come from different builders.
        """
        self._check_same_builder(other, "merge")
        node_name = self._graph.names.node_or(name, naming.STREAM_MERGE)
        node = ProcessorGraphNode(node_name, PassThroughOperator())
        self._graph.add(node, self._node, other._node)
        # Kafka trusts neither serde, even if both streams have the same.
        same_key = self._key_serde is other._key_serde
        return KStream(
            self._graph,
            node,
            sources=self._sources | other._sources,
            key_serde=self._key_serde if same_key else None,
            value_serde=self._value_serde if self._value_serde is other._value_serde else None,
            repartition_required=self._repartition_required or other._repartition_required,
        )

    def split(self, *, name: str | None = None) -> BranchedKStream[K, V]:
        """Split the stream: each record goes to the first branch whose predicate is true.

        Args:
            name: Name of the node, which also begins the names of the branches.
        """
        node_name = self._graph.names.node_or(name, naming.STREAM_BRANCH)

        def branch_stream(node: GraphNode) -> KStream[K, V]:
            return self._after(node, self._key_serde, self._value_serde)

        return BranchedKStream(self._graph, self._node, node_name, branch_stream)

    # ------------------------------------------------------------------ groups and topics

    def group_by_key(
        self, *, grouped: Grouped[K, V] | None = None, **options: Unpack[GroupedOptions[K, V]]
    ) -> KGroupedStream[K, V]:
        """Group the records by their key, to aggregate them.

        Args:
            grouped: Serdes and name of a repartition; or give them as keywords.
            options: Keywords of `Grouped`; serdes are the stream's own unless given.
        """
        chosen = options_of(Grouped, grouped, options, "group_by_key")
        return self._grouped(self, chosen, self._key_serde)

    def group_by(
        self,
        selector: Callable[[K, V], K2],
        *,
        grouped: Grouped[K2, V] | None = None,
        **options: Unpack[GroupedOptions[K2, V]],
    ) -> KGroupedStream[K2, V]:
        """Group the records by `selector(key, value)`, to aggregate them; always repartitions.

        Args:
            selector: Called with (key, value); returns the new key; None drops the record.
            grouped: Serdes and name of the repartition; or give them as keywords.
            options: Keywords of `Grouped`; the value serde is the stream's own unless given.
        """
        chosen = options_of(Grouped, grouped, options, "group_by")
        checked(selector, "group_by", KEY_VALUE)
        return self._grouped(self.select_key(selector, name=chosen.name), chosen, None)

    def repartition(
        self,
        *,
        repartitioned: Repartitioned[K, V] | None = None,
        **options: Unpack[RepartitionedOptions[K, V]],
    ) -> KStream[K, V]:
        """Send the stream through an internal topic, spread by its present key.

        Args:
            repartitioned: Serdes, partitioner, number of partitions, name; or as keywords.
            options: Keywords of `Repartitioned`.
        """
        chosen = options_of(Repartitioned, repartitioned, options, "repartition")
        prefix = chosen.name or self._graph.names.node(naming.STREAM_REPARTITION)
        return self._through(prefix, chosen)

    def to(
        self,
        topic: str | TopicNameExtractor,
        *,
        produced: Produced[K, V] | None = None,
        **options: Unpack[ProducedOptions[K, V]],
    ) -> None:
        """Write the stream to a topic that exists; the stream ends here.

        Args:
            topic: The topic, or a function (key, value, record) -> topic.
            produced: Serdes, partitioner and name; or give them as keywords.
            options: Keywords of `Produced`; serdes are the stream's own unless given.

        Raises:
            TopologyError: The topic is neither a name nor a function.
        """
        chosen = options_of(Produced, produced, options, "to")
        if callable(topic):
            checked(topic, "to", (*KEY_VALUE, "record"))
        else:
            naming.check_name(topic, "a topic")
        name = self._graph.names.node_or(chosen.name, naming.STREAM_SINK)
        node = SinkGraphNode(
            name,
            topic,
            chosen.key_serde or self._key_serde,
            chosen.value_serde or self._value_serde,
            chosen.partitioner,
        )
        self._graph.add(node, self._node)

    def to_table(
        self,
        *,
        node_name: str | None = None,
        materialized: Materialized[K, V] | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]:
        """Read the stream as updates of a table: the last value of each key, None deletes.

        Args:
            node_name: Name of the node.
            materialized: Options of the table's store; or give them as keywords.
            options: Keywords of `Materialized`; serdes are the stream's own unless given.
        """
        chosen = options_of(Materialized, materialized, options, "to_table")
        name = self._graph.names.node_or(node_name, naming.STREAM_TO_TABLE)
        store = TableStore.of(
            chosen,
            self._graph.names,
            naming.STREAM_TO_TABLE,
            key_serde=self._key_serde,
            value_serde=self._value_serde,
        )
        parent: KStream[K, V] = self
        if self._repartition_required:
            serdes = Repartitioned(key_serde=store.key_serde, value_serde=store.value_serde)
            parent = self._through(name, serdes)
        operator = TableSourceOperator(store.name, materialized=store.queryable_name is not None)
        node = ProcessorGraphNode(name, operator, own_store=store.builder())
        self._graph.add(node, parent._node)
        node.versioned = store.versioned
        return KTable(
            self._graph,
            node,
            operator,
            sources=parent._sources,
            key_serde=store.key_serde,
            value_serde=store.value_serde,
            queryable_store_name=store.queryable_name,
        )

    # ------------------------------------------------------------------ the user's processors

    def process(
        self,
        supplier: Callable[[], Processor[K, V, K2, V2]],
        *,
        stores: Sequence[str] = (),
        name: str | None = None,
    ) -> KStream[K2, V2]:
        """Run a processor of your own on each record; what it forwards is the new stream.

        Args:
            supplier: Makes a new processor for each task; the class itself will do. Is called
                twice at once, as in `Topology.add_processor`. Stores that its method `stores()`
                returns are added and connected.
            stores: Names of stores the processor uses, added with `add_state_store`.
            name: Name of the node.

        Raises:
            TopologyError: `supplier` does not make a new processor at each call, or `stores` are
                not names.
        """
        node_name = self._processor_name(name, naming.STREAM_PROCESS)
        checked_supplier(supplier, node_name)
        names = _store_names(stores, node_name)
        node = UserProcessorNode(node_name, supplier, names, fixed_key=False)
        self._graph.add(node, self._node)
        return self._after(node, None, None, repartition_required=True)

    def process_values(
        self,
        supplier: Callable[[], FixedKeyProcessor[K, V, V2]],
        *,
        stores: Sequence[str] = (),
        name: str | None = None,
    ) -> KStream[K, V2]:
        """Run a processor that keeps the key, so that no repartition is needed after it.

        Takes the same arguments as `process`.
        """
        node_name = self._processor_name(name, naming.STREAM_PROCESS_VALUES)
        checked_supplier(supplier, node_name)
        names = _store_names(stores, node_name)
        node = UserProcessorNode(node_name, supplier, names, fixed_key=True)
        self._graph.add(node, self._node)
        return self._after(node, self._key_serde, None)

    # ------------------------------------------------------------------ inside

    def _processor_name(self, given: str | None, prefix: str) -> str:
        """Return the name of a processor; no number is used up when it is given."""
        if given is None:
            return self._graph.names.node(prefix)
        naming.check_name(given, "a node")
        return given

    def _after(
        self,
        node: GraphNode,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        *,
        repartition_required: bool | None = None,
    ) -> KStream[Any, Any]:
        """Return the stream behind a node of the same sub-topology."""
        required = self._repartition_required
        return KStream(
            self._graph,
            node,
            sources=self._sources,
            key_serde=key_serde,
            value_serde=value_serde,
            repartition_required=required if repartition_required is None else repartition_required,
        )

    def _same_key(
        self, operator: Operator, prefix: str, name: str | None, value_serde: Serde[Any] | None
    ) -> KStream[K, Any]:
        node = ProcessorGraphNode(self._graph.names.node_or(name, prefix), operator)
        self._graph.add(node, self._node)
        return self._after(node, self._key_serde, value_serde)

    def _new_key(
        self, operator: Operator, prefix: str, name: str | None, value_serde: Serde[Any] | None
    ) -> KStream[Any, Any]:
        node = ProcessorGraphNode(self._graph.names.node_or(name, prefix), operator)
        self._graph.add(node, self._node)
        return self._after(node, None, value_serde, repartition_required=True)

    def _grouped(
        self, stream: KStream[Any, Any], chosen: Grouped[Any, Any], key_serde: Serde[Any] | None
    ) -> KGroupedStream[Any, Any]:
        # Differs from Kafka: a serde that Grouped leaves open is the stream's, not the default.
        grouped = Grouped(
            chosen.key_serde or key_serde, chosen.value_serde or self._value_serde, chosen.name
        )
        return KGroupedStream(
            self._graph,
            stream._node,
            grouped,
            sources=self._sources,
            repartition_required=stream._repartition_required,
        )

    def _through(self, prefix: str, options: Repartitioned[Any, Any]) -> KStream[K, V]:
        """Return this stream behind a new repartition topic."""
        inherited = Repartitioned(
            options.key_serde or self._key_serde,
            options.value_serde or self._value_serde,
            options.partitioner,
            options.num_partitions,
        )
        node = new_repartition(self._graph.names, prefix, inherited)
        self._graph.add(node, self._node)
        return KStream(
            self._graph,
            node,
            sources=frozenset((node.name,)),
            key_serde=inherited.key_serde,
            value_serde=inherited.value_serde,
        )

    def _stream(
        self,
        node: GraphNode,
        sources: frozenset[str],
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
    ) -> KStream[Any, Any]:
        return KStream(
            self._graph, node, sources=sources, key_serde=key_serde, value_serde=value_serde
        )


def _store_names(stores: Sequence[str], node: str) -> tuple[str, ...]:
    if isinstance(stores, str) or not all(isinstance(store, str) for store in stores):
        message = (
            f"processor {node!r}: stores must be a list of names, not {stores!r}; add each store "
            "with add_state_store(...) and give its name here"
        )
        raise TopologyError(message)
    return tuple(stores)
