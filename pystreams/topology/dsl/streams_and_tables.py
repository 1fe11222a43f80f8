"""The DSL's classes: `KStream`, `KTable`, their groups and branches.

Streams make tables, and tables streams: classes that name each other are one module. It holds what
a user calls, with its types, its text and the checks of what was given. How an operation is
declared is said in modules that know none of these classes: `declared_stream`, `declared_table`,
`declared_groups`, `declared_branches`, `stream_joins`, `table_joins`.

Source: Kafka Streams' `KStream`, `KTable`, `KGroupedStream`, `KGroupedTable`, `BranchedKStream`.
"""

# ruff: noqa: SLF001 - streams look into the streams and tables they are put together with.

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Literal, Self, TextIO, Unpack, overload

from pystreams.errors import TopologyError
from pystreams.serdes import JSON, LONG, Serde
from pystreams.stores.contracts.spec import StoreEngine
from pystreams.stores.contracts.window import Window, Windowed
from pystreams.topology.aggregations.aggregation import Aggregation
from pystreams.topology.contracts.processor import (
    FixedKeyProcessor,
    Processor,
    ValueTransformerWithKey,
)
from pystreams.topology.contracts.retry import Retry
from pystreams.topology.contracts.user_functions import (
    KEY_VALUE,
    VALUE,
    Initializer,
    checked,
    checked_to_run,
    with_or_without_key,
)
from pystreams.topology.contracts.windows import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
)
from pystreams.topology.declarations import held_values, kept_serdes
from pystreams.topology.declarations.declared_branches import DeclaredSplit
from pystreams.topology.declarations.declared_stream import DeclaredStream, declared_of
from pystreams.topology.declarations.distinct import DistinctCall, distinct_stream
from pystreams.topology.declarations.global_tables import (
    DeclaredGlobalTable,
    join_global_table,
)
from pystreams.topology.declarations.groups.cogroups import Cogroups
from pystreams.topology.declarations.groups.declared_groups import StreamGroups, TableGroups
from pystreams.topology.declarations.groups.windowed_groups import WindowedGroups
from pystreams.topology.declarations.held_values import AsyncOptions
from pystreams.topology.declarations.joins.foreign_key_joins import join_by_foreign_key
from pystreams.topology.declarations.joins.join_call import JoinCall
from pystreams.topology.declarations.joins.joined_tables import TableJoinCall, join_tables
from pystreams.topology.declarations.joins.stream_joins import join_streams
from pystreams.topology.declarations.joins.table_joins import join_table
from pystreams.topology.declarations.tables.declared_table import DeclaredTable, table_of_stream
from pystreams.topology.declarations.tables.suppression import suppressed_table
from pystreams.topology.declarations.tables.transformed_tables import transformed_table
from pystreams.topology.dsl.missing_names import SaysWhatIsMissing
from pystreams.topology.graph import naming
from pystreams.topology.graph.nodes import TopicNameExtractor
from pystreams.topology.operators.fold import Fold, beginning
from pystreams.topology.operators.records import stateless
from pystreams.topology.operators.records.printing import PrintOperator
from pystreams.topology.operators.records.retries import retried
from pystreams.topology.operators.tables import aggregations as aggregate
from pystreams.topology.options.given_options import options_of
from pystreams.topology.options.join_windows import JoinWindows
from pystreams.topology.options.materialized import (
    Materialized,
    MaterializedOptions,
    optional_table_options,
    table_options,
    windowed_table_options,
)
from pystreams.topology.options.operation_options import (
    Grouped,
    GroupedOptions,
    Joined,
    JoinedOptions,
    Produced,
    ProducedOptions,
    Repartitioned,
    RepartitionedOptions,
)
from pystreams.topology.options.stream_joined import StreamJoined, StreamJoinedOptions
from pystreams.topology.options.suppressed import Suppressed
from pystreams.topology.options.table_joined import TableJoined
from pystreams.topology.options.type_variables import K2, V2, K, V, VAgg, VFolded, VOther


