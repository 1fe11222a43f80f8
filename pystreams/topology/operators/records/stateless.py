"""Operators without state: filter, map, branch and their kin.

Each step calls the user's function inside `try` and its child outside of it: an error belongs
to the node that raised it, and costs nothing while there is none. The choice between a function
of the value and a function of key and value is made when the operator is attached.

Source: Kafka Streams' `KStreamFilter`, `KStreamMap`, `KStreamMapValues`, `KStreamFlatMap`,
`KStreamFlatMapValues`, `KStreamBranch`, `KStreamPeek`, `PassThrough`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CoroutineType
from typing import Any

from pystreams.kernel.async_functions import COROUTINES, refuse_coroutine
from pystreams.record import Headers
from pystreams.topology.contracts.operator import NodeContext, Step
from pystreams.topology.operators.records.wrong_results import (
    as_pair,
    no_pair,
    no_pairs,
    no_values,
)

KeyValueFunction = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class PassThroughOperator:
    """Hands every record on: a merge, a branch."""

    def attach(self, node: NodeContext) -> Step:
        """Return the children's own step: the node costs nothing."""
        return node.forward


@dataclass(frozen=True, slots=True)
class DropNullKeysOperator:
    """Keeps records that have a key: before a repartition, which could place no other."""

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        forward = node.forward

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is not None:
                forward(key, value, timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class FilterOperator:
    """Keeps records for which the predicate is true, or with `negate` those for which it is not."""

    predicate: KeyValueFunction
    negate: bool = False

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        return self._dropping(node) if self.negate else self._keeping(node)

    def _keeping(self, node: NodeContext) -> Step:
        predicate, forward = self.predicate, node.forward
        report_error, name = node.task.report_error, node.name

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                kept = predicate(key, value)
                if not kept:  # What it returned may refuse to be true or false.
                    return
                if kept is not True and type(kept) in COROUTINES:
                    refuse_coroutine(kept)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            forward(key, value, timestamp, headers)

        return step

    def _dropping(self, node: NodeContext) -> Step:
        predicate, forward = self.predicate, node.forward
        report_error, name = node.task.report_error, node.name

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                kept = predicate(key, value)
                if kept:
                    if kept is not True and type(kept) in COROUTINES:
                        refuse_coroutine(kept)
                    return
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            forward(key, value, timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class MapOperator:
    """Replaces key and value by the pair that the mapper returns."""

    mapper: Callable[[Any, Any], tuple[Any, Any]]

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        mapper, forward = self.mapper, node.forward
        report_error, name = node.task.report_error, node.name

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                pair = mapper(key, value)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            try:
                new_key, new_value = pair if type(pair) is tuple else as_pair(pair)
            except Exception as error:  # noqa: BLE001 - it may be an iterator of the user's
                report_error(no_pair(error, pair), name)
                return
            forward(new_key, new_value, timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class SelectKeyOperator:
    """Replaces the key by what the selector returns."""

    selector: KeyValueFunction

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        selector, forward = self.selector, node.forward
        report_error, name = node.task.report_error, node.name

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                new_key = selector(key, value)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            forward(new_key, value, timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class MapValuesOperator:
    """Replaces the value by what the mapper returns."""

    mapper: Callable[..., Any]
    with_key: bool = False

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        return self._of_key_and_value(node) if self.with_key else self._of_value(node)

    def _of_value(self, node: NodeContext) -> Step:
        mapper, forward = self.mapper, node.forward
        report_error, name = node.task.report_error, node.name

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                new_value = mapper(value)
                if type(new_value) is CoroutineType:
                    refuse_coroutine(new_value)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            forward(key, new_value, timestamp, headers)

        return step

    def _of_key_and_value(self, node: NodeContext) -> Step:
        mapper, forward = self.mapper, node.forward
        report_error, name = node.task.report_error, node.name

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                new_value = mapper(key, value)
                if type(new_value) is CoroutineType:
                    refuse_coroutine(new_value)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            forward(key, new_value, timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class FlatMapOperator:
    """Replaces a record by the pairs that the mapper returns.

    Differs from Kafka: the pairs are collected before the first is forwarded, so that an error in
    the middle of a generator drops the record as a whole.
    """

    mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        mapper, forward = self.mapper, node.forward
        report_error, name = node.task.report_error, node.name

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                returned = mapper(key, value)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            try:
                # Unpacking here finds what is no pair while the error is still this node's.
                pairs = [
                    (new_key, new_value)
                    for pair in returned
                    for new_key, new_value in (pair if type(pair) is tuple else as_pair(pair),)
                ]
            except Exception as error:  # noqa: BLE001 - it may be a generator of the user's
                report_error(no_pairs(error, returned), name)
                return
            for new_key, new_value in pairs:
                forward(new_key, new_value, timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class FlatMapValuesOperator:
    """Replaces a record by one for each value that the mapper returns; collects them first."""

    mapper: Callable[..., Iterable[Any]]
    with_key: bool = False

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        mapper, with_key, forward = self.mapper, self.with_key, node.forward
        report_error, name = node.task.report_error, node.name

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                returned = mapper(key, value) if with_key else mapper(value)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            try:
                values = list(returned)
            except Exception as error:  # noqa: BLE001 - it may be a generator of the user's
                report_error(no_values(error, returned), name)
                return
            for new_value in values:
                forward(key, new_value, timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class PeekOperator:
    """Shows each record to an action and hands it on; without children it is a `foreach`.

    A record whose action failed is not handed on, when the handler says to go on.
    """

    action: KeyValueFunction

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        action, forward = self.action, node.forward
        report_error, name = node.task.report_error, node.name

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                returned = action(key, value)
                if returned is not None and type(returned) in COROUTINES:
                    refuse_coroutine(returned)
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            forward(key, value, timestamp, headers)

        return step


@dataclass(frozen=True, slots=True)
class BranchOperator:
    """Sends a record to the first branch whose predicate is true, else to the default branch.

    Attributes:
        branches: (predicate, name of the branch's node), in order.
        default: Name of the default branch's node; None drops what no branch takes.
    """

    branches: tuple[tuple[KeyValueFunction, str], ...]
    default: str | None

    def attach(self, node: NodeContext) -> Step:
        """Return the step."""
        routes = tuple((predicate, node.children[child]) for predicate, child in self.branches)
        otherwise = None if self.default is None else node.children[self.default]
        report_error, name = node.task.report_error, node.name

        def step(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            chosen = otherwise
            try:
                for predicate, child in routes:
                    taken = predicate(key, value)
                    if taken:
                        if taken is not True and type(taken) in COROUTINES:
                            refuse_coroutine(taken)
                        chosen = child
                        break
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                report_error(error, name)
                return
            if chosen is not None:
                chosen(key, value, timestamp, headers)

        return step
