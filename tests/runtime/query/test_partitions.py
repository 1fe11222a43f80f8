"""Queries partition by partition: failures with their cure, bounds, positions, merged results."""

from __future__ import annotations

import pytest

from pystreams import (
    FailureReason,
    IsolationLevel,
    KeyQuery,
    Position,
    PositionBound,
    QueryFailedError,
    QueryResult,
    RangeQuery,
    StateQueryResult,
    TopicPartition,
)
from tests.runtime.query.filing import ask, filing
from tests.runtime.running_task import RunningTask

COMMITTED = IsolationLevel.READ_COMMITTED


@pytest.fixture
def two() -> list[RunningTask]:
    """Partitions 0 and 1 of three, with one record each."""
    running = [RunningTask(filing(), partition=number) for number in (0, 1)]
    for task, key in zip(running, "ab", strict=True):
        task.run((key, key.upper(), 0))
    return running


def test_all_local_partitions_are_asked_unless_some_are_named(two: list[RunningTask]) -> None:
    assert ask(two, KeyQuery("b"), "plain").values() == {0: None, 1: "B"}
    assert ask(two, KeyQuery("b"), "plain", partitions=[1]).values() == {1: "B"}


def test_a_partition_of_another_instance_is_not_present(two: list[RunningTask]) -> None:
    result = ask(two, KeyQuery("b"), "plain", partitions=[1, 2])

    assert result.partition_results[1].value == "B"
    missing = result.partition_results[2]
    assert missing.failure_reason is FailureReason.NOT_PRESENT
    assert "not on this instance: ask another one" in missing.failure_message


@pytest.mark.parametrize("number", [-1, 3])
def test_a_partition_the_store_does_not_have_does_not_exist(
    two: list[RunningTask], number: int
) -> None:
    result = ask(two, KeyQuery("b"), "plain", partitions=[number]).partition_results[number]

    assert result.failure_reason is FailureReason.DOES_NOT_EXIST
    assert f"no partition {number}, but those from 0 to 2" in result.failure_message


def test_a_partition_that_restores_is_not_active(two: list[RunningTask]) -> None:
    two[1].task.revive()

    results = ask(two, KeyQuery("b"), "plain").partition_results

    assert results[0].is_success
    assert results[1].failure_reason is FailureReason.NOT_ACTIVE
    assert "ask again in a moment" in results[1].failure_message


def test_a_store_that_was_closed_meanwhile_is_not_active(two: list[RunningTask]) -> None:
    two[1].task.state_manager.stores()["plain"].close()

    result = ask(two, KeyQuery("b"), "plain", partitions=[1]).partition_results[1]

    assert result.failure_reason is FailureReason.NOT_ACTIVE
    assert "ask again" in result.failure_message


def test_a_key_the_serde_refuses_is_a_store_exception(two: list[RunningTask]) -> None:
    result = ask(two, KeyQuery(7), "plain", partitions=[1]).partition_results[1]

    assert result.failure_reason is FailureReason.STORE_EXCEPTION
    assert "could not answer KeyQuery(key=7) (SerializationError" in result.failure_message


def test_a_bound_is_held_against_the_position_of_the_isolation_level(
    two: list[RunningTask],
) -> None:
    bound = PositionBound.at(Position({two[0].input: 0}))

    uncommitted = ask(two, KeyQuery("a"), "plain", bound=bound)
    committed = ask(two, KeyQuery("a"), "plain", bound=bound, level=COMMITTED)

    assert uncommitted.only_value() == "A"
    behind = committed.partition_results[0]
    assert behind.failure_reason is FailureReason.NOT_UP_TO_BOUND
    assert behind.position == Position()
    assert "READ_COMMITTED: it lacks Position(in-0: 0)" in behind.failure_message
    two[0].commit()
    assert ask(two, KeyQuery("a"), "plain", bound=bound, level=COMMITTED).only_value() == "A"


