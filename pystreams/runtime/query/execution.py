"""Puts a query to the stores of local tasks; for any thread, beside their owners.

The position is read before the store, which only moves on: what is found is at least what the
position says (see `store_positions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from pystreams.config.guarantee import IsolationLevel
from pystreams.errors import StoreNotAvailableError
from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.query.queries import (
    KeyQuery,
    MultiVersionedKeyQuery,
    Query,
    RangeQuery,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from pystreams.runtime.query.results import FailureReason, QueryResult, StateQueryResult
from pystreams.stores.contract import StateStore
from pystreams.stores.position import Position, PositionBound
from pystreams.stores.spec import StoreKind, StoreSpec

R = TypeVar("R")
Answer = Callable[[Any, Any], Any]
"""Called with (view of the store, query)."""


@dataclass(frozen=True)
class StateQueryRequest(Generic[R]):
    """One query and what it is put to.

    Attributes:
        query: The question.
        spec: What the store is.
        partitions: Which partitions are asked; None asks all that are on this instance.
        isolation_level: What the query sees, and whose position the bound is held against.
        position_bound: How far a partition must have come.
    """

    query: Query[R]
    spec: StoreSpec
    partitions: frozenset[int] | None
    isolation_level: IsolationLevel
    position_bound: PositionBound


def query_tasks(
    request: StateQueryRequest[R], tasks: Iterable[StreamTask], num_partitions: int
) -> StateQueryResult[R]:
    """Return what the partitions of a store answer; a failure is a result, not an error.

    Args:
        request: The request.
        tasks: The tasks of this instance that have the store, in whatever state.
        num_partitions: How many partitions the store has on all instances together.
    """
    local = {task.task_id.partition: task for task in tasks}
    asked = sorted(local) if request.partitions is None else sorted(request.partitions)
    return StateQueryResult(
        {
            number: _query_task(request, local[number])
            if number in local
            else _not_here(request.spec.name, number, num_partitions)
            for number in asked
        }
    )


def _query_task(request: StateQueryRequest[R], task: StreamTask) -> QueryResult[R]:
    query, spec, level = request.query, request.spec, request.isolation_level
    number = task.task_id.partition
    partition = f"partition {number} of state store {spec.name!r}"
    store = task.state_manager.stores()[spec.name]
    answer = answer_of(query, spec) if hasattr(store, "read_only") else None
    if answer is None and type(store).query is StateStore.query:
        return _unknown(query, spec, store)
    if task.state is not TaskState.RUNNING:
        message = f"{partition} restores or moves right now: ask again in a moment"
        return _failed(FailureReason.NOT_ACTIVE, message)
    position = task.positions.of(spec.name, level)
    missing = request.position_bound.missing(position, number)
    if missing:
        message = (
            f"{partition} has not come as far as the bound asks, for {level.value}: it lacks "
            f"{missing}, it is at {position}; ask again in a moment"
        )
        return QueryResult(position, None, FailureReason.NOT_UP_TO_BOUND, message)
    try:
        found = _found(store, query, level, answer)
    except StoreNotAvailableError as error:
        return _failed(FailureReason.NOT_ACTIVE, str(error))
    except Exception as error:  # noqa: BLE001 - a serde may raise anything
        message = f"{partition} could not answer {query} ({type(error).__name__}: {error})"
        return _failed(FailureReason.STORE_EXCEPTION, message)
    unknown = found is NotImplemented
    return _unknown(query, spec, store) if unknown else QueryResult(position, found)


def _found(
    store: StateStore, query: Query[Any], level: IsolationLevel, answer: Answer | None
) -> Any:
    """Return what a store answers itself, or what its view does; NotImplemented if neither."""
    found = store.query(query, level)
    if found is NotImplemented and answer is not None:
        return answer(cast("Any", store).read_only(level), query)
    return found


def _unknown(query: Query[Any], spec: StoreSpec, store: StateStore) -> QueryResult[Any]:
    message = unknown_query(query, spec)
    if spec.kind is StoreKind.KEY_VALUE and not hasattr(store, "read_only"):
        message = (
            f"state store {spec.name!r} is a {type(store).__name__} and can't answer {query}: "
            "ask it with a query that its query() knows"
        )
    return _failed(FailureReason.UNKNOWN_QUERY_TYPE, message)


def _not_here(store: str, number: int, num_partitions: int) -> QueryResult[Any]:
    if 0 <= number < num_partitions:
        message = (
            f"partition {number} of state store {store!r} is not on this instance: ask another "
            "one, or again after the next rebalance"
        )
        return _failed(FailureReason.NOT_PRESENT, message)
    message = (
        f"state store {store!r} has no partition {number}, but those from 0 to "
        f"{num_partitions - 1}: ask for one of these"
    )
    return _failed(FailureReason.DOES_NOT_EXIST, message)


def answer_of(query: Query[Any], spec: StoreSpec) -> Answer | None:
    """Return the function that answers a query of a store, None when such stores can't."""
    answer = _ANSWERS.get((type(query), spec.kind))
    if isinstance(query, KeyQuery | RangeQuery) and spec.timestamped:
        return _PLAIN_ANSWERS.get((type(query), spec.kind))
    if isinstance(query, TimestampedKeyQuery | TimestampedRangeQuery) and not spec.timestamped:
        return None
    if isinstance(query, WindowRangeQuery):
        wanted = StoreKind.WINDOW if query.key is None else StoreKind.SESSION
        return answer if spec.kind is wanted else None
    return answer


