"""A run goes over all partitions of a task, and nothing shows where one ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pystreams import (
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    StoreEnvironment,
    StreamsBuilder,
    TaskId,
    TopicPartition,
    fail_on_invalid_timestamp,
    log_and_fail,
    serdes,
)
from pystreams.record import StaticMessage
from pystreams.runtime.core.queues.partition_group import PartitionGroup
from pystreams.runtime.core.queues.record_queue import RECORD_OVERHEAD_BYTES
from pystreams.runtime.core.queues.record_run import Run
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.runtime.state.store_settings import StoreSettings
from pystreams.testing.simulation.calls import InlineCalls
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.runtime.core.queues import message, queue_of

TOPICS = ("a", "b", "c")
Times = list[list[int]]

some_times = st.lists(
    st.lists(st.integers(0, 30), min_size=1, max_size=12), min_size=2, max_size=len(TOPICS)
)


class Marking(Processor[str, str, str, str]):
    """Forwards what it reads, and a mark every ten milliseconds of stream time, from `start` on."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._started = False

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context

    def process(self, record: Record[str, str]) -> None:
        if record.timestamp >= self._start and not self._started:
            self._started = True
            self._context.schedule(10, PunctuationType.STREAM_TIME, self._mark)
        self._context.forward(record)

    def _mark(self, time: int) -> None:
        self._context.forward(Record("mark", f"mark {time}", time))


def task_with(times: Times, start: int = 0) -> StreamTask:
    """A task that has buffered records of several topics, each named after its place."""
    topics = TOPICS[: len(times)]
    builder = StreamsBuilder()
    stream = builder.stream(list(topics), key_serde=serdes.STRING, value_serde=serdes.STRING)
    processed: Any = stream.process(lambda: Marking(start))
    processed.to("out", key_serde=serdes.STRING, value_serde=serdes.STRING)
    plan = TopologyPlan(builder.build(), "app")
    settings = TaskSettings(
        timestamp_extractor=fail_on_invalid_timestamp,
        deserialization_handler=log_and_fail,
        processing_handler=log_and_fail,
        production_handler=log_and_fail,
        max_task_idle_ms=0,
        stores=StoreSettings(StoreEnvironment(application_id="app")),
        async_calls=InlineCalls,
        num_partitions=lambda _: 1,
    )
    partitions = [TopicPartition(topic, 0) for topic in topics]
    task = StreamTask(TaskId(0, 0), plan, plan.subtopologies[0], partitions, settings, lambda _: 0)
    task.open(Path())
    task.start({}, 0)
    for partition, of_topic in zip(partitions, times, strict=True):
        task.add_records(
            partition,
            [
                StaticMessage(partition.topic, 0, at, b"k", f"{partition}@{at}".encode(), time)
                for at, time in enumerate(of_topic)
            ],
        )
    return task


def results(task: StreamTask) -> list[str]:
    [output] = [output for output in task.outputs() if output.topic == "out"]
    return [(value or b"").decode() for _, value, _, _ in output.records]


def process_all(task: StreamTask, run_records: int) -> list[int]:
    """Process everything; return how many records each run had."""
    runs = []
    while (run := task.next_run(run_records)) is not None:
        runs.append(task.process(run))
        task.punctuate_stream_time()
    return runs


def test_one_run_goes_over_topics_that_alternate() -> None:
    task = task_with([list(range(0, 200, 2)), list(range(1, 200, 2))], start=1000)

    assert process_all(task, 1000) == [199, 1]


@given(some_times, st.integers(0, 30), st.integers(1, 40))
def test_results_and_punctuations_do_not_depend_on_how_long_runs_are(
    times: Times, start: int, run_records: int
) -> None:
    one_by_one, in_runs = task_with(times, start), task_with(times, start)
    process_all(one_by_one, 1)
    process_all(in_runs, run_records)

    assert results(in_runs) == results(one_by_one)
    assert in_runs.offsets_to_commit() == one_by_one.offsets_to_commit()


@given(some_times, st.integers(0, 30))
def test_a_run_that_ends_early_leaves_the_offsets_of_what_it_has_processed(
    times: Times, start: int
) -> None:
    """It ends with the record that schedules a punctuation; others of its topic go on waiting."""
    task = task_with(times, start)
    run = task.next_run(1000)
    assert run is not None
    task.process(run)
    processed = [value.split("@")[0] for value in results(task)]

    assert {
        str(partition): offset.next_offset for partition, offset in task.offsets_to_commit().items()
    } == {f"{topic}-0": processed.count(f"{topic}-0") for topic in TOPICS[: len(times)]}
    assert task.buffered_records() == sum(map(len, times)) - len(processed)


# ------------------------------------------------------------------ what may be in a run


def run_of(sizes: list[list[int]], limit: int = 1000) -> Run:
    """A run of topics whose records come in turn, of so many bytes."""
    queues = []
    for number, of_topic in enumerate(sizes):
        queue = queue_of(TOPICS[number])
        queue.add(
            [message(at, at, value=b"v" * size, key=None) for at, size in enumerate(of_topic)]
        )
        queues.append(queue)
    run = PartitionGroup(queues, max_task_idle_ms=0, known_lag=lambda _: 0).next_run(limit)
    assert run is not None
    return run


@given(
    st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=12), min_size=1, max_size=3),
    st.integers(1, 20),
    st.integers(0, 20),
)
def test_bytes_are_looked_at_in_the_order_of_processing(
    sizes: list[list[int]], limit: int, small: int
) -> None:
    run = run_of(sizes)
    taken, _ = run_of(sizes).take(len(run))
    of_run = [len(key or "") + len(value) + RECORD_OVERHEAD_BYTES for key, value, *_ in taken]
    limit = min(limit, len(run))
    large = [at for at, size in enumerate(of_run) if size > small + RECORD_OVERHEAD_BYTES]

    assert run.input_bytes(limit) == sum(of_run[:limit])
    assert run.run_length_of_small(limit, small + RECORD_OVERHEAD_BYTES) == min([*large, limit])


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 12))
def test_each_record_takes_the_part_of_a_run_that_its_partition_lets_expect(
    fast: int, slow: int, records: int
) -> None:
    """Whatever one partition's runs may have, and the other's: together no more than a run."""
    run = run_of([[1] * records] * 2)
    allowed = {TopicPartition("a", 0): fast, TopicPartition("b", 0): slow}
    count = run.length_within(allowed.__getitem__)
    parts = [1 / fast if at % 2 == 0 else 1 / slow for at in range(count + 1)]

    assert count == 1 or sum(parts[:count]) <= 1.001
    assert count == len(run) or sum(parts) > 1
