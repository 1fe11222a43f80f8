"""`KTable`: a table that changes, the latest value of each key. Source: Kafka's `KTableImpl`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, Unpack, overload

from pystreams.serdes import Serde
from pystreams.topology.functions import KEY_VALUE, VALUE, checked, with_or_without_key
from pystreams.topology.graph import StreamsGraph
from pystreams.topology.graph_nodes import GraphNode, ProcessorGraphNode
from pystreams.topology.materialization import TableStore
from pystreams.topology.naming import (
    TABLE_FILTER,
    TABLE_MAP_VALUES,
    TABLE_SELECT,
    TABLE_TO_STREAM,
)
from pystreams.topology.options import (
    Grouped,
    GroupedOptions,
    Materialized,
    MaterializedOptions,
    options_of,
)
from pystreams.topology.processors.table import (
    TableFilterOperator,
    TableMapValuesOperator,
    TableRegroupOperator,
    TableToStreamOperator,
)
from pystreams.topology.processors.table_view import TableOperator
from pystreams.topology.type_variables import K2, V2, K, V

if TYPE_CHECKING:
    from pystreams.topology.grouped_table import KGroupedTable
    from pystreams.topology.kstream import KStream


class KTable(Generic[K, V]):
    """A table: for each key its latest value; an update to None deletes the key.

    Made by `StreamsBuilder.table`, `KStream.to_table` and aggregations. Operations return new
    tables. A table keeps state of its own only where it must, or where the user names it: the
    options of `Materialized` (`name="..."` above all) make it keep a store that can be queried.
    """

    def __init__(
        self,
        graph: StreamsGraph,
        node: GraphNode,
        operator: TableOperator,
        *,
        sources: frozenset[str],
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        queryable_store_name: str | None,
    ) -> None:
        self._graph = graph
        self._node = node
        self._operator = operator
        self._sources = sources
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._queryable_store_name = queryable_store_name

    @property
    def queryable_store_name(self) -> str | None:
        """Name of the table's store, if the user gave it one; else None."""
        return self._queryable_store_name

    @property
    def _versioned(self) -> bool:
        """Whether updates are kept, or passed on, by their timestamps: late ones are history."""
        return self._node.versioned

    def filter(
        self,
        predicate: Callable[[K, V], bool],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, V] | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]:
        """Keep the rows for which the predicate is true; a row that no longer is, is deleted.

        Args:
            predicate: Called with (key, value), never with a deleted row.
            node_name: Name of the node.
            materialized: Options of the table's store; or give them as keywords.
            options: Keywords of `Materialized`. With a `name` the table gets a store.
        """
        checked(predicate, "filter", KEY_VALUE)
        chosen = _optional(materialized, options, "filter")
        return self._filter(predicate, chosen, node_name, negate=False)

    def filter_not(
        self,
        predicate: Callable[[K, V], bool],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, V] | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]:
        """Keep the rows for which the predicate is false; otherwise as `filter`."""
        checked(predicate, "filter_not", KEY_VALUE)
        chosen = _optional(materialized, options, "filter_not")
        return self._filter(predicate, chosen, node_name, negate=True)

    @overload
    def map_values(
        self,
        mapper: Callable[[V], V2],
        *,
        with_key: Literal[False] = False,
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]: ...

    @overload
    def map_values(
        self,
        mapper: Callable[[K, V], V2],
        *,
        with_key: Literal[True],
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]: ...

    def map_values(
        self,
        mapper: Callable[..., V2],
        *,
        with_key: bool = False,
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]:
        """Replace each row's value.

        Args:
            mapper: Called with (value), never with a deleted row; must not change it in place.
            with_key: Call the mapper with (key, value).
            node_name: Name of the node.
            materialized: Options of the table's store; or give them as keywords.
            options: Keywords of `Materialized`. With a `name` the table gets a store.
        """
        with_or_without_key(mapper, "map_values", VALUE, with_key=with_key)
        chosen = _optional(materialized, options, "map_values")
        store = self._optional_store(chosen, TABLE_MAP_VALUES, None)
        operator = TableMapValuesOperator(
            self._operator,
            mapper,
            with_key=with_key,
            store=_queryable_name(store),
        )
        value_serde = chosen.value_serde if chosen is not None else None
        return self._derived(operator, node_name, TABLE_MAP_VALUES, store, value_serde)

    @overload
    def to_stream(self, *, name: str | None = None) -> KStream[K, V]: ...

    @overload
    def to_stream(
        self, key_mapper: Callable[[K, V], K2], *, name: str | None = None
    ) -> KStream[K2, V]: ...

    def to_stream(
        self, key_mapper: Callable[[K, V], Any] | None = None, *, name: str | None = None
    ) -> KStream[Any, V]:
        """Return the stream of the table's changes; a deletion is a record with value None.

        Args:
            key_mapper: Chooses a new key, as `KStream.select_key` does; called with (key, value).
            name: Name of the node.
        """
        from pystreams.topology.kstream import KStream  # noqa: PLC0415 - they make each other

        node_name = self._graph.names.node_or(name, TABLE_TO_STREAM)
        node = ProcessorGraphNode(node_name, TableToStreamOperator())
        self._graph.add(node, self._node)
        stream = KStream[K, V](
            self._graph,
            node,
            sources=self._sources,
            key_serde=self._key_serde,
            value_serde=self._value_serde,
        )
        return stream if key_mapper is None else stream.select_key(key_mapper)

    def group_by(
        self,
        selector: Callable[[K, V], tuple[K2, V2]],
        *,
        grouped: Grouped[K2, V2] | None = None,
        **options: Unpack[GroupedOptions[K2, V2]],
    ) -> KGroupedTable[K2, V2]:
        """Put each row into a group of another table; aggregate it there.

        The rows travel through a repartition topic. When a row changes, its old value is
        subtracted from the old group and the new one added to the new group.

        Args:
            selector: Called with (key, value); returns (group, value). A row whose group or value
                is None is in no group.
            grouped: Serdes and name of the repartition topic; or give them as keywords.
            options: Keywords of `Grouped`.
        """
        from pystreams.topology.grouped_table import KGroupedTable  # noqa: PLC0415 - makes tables

        checked(selector, "group_by", KEY_VALUE)
        chosen = options_of(Grouped, grouped, options, "group_by")
        name = self._graph.names.node_or(chosen.name, TABLE_SELECT)
        node = ProcessorGraphNode(name, TableRegroupOperator(selector))
        self._graph.add(node, self._node)
        self._operator.enable_sending_old_values(force=True)
        return KGroupedTable(self._graph, node, chosen)

    # ------------------------------------------------------------------ inside

    def _filter(
        self,
        predicate: Callable[[K, V], bool],
        chosen: Materialized[K, V] | None,
        node_name: str | None,
        *,
        negate: bool,
    ) -> KTable[K, V]:
        store = self._optional_store(chosen, TABLE_FILTER, self._value_serde)
        operator = TableFilterOperator(
            self._operator,
            predicate,
            negate=negate,
            store=_queryable_name(store),
            versioned=self._versioned,
        )
        value_serde = (chosen and chosen.value_serde) or self._value_serde
        return self._derived(operator, node_name, TABLE_FILTER, store, value_serde)

    def _optional_store(
        self, chosen: Materialized[Any, Any] | None, prefix: str, value_serde: Serde[Any] | None
    ) -> TableStore | None:
        """Return the store asked for; options without a name use up a number all the same."""
        if chosen is None:
            return None
        return TableStore.of(
            chosen,
            self._graph.names,
            prefix,
            key_serde=self._key_serde,
            value_serde=value_serde,
        )

    def _derived(
        self,
        operator: TableOperator,
        node_name: str | None,
        prefix: str,
        store: TableStore | None,
        value_serde: Serde[Any] | None,
    ) -> KTable[Any, Any]:
        queryable = _queryable_name(store)
        node = ProcessorGraphNode(
            self._graph.names.node_or(node_name, prefix),
            operator,
            own_store=store.builder() if store is not None and queryable is not None else None,
        )
        self._graph.add(node, self._node)
        node.versioned = self._versioned
        if store is not None and queryable is not None:
            node.versioned = store.versioned
        return KTable(
            self._graph,
            node,
            operator,
            sources=self._sources,
            key_serde=store.key_serde if store is not None else self._key_serde,
            value_serde=value_serde,
            queryable_store_name=queryable,
        )


def _queryable_name(store: TableStore | None) -> str | None:
    return None if store is None else store.queryable_name


def _optional(
    given: Materialized[Any, Any] | None, keywords: Any, where: str
) -> Materialized[Any, Any] | None:
    """Return the options given, or None when there are none at all."""
    if given is None and not keywords:
        return None
    return options_of(Materialized, given, keywords, where)