def test_a_merged_position_is_a_bound_for_each_partition_alone(two: list[RunningTask]) -> None:
    seen = ask(two, RangeQuery(), "plain").position
    assert seen == Position({two[0].input: 0, two[1].input: 0})
    bound = PositionBound.at(seen.with_component("in", 1, 1))

    results = ask(two, RangeQuery(), "plain", bound=bound).partition_results

    assert results[0].is_success
    assert results[1].failure_reason is FailureReason.NOT_UP_TO_BOUND
    two[1].run(("c", "C", 0))
    assert ask(two, RangeQuery(), "plain", bound=bound).partition_results[1].is_success


def test_a_bound_on_a_topic_the_store_never_reads_is_never_met(two: list[RunningTask]) -> None:
    bound = PositionBound.at(Position({TopicPartition("other", 0): 0}))

    results = ask(two, KeyQuery("a"), "plain", bound=bound).partition_results

    assert results[0].failure_reason is FailureReason.NOT_UP_TO_BOUND
    assert results[1].is_success


def test_an_answer_says_which_input_it_reflects(two: list[RunningTask]) -> None:
    two[0].commit()
    two[0].run(("a", "A2", 0))

    def position(level: IsolationLevel) -> Position:
        return ask(two, KeyQuery("a"), "plain", level=level).partition_results[0].position

    assert position(COMMITTED) == Position({two[0].input: 0})
    assert position(IsolationLevel.READ_UNCOMMITTED) == Position({two[0].input: 1})


# ------------------------------------------------------------------ results


HERE = Position({TopicPartition("in", 0): 3})
FAILED: QueryResult[str] = QueryResult(
    Position(), None, FailureReason.NOT_ACTIVE, "it restores: ask again"
)


def test_the_value_of_a_failure_raises_its_message() -> None:
    with pytest.raises(QueryFailedError, match="NOT_ACTIVE: it restores: ask again"):
        FAILED.value  # noqa: B018


def test_only_value_is_that_of_the_one_partition_that_has_one() -> None:
    assert StateQueryResult({0: QueryResult(HERE, None), 1: QueryResult(HERE, "x")}).only_value()
    assert StateQueryResult({0: FAILED, 1: QueryResult(HERE, "x")}).only_value() == "x"
    assert StateQueryResult({0: QueryResult(HERE, None)}).only_value() is None


def test_only_value_does_not_pass_a_failure_for_an_unknown_key() -> None:
    """Differs from Kafka, whose getOnlyPartitionResult gives null for both."""
    with pytest.raises(QueryFailedError, match="NOT_ACTIVE"):
        StateQueryResult({0: FAILED, 1: QueryResult(HERE, None)}).only_value()
    with pytest.raises(QueryFailedError, match="no partition on this instance"):
        StateQueryResult({}).only_value()


def test_only_value_of_several_values_is_refused() -> None:
    several = StateQueryResult({0: QueryResult(HERE, "x"), 1: QueryResult(HERE, "y")})

    with pytest.raises(ValueError, match="2 partitions"):
        several.only_value()
    assert several.values() == {0: "x", 1: "y"}


def test_only_value_of_iterators_says_how_to_ask_for_the_partition_of_a_key(
    two: list[RunningTask],
) -> None:
    """As Kafka's getOnlyPartitionResult, which refuses them too: each partition has an iterator."""
    with pytest.raises(ValueError, match=r"an empty one .* partitions=\[\.\.\.\] of the query"):
        ask(two, RangeQuery(), "plain").only_value()
    (only,) = ask(two, RangeQuery(), "plain", partitions={1}).only_value() or [None]
    assert only == ("b", "B")


def test_a_failure_adds_nothing_to_the_merged_position() -> None:
    behind: QueryResult[str] = QueryResult(
        Position({TopicPartition("in", 1): 9}), None, FailureReason.NOT_UP_TO_BOUND, "behind"
    )

    assert StateQueryResult({0: QueryResult(HERE, "x"), 1: behind}).position == HERE


def test_results_print_what_they_hold() -> None:
    assert repr(FAILED) == "QueryResult(NOT_ACTIVE: it restores: ask again)"
    assert repr(QueryResult(HERE, "x")) == "QueryResult('x', Position(in-0: 3))"