def _get(view: Any, query: KeyQuery | TimestampedKeyQuery) -> Any:
    return view.get(query.key)


def _get_plain(view: Any, query: KeyQuery) -> Any:
    found = view.get(query.key)
    return None if found is None else found.value


def _range(view: Any, query: RangeQuery | TimestampedRangeQuery) -> Iterator[tuple[Any, Any]]:
    walk = view.reverse_range if query.descending else view.range
    entries: Iterator[tuple[Any, Any]] = walk(query.lower, query.upper)
    return entries


def _range_plain(view: Any, query: RangeQuery) -> Iterator[tuple[Any, Any]]:
    return ((key, found.value) for key, found in _range(view, query))


def _window_fetch(view: Any, query: WindowKeyQuery) -> Any:
    return view.fetch(query.key, query.time_from, query.time_to)


def _window_fetch_all(view: Any, query: WindowRangeQuery) -> Any:
    return view.fetch_all(query.time_from, query.time_to)


def _session_fetch(view: Any, query: WindowRangeQuery) -> Any:
    return view.fetch(query.key)


def _version(view: Any, query: VersionedKeyQuery) -> Any:
    return view.get(query.key, query.as_of)


def _versions(view: Any, query: MultiVersionedKeyQuery) -> Any:
    return view.get_range(query.key, query.from_time, query.to_time, descending=query.descending)


_ANSWERS: dict[tuple[type[Query[Any]], StoreKind], Answer] = {
    (KeyQuery, StoreKind.KEY_VALUE): _get,
    (RangeQuery, StoreKind.KEY_VALUE): _range,
    (TimestampedKeyQuery, StoreKind.KEY_VALUE): _get,
    (TimestampedRangeQuery, StoreKind.KEY_VALUE): _range,
    (WindowKeyQuery, StoreKind.WINDOW): _window_fetch,
    (WindowRangeQuery, StoreKind.WINDOW): _window_fetch_all,
    (WindowRangeQuery, StoreKind.SESSION): _session_fetch,
    (VersionedKeyQuery, StoreKind.VERSIONED): _version,
    (MultiVersionedKeyQuery, StoreKind.VERSIONED): _versions,
}
_PLAIN_ANSWERS: dict[tuple[type[Query[Any]], StoreKind], Answer] = {
    (KeyQuery, StoreKind.KEY_VALUE): _get_plain,
    (RangeQuery, StoreKind.KEY_VALUE): _range_plain,
}
_TIMESTAMPED_CURE = (
    "ask it with KeyQuery or RangeQuery, or with TimestampedKeyQuery or TimestampedRangeQuery"
)
_CURES = {
    StoreKind.KEY_VALUE: "ask it with KeyQuery or RangeQuery",
    StoreKind.WINDOW: "ask it with WindowKeyQuery, or WindowRangeQuery with time_from and time_to",
    StoreKind.SESSION: "ask it with WindowRangeQuery with key",
    StoreKind.VERSIONED: "ask it with VersionedKeyQuery or MultiVersionedKeyQuery",
    StoreKind.BUFFER: "it is what an operation keeps for itself, ask a table made of its output",
    StoreKind.LIST_VALUE: "it is what a join keeps for itself, ask a table made of its output",
}


def unknown_query(query: Query[Any], spec: StoreSpec) -> str:
    """Return the message of UNKNOWN_QUERY_TYPE, of a store of ours."""
    kind, cure = f"{spec.kind.value} store", _CURES[spec.kind]
    if spec.kind is StoreKind.KEY_VALUE:
        if spec.timestamped:
            cure = _TIMESTAMPED_CURE
        else:
            kind += " without timestamps"
    return f"state store {spec.name!r} is a {kind} and can't answer {query}: {cure}"


def _failed(reason: FailureReason, message: str) -> QueryResult[Any]:
    return QueryResult(Position(), None, reason, message)
