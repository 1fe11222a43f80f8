"""The joins of a `KStream`, with tables and with streams. Source: Kafka Streams' `KStreamImpl`."""

# ruff: noqa: SLF001 - streams look into the streams and tables they are put together with.

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Unpack, overload

from pystreams.errors import TopologyError
from pystreams.serdes import Serde
from pystreams.topology.functions import with_or_without_key
from pystreams.topology.graph import StreamsGraph
from pystreams.topology.graph_nodes import GraphNode
from pystreams.topology.join_windows import JoinWindows
from pystreams.topology.ktable import KTable
from pystreams.topology.options import Joined, JoinedOptions, Repartitioned, options_of
from pystreams.topology.repartitioning import new_repartition
from pystreams.topology.stream_joined import StreamJoined, StreamJoinedOptions
from pystreams.topology.stream_joins import StreamJoin, add_stream_join, keyed_joiner
from pystreams.topology.table_joins import add_table_join
from pystreams.topology.type_variables import V2, K, V, VOther

_Kind = Literal["join", "left_join", "outer_join"]

if TYPE_CHECKING:
    from pystreams.topology.kstream import KStream


class JoinableStream(Generic[K, V]):
    """What a `KStream`, its only sub-class, is joined by: a class of its own for its length."""

    _graph: StreamsGraph
    _node: GraphNode
    _sources: frozenset[str]
    _key_serde: Serde[Any] | None
    _value_serde: Serde[Any] | None
    _repartition_required: bool
    _join_repartition: GraphNode | None

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

    def join(
        self,
        other: KTable[K, VOther] | KStream[K, VOther],
        joiner: Callable[..., V2],
        windows: JoinWindows | None = None,
        *,
        with_key: bool = False,
        joined: Any = None,
        **options: Any,
    ) -> KStream[K, V2]:
        """Join each record with the table's row of its key, or with another stream's records.

        With a table: a record is joined with the row there is when it arrives, and dropped if there
        is none; updates of the table produce nothing by themselves. With a stream: with each record
        of its key that is in the window around it, whichever arrives first.

        The topics of both must have equal numbers of partitions.

        Args:
            other: The table or the stream.
            joiner: Called with (value, other's value); returns the new value.
            windows: How far apart in time records of two streams may be; not for a table.
            with_key: Call the joiner with (key, value, other's value).
            joined: `Joined` with a table, `StreamJoined` with a stream; or give it as keywords.
            options: Keywords of that.
        """
        given = (joined, options)
        return self._join(other, joiner, windows, "join", with_key=with_key, given=given)

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

    def left_join(
        self,
        other: KTable[K, VOther] | KStream[K, VOther],
        joiner: Callable[..., V2],
        windows: JoinWindows | None = None,
        *,
        with_key: bool = False,
        joined: Any = None,
        **options: Any,
    ) -> KStream[K, V2]:
        """Join as `join` does, and records that find nothing with None.

        With a stream they wait until no match can come any more: until the time of either stream is
        beyond the end of their window and the grace period. The first look after that joins them;
        `outer.join.emit.interval.ms` says how often there is one.
        """
        given = (joined, options)
        return self._join(other, joiner, windows, "left_join", with_key=with_key, given=given)

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
        windows: JoinWindows,
        *,
        with_key: bool = False,
        joined: Any = None,
        **options: Any,
    ) -> KStream[K, V2]:
        """Join two streams as `left_join` does; the other stream's records meet None as well."""
        given = (joined, options)
        return self._join(other, joiner, windows, "outer_join", with_key=with_key, given=given)

    # ------------------------------------------------------------------ inside

    def _stream(
        self,
        node: GraphNode,
        sources: frozenset[str],
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
    ) -> KStream[Any, Any]:
        """Return the stream behind a node."""
        raise NotImplementedError

    def _check_same_builder(
        self, other: JoinableStream[Any, Any] | KTable[Any, Any], operation: str
    ) -> None:
        """Refuse to put together what comes from two builders."""
        if other._graph is not self._graph:
            message = (
                f"can't {operation} {self._node.name!r} and {other._node.name!r}: they come from "
                "two StreamsBuilders; make both with the same one"
            )
            raise TopologyError(message)

    def _join(
        self,
        other: object,
        joiner: Callable[..., Any],
        windows: JoinWindows | None,
        kind: _Kind,
        *,
        with_key: bool,
        given: tuple[Any, Mapping[str, Any]],
    ) -> KStream[Any, Any]:
        """Join with a table or a stream; `given` are the options as an object and as keywords."""
        if isinstance(other, JoinableStream):
            return self._join_stream(other, joiner, windows, kind, with_key=with_key, given=given)
        if not isinstance(other, KTable) or kind == "outer_join":
            which = "KStream" if kind == "outer_join" else "KTable or a KStream"
            raise TopologyError(f"{kind}: a stream is joined with a {which} here, not {other!r}")
        if windows is not None:
            raise TopologyError(
                f"{kind} with the table {other._node.name!r} has no windows: a record meets the "
                "row there is when it arrives; leave windows out"
            )
        joined = options_of(Joined, given[0], given[1], kind)
        with_or_without_key(joiner, kind, ("value", "row"), with_key=with_key)
        return self._join_table(other, joiner, joined, left=kind == "left_join", with_key=with_key)

    def _join_table(
        self,
        table: KTable[Any, Any],
        joiner: Callable[..., Any],
        joined: Joined[Any, Any, Any],
        *,
        left: bool,
        with_key: bool,
    ) -> KStream[Any, Any]:
        self._check_same_builder(table, "join")
        joined = replace(
            joined,
            key_serde=joined.key_serde or self._key_serde,
            value_serde=joined.value_serde or self._value_serde,
        )
        stream = self._copartitioned(joined.name, joined.key_serde, joined.value_serde)
        sources = stream._sources | table._sources
        node = add_table_join(
            self._graph, stream._node, table, joiner, joined, left=left, with_key=with_key
        )
        self._graph.require_copartition(sources, node.name)
        return self._stream(node, sources, joined.key_serde, None)

    def _join_stream(
        self,
        other: JoinableStream[Any, Any],
        joiner: Callable[..., Any],
        windows: JoinWindows | None,
        kind: _Kind,
        *,
        with_key: bool,
        given: tuple[Any, Mapping[str, Any]],
    ) -> KStream[Any, Any]:
        if not isinstance(windows, JoinWindows):
            raise TopologyError(
                f"{kind} of two streams needs windows, such as "
                f"JoinWindows.of_time_difference_with_no_grace(60_000), not {windows!r}"
            )
        self._check_same_builder(other, kind)
        with_or_without_key(joiner, kind, ("value", "other_value"), with_key=with_key)
        chosen: StreamJoined[Any, Any, Any] = options_of(StreamJoined, given[0], given[1], kind)
        chosen.check_suppliers(windows)
        # Differs from Kafka: serdes that are left open are the streams', not the defaults.
        joined = replace(
            chosen,
            key_serde=chosen.key_serde or self._key_serde or other._key_serde,
            value_serde=chosen.value_serde or self._value_serde,
            other_value_serde=chosen.other_value_serde or other._value_serde,
        )
        name = joined.name
        this = self._copartitioned(name and f"{name}-left", joined.key_serde, joined.value_serde)
        that = other._copartitioned(
            name and f"{name}-right", joined.key_serde, joined.other_value_serde
        )
        sources = this._sources | that._sources
        join = StreamJoin(
            windows,
            keyed_joiner(joiner, with_key=with_key),
            left_outer=kind != "join",
            right_outer=kind == "outer_join",
            joined=joined,
        )
        node = add_stream_join(self._graph, this._node, that._node, join)
        self._graph.require_copartition(sources, node.name)
        return self._stream(node, sources, joined.key_serde, None)

    def _copartitioned(
        self,
        name: str | None,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
    ) -> JoinableStream[K, V]:
        """Return this stream, behind a repartition if its key was changed.

        Joins without a name share one.
        """
        if not self._repartition_required:
            return self
        prefix = name or self._node.name
        # Made even if it is not used: its numbers are used up.
        node: GraphNode = new_repartition(
            self._graph.names, prefix, Repartitioned(key_serde, value_serde)
        )
        if self._join_repartition is None or prefix != self._node.name:
            self._graph.add(node, self._node)
            self._join_repartition = node
        node = self._join_repartition
        return self._stream(node, frozenset((node.name,)), key_serde, value_serde)