class KStream(SaysWhatIsMissing, Generic[K, V]):
    """A stream of records; each operation returns a new stream and leaves this one as it is.

    Functions are called with (key, value) or with the value alone, as the operation says;
    `with_key=True` asks for both where the value alone is the rule. They run on the task's thread
    and must not change keys and values in place, which other branches of the stream may share.
    An exception in one goes to the processing handler, and the record is dropped if that says to
    go on. With `retry=Retry(on=...)` the function is called again first, after a while.

    `name` names the operation's node, instead of the generated `KSTREAM-FILTER-0000000001`. Options
    are given as keywords, or together in an object such as `Grouped(...)`; serdes that are not
    given are the stream's own, as far as it knows them. Operations that may change the key make a
    later grouping or join send the records through a repartition topic.
    """

    def __init__(self, declared: DeclaredStream) -> None:
        self._declared = declared

    # ------------------------------------------------------------------ one record at a time

    def filter(
        self,
        predicate: Callable[[K, V], bool],
        *,
        retry: Retry | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """Keep the records for which `predicate(key, value)` is true."""
        operator = stateless.FilterOperator(checked_to_run(predicate, "filter", KEY_VALUE))
        node = self._declared.unchanged(retried(operator, retry), naming.STREAM_FILTER, name)
        return KStream(node)

    def filter_not(
        self,
        predicate: Callable[[K, V], bool],
        *,
        retry: Retry | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """Keep the records for which `predicate(key, value)` is false."""
        operator = stateless.FilterOperator(
            checked_to_run(predicate, "filter_not", KEY_VALUE), negate=True
        )
        node = self._declared.unchanged(retried(operator, retry), naming.STREAM_FILTER, name)
        return KStream(node)

    def map(
        self,
        mapper: Callable[[K, V], tuple[K2, V2]],
        *,
        key_serde: Serde[K2] | None = None,
        value_serde: Serde[V2] | None = None,
        retry: Retry | None = None,
        name: str | None = None,
    ) -> KStream[K2, V2]:
        """Replace each record by the pair that `mapper(key, value)` returns.

        Args:
            key_serde: Serde of the new keys. Without one the stream's own is kept if the mapper is
                annotated to return keys of its type, as in `-> tuple[str, Order]`.
            value_serde: Serde of the new values, likewise.
        """
        operator = stateless.MapOperator(checked(mapper, "map", KEY_VALUE))
        kept = kept_serdes.kept_serdes(mapper, self._declared.serdes)
        serdes = kept_serdes.Serdes(key_serde or kept.key, value_serde or kept.value)
        again = retried(operator, retry)
        return KStream(self._declared.new_record(again, naming.STREAM_MAP, name, serdes))

    @overload
    def map_values(
        self,
        mapper: Callable[[V], V2],
        *,
        with_key: Literal[False] = False,
        retry: Retry | None = None,
        name: str | None = None,
    ) -> KStream[K, V2]: ...

    @overload
    def map_values(
        self,
        mapper: Callable[[K, V], V2],
        *,
        with_key: Literal[True],
        retry: Retry | None = None,
        name: str | None = None,
    ) -> KStream[K, V2]: ...

    def map_values(
        self,
        mapper: Callable[..., V2],
        *,
        with_key: bool = False,
        retry: Retry | None = None,
        name: str | None = None,
    ) -> KStream[K, V2]:
        """Replace each value by `mapper(value)`, or by `mapper(key, value)` with the key."""
        with_or_without_key(mapper, "map_values", VALUE, with_key=with_key)
        operator = retried(stateless.MapValuesOperator(mapper, with_key=with_key), retry)
        kept = kept_serdes.kept_serde(mapper, self._declared.value_serde)
        return KStream(self._declared.new_value(operator, naming.STREAM_MAP_VALUES, name, kept))

    @overload
    def map_values_batch(
        self,
        mapper: Callable[[list[V]], Iterable[V2]],
        *,
        with_key: Literal[False] = False,
        max_batch: int = 1000,
        name: str | None = None,
    ) -> KStream[K, V2]: ...

    @overload
    def map_values_batch(
        self,
        mapper: Callable[[list[K], list[V]], Iterable[V2]],
        *,
        with_key: Literal[True],
        max_batch: int = 1000,
        name: str | None = None,
    ) -> KStream[K, V2]: ...

    def map_values_batch(
        self,
        mapper: Callable[..., Iterable[V2]],
        *,
        with_key: bool = False,
        max_batch: int = 1000,
        name: str | None = None,
    ) -> KStream[K, V2]:
        """Replace values many at a time: one call for the records that are there anyway.

        For what is cheaper by the hundred: numpy, pandas, a model's predictions. Nothing is waited
        for, and records go on in their order. Of a batch that fails each record is tried alone, so
        that `processing.exception.handler` is asked about the ones at fault: the mapper must have
        no effects.

        Args:
            mapper: Called with a list of values; returns as many.
            with_key: Call the mapper with (keys, values), two lists.
            max_batch: How many records a call gets at most, 1 or more.
            name: Names the node.

        Raises:
            TopologyError: The mapper takes other parameters, or `max_batch` is no such number.
        """
        operator = held_values.in_batches(mapper, with_key=with_key, max_batch=max_batch)
        kept = kept_serdes.kept_serde_of_many(mapper, self._declared.value_serde)
        return KStream(
            self._declared.new_value(operator, naming.STREAM_MAP_VALUES_BATCH, name, kept)
        )

    @overload
    def map_values_async(
        self,
        mapper: Callable[[V], Awaitable[V2]],
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
        **options: Unpack[AsyncOptions],
    ) -> KStream[K, V2]: ...

    @overload
    def map_values_async(
        self,
        mapper: Callable[[K, V], Awaitable[V2]],
        *,
        with_key: Literal[True],
        name: str | None = None,
        **options: Unpack[AsyncOptions],
    ) -> KStream[K, V2]: ...

    def map_values_async(
        self,
        mapper: Callable[..., Awaitable[V2]],
        *,
        with_key: bool = False,
        name: str | None = None,
        **options: Unpack[AsyncOptions],
    ) -> KStream[K, V2]:
        """Replace each value by what an async function answers: calls to other services.

        Many calls are under way at a time, in one event loop beside the stream threads. A commit
        waits for those it covers, and a record whose call was not committed is asked for again
        after a crash: what a call does elsewhere may be done twice. One that fails, after its
        retries, goes to `processing.exception.handler`.

        Args:
            mapper: An `async def` function of (value).
            with_key: Call the mapper with (key, value).
            name: Names the node.
            options: `max_in_flight` (calls a task has under way, 100 by default); `timeout_ms` (a
                call's, 5000); `retries` (0) and `retry_backoff_ms` (100, doubled each time);
                `ordered` (True: results come in the order of the records; False: only those of one
                key do, and none waits for a slow call of another).

        Raises:
            TopologyError: The mapper takes other parameters, or an option is out of range.
        """
        operator = held_values.awaited(mapper, options, with_key=with_key)
        kept = kept_serdes.kept_serde_of_awaited(mapper, self._declared.value_serde)
        return KStream(
            self._declared.new_value(operator, naming.STREAM_MAP_VALUES_ASYNC, name, kept)
        )

    def flat_map(
        self,
        mapper: Callable[[K, V], Iterable[tuple[K2, V2]]],
        *,
        key_serde: Serde[K2] | None = None,
        value_serde: Serde[V2] | None = None,
        retry: Retry | None = None,
        name: str | None = None,
    ) -> KStream[K2, V2]:
        """Replace each record by any number of pairs, those that `mapper(key, value)` returns.

        Args:
            key_serde: As for `map`, from annotations such as `-> Iterable[tuple[str, Order]]`.
            value_serde: Likewise.
        """
        operator = stateless.FlatMapOperator(checked(mapper, "flat_map", KEY_VALUE))
        kept = kept_serdes.kept_serdes(mapper, self._declared.serdes, many=True)
        serdes = kept_serdes.Serdes(key_serde or kept.key, value_serde or kept.value)
        again = retried(operator, retry)
        return KStream(self._declared.new_record(again, naming.STREAM_FLAT_MAP, name, serdes))

    @overload
    def flat_map_values(
        self,
        mapper: Callable[[V], Iterable[V2]],
        *,
        with_key: Literal[False] = False,
        retry: Retry | None = None,
        name: str | None = None,
    ) -> KStream[K, V2]: ...

    @overload
    def flat_map_values(
        self,
        mapper: Callable[[K, V], Iterable[V2]],
        *,
        with_key: Literal[True],
        retry: Retry | None = None,
        name: str | None = None,
    ) -> KStream[K, V2]: ...

    def flat_map_values(
        self,
        mapper: Callable[..., Iterable[V2]],
        *,
        with_key: bool = False,
        retry: Retry | None = None,
        name: str | None = None,
    ) -> KStream[K, V2]:
        """Replace each value by any number of values, those that `mapper(value)` returns."""
        with_or_without_key(mapper, "flat_map_values", VALUE, with_key=with_key)
        operator = retried(stateless.FlatMapValuesOperator(mapper, with_key=with_key), retry)
        kept = kept_serdes.kept_serde_of_many(mapper, self._declared.value_serde)
        return KStream(
            self._declared.new_value(operator, naming.STREAM_FLAT_MAP_VALUES, name, kept)
        )

    def select_key(
        self,
        selector: Callable[[K, V], K2],
        *,
        key_serde: Serde[K2] | None = None,
        retry: Retry | None = None,
        name: str | None = None,
    ) -> KStream[K2, V]:
        """Replace each key by `selector(key, value)`.

        Args:
            key_serde: Serde of the new keys. Without one the stream's own is kept if the selector
                is annotated to return keys of its type, as in `-> str`.
        """
        operator = stateless.SelectKeyOperator(checked(selector, "select_key", KEY_VALUE))
        serde = key_serde or kept_serdes.kept_serde(selector, self._declared.key_serde)
        again = retried(operator, retry)
        return KStream(self._declared.new_key(again, naming.STREAM_SELECT_KEY, name, serde))

    def peek(
        self,
        action: Callable[[K, V], object],
        *,
        retry: Retry | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """Call `action(key, value)` for each record and hand the record on."""
        operator = retried(stateless.PeekOperator(checked_to_run(action, "peek", KEY_VALUE)), retry)
        return KStream(self._declared.unchanged(operator, naming.STREAM_PEEK, name))

    def foreach(
        self,
        action: Callable[[K, V], object],
        *,
        retry: Retry | None = None,
        name: str | None = None,
    ) -> None:
        """Call `action(key, value)` for each record; the stream ends here.

        What the action does outside of the topology is not part of exactly-once.
        """
        operator = retried(
            stateless.PeekOperator(checked_to_run(action, "foreach", KEY_VALUE)), retry
        )
        self._declared.new_value(operator, naming.STREAM_FOREACH, name)

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
            file: Where to write; the standard output when None (in `pystreams replay`, whose
                output is its own, the standard error). Stays open.
            mapper: Called with (key, value); returns what stands after the label.
        """
        if mapper is not None:
            checked(mapper, "print", KEY_VALUE)
        operator = PrintOperator(label or self._declared.node.name, file, mapper)
        self._declared.new_value(operator, naming.STREAM_PRINT, name)

    # ------------------------------------------------------------------ repeated records

    def distinct(
        self,
        *,
        within_ms: int,
        grace_period_ms: int = 0,
        by: Callable[[K, V], Any] | None = None,
        by_serde: Serde[Any] = JSON,
        key_serde: Serde[K] | None = None,
        store_type: StoreEngine | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """Drop records that repeat one of the same key within a time; the first is handed on.

        One repeats another if their timestamps are `within_ms` or less apart; what was dropped
        prolongs nothing. Records without a key are dropped and counted, and so are those older than
        the newest one that was handed on by more than `within_ms` and the grace period. What is
        kept expires by itself. If keys are new, records go through a repartition topic first.

        Args:
            within_ms: How far apart records may be to be the same, in event time.
            grace_period_ms: How much later records may come.
            by: Called with (key, value); returns what tells records of one key apart, such as an
                event's id. One for which it returns None is handed on. None tells keys apart.
            by_serde: Makes bytes of that; equal bytes are the same.
            key_serde: Makes bytes of keys; the stream's own when None, then the configured default.
            store_type: Where the identities are kept: RocksDB when None.
            name: Name of the node, and with suffixes of the store and the repartition topic.

        Raises:
            TopologyError: A time is not a whole number of ms, or `by` takes other parameters.
        """
        call = DistinctCall(within_ms, grace_period_ms, by, by_serde, key_serde, store_type, name)
        return KStream(distinct_stream(self._declared, call))

    # ------------------------------------------------------------------ several streams

    def merge(self, other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
        """Return the records of both streams, in no order between the two.

        Raises:
            TopologyError: The other is no stream, or they come from different builders.
        """
        return KStream(self._declared.merged_with(declared_of(other, "merge"), name))

    def split(self, *, name: str | None = None) -> BranchedKStream[K, V]:
        """Split the stream: each record goes to the first branch whose predicate is true.

        The `name` begins the names of the branches, too.
        """
        return BranchedKStream(DeclaredSplit(self._declared, name))

    # ------------------------------------------------------------------ groups and topics

    def group_by_key(
        self, *, grouped: Grouped[K, V] | None = None, **options: Unpack[GroupedOptions[K, V]]
    ) -> KGroupedStream[K, V]:
        """Group the records by their key, to aggregate them."""
        chosen = options_of(Grouped, grouped, options, "group_by_key")
        return self._grouped(self._declared, chosen, self._declared.key_serde)

    def group_by(
        self,
        selector: Callable[[K, V], K2],
        *,
        grouped: Grouped[K2, V] | None = None,
        **options: Unpack[GroupedOptions[K2, V]],
    ) -> KGroupedStream[K2, V]:
        """Group the records by `selector(key, value)`, to aggregate them; always repartitions.

        Args:
            selector: Called with (key, value); returns the new key; None drops the record. The
                stream's key serde is kept as in `select_key`.
        """
        chosen = options_of(Grouped, grouped, options, "group_by")
        checked(selector, "group_by", KEY_VALUE)
        selected = self.select_key(selector, name=chosen.name)
        return self._grouped(selected._declared, chosen, selected._declared.key_serde)

    def repartition(
        self,
        *,
        repartitioned: Repartitioned[K, V] | None = None,
        **options: Unpack[RepartitionedOptions[K, V]],
    ) -> KStream[K, V]:
        """Send the stream through an internal topic, spread by its present key."""
        chosen = options_of(Repartitioned, repartitioned, options, "repartition")
        prefix = chosen.name or self._declared.graph.names.node(naming.STREAM_REPARTITION)
        return KStream(self._declared.repartitioned(prefix, chosen))

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

        Raises:
            TopologyError: The topic is neither a name nor a function.
        """
        chosen = options_of(Produced, produced, options, "to")
        if callable(topic):
            checked(topic, "to", (*KEY_VALUE, "record"))
        else:
            naming.check_name(topic, "a topic")
        self._declared.written_to(topic, chosen)

    def to_table(
        self,
        *,
        node_name: str | None = None,
        materialized: Materialized[K, V] | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]:
        """Read the stream as updates of a table: the last value of each key, None deletes."""
        chosen = table_options(materialized, options, "to_table")
        return KTable(table_of_stream(self._declared, chosen, node_name))

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

        Raises:
            TopologyError: `supplier` does not make a new processor at each call, or `stores` are
                not names.
        """
        processed = self._declared.processed(supplier, stores, name, fixed_key=False)
        return KStream(processed)

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
        processed = self._declared.processed(supplier, stores, name, fixed_key=True)
        return KStream(processed)

    # ------------------------------------------------------------------ joins

    @overload
    def join(
        self,
        other: KTable[K, VOther],
        joiner: Callable[[V, VOther], V2],
        *,
        with_key: Literal[False] = False,
        joined: Joined[K, V, VOther] | None = None,
        **options: Unpack[JoinedOptions[K, V, VOther]],
    ) -> KStream[K, V2]: ...

    @overload
    def join(
        self,
        other: KTable[K, VOther],
        joiner: Callable[[K, V, VOther], V2],
        *,
        with_key: Literal[True],
        joined: Joined[K, V, VOther] | None = None,
        **options: Unpack[JoinedOptions[K, V, VOther]],
    ) -> KStream[K, V2]: ...

    @overload
    def join(
        self,
        other: KStream[K, VOther],
        joiner: Callable[[V, VOther], V2],
        windows: JoinWindows,
        *,
        with_key: Literal[False] = False,
        joined: StreamJoined[K, V, VOther] | None = None,
        **options: Unpack[StreamJoinedOptions[K, V, VOther]],
    ) -> KStream[K, V2]: ...

    @overload
    def join(
        self,
        other: KStream[K, VOther],
        joiner: Callable[[K, V, VOther], V2],
        windows: JoinWindows,
        *,
        with_key: Literal[True],
        joined: StreamJoined[K, V, VOther] | None = None,
        **options: Unpack[StreamJoinedOptions[K, V, VOther]],
    ) -> KStream[K, V2]: ...

    @overload
    def join(
        self,
        other: GlobalKTable[K2, VOther],
        key_selector: Callable[[K, V], K2 | None],
        joiner: Callable[[V, VOther], V2],
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> KStream[K, V2]: ...

    @overload
    def join(
        self,
        other: GlobalKTable[K2, VOther],
        key_selector: Callable[[K, V], K2 | None],
        joiner: Callable[[K, V, VOther], V2],
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> KStream[K, V2]: ...

    def join(
        self,
        other: KTable[K, VOther] | KStream[K, VOther] | GlobalKTable[Any, VOther],
        *functions: Any,
        with_key: bool = False,
        joined: Any = None,
        **options: Any,
    ) -> KStream[K, V2]:
        """Join each record with a row of a table, or with another stream's records.

            stream.join(table, joiner)
            stream.join(global_table, key_selector, joiner)
            stream.join(other_stream, joiner, windows)

        With a table: a record is joined with the row there is of its key when it arrives, and
        dropped if there is none; updates of the table produce nothing by themselves. With a global
        table the record says which row, by any key. With a stream: with each record of its key
        that is in the window around it, whichever arrives first.

        The topics of both must have equal numbers of partitions, but for a global table's. Options
        are those of `Joined` with a table, of `StreamJoined` with a stream, `name` with a global
        table.

        Args:
            other: The table, the global table or the stream.
            functions: The joiner, called with (value, other's value), returns the new value. Before
                it, for a global table, the `key_selector`: called with (key, value), it returns the
                key of the row, None for no row. After it, for a stream, the `windows`: how far
                apart in time records may be.
            with_key: Call the joiner with (key, value, other's value); the key is this stream's.
        """
        call = _join_call("join", other, functions, (with_key, joined), options)
        return self._join(other, call)

    @overload
    def left_join(
        self,
        other: KTable[K, VOther],
        joiner: Callable[[V, VOther | None], V2],
        *,
        with_key: Literal[False] = False,
        joined: Joined[K, V, VOther] | None = None,
        **options: Unpack[JoinedOptions[K, V, VOther]],
    ) -> KStream[K, V2]: ...

    @overload
    def left_join(
        self,
        other: KTable[K, VOther],
        joiner: Callable[[K, V, VOther | None], V2],
        *,
        with_key: Literal[True],
        joined: Joined[K, V, VOther] | None = None,
        **options: Unpack[JoinedOptions[K, V, VOther]],
    ) -> KStream[K, V2]: ...

    @overload
    def left_join(
        self,
        other: KStream[K, VOther],
        joiner: Callable[[V, VOther | None], V2],
        windows: JoinWindows,
        *,
        with_key: Literal[False] = False,
        joined: StreamJoined[K, V, VOther] | None = None,
        **options: Unpack[StreamJoinedOptions[K, V, VOther]],
    ) -> KStream[K, V2]: ...

    @overload
    def left_join(
        self,
        other: KStream[K, VOther],
        joiner: Callable[[K, V, VOther | None], V2],
        windows: JoinWindows,
        *,
        with_key: Literal[True],
        joined: StreamJoined[K, V, VOther] | None = None,
        **options: Unpack[StreamJoinedOptions[K, V, VOther]],
    ) -> KStream[K, V2]: ...

    @overload
    def left_join(
        self,
        other: GlobalKTable[K2, VOther],
        key_selector: Callable[[K, V], K2 | None],
        joiner: Callable[[V, VOther | None], V2],
        *,
        with_key: Literal[False] = False,
        name: str | None = None,
    ) -> KStream[K, V2]: ...

    @overload
    def left_join(
        self,
        other: GlobalKTable[K2, VOther],
        key_selector: Callable[[K, V], K2 | None],
        joiner: Callable[[K, V, VOther | None], V2],
        *,
        with_key: Literal[True],
        name: str | None = None,
    ) -> KStream[K, V2]: ...

    def left_join(
        self,
        other: KTable[K, VOther] | KStream[K, VOther] | GlobalKTable[Any, VOther],
        *functions: Any,
        with_key: bool = False,
        joined: Any = None,
        **options: Any,
    ) -> KStream[K, V2]:
        """Join as `join` does, and records that find nothing with None.

        With a stream they wait until no match can come any more: until the time of either stream is
        beyond the end of their window and the grace period. The first look after that joins them;
        `outer.join.emit.interval.ms` says how often there is one.
        """
        call = _join_call("left_join", other, functions, (with_key, joined), options)
        return self._join(other, call)

    @overload
    def outer_join(
        self,
        other: KStream[K, VOther],
        joiner: Callable[[V | None, VOther | None], V2],
        windows: JoinWindows,
        *,
        with_key: Literal[False] = False,
        joined: StreamJoined[K, V, VOther] | None = None,
        **options: Unpack[StreamJoinedOptions[K, V, VOther]],
    ) -> KStream[K, V2]: ...

    @overload
    def outer_join(
        self,
        other: KStream[K, VOther],
        joiner: Callable[[K, V | None, VOther | None], V2],
        windows: JoinWindows,
        *,
        with_key: Literal[True],
        joined: StreamJoined[K, V, VOther] | None = None,
        **options: Unpack[StreamJoinedOptions[K, V, VOther]],
    ) -> KStream[K, V2]: ...

    def outer_join(
        self,
        other: KStream[K, VOther],
        joiner: Callable[..., V2],
        windows: JoinWindows | None = None,
        *,
        with_key: bool = False,
        joined: Any = None,
        **options: Any,
    ) -> KStream[K, V2]:
        """Join two streams as `left_join` does; the other stream's records meet None as well."""
        call = JoinCall("outer_join", joiner, windows, with_key, joined, options)
        return self._join(other, call)

    # ------------------------------------------------------------------ inside

    def _join(self, other: object, call: JoinCall) -> KStream[Any, Any]:
        if isinstance(other, KStream):
            return KStream(join_streams(self._declared, other._declared, call))
        if isinstance(other, GlobalKTable) and call.kind != "outer_join":
            return KStream(join_global_table(self._declared, other._declared, call))
        if not isinstance(other, KTable) or call.kind == "outer_join":
            which = "KStream" if call.kind == "outer_join" else "KTable, GlobalKTable or KStream"
            raise TopologyError(
                f"{call.kind}: a stream is joined with a {which} here, not {other!r}"
            )
        return KStream(join_table(self._declared, other._declared, call))

    def _grouped(
        self, stream: DeclaredStream, chosen: Grouped[Any, Any], key_serde: Serde[Any] | None
    ) -> KGroupedStream[Any, Any]:
        # Differs from Kafka: a serde that Grouped leaves open is the stream's, not the default.
        value_serde = chosen.value_serde or self._declared.value_serde
        grouped = Grouped(chosen.key_serde or key_serde, value_serde, chosen.name)
        return KGroupedStream(StreamGroups(stream, grouped))


class KTable(SaysWhatIsMissing, Generic[K, V]):
    """A table: for each key its latest value; an update to None deletes the key.

    Made by `StreamsBuilder.table`, `KStream.to_table` and aggregations. Operations return new
    tables. A table keeps state of its own only where it must, or where the user names it: the
    options of `Materialized` (`name="..."` above all), as keywords or in `materialized=...`, make
    it keep a store that can be queried. `node_name` names the operation's node.
    """

    def __init__(self, declared: DeclaredTable) -> None:
        self._declared = declared

    @property
    def queryable_store_name(self) -> str | None:
        """Name of the table's store, if the user gave it one; else None."""
        return self._declared.queryable_store_name

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
        """
        checked_to_run(predicate, "filter", KEY_VALUE)
        chosen = optional_table_options(materialized, options, "filter")
        return KTable(self._declared.filtered(predicate, chosen, node_name, negate=False))

    def filter_not(
        self,
        predicate: Callable[[K, V], bool],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, V] | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]:
        """Keep the rows for which the predicate is false; otherwise as `filter`."""
        checked_to_run(predicate, "filter_not", KEY_VALUE)
        chosen = optional_table_options(materialized, options, "filter_not")
        return KTable(self._declared.filtered(predicate, chosen, node_name, negate=True))

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
        """
        with_or_without_key(mapper, "map_values", VALUE, with_key=with_key)
        chosen = optional_table_options(materialized, options, "map_values")
        return KTable(self._declared.mapped(mapper, chosen, node_name, with_key=with_key))

    def transform_values(
        self,
        transformer_supplier: Callable[[], ValueTransformerWithKey[K, V, V2]],
        *,
        stores: Sequence[str] = (),
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]:
        """Replace each row's value by what a transformer of your own returns, with state if needed.

        Its function is called with deleted rows too, as `transform(key, None)`. If the table is not
        kept, each node that looks into it, as a join does, has a transformer of its own, which is
        asked at each lookup, and old values that are wanted below are transformed again: keep the
        table (`name=...`) if the same row may give something else another time.

        Args:
            transformer_supplier: Makes a new transformer for each task; the class itself will do.
                Is called twice at once, as in `Topology.add_processor`. Stores that its method
                `stores()` returns are added and connected.
            stores: Names of stores the transformer uses, added with `add_state_store`. One that is
                asked in a lookup must not write into them.

        Raises:
            TopologyError: `transformer_supplier` does not make a new transformer at each call, or
                `stores` are not names.
        """
        chosen = optional_table_options(materialized, options, "transform_values")
        return KTable(
            transformed_table(self._declared, transformer_supplier, stores, chosen, node_name)
        )

    @overload
    def to_stream(self, *, name: str | None = None) -> KStream[K, V]: ...

    @overload
    def to_stream(
        self,
        key_mapper: Callable[[K, V], K2],
        *,
        key_serde: Serde[K2] | None = None,
        name: str | None = None,
    ) -> KStream[K2, V]: ...

    def to_stream(
        self,
        key_mapper: Callable[[K, V], Any] | None = None,
        *,
        key_serde: Serde[Any] | None = None,
        name: str | None = None,
    ) -> KStream[Any, V]:
        """Return the stream of the table's changes; a deletion is a record with value None.

        Args:
            key_mapper: Chooses a new key, as `KStream.select_key` does; called with (key, value).
            key_serde: Serde of the new keys, as there.

        Raises:
            TopologyError: There is a serde of new keys, and no function that makes them.
        """
        if key_serde is not None and key_mapper is None:
            raise TopologyError("to_stream takes a key_serde with a key_mapper only")
        stream = KStream[K, V](self._declared.changes(name))
        return stream if key_mapper is None else stream.select_key(key_mapper, key_serde=key_serde)

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
                is None is in no group. The table's serdes are kept as in `KStream.map`.
        """
        checked(selector, "group_by", KEY_VALUE)
        chosen = options_of(Grouped, grouped, options, "group_by")
        kept = kept_serdes.kept_serdes(
            selector, kept_serdes.Serdes(self._declared.key_serde, self._declared.value_serde)
        )
        chosen = replace(
            chosen,
            key_serde=chosen.key_serde or kept.key,
            value_serde=chosen.value_serde or kept.value,
        )
        node = self._declared.regrouped(selector, chosen.name)
        return KGroupedTable(TableGroups(self._declared.graph, node, chosen))

    def suppress(
        self, suppressed: Suppressed[K], *, idle_timeout_ms: int | None = None
    ) -> KTable[K, V]:
        """Hold back changes, so that of each key only the last one goes on.

        What waits is kept on disk, or in memory if the `BufferConfig` says so, and in a changelog.
        It goes on with the timestamp and the headers of its own record, when a later record has
        moved the time; not by the clock, unless there is an idle timeout.

        Args:
            suppressed: How long: `Suppressed.until_window_closes(...)` for the final results of
                windows, `Suppressed.until_time_limit(...)` for fewer updates of any table.
            idle_timeout_ms: How long the input is silent, on the wall clock (ms), before stream
                time goes on with it: see docs/dsl/idle-input.md. None takes that of the
                `StreamsBuilder`, -1 waits for records alone. Windows that it lets go of close as
                early in the aggregation above.

        Raises:
            TopologyError: The table is versioned, has no windows that close, these close later on
                a silent input, or an option is not right.
        """
        return KTable(suppressed_table(self._declared, suppressed, idle_timeout_ms))

    @overload
    def join(
        self,
        other: KTable[K, VOther],
        joiner: Callable[[V, VOther], V2],
        *,
        with_key: Literal[False] = False,
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]: ...

    @overload
    def join(
        self,
        other: KTable[K, VOther],
        joiner: Callable[[K, V, VOther], V2],
        *,
        with_key: Literal[True],
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]: ...

    @overload
    def join(
        self,
        other: KTable[K2, VOther],
        joiner: Callable[[V, VOther], V2],
        *,
        foreign_key: Callable[[V], K2 | None],
        with_key: Literal[False] = False,
        table_joined: TableJoined[K, K2] | None = None,
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]: ...

    @overload
    def join(
        self,
        other: KTable[K2, VOther],
        joiner: Callable[[K, V, VOther], V2],
        *,
        foreign_key: Callable[[K, V], K2 | None],
        with_key: Literal[True],
        table_joined: TableJoined[K, K2] | None = None,
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]: ...

    def join(
        self,
        other: KTable[Any, VOther],
        joiner: Callable[..., V2],
        *,
        foreign_key: Callable[..., Any] | None = None,
        with_key: bool = False,
        table_joined: TableJoined[Any, Any] | None = None,
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]:
        """Join each row with the other table's row of its key, or of the key that it names.

        A change of either side makes a new row. Each table is kept in a store, for the other side
        to look into; the result is kept if it has a name or other options. Without `foreign_key`
        both topics must have equal numbers of partitions. With it rows travel to their foreign rows
        and back, through two internal topics; several rows may name one.

        Args:
            other: The other table.
            joiner: Called with (value, other's value); returning None deletes the row.
            foreign_key: Called with (value); returns the key of the other table's row, None for
                no row.
            with_key: Call the joiner with (key, value, other's value), `foreign_key` with
                (key, value).
            table_joined: With `foreign_key`: how the tables' topics are partitioned, if not by
                the default.
        """
        call = TableJoinCall("join", joiner, with_key, node_name, materialized, options)
        return self._join(other, call, foreign_key, table_joined)

    @overload
    def left_join(
        self,
        other: KTable[K, VOther],
        joiner: Callable[[V, VOther | None], V2],
        *,
        with_key: Literal[False] = False,
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]: ...

    @overload
    def left_join(
        self,
        other: KTable[K, VOther],
        joiner: Callable[[K, V, VOther | None], V2],
        *,
        with_key: Literal[True],
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]: ...

    @overload
    def left_join(
        self,
        other: KTable[K2, VOther],
        joiner: Callable[[V, VOther | None], V2],
        *,
        foreign_key: Callable[[V], K2 | None],
        with_key: Literal[False] = False,
        table_joined: TableJoined[K, K2] | None = None,
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]: ...

    @overload
    def left_join(
        self,
        other: KTable[K2, VOther],
        joiner: Callable[[K, V, VOther | None], V2],
        *,
        foreign_key: Callable[[K, V], K2 | None],
        with_key: Literal[True],
        table_joined: TableJoined[K, K2] | None = None,
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]: ...

    def left_join(
        self,
        other: KTable[Any, VOther],
        joiner: Callable[..., V2],
        *,
        foreign_key: Callable[..., Any] | None = None,
        with_key: bool = False,
        table_joined: TableJoined[Any, Any] | None = None,
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]:
        """Join as `join` does, and rows that have no other with None."""
        call = TableJoinCall("left_join", joiner, with_key, node_name, materialized, options)
        return self._join(other, call, foreign_key, table_joined)

    @overload
    def outer_join(
        self,
        other: KTable[K, VOther],
        joiner: Callable[[V | None, VOther | None], V2],
        *,
        with_key: Literal[False] = False,
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]: ...

    @overload
    def outer_join(
        self,
        other: KTable[K, VOther],
        joiner: Callable[[K, V | None, VOther | None], V2],
        *,
        with_key: Literal[True],
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]: ...

    def outer_join(
        self,
        other: KTable[K, VOther],
        joiner: Callable[..., V2],
        *,
        with_key: bool = False,
        node_name: str | None = None,
        materialized: Materialized[K, V2] | None = None,
        **options: Unpack[MaterializedOptions[K, V2]],
    ) -> KTable[K, V2]:
        """Join as `left_join` does, and also rows of the other table that have none here."""
        call = TableJoinCall("outer_join", joiner, with_key, node_name, materialized, options)
        return self._join(other, call)

    def _join(
        self,
        other: KTable[Any, Any],
        call: TableJoinCall,
        foreign_key: Callable[..., Any] | None = None,
        table_joined: TableJoined[Any, Any] | None = None,
    ) -> KTable[K, Any]:
        if not isinstance(other, KTable):
            raise TopologyError(
                f"{call.kind}: a table can be joined with a table, not with {other!r}; with a "
                "stream, join the stream with the table"
            )
        if foreign_key is not None:
            return KTable(
                join_by_foreign_key(
                    self._declared, other._declared, call, foreign_key, table_joined
                )
            )
        if table_joined is not None:
            raise TopologyError(
                f"{call.kind}: table_joined is for joins with foreign_key=...: leave it out"
            )
        return KTable(join_tables(self._declared, other._declared, call))


class GlobalKTable(SaysWhatIsMissing, Generic[K, V]):
    """A table that every process has whole, for streams to be joined with by any key.

    Made by `StreamsBuilder.global_table`. It is read from its topic before anything else is
    processed, then kept up to date beside the processing: which of its updates a record meets is
    not a matter of timestamps. It can be joined with and queried, and nothing else.
    """

    def __init__(self, declared: DeclaredGlobalTable) -> None:
        self._declared = declared

    @property
    def queryable_store_name(self) -> str | None:
        """Name of the store, to query it by; None unless `name=...` was given."""
        return self._declared.queryable_store_name


class KGroupedStream(SaysWhatIsMissing, Generic[K, V]):
    """The records of a stream, grouped by key. Made by `KStream.group_by_key` and `group_by`.

    Each aggregation makes a table that is kept in a state store. Give it a name
    (`count(name="counts")`): the store, its changelog topic and, where records must travel to
    their group, the repartition topic are called after it, and only a named store can be queried.
    That and the other options of `Materialized` are keywords, or stand in `materialized=...`;
    `node_name` names the node. Records without key or value are dropped.
    """

    def __init__(self, groups: StreamGroups) -> None:
        self._groups = groups

    def count(
        self,
        *,
        node_name: str | None = None,
        materialized: Materialized[K, int] | None = None,
        **options: Unpack[MaterializedOptions[K, int]],
    ) -> KTable[K, int]:
        """Count the records of each key; `value_serde` is `serdes.LONG` unless given."""
        chosen = table_options(materialized, options, "count")
        if (materialized is not None or options) and chosen.store_name is None:
            # Kafka takes a number here for the sake of old topologies.
            self._groups.stream.graph.names.use_up_a_number()
        store = self._groups.store(chosen, naming.STREAM_AGGREGATE, LONG)
        operator = aggregate.CountOperator(store.name)
        return KTable(self._groups.aggregated(operator, node_name, naming.STREAM_AGGREGATE, store))

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, V] | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]:
        """Combine the values of each key.

        Args:
            reducer: Called with (value so far, value) from a key's second record on; returning
                None deletes the key.
        """
        checked(reducer, "reduce", ("so_far", "value"))
        chosen = table_options(materialized, options, "reduce")
        store = self._groups.store(chosen, naming.STREAM_REDUCE, self._groups.grouped.value_serde)
        operator = aggregate.ReduceOperator(store.name, reducer)
        return KTable(self._groups.aggregated(operator, node_name, naming.STREAM_REDUCE, store))

    @overload
    def aggregate(
        self,
        aggregation: Aggregation[V, Any, VFolded],
        /,
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VFolded] | None = None,
        **options: Unpack[MaterializedOptions[K, VFolded]],
    ) -> KTable[K, VFolded]: ...

    @overload
    def aggregate(
        self,
        initializer: Initializer[VFolded],
        aggregator: Callable[[K, V, VFolded], VFolded | None],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VFolded] | None = None,
        **options: Unpack[MaterializedOptions[K, VFolded]],
    ) -> KTable[K, VFolded]: ...

    def aggregate(
        self,
        initializer: Initializer[VFolded] | Aggregation[V, Any, VFolded],
        aggregator: Any = None,
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VFolded] | None = None,
        **options: Unpack[MaterializedOptions[K, VFolded]],
    ) -> KTable[K, VFolded]:
        """Fold the values of each key into one of another type, which has a serde of its own.

        A ready one, such as `aggregate(aggregations.mean())`, brings all of it; `value_serde` is
        then that of the results, for what follows.

        Args:
            initializer: Returns the value a key begins with.
            aggregator: Called with (key, value, value so far); returns the new value, or None to
                delete the key. It may change what it was given and return that.
        """
        chosen = table_options(materialized, options, "aggregate")
        if isinstance(initializer, Aggregation):
            initializer.check_alone(aggregator)
            return KTable(self._groups.aggregated_by(initializer, chosen, node_name))
        checked(initializer, "aggregate", ())
        checked(aggregator, "aggregate", (*KEY_VALUE, "so_far"))
        kept = kept_serdes.kept_serde(aggregator, self._groups.grouped.value_serde)
        store = self._groups.store(chosen, naming.STREAM_AGGREGATE, kept)
        operator = aggregate.AggregateOperator(store.name, Fold(initializer, aggregator))
        return KTable(self._groups.aggregated(operator, node_name, naming.STREAM_AGGREGATE, store))

    @overload
    def windowed_by(
        self,
        windows: SessionWindows,
        *,
        late: Callable[[K, V, int, Window], object] | str | None = None,
        idle_timeout_ms: int | None = None,
    ) -> SessionWindowedKStream[K, V]: ...

    @overload
    def windowed_by(
        self,
        windows: TimeWindows | UnlimitedWindows | SlidingWindows,
        *,
        late: Callable[[K, V, int, Window], object] | str | None = None,
        idle_timeout_ms: int | None = None,
    ) -> TimeWindowedKStream[K, V]: ...

    def windowed_by(
        self,
        windows: TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows,
        *,
        late: Callable[[K, V, int, Window], object] | str | None = None,
        idle_timeout_ms: int | None = None,
    ) -> TimeWindowedKStream[K, V] | SessionWindowedKStream[K, V]:
        """Cut the records of each key into windows of event time, to aggregate those.

        Args:
            windows: How.
            late: Who is told of records that are dropped because a window of theirs is closed,
                beside the log: a function, called with (key, value, timestamp in ms, window) for
                each such window; or the name of a topic, to which each such record is written as
                it came, once, in the same transaction. The topic has to exist.
            idle_timeout_ms: How long the input is silent, on the wall clock (ms), before stream
                time goes on with the clock and windows close; as `StreamsBuilder` says when None,
                never when -1.

        Raises:
            TopologyError: They are not windows, `late` is neither function nor name, or they never
                close and have an idle timeout.
        """
        _check_windows(windows)
        if late is not None and not isinstance(late, str):
            checked_to_run(late, "windowed_by(late=...)", (*KEY_VALUE, "timestamp_ms", "window"))
        groups = WindowedGroups(self._groups, windows, late=late, idle_timeout_ms=idle_timeout_ms)
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(groups)
        return TimeWindowedKStream(groups)

    @overload
    def cogroup(self, aggregator: Callable[[K, V, VAgg], VAgg]) -> CogroupedKStream[K, VAgg]: ...

    @overload
    def cogroup(
        self, aggregator: Callable[[K, V, VAgg], VAgg | None]
    ) -> CogroupedKStream[K, VAgg]: ...

    def cogroup(self, aggregator: Callable[[K, V, VAgg], VAgg | None]) -> CogroupedKStream[K, VAgg]:
        """Begin to aggregate several grouped streams into one table.

        Args:
            aggregator: Called with (key, value, value so far) for records of this stream; returns
                the new value, or None to delete the key.
        """
        checked(aggregator, "cogroup", (*KEY_VALUE, "so_far"))
        return CogroupedKStream(Cogroups({self._groups: aggregator}))


class CogroupedKStream(SaysWhatIsMissing, Generic[K, VAgg]):
    """Grouped streams that make one table together. Made by `KGroupedStream.cogroup`.

    Each stream has its own aggregator; all of them add to one value a key, in one store. What
    joins do for pairs of streams, this does for any number, with one row a key and no windows
    needed. Records without key or value are dropped. Options are given as to `KGroupedStream`;
    `node_name` begins the names of all nodes.
    """

    def __init__(self, cogroups: Cogroups) -> None:
        self._cogroups = cogroups

    def cogroup(
        self,
        grouped: KGroupedStream[K, VOther],
        aggregator: Callable[[K, VOther, VAgg], VAgg | None],
    ) -> CogroupedKStream[K, VAgg]:
        """Return these streams and another one; one that is here already gets the new aggregator.

        Args:
            grouped: The stream; its topics need as many partitions as those of the others, unless
                it is repartitioned.
            aggregator: Called with (key, value, value so far) for its records.

        Raises:
            TopologyError: It is no grouped stream, or one of another builder.
        """
        if not isinstance(grouped, KGroupedStream):
            raise TopologyError(
                f"cogroup takes a grouped stream (group_by_key or group_by), not {grouped!r}"
            )
        checked(aggregator, "cogroup", (*KEY_VALUE, "so_far"))
        return CogroupedKStream(self._cogroups.with_groups(grouped._groups, aggregator))

    def aggregate(
        self,
        initializer: Initializer[VAgg],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VAgg] | None = None,
        **options: Unpack[MaterializedOptions[K, VAgg]],
    ) -> KTable[K, VAgg]:
        """Fold the values of each key, of all streams, into one.

        Args:
            initializer: Returns the value a key begins with.
        """
        checked(initializer, "aggregate", ())
        chosen = table_options(materialized, options, "aggregate")
        return KTable(self._cogroups.aggregated(initializer, chosen, node_name))

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream[K, VAgg]: ...

    @overload
    def windowed_by(
        self, windows: TimeWindows | UnlimitedWindows | SlidingWindows
    ) -> TimeWindowedCogroupedKStream[K, VAgg]: ...

    def windowed_by(
        self, windows: TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows
    ) -> TimeWindowedCogroupedKStream[K, VAgg] | SessionWindowedCogroupedKStream[K, VAgg]:
        """Cut the records of each key into windows of event time, to aggregate those.

        Raises:
            TopologyError: They are not windows.
        """
        _check_windows(windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self._cogroups, windows)
        return TimeWindowedCogroupedKStream(self._cogroups, windows)


class TimeWindowedCogroupedKStream(SaysWhatIsMissing, Generic[K, VAgg]):
    """Grouped streams that make one table with a row for each key and window.

    Made by `CogroupedKStream.windowed_by`. Records are dropped as by `TimeWindowedKStream`; results
    are sent on with each update.
    """

    def __init__(
        self, cogroups: Cogroups, windows: TimeWindows | UnlimitedWindows | SlidingWindows
    ) -> None:
        self._cogroups = cogroups
        self._windows = windows

    def aggregate(
        self,
        initializer: Initializer[VAgg],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VAgg] | None = None,
        **options: Unpack[MaterializedOptions[K, VAgg]],
    ) -> KTable[Windowed[K], VAgg]:
        """Fold the values of each key and window, of all streams, into one.

        Args:
            initializer: Returns the value a window begins with.
        """
        checked(initializer, "aggregate", ())
        chosen = windowed_table_options(materialized, options, "aggregate", sessions=False)
        fold = beginning(initializer)
        return KTable(self._cogroups.windowed(self._windows, fold, chosen, node_name))


class SessionWindowedCogroupedKStream(SaysWhatIsMissing, Generic[K, VAgg]):
    """Grouped streams that make one table with a row for each key and session.

    Made by `CogroupedKStream.windowed_by`. Records of all streams keep a session going. Records are
    dropped as by `SessionWindowedKStream`; results are sent on with each update.
    """

    def __init__(self, cogroups: Cogroups, windows: SessionWindows) -> None:
        self._cogroups = cogroups
        self._windows = windows

    def aggregate(
        self,
        initializer: Initializer[VAgg],
        merger: Callable[[K, VAgg, VAgg], VAgg],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VAgg] | None = None,
        **options: Unpack[MaterializedOptions[K, VAgg]],
    ) -> KTable[Windowed[K], VAgg]:
        """Fold the values of each session, of all streams, into one.

        Args:
            initializer: Returns the value a session begins with.
            merger: Called with (key, value so far, other value) when two sessions become one.
        """
        checked(initializer, "aggregate", ())
        checked(merger, "aggregate", ("key", "so_far", "other"))
        chosen = windowed_table_options(materialized, options, "aggregate", sessions=True)
        fold = beginning(initializer, merger)
        return KTable(self._cogroups.windowed(self._windows, fold, chosen, node_name))


class _WindowedKStream(SaysWhatIsMissing, Generic[K, V]):
    """What records have in common that are cut into windows or sessions."""

    _sessions: ClassVar[bool]

    def __init__(self, groups: WindowedGroups) -> None:
        self._groups = groups

    def emit_strategy(self, strategy: EmitStrategy) -> Self:
        """Return the same windows, with results sent on when the strategy says.

        Raises:
            TopologyError: It is no strategy, or results would never be sent.
        """
        return type(self)(self._groups.emitting(strategy))

    def count(
        self,
        *,
        node_name: str | None = None,
        materialized: Materialized[K, int] | None = None,
        **options: Unpack[MaterializedOptions[K, int]],
    ) -> KTable[Windowed[K], int]:
        """Count the records of each key and window; `value_serde` is `serdes.LONG` unless given."""
        chosen = self._options(materialized, options, "count")
        with_options = materialized is not None or bool(options)
        return KTable(self._groups.counted(chosen, node_name, with_options=with_options))

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, V] | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[Windowed[K], V]:
        """Combine the values of each key and window.

        Args:
            reducer: Called with (value so far, value) from a window's second record on, and with
                the values of two sessions that become one; returning None deletes the row.
        """
        checked(reducer, "reduce", ("so_far", "value"))
        chosen = self._options(materialized, options, "reduce")
        return KTable(self._groups.reduced(reducer, chosen, node_name))

    def _options(
        self, given: Materialized[K, V2] | None, keywords: Mapping[str, Any], where: str
    ) -> Materialized[K, V2]:
        return windowed_table_options(given, keywords, where, sessions=self._sessions)


class TimeWindowedKStream(_WindowedKStream[K, V]):
    """The records of a stream, grouped by key and cut into windows.

    Made by `KGroupedStream.windowed_by`. Each aggregation makes a table with a row for each key and
    window, kept in a window store. A record without a key is dropped, and so is one whose window is
    closed: stream time has come to its end and the grace period. One without a value is aggregated
    as any other, but dropped by sliding windows. Options are given as to `KGroupedStream`.
    """

    _sessions = False

    @overload
    def aggregate(
        self,
        aggregation: Aggregation[V, Any, VFolded],
        /,
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VFolded] | None = None,
        **options: Unpack[MaterializedOptions[K, VFolded]],
    ) -> KTable[Windowed[K], VFolded]: ...

    @overload
    def aggregate(
        self,
        initializer: Initializer[VFolded],
        aggregator: Callable[[K, V, VFolded], VFolded | None],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VFolded] | None = None,
        **options: Unpack[MaterializedOptions[K, VFolded]],
    ) -> KTable[Windowed[K], VFolded]: ...

    def aggregate(
        self,
        initializer: Initializer[VFolded] | Aggregation[V, Any, VFolded],
        aggregator: Any = None,
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VFolded] | None = None,
        **options: Unpack[MaterializedOptions[K, VFolded]],
    ) -> KTable[Windowed[K], VFolded]:
        """Fold the values of each key and window into one of another type, with its own serde.

        Or give a ready one, as to `KGroupedStream.aggregate`.

        Args:
            initializer: Returns the value a window begins with.
            aggregator: Called with (key, value, value so far); returns the new value, or None to
                delete the window's row. It may change what it was given and return that.
        """
        chosen = self._options(materialized, options, "aggregate")
        if isinstance(initializer, Aggregation):
            initializer.check_alone(aggregator)
            return KTable(self._groups.aggregated_by(initializer, chosen, node_name))
        checked(initializer, "aggregate", ())
        checked(aggregator, "aggregate", (*KEY_VALUE, "so_far"))
        return KTable(self._groups.aggregated(Fold(initializer, aggregator), chosen, node_name))


class SessionWindowedKStream(_WindowedKStream[K, V]):
    """The records of a stream, grouped by key and cut into sessions.

    Made by `KGroupedStream.windowed_by`. Each aggregation makes a table with a row for each key and
    session, kept in a session store. A record that closes the gap between two sessions makes them
    one: the rows of both are deleted, and that of the merged session is made. A row has the time of
    its session's end. A record without a key is dropped, and so is one whose session is closed;
    one without a value is aggregated as any other. Options are given as to `KGroupedStream`.
    """

    _sessions = True

    @overload
    def aggregate(
        self,
        aggregation: Aggregation[V, Any, VFolded],
        /,
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VFolded] | None = None,
        **options: Unpack[MaterializedOptions[K, VFolded]],
    ) -> KTable[Windowed[K], VFolded]: ...

    @overload
    def aggregate(
        self,
        initializer: Initializer[VFolded],
        aggregator: Callable[[K, V, VFolded], VFolded | None],
        merger: Callable[[K, VFolded, VFolded], VFolded],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VFolded] | None = None,
        **options: Unpack[MaterializedOptions[K, VFolded]],
    ) -> KTable[Windowed[K], VFolded]: ...

    def aggregate(
        self,
        initializer: Initializer[VFolded] | Aggregation[V, Any, VFolded],
        aggregator: Any = None,
        merger: Any = None,
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VFolded] | None = None,
        **options: Unpack[MaterializedOptions[K, VFolded]],
    ) -> KTable[Windowed[K], VFolded]:
        """Fold the values of each session into one of another type, which has its own serde.

        Or give a ready one, as to `KGroupedStream.aggregate`.

        Args:
            initializer: Returns the value a session begins with.
            aggregator: Called with (key, value, value so far); returns the new value, or None to
                delete the session's row.
            merger: Called with (key, value so far, other value) when two sessions become one.
        """
        chosen = self._options(materialized, options, "aggregate")
        if isinstance(initializer, Aggregation):
            initializer.check_alone(aggregator, merger)
            return KTable(self._groups.aggregated_by(initializer, chosen, node_name))
        checked(initializer, "aggregate", ())
        checked(aggregator, "aggregate", (*KEY_VALUE, "so_far"))
        checked(merger, "aggregate", ("key", "so_far", "other"))
        fold = Fold(initializer, aggregator, merger)
        return KTable(self._groups.aggregated(fold, chosen, node_name))


class KGroupedTable(SaysWhatIsMissing, Generic[K, V]):
    """The rows of a table, put into groups. Made by `KTable.group_by`.

    Aggregations undo the old value of a changed row with their subtractor before they add the new
    one, so that each group holds what its present rows say. When a row moves between groups, one
    group is updated before the other. Options are given as to `KGroupedStream`.
    """

    def __init__(self, groups: TableGroups) -> None:
        self._groups = groups

    def count(
        self,
        *,
        node_name: str | None = None,
        materialized: Materialized[K, int] | None = None,
        **options: Unpack[MaterializedOptions[K, int]],
    ) -> KTable[K, int]:
        """Count the rows of each group; `value_serde` is `serdes.LONG` unless given."""
        chosen = table_options(materialized, options, "count")
        store = self._groups.store(chosen, LONG)
        operator = aggregate.table_count(store.name)
        return KTable(self._groups.aggregated(operator, node_name, naming.TABLE_AGGREGATE, store))

    def reduce(
        self,
        adder: Callable[[V, V], V | None],
        subtractor: Callable[[V, V], V | None],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, V] | None = None,
        **options: Unpack[MaterializedOptions[K, V]],
    ) -> KTable[K, V]:
        """Combine the rows of each group.

        Args:
            adder: Called with (value so far, new value) unless the group is empty.
            subtractor: Called with (value so far, old value); returning None deletes the group.
        """
        for function in (adder, subtractor):
            checked(function, "reduce", ("so_far", "value"))
        chosen = table_options(materialized, options, "reduce")
        store = self._groups.store(chosen, self._groups.grouped.value_serde)
        operator = aggregate.TableReduceOperator(store.name, adder, subtractor)
        return KTable(self._groups.aggregated(operator, node_name, naming.TABLE_REDUCE, store))

    @overload
    def aggregate(
        self,
        aggregation: Aggregation[V, Any, VFolded],
        /,
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VFolded] | None = None,
        **options: Unpack[MaterializedOptions[K, VFolded]],
    ) -> KTable[K, VFolded]: ...

    @overload
    def aggregate(
        self,
        initializer: Initializer[VFolded],
        adder: Callable[[K, V, VFolded], VFolded | None],
        subtractor: Callable[[K, V, VFolded], VFolded | None],
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VFolded] | None = None,
        **options: Unpack[MaterializedOptions[K, VFolded]],
    ) -> KTable[K, VFolded]: ...

    def aggregate(
        self,
        initializer: Initializer[VFolded] | Aggregation[V, Any, VFolded],
        adder: Any = None,
        subtractor: Any = None,
        *,
        node_name: str | None = None,
        materialized: Materialized[K, VFolded] | None = None,
        **options: Unpack[MaterializedOptions[K, VFolded]],
    ) -> KTable[K, VFolded]:
        """Fold the rows of each group into a value of another type, which has a serde of its own.

        Or give a ready one that can be undone, as to `KGroupedStream.aggregate`: `count`, `sum`,
        `mean`, `variance`, `stddev`, and `several` of them.

        Args:
            initializer: Returns the value a group begins with.
            adder: Called with (group, new value, value so far).
            subtractor: Called with (group, old value, value so far); None deletes the group.
        """
        chosen = table_options(materialized, options, "aggregate")
        if isinstance(initializer, Aggregation):
            initializer.check_alone(adder, subtractor)
            return KTable(self._groups.aggregated_by(initializer, chosen, node_name))
        checked(initializer, "aggregate", ())
        for function in (adder, subtractor):
            checked(function, "aggregate", ("group", "value", "so_far"))
        store = self._groups.store(
            chosen, kept_serdes.kept_serde(adder, self._groups.grouped.value_serde)
        )
        operator = aggregate.TableAggregateOperator(store.name, initializer, adder, subtractor)
        return KTable(self._groups.aggregated(operator, node_name, naming.TABLE_AGGREGATE, store))


class BranchedKStream(SaysWhatIsMissing, Generic[K, V]):
    """A stream being split: a record goes to the first branch whose predicate is true.

    Made by `KStream.split`. Declare the branches, then end with `default_branch` (which takes
    the rest) or `no_default_branch` (which drops it); both return the branches by name:

        split = stream.split(name="size-").branch(is_big, name="big")
        branches = split.default_branch(name="small")
        branches["size-big"], branches["size-small"]

    A branch without a name is called by its number, from 1; the default branch is 0.
    """

    def __init__(self, split: DeclaredSplit) -> None:
        self._split = split
        self._branches: dict[str, KStream[K, V]] = {}

    def branch(
        self,
        predicate: Callable[[K, V], bool],
        *,
        name: str | None = None,
        chain: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None = None,
    ) -> BranchedKStream[K, V]:
        """Add a branch.

        Args:
            predicate: Called with (key, value), if no earlier branch took the record.
            name: Ends the branch's name, which begins with the split's.
            chain: Called with the branch; what it returns stands in the result instead, and
                nothing if it returns None.

        Raises:
            TopologyError: The split has ended, or another branch has the name.
        """
        self._keep(self._split.branch(predicate, name), chain)
        return self

    def default_branch(
        self,
        *,
        name: str | None = None,
        chain: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None = None,
    ) -> dict[str, KStream[K, V]]:
        """End the split with a branch for all records that no other one takes.

        Args:
            name: Ends the branch's name.
            chain: As in `branch`.

        Returns:
            The branches by name.

        Raises:
            TopologyError: The split has ended, or another branch has the name.
        """
        self._keep(self._split.default_branch(name), chain)
        return self._branches

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """End the split; drop records that no branch takes.

        Returns:
            The branches by name.

        Raises:
            TopologyError: The split has ended.
        """
        self._split.end("no_default_branch")
        return self._branches

    def _keep(
        self,
        branch: DeclaredStream,
        chain: Callable[[KStream[K, V]], KStream[Any, Any] | None] | None,
    ) -> None:
        stream = KStream[K, V](branch)
        kept = stream if chain is None else checked(chain, "branch: chain", ("stream",))(stream)
        if kept is not None:
            if not isinstance(kept, KStream | KTable):
                raise TopologyError(f"branch: its chain must return a stream or None, not {kept!r}")
            self._branches[branch.node.name] = kept


def _join_call(
    kind: Literal["join", "left_join"],
    other: object,
    given: tuple[Any, ...],
    with_key_and_joined: tuple[bool, Any],
    options: dict[str, Any],
) -> JoinCall:
    """Return what a call says whose arguments go by what is joined; some may be keywords.

    Raises:
        TopologyError: There are too many, or no joiner.
    """
    names = ("key_selector", "joiner") if isinstance(other, GlobalKTable) else ("joiner", "windows")
    if len(given) > len(names) or any(name in options for name in names[: len(given)]):
        raise TopologyError(f"{kind}: takes {' and '.join(names)} after what is joined, once each")
    found = dict(zip(names, given, strict=False))
    for name in ("key_selector", "joiner", "windows"):
        if name in options:
            found[name] = options.pop(name)
    joiner = found.get("joiner")
    if joiner is None:
        raise TopologyError(f"{kind}: takes a joiner, a function of both values")
    windows, key_selector = found.get("windows"), found.get("key_selector")
    return JoinCall(kind, joiner, windows, *with_key_and_joined, options, key_selector)


def _check_windows(windows: object) -> None:
    """Refuse what `windowed_by` can't cut time by."""
    if not isinstance(windows, TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows):
        raise TopologyError(
            f"windowed_by: {windows!r} is neither TimeWindows, SlidingWindows, SessionWindows "
            "nor UnlimitedWindows"
        )
