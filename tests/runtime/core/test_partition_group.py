"""Which queue gives the next records, and when a task may go on without some of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pystreams import TopicPartition
from pystreams.runtime.core.queues.partition_group import PartitionGroup
from pystreams.runtime.core.queues.record_queue import RecordQueue
from pystreams.runtime.core.queues.record_run import Run
from tests.runtime.core.queues import message, queue_of


def group_of(
    *queues: RecordQueue, idle_ms: int = 0, lags: dict[str, int | None] | None = None
) -> PartitionGroup:
    known = lags or {}

    def known_lag(partition: TopicPartition) -> int | None:
        return known.get(partition.topic, 0)

    return PartitionGroup(queues, max_task_idle_ms=idle_ms, known_lag=known_lag)


def filled(topic: str, *timestamps: int) -> RecordQueue:
    queue = queue_of(topic)
    queue.add([message(offset, time, topic=topic) for offset, time in enumerate(timestamps)])
    return queue


def drain(group: PartitionGroup, limit: int = 100) -> list[tuple[str | None, int]]:
    order: list[tuple[str | None, int]] = []
    while (run := group.next_run(limit)) is not None:
        assert 1 <= len(run) <= limit
        items, _ = run.take(len(run))
        order += [(message.topic(), timestamp) for _, _, timestamp, _, message in items]
    return order


def lengths(*runs: Run | None) -> list[int | None]:
    return [None if run is None else len(run) for run in runs]


# ------------------------------------------------------------------ order


def test_one_queue_gives_all_it_has_in_one_run() -> None:
    group = group_of(filled("a", 5, 1, 9))

    assert lengths(group.next_run(100), group.next_run(2)) == [3, 2]


def test_the_smallest_head_timestamp_comes_first() -> None:
    group = group_of(filled("a", 1, 5, 6), filled("b", 2, 3, 7))

    assert drain(group) == [("a", 1), ("b", 2), ("b", 3), ("a", 5), ("a", 6), ("b", 7)]


def test_the_queue_of_the_first_topic_wins_a_tie() -> None:
    group = group_of(filled("b", 1, 2), filled("a", 1, 2))

    assert drain(group) == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_late_records_follow_their_head() -> None:
    group = group_of(filled("a", 5, 1), filled("b", 4, 6))

    assert drain(group) == [("b", 4), ("a", 5), ("a", 1), ("b", 6)]


def test_an_empty_group_has_no_run() -> None:
    assert group_of(queue_of("a"), queue_of("b")).next_run(5) is None
    assert group_of(queue_of("a")).next_run(5) is None


@given(
    st.lists(st.lists(st.integers(0, 8), max_size=8), min_size=1, max_size=4),
    st.integers(1, 10),
)
def test_runs_give_the_order_of_taking_single_records(
    timestamps: list[list[int]], limit: int
) -> None:
    def queues() -> list[RecordQueue]:
        return [filled(f"t{number}", *times) for number, times in enumerate(timestamps)]

    expected = []
    heads = [list(times) for times in timestamps]
    while any(heads):
        best = min((times[0], number) for number, times in enumerate(heads) if times)[1]
        expected.append((f"t{best}", heads[best].pop(0)))

    assert drain(group_of(*queues()), limit) == expected


def test_stream_time_is_the_highest_partition_time() -> None:
    group = group_of(filled("a", 4), filled("b", 9))

    assert group.stream_time() == -1
    drain(group)
    assert group.stream_time() == 9


# ------------------------------------------------------------------ max.task.idle.ms


def test_a_task_with_one_partition_never_waits() -> None:
    assert group_of(filled("a", 1), idle_ms=1000, lags={"a": 5}).ready(0)
    assert not group_of(queue_of("a"), idle_ms=-1).ready(0)


def test_without_any_record_nothing_is_ready() -> None:
    assert not group_of(queue_of("a"), queue_of("b"), idle_ms=-1).ready(0)


def test_minus_one_never_waits() -> None:
    group = group_of(filled("a", 1), queue_of("b"), idle_ms=-1, lags={"b": 100})

    assert group.ready(0)


def test_zero_waits_while_the_broker_holds_more_for_the_empty_partition() -> None:
    lags: dict[str, int | None] = {"b": 3}
    group = group_of(filled("a", 1), queue_of("b"), idle_ms=0, lags=lags)

    assert not group.ready(0)
    assert not group.ready(1_000_000)
    lags["b"] = 0
    assert group.ready(1_000_000)


def test_zero_waits_while_nothing_is_known_of_the_empty_partition() -> None:
    assert not group_of(filled("a", 1), queue_of("b"), idle_ms=0, lags={"b": None}).ready(0)


def test_a_positive_time_is_waited_from_when_the_partition_is_known_to_be_empty() -> None:
    lags: dict[str, int | None] = {"b": 1}
    group = group_of(filled("a", 1), queue_of("b"), idle_ms=50, lags=lags)

    assert not group.ready(0)
    lags["b"] = 0
    assert not group.ready(100)
    assert not group.ready(149)
    assert group.ready(150)


def test_each_partition_is_waited_for_from_when_it_is_found_empty() -> None:
    emptied = filled("c", 1)
    group = group_of(filled("a", 5, 9), queue_of("b"), emptied, idle_ms=50)

    assert not group.ready(0)
    assert group.ready(50), "b has been waited for"
    emptied.take(1)
    assert not group.ready(60)
    assert not group.ready(109)
    assert group.ready(110)


def test_a_partition_that_lags_does_not_prolong_the_waiting_for_another() -> None:
    lags: dict[str, int | None] = {"c": 1}
    lagging = queue_of("c")
    group = group_of(filled("a", 5, 9), queue_of("b"), lagging, idle_ms=50, lags=lags)

    assert not group.ready(0)
    assert not group.ready(60)
    lagging.add([message(0, 7)])
    assert group.ready(70)


def test_a_partition_that_was_empty_before_the_others_had_records_is_not_waited_for_again() -> None:
    arriving = queue_of("a")
    group = group_of(arriving, queue_of("b"), idle_ms=50)

    assert not group.ready(0)
    arriving.add([message(0, 5)])
    assert not group.ready(49)
    assert group.ready(50)


def test_records_that_arrive_end_the_waiting_and_the_next_begins_anew() -> None:
    empty = queue_of("b")
    group = group_of(filled("a", 5, 9), empty, idle_ms=50)

    assert not group.ready(100)
    empty.add([message(0, 1)])
    assert group.ready(120)
    group.next_run(1)
    empty.take(1)
    assert not group.ready(160)
    assert group.ready(210)


def test_clearing_forgets_records_and_waiting() -> None:
    group = group_of(filled("a", 1), queue_of("b"), idle_ms=50)
    group.ready(0)
    group.clear()

    assert len(group) == 0
    assert not group.ready(1000)
