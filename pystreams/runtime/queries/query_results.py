"""What a query gives back: an answer or a failure of each partition, and how far it had come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from typing import Generic, TypeVar

from pystreams.errors import QueryFailedError
from pystreams.stores.contracts.position import Position

R = TypeVar("R")


class FailureReason(Enum):
    """Why a partition did not answer; each result's message says more. Spec: KIP-796."""

    UNKNOWN_QUERY_TYPE = "UNKNOWN_QUERY_TYPE"
    """Stores of this kind can't answer this query: ask another one."""
    NOT_ACTIVE = "NOT_ACTIVE"
    """The partition is here, but restores or moves: ask again in a moment."""
    NOT_UP_TO_BOUND = "NOT_UP_TO_BOUND"
    """The partition has not come as far as the query's bound asks: ask again in a moment."""
    NOT_PRESENT = "NOT_PRESENT"
    """The partition is on another instance: ask that one."""
    DOES_NOT_EXIST = "DOES_NOT_EXIST"
    """The store has no such partition: ask for one that it has."""
    STORE_EXCEPTION = "STORE_EXCEPTION"
    """The store, or a serde, raised: the message has the error."""


class QueryResult(Generic[R]):
    """What one partition of a store answered.

    Args:
        position: See the attribute.
        failure_reason: See the attribute.
        failure_message: See the attribute.

    Attributes:
        position: Which input the answer reflects, at least; empty on a failure, but for
            NOT_UP_TO_BOUND, where it says how far the partition has come.
        failure_reason: Why there is no answer; None on success.
        failure_message: What happened and what to do; empty on success.
    """

    __slots__ = ("_value", "failure_message", "failure_reason", "position")

    def __init__(
        self,
        position: Position,
        value: R | None = None,
        failure_reason: FailureReason | None = None,
        failure_message: str = "",
    ) -> None:
        self.position = position
        self.failure_reason = failure_reason
        self.failure_message = failure_message
        self._value = value

    @property
    def is_success(self) -> bool:
        """Whether there is an answer."""
        return self.failure_reason is None

    @property
    def value(self) -> R | None:
        """The answer; see the query for what it is. None: this partition has no such key.

        Iterators read while they are iterated over, and may raise `StoreNotAvailableError`.

        Raises:
            QueryFailedError: There is no answer.
        """
        if self.failure_reason is not None:
            raise QueryFailedError(f"{self.failure_reason.value}: {self.failure_message}")
        return self._value

    def __repr__(self) -> str:
        if self.failure_reason is None:
            return f"QueryResult({self._value!r}, {self.position})"
        return f"QueryResult({self.failure_reason.value}: {self.failure_message})"


@dataclass(frozen=True)
class StateQueryResult(Generic[R]):
    """What the partitions of a store on this instance answered.

    Attributes:
        partition_results: Answer or failure of each partition asked, by its number; empty for a
            global store, which is whole on each instance.
        global_result: Answer or failure of a global store; None for others.
    """

    partition_results: Mapping[int, QueryResult[R]]
    global_result: QueryResult[R] | None = None

    @property
    def position(self) -> Position:
        """The positions of all answers, merged: a bound for a later query."""
        answers = [result for result in self._results() if result.is_success]
        return reduce(Position.merge, (result.position for result in answers), Position())

    def only_value(self) -> R | None:
        """Return the value of the one partition that has one, or of the global store.

        That is the answer of a query for the value of a key. A query that is answered with an
        iterator has one from each partition, be it empty: ask the partition of the key alone.

        Returns:
            The value, or None when no partition of this instance has the key.

        Raises:
            QueryFailedError: No partition has a value, and one that failed might.
            ValueError: Several partitions have a value: look at `partition_results`.
        """
        found = [
            result for result in self._results() if result.is_success and result.value is not None
        ]
        if len(found) > 1:
            raise ValueError(f"{len(found)} partitions have an answer: {_instead(found[0].value)}")
        if found:
            return found[0].value
        if self.global_result is not None:
            return self.global_result.value
        self.values()
        return None

    def values(self) -> dict[int, R | None]:
        """Return the value of each partition, by its number; none for a global store.

        Raises:
            QueryFailedError: A partition failed, or there is none on this instance.
        """
        if self.global_result is not None:
            return {}
        if not self.partition_results:
            raise QueryFailedError(
                "the store has no partition on this instance: ask another instance, or again "
                "after the next rebalance"
            )
        return {number: result.value for number, result in self.partition_results.items()}

    def _results(self) -> list[QueryResult[R]]:
        shared = [] if self.global_result is None else [self.global_result]
        return [*self.partition_results.values(), *shared]


def _instead(value: object) -> str:
    """Return what to do where several partitions have a value."""
    if not isinstance(value, Iterator):
        return "use values(), or partition_results"
    return (
        "each gives an iterator, an empty one where it has nothing. Ask for one partition, as "
        "partitions=[...] of the query (that of a key: query_metadata_for_key(store, "
        "key).partition), or go through values()"
    )
