"""Builds the topology of a case with the DSL, a step a call: what `CaseTopology.java` does in Java.

A step names what it makes ("out") and what it is called on ("from"), and its options.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any

from pystreams import (
    GlobalKTable,
    KGroupedTable,
    KStream,
    KTable,
    StreamsBuilder,
    TableJoined,
    Topology,
)
from tests.parity.generated import functions, options
from tests.parity.generated.build_tables import joined_by_foreign_key, of_table
from tests.parity.generated.functions import (
    AGGREGATORS,
    FLAT_VALUES,
    INITIALS,
    JOINERS,
    KEYS,
    PREDICATES,
    REDUCERS,
    VALUES,
)
from tests.parity.generated.options import Step
from tests.parity.generated.processors import (
    Filling,
    add_read_only_store,
    processor,
    store_builder,
    transformer,
)


class CaseTopology:
    """A topology, and what its side effects see.

    Attributes:
        builder: Has all steps declared.
        seen: What `peek` and `foreach` were called with, by label.
        printed: What `print` writes to, by "file".
    """

    def __init__(self, steps: list[Step]) -> None:
        self.builder = StreamsBuilder()
        self.seen: dict[str, list[list[str]]] = {}
        self.printed: dict[str, io.StringIO] = {}
        self._made: dict[str, Any] = {}
        self._read_only: list[Step] = []
        for step in steps:
            made = self._result(step)
            if "out" in step:
                self._made[step["out"]] = made

    def _result(self, step: Step) -> Any:
        operation = step["op"]
        if "from" not in step:
            return self._source(step)
        source = self._made[step["from"]]
        other = self._made[step["other"]] if "other" in step else None
        if operation in _GROUPING:
            return _GROUPING[operation](step, source, other)
        if isinstance(source, KTable):
            return self._of_table(step, source, other)
        own: dict[str, Callable[[Step, KStream[Any, Any]], Any]] = {
            "peek": self._peek,
            "foreach": self._foreach,
            "print": self._print,
            "split": self._split,
            "process": self._process,
            "process_values": self._process,
        }
        if operation in own:
            return own[operation](step, source)
        return _of_stream(step, source, other)

    def _stream(self, step: Step) -> Any:
        consumed = options.named(step.get("consumed"))
        if "pattern" in step:
            return self.builder.stream(pattern=step["pattern"], **consumed)
        return self.builder.stream(step["topics"], **consumed)

    def _source(self, step: Step) -> Any:
        match step["op"]:
            case "table":
                return self._table(step, self.builder.table)
            case "global_table":
                return self._table(step, self.builder.global_table)
            case "global_store":
                return self._global_store(step)
            case "read_only_store":
                return self._read_only.append(step)
        return self._stream(step)

    def _table(self, step: Step, method: Callable[..., Any]) -> Any:
        consumed = options.consumed(step.get("consumed"))
        kept = options.kept(step.get("materialized"))
        return method(step["topic"], consumed=consumed, materialized=kept)

    def _global_store(self, step: Step) -> None:
        self.builder.add_global_store(
            store_builder(step["store"]).with_logging_disabled(),
            step["topic"],
            lambda: Filling(step["store"]),
            **options.named(step.get("consumed")),
        )

    def topology(self, config: dict[str, Any]) -> Topology:
        """Return the topology, with what only the Processor API can add."""
        topology = self.builder.build(config)
        for step in self._read_only:
            add_read_only_store(topology, step)
        return topology

    def _of_table(self, step: Step, table: KTable[Any, Any], other: Any) -> Any:
        if step["op"] == "transform_values":
            return table.transform_values(
                lambda: transformer(step),
                stores=self._stores(step),
                node_name=step.get("name"),
                materialized=options.kept(step.get("materialized")),
            )
        if "foreign_key" in step:
            return joined_by_foreign_key(step, table, other, self._table_joined(step))
        return of_table(step, table, other)

    def _table_joined(self, step: Step) -> TableJoined[Any, Any] | None:
        if "partitioners" not in step:
            return None

        def partitioner(topic: str, key: Any, _value: Any, count: int) -> int:
            self._see(step["label"])(key, f"{topic} of {count}")
            return 0

        chosen = dict.fromkeys(step["partitioners"], partitioner)
        return TableJoined(chosen.get("this"), chosen.get("other"))

    # ------------------------------------------------------------------ side effects

    def _see(self, label: str) -> Callable[[Any, Any], None]:
        def action(key: Any, value: Any) -> None:
            seen = [functions.text(key), functions.text(value)]
            self.seen.setdefault(label, []).append(seen)

        return action

    def _peek(self, step: Step, stream: KStream[Any, Any]) -> Any:
        return stream.peek(self._see(step["label"]), name=step.get("name"))

    def _foreach(self, step: Step, stream: KStream[Any, Any]) -> None:
        stream.foreach(self._see(step["label"]), name=step.get("name"))

    def _print(self, step: Step, stream: KStream[Any, Any]) -> None:
        def mapper(key: Any, value: Any) -> str:
            return f"{functions.text(key)}->{functions.text(value)}"

        stream.print(
            label=step.get("label"),
            file=self.printed.setdefault(step["file"], io.StringIO()),
            mapper=mapper if step.get("mapped") else None,
            name=step.get("name"),
        )

    def _split(self, step: Step, stream: KStream[Any, Any]) -> None:
        def keep(branch: Step) -> Callable[[Any], Any]:
            def chain(part: Any) -> Any:
                self._made[branch["out"]] = part
                return part

            return chain

        split = stream.split(name=step.get("name"))
        for branch in step["branches"]:
            split.branch(PREDICATES[branch["fn"]], name=branch.get("name"), chain=keep(branch))
        if "default" in step:
            branch = step["default"]
            split.default_branch(name=branch.get("name"), chain=keep(branch))
        else:
            split.no_default_branch()

    def _process(self, step: Step, stream: KStream[Any, Any]) -> Any:
        method = stream.process if step["op"] == "process" else stream.process_values
        stores = self._stores(step)
        return method(lambda: processor(step), stores=stores, name=step.get("name"))

    def _stores(self, step: Step) -> list[str]:
        """Add the store of a processor, if it has one; return the names of its stores."""
        if "store" not in step:
            return []
        self.builder.add_state_store(store_builder(step["store"]))
        return [step["store"]["name"]]


# ---------------------------------------------------------------------- streams


def _of_stream(step: Step, stream: KStream[Any, Any], other: Any) -> Any:
    name: Any = step.get("name")
    fn: Any = step.get("fn")
    match step["op"]:
        case "filter":
            return stream.filter(PREDICATES[fn], name=name)
        case "filter_not":
            return stream.filter_not(PREDICATES[fn], name=name)
        case "map":
            return stream.map(functions.pair(fn), name=name)
        case "map_values":
            return stream.map_values(**functions.mapper(step, VALUES), name=name)
        case "flat_map":
            return stream.flat_map(functions.pairs(fn), name=name)
        case "flat_map_values":
            return stream.flat_map_values(**functions.mapper(step, FLAT_VALUES), name=name)
        case "select_key":
            return stream.select_key(KEYS[fn], name=name)
        case "merge":
            return stream.merge(other, name=name)
        case "repartition":
            return stream.repartition(**options.repartitioned(step.get("repartitioned")))
        case "to_table":
            return stream.to_table(
                node_name=name, materialized=options.kept(step.get("materialized"))
            )
        case "join":
            return _joined(step, stream, other)
        case "to":
            return stream.to(_topic(step), **options.produced(step.get("produced")))
    raise AssertionError(f"no operation of a stream is called {step['op']}")


def _topic(step: Step) -> Any:
    if not step.get("extractor"):
        return step["topic"]
    return lambda _key, value, _record: f"{step['topic']}-{functions.weight(value) % 2}"


def _joined(step: Step, stream: KStream[Any, Any], other: Any) -> Any:
    joiner = JOINERS[step["fn"]]
    with_key = step.get("with_key", False)
    method: Any = {"inner": stream.join, "left": stream.left_join, "outer": stream.outer_join}[
        step["kind"]
    ]
    called = joiner if with_key else functools.partial(joiner, None)
    if isinstance(other, GlobalKTable):
        selector = KEYS[step["selector"]]
        return method(other, selector, called, with_key=with_key, name=step.get("name"))
    if isinstance(other, KTable):
        return method(other, called, with_key=with_key, **options.joined(step.get("joined")))
    windows = options.join_windows(step["windows"])
    chosen = options.stream_joined(step.get("joined"))
    return method(other, called, windows, with_key=with_key, **chosen)


# ---------------------------------------------------------------------- groups


def _group_by_key(step: Step, stream: Any, _other: Any) -> Any:
    return stream.group_by_key(**options.named(step.get("grouped")))


def _group_by(step: Step, source: Any, _other: Any) -> Any:
    fn = functions.pair(step["fn"]) if isinstance(source, KTable) else KEYS[step["fn"]]
    return source.group_by(fn, **options.named(step.get("grouped")))


def _windowed_by(step: Step, groups: Any, _other: Any) -> Any:
    windowed = groups.windowed_by(options.windows(step["windows"]))
    if "emit" not in step:
        return windowed
    return windowed.emit_strategy(options.emit_strategy(step["emit"]))


def _cogroup(step: Step, groups: Any, other: Any) -> Any:
    aggregator = AGGREGATORS[step["fn"]]
    return groups.cogroup(aggregator) if other is None else groups.cogroup(other, aggregator)


def _count(step: Step, groups: Any, _other: Any) -> Any:
    kept = options.kept(step.get("materialized"))
    return groups.count(node_name=step.get("name"), materialized=kept)


def _reduce(step: Step, groups: Any, _other: Any) -> Any:
    reducers = [REDUCERS[step["fn"]]]
    if isinstance(groups, KGroupedTable):
        reducers.append(REDUCERS[step["subtractor"]])
    kept = options.kept(step.get("materialized"))
    return groups.reduce(*reducers, node_name=step.get("name"), materialized=kept)


def _aggregate(step: Step, groups: Any, _other: Any) -> Any:
    called: list[Any] = [INITIALS[step["initial"]]]
    if "fn" in step:
        called.append(AGGREGATORS[step["fn"]])
    if "subtractor" in step:
        called.append(AGGREGATORS[step["subtractor"]])
    if "merger" in step:
        merger = REDUCERS[step["merger"]]
        called.append(lambda _key, so_far, value: merger(so_far, value))
    kept = options.kept(step.get("materialized"))
    return groups.aggregate(*called, node_name=step.get("name"), materialized=kept)


_GROUPING: dict[str, Callable[[Step, Any, Any], Any]] = {
    "group_by_key": _group_by_key,
    "group_by": _group_by,
    "windowed_by": _windowed_by,
    "cogroup": _cogroup,
    "count": _count,
    "reduce": _reduce,
    "aggregate": _aggregate,
}
