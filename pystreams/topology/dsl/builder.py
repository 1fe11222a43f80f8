"""`StreamsBuilder`: where a topology begins. Source: Kafka Streams' `StreamsBuilder`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from typing import Any, Unpack

from pystreams.config import StreamsConfig, optimizations_of
from pystreams.errors import TopologyError
from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.contracts.processor import ProcessorWrapper
from pystreams.topology.declarations.declared_stream import DeclaredStream
from pystreams.topology.declarations.global_tables import (
    declare_global_store,
    declared_global_table,
)
from pystreams.topology.declarations.graph_writing.streams_graph import StreamsGraph
from pystreams.topology.declarations.logical_graph.graph_nodes import (
    StateStoreNode,
    StreamSourceNode,
)
from pystreams.topology.declarations.tables.declared_table import table_of_topic
from pystreams.topology.dsl.missing_names import SaysWhatIsMissing
from pystreams.topology.dsl.streams_and_tables import GlobalKTable, KStream, KTable
from pystreams.topology.graph import naming
from pystreams.topology.graph.declaration_checks import check_store_builder
from pystreams.topology.graph.source_topics import compiled_pattern
from pystreams.topology.graph.topology import Topology
from pystreams.topology.operators.idle_time import checked_timeout
from pystreams.topology.operators.user_processor import AnyProcessor
from pystreams.topology.options.given_options import options_of
from pystreams.topology.options.materialized import Materialized, table_options
from pystreams.topology.options.operation_options import Consumed, ConsumedOptions
from pystreams.topology.options.type_variables import K, V


class StreamsBuilder(SaysWhatIsMissing):
    """Declares streams and tables; `build` makes a topology of them.

        builder = StreamsBuilder()
        orders = builder.stream("orders", key_serde=serdes.STRING, value_serde=serdes.JSON)
        orders.group_by_key().count(name="counts").to_stream().to("order-counts")
        topology = builder.build()

    Options are keywords. The names of nodes, stores and internal topics are Kafka Streams', so
    that the order of declarations matters: inserting an operation renames what follows and has no
    name of its own, and a renamed store begins empty. Not for several threads.

    Args:
        idle_timeout_ms: How long the input of a task is silent, on the wall clock (ms), before
            stream time goes on with the clock, for what waits for it: time windows, sliding
            windows, left and outer joins of streams, and joins with a grace period, unless they
            have one of their own. None leaves stream time to the records. See
            docs/dsl/idle-input.md.
        processor_wrapper: Wraps the suppliers of all `process` and `process_values`.

    Raises:
        TopologyError: It is no such time.
    """

    def __init__(
        self,
        *,
        idle_timeout_ms: int | None = None,
        processor_wrapper: ProcessorWrapper | None = None,
    ) -> None:
        self._graph = StreamsGraph(checked_timeout(idle_timeout_ms, "StreamsBuilder"))
        self._wrapper = processor_wrapper

    def stream(
        self,
        topics: str | Collection[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        consumed: Consumed[K, V] | None = None,
        **options: Unpack[ConsumedOptions[K, V]],
    ) -> KStream[K, V]:
        """Read topics as a stream.

        Args:
            topics: One topic or several; give these or `pattern`.
            pattern: A regular expression; every topic it matches as a whole is read.
            consumed: How to read; or give the same as keywords.
            options: Keywords of `Consumed`: `key_serde`, `value_serde`, `timestamp_extractor`,
                `offset_reset`, `name`.

        Raises:
            TopologyError: Topics and pattern are both given, or neither is, or one is not right.
        """
        chosen = options_of(Consumed, consumed, options, "stream")
        names = _topic_names(topics)
        if bool(names) == (pattern is not None):
            raise TopologyError("stream(...) needs topics or a pattern, one of the two")
        for topic in names:
            naming.check_name(topic, "a topic")
        compiled = compiled_pattern(pattern, "stream")
        name = self._graph.names.node_or(chosen.name, naming.STREAM_SOURCE)
        node = StreamSourceNode(name, names, compiled, chosen)
        self._graph.add(node)
        declared = DeclaredStream(
            self._graph, node, frozenset((name,)), chosen.key_serde, chosen.value_serde
        )
        return KStream(declared)

    def table(
        self,
        topic: str,
        *,
        consumed: Consumed[K, V] | None = None,
        materialized: Materialized[K, V] | None = None,
        **options: Unpack[ConsumedOptions[K, V]],
    ) -> KTable[K, V]:
        """Read a topic as a table: the last value of each key; a null value deletes the key.

        The table is kept in a store only if it is named, or if something looks into it (a join,
        a grouping). Records without a key are dropped.

        Args:
            consumed: How to read; or give the same as keywords.
            materialized: Name and options of the table's store.
            options: Keywords of `Consumed`, but for `name`, which names the table, that is its
                store (as `materialized=Materialized(name=...)` does).
        """
        naming.check_name(topic, "a topic")
        chosen, kept = _read_and_kept(consumed, materialized, options, "table")
        return KTable(table_of_topic(self._graph, topic, chosen, kept))

    def global_table(
        self,
        topic: str,
        *,
        consumed: Consumed[K, V] | None = None,
        materialized: Materialized[K, V] | None = None,
        **options: Unpack[ConsumedOptions[K, V]],
    ) -> GlobalKTable[K, V]:
        """Read a topic as a table that every process has whole; a null value deletes the key.

        It is read to its end before anything is processed, and followed from then on. So a stream
        can be joined with it by any key, however the topics are partitioned; each process needs
        the room for it and reads all of it. Its topic is its changelog. Records without a key are
        dropped, and records have their own timestamps.

        Args:
            consumed: How to read; or give the same as keywords.
            materialized: Name and options of the table's store.
            options: `key_serde` and `value_serde` of `Consumed`; and `name`, which names the table,
                that is its store (as `materialized=Materialized(name=...)` does).

        Raises:
            TopologyError: An option means nothing for a global table.
        """
        naming.check_name(topic, "a topic")
        chosen, kept = _read_and_kept(consumed, materialized, options, "global_table")
        return GlobalKTable(declared_global_table(self._graph, topic, chosen, kept))

    def add_global_store(
        self,
        store_builder: StoreBuilder,
        topic: str,
        supplier: Callable[[], AnyProcessor],
        *,
        consumed: Consumed[Any, Any] | None = None,
        **options: Unpack[ConsumedOptions[Any, Any]],
    ) -> StreamsBuilder:
        """Add a store that each process fills from the whole of a topic, with a processor.

        As `Topology.add_global_store`, with generated names of the nodes.

        Args:
            store_builder: Made with `Stores.key_value_store_builder(...)` and the like.
            topic: The topic; no other source may read it.
            supplier: Makes the processor, which alone writes into the store.
            consumed: How to read; or give the same as keywords.
            options: `key_serde`, `value_serde` and `name` of `Consumed`.

        Raises:
            TopologyError: It is not a store builder or no supplier, or an option means nothing for
                a global store.
        """
        check_store_builder(store_builder, "add_global_store")
        naming.check_name(topic, "a topic")
        chosen = options_of(Consumed, consumed, options, "add_global_store")
        declare_global_store(self._graph, store_builder, topic, chosen, supplier)
        return self

    def add_state_store(self, builder: StoreBuilder) -> StreamsBuilder:
        """Add a store that processors may name in `process(..., stores=[...])`.

        Args:
            builder: Made with `Stores.key_value_store_builder(...)` and the like.

        Raises:
            TopologyError: It is not a store builder.
        """
        check_store_builder(builder, "add_state_store")
        self._graph.add(StateStoreNode(builder.name, builder))
        return self

    def build(self, config: StreamsConfig | Mapping[str, Any] | None = None) -> Topology:
        """Return the topology of everything declared so far.

        Args:
            config: The application's configuration, of which `topology.optimization` counts; None
                for none of that.

        Raises:
            TopologyError: The declarations contradict each other; names the node and the cure.
            ConfigError: `topology.optimization` is none that there is.
        """
        topology = Topology(processor_wrapper=self._wrapper)
        topology.optimizations = optimizations_of(config)
        self._graph.write(topology, topology.optimizations)
        return topology


def _topic_names(topics: object) -> tuple[str, ...]:
    if topics is None:
        return ()
    if isinstance(topics, str):
        return (topics,)
    if isinstance(topics, bytes) or not isinstance(topics, Iterable):
        raise TopologyError(f"stream takes the name of a topic, or a list of names, not {topics!r}")
    return tuple(dict.fromkeys(topics))


def _read_and_kept(
    consumed: Consumed[K, V] | None,
    materialized: Materialized[K, V] | None,
    options: Mapping[str, Any],
    where: str,
) -> tuple[Consumed[K, V], Materialized[K, V]]:
    """Return how a table is read, and how it is kept: by the keyword `name`, for one."""
    keywords = dict(options)
    name = keywords.pop("name", None)
    known = {option.name for option in fields(Materialized)} - {"key_serde", "value_serde"}
    for option in sorted(known & keywords.keys()):
        raise TopologyError(
            f"{where} takes {option} as an option of its store: "
            f"materialized=Materialized({option}=...)"
        )
    read = options_of(Consumed, consumed, keywords, where)
    if materialized is not None and name is not None:
        raise TopologyError(
            f"{where}: it is named {name!r} and Materialized(...) is given: put the name into "
            "Materialized(name=...)"
        )
    named = {} if materialized is not None else {"name": name}
    return read, table_options(materialized, named, where)
