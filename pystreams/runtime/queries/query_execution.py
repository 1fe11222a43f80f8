"""Puts a query to the stores of local tasks; for any thread, beside their owners.

The position is read before the store, which only moves on: what is found is at least what the
position says (see `store_positions`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from pystreams.config.guarantee import IsolationLevel
from pystreams.errors import StoreNotAvailableError
from pystreams.exception_texts import named_exception
from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.queries.query_results import FailureReason, QueryResult, StateQueryResult
from pystreams.stores.contracts.position import Position, PositionBound
from pystreams.stores.contracts.queries import Query
from pystreams.stores.contracts.spec import Answer, StoreSpec
from pystreams.stores.contracts.state_store import StateStore, gives_views

R = TypeVar("R")


class StateQueryRequest(NamedTuple, Generic[R]):
    """One query and what it is put to.

    Attributes:
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


def query_global_store(
    request: StateQueryRequest[R], store: StateStore, position: Position
) -> StateQueryResult[R]:
    """Return what a global store answers, which is whole on each instance.

    Args:
        request: The request; its partitions are not looked at.
        position: How far it has come, as it was before this is called.
    """
    # What was read of its topic is committed there, whether it is committed here yet or not.
    request = request._replace(isolation_level=IsolationLevel.READ_UNCOMMITTED)
    missing = request.position_bound.position.beyond(position)
    result = _ask(request, store, None, position, missing)
    return StateQueryResult({}, result)


def _query_task(request: StateQueryRequest[R], task: StreamTask) -> QueryResult[R]:
    name, number = request.spec.name, task.task_id.partition
    store = task.state_manager.readers_store(name)
    assert store is not None, (task.task_id, name)
    if task.state is not TaskState.RUNNING and _can_answer(store, _answer(request, store)):
        message = f"{_named(name, number)} restores or moves right now: ask again in a moment"
        return _failed(FailureReason.NOT_ACTIVE, message)
    position = task.state_manager.positions.of(name, request.isolation_level)
    missing = request.position_bound.missing(position, number)
    return _ask(request, store, number, position, missing)


def _can_answer(store: StateStore, answer: Answer | None) -> bool:
    """Return whether a store can be asked, given what answers from a view of it."""
    return answer is not None or type(store).query is not StateStore.query


def _answer(request: StateQueryRequest[Any], store: StateStore) -> Answer | None:
    spec = request.spec
    return spec.kind.answer(request.query, spec) if gives_views(store) else None


def _ask(
    request: StateQueryRequest[R],
    store: StateStore,
    number: int | None,
    position: Position,
    missing: Position,
) -> QueryResult[R]:
    """Return what one store answers.

    Args:
        number: Its partition; None of a global one.
        missing: What it lacks of what the request asks for.
    """
    query, spec, level = request.query, request.spec, request.isolation_level
    answer = _answer(request, store)
    if not _can_answer(store, answer):
        return _unknown(query, spec, store)
    if missing:
        message = (
            f"{_named(spec.name, number)} has not come as far as the bound asks, for "
            f"{level.value}: it lacks {missing}, it is at {position}; ask again in a moment"
        )
        return QueryResult(position, None, FailureReason.NOT_UP_TO_BOUND, message)
    try:
        found = _found(store, query, level, answer)
    except StoreNotAvailableError as error:
        return _failed(FailureReason.NOT_ACTIVE, str(error))
    except Exception as error:  # noqa: BLE001 - a serde may raise anything
        what = _named(spec.name, number)
        message = f"{what} could not answer {query} ({named_exception(error)})"
        return _failed(FailureReason.STORE_EXCEPTION, message)
    unknown = found is NotImplemented
    return _unknown(query, spec, store) if unknown else QueryResult(position, found)


def _found(
    store: StateStore, query: Query[Any], level: IsolationLevel, answer: Answer | None
) -> Any:
    """Return what a store answers itself, or what its view does; NotImplemented if neither."""
    found = store.query(query, level)
    if found is NotImplemented and answer is not None:
        return answer(store.read_only(level), query)
    return found


def _unknown(query: Query[Any], spec: StoreSpec, store: StateStore) -> QueryResult[Any]:
    message = spec.kind.unknown_query(query, spec)
    if spec.kind.answers and not gives_views(store):
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


def _named(store: str, number: int | None) -> str:
    if number is None:
        return f"global store {store!r}"
    return f"partition {number} of state store {store!r}"


def _failed(reason: FailureReason, message: str) -> QueryResult[Any]:
    return QueryResult(Position(), None, reason, message)
