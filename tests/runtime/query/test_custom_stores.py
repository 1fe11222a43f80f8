"""Stores of a user's own that answer queries of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pystreams import (
    FailureReason,
    IsolationLevel,
    KeyQuery,
    Position,
    PositionBound,
    Processor,
    ProcessorContext,
    Query,
    QueryResult,
    StateStore,
    StateStoreContext,
    StoreBuilder,
    StoreNotAvailableError,
    StreamsBuilder,
    Topology,
)
from pystreams.record import ConsumedMessage
from pystreams.runtime.queries.query_execution import StateQueryRequest, query_tasks
from pystreams.serdes import STRING
from tests.runtime.running_task import RunningTask


@dataclass(frozen=True)
class Longest(Query[list[str]]):
    """The longest values, as many as are asked for."""

    count: int


class Values(StateStore):
    """A list of values in memory, which answers `Longest`."""

    def __init__(self) -> None:
        self._values: list[str] | None = None

    @property
    def name(self) -> str:
        return "values"

    @property
    def persistent(self) -> bool:
        return False

    @property
    def is_open(self) -> bool:
        return self._values is not None

    def init(self, context: StateStoreContext) -> None:
        self._values = []
        self._committed = 0

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        raise AssertionError("there is no changelog")

    def close(self) -> None:
        self._values = None

    def destroy(self) -> None:
        self.close()

    def commit(self, changelog_offsets: Any) -> None:
        self._committed = len(self._values or [])

    def add(self, value: str) -> None:
        assert self._values is not None
        self._values.append(value)

    def query(self, query: Any, isolation_level: IsolationLevel) -> Any:
        if not isinstance(query, Longest):
            return NotImplemented
        if query.count < 0:
            raise ValueError("less than nothing")
        if self._values is None:
            raise StoreNotAvailableError("closed")
        committed = isolation_level is IsolationLevel.READ_COMMITTED
        values = self._values[: self._committed] if committed else self._values
        return sorted(values, key=len, reverse=True)[: query.count]


class ValuesBuilder(StoreBuilder):
    @property
    def name(self) -> str:
        return "values"

    @property
    def logging(self) -> bool:
        return False

    def build(self) -> Values:
        return Values()


class Adding(Processor[str, str, str, str]):
    def init(self, context: ProcessorContext[str, str]) -> None:
        self._store: Any = context.get_state_store("values")

    def process(self, record: Any) -> None:
        self._store.add(record.value)


def adding() -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(ValuesBuilder())
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    stream.process(Adding, stores=["values"])
    return builder.build()


@pytest.fixture
def running() -> Iterator[RunningTask]:
    task = RunningTask(adding())
    task.run(("k", "a", 1), ("k", "ccc", 2))
    task.commit()
    task.run(("k", "bb", 3))
    yield task
    task.task.close()


def ask(
    running: RunningTask,
    query: Query[Any],
    level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    **changes: Any,
) -> QueryResult[Any]:
    request = StateQueryRequest(query, ValuesBuilder().spec, None, level, PositionBound.unbounded())
    return query_tasks(request._replace(**changes), [running.task], 1).partition_results[0]


def test_a_query_of_its_own_is_answered_with_the_position_of_the_partition(
    running: RunningTask,
) -> None:
    result = ask(running, Longest(2))

    assert result.value == ["ccc", "bb"]
    assert result.position == Position().with_component("in", 0, 2)


def test_it_is_told_the_isolation_level(running: RunningTask) -> None:
    result = ask(running, Longest(9), IsolationLevel.READ_COMMITTED)

    assert result.value == ["ccc", "a"]
    assert result.position == Position().with_component("in", 0, 1)


def test_a_bound_holds_for_it_too(running: RunningTask) -> None:
    ahead = ask(running, Longest(1)).position.with_component("in", 0, 7)

    result = ask(running, Longest(1), position_bound=PositionBound.at(ahead))

    assert result.failure_reason is FailureReason.NOT_UP_TO_BOUND


def test_a_query_that_it_does_not_know_fails_and_says_whose_turn_it_is(
    running: RunningTask,
) -> None:
    result = ask(running, KeyQuery("k"))

    assert result.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
    assert "'values' is a Values and can't answer KeyQuery" in result.failure_message
    assert "ask it with a query that its query() knows" in result.failure_message


def test_what_it_raises_is_a_failure_of_the_partition(running: RunningTask) -> None:
    result = ask(running, Longest(-1))

    assert result.failure_reason is FailureReason.STORE_EXCEPTION
    assert "less than nothing" in result.failure_message


def test_a_store_that_is_not_available_is_to_be_asked_again(running: RunningTask) -> None:
    running.task.state_manager.stores()["values"].close()

    assert ask(running, Longest(1)).failure_reason is FailureReason.NOT_ACTIVE
