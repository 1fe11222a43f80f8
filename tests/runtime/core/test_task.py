"""One task: punctuation beside records, errors with coordinates, offsets, life."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from pystreams import (
    BrokerNotAvailableError,
    ConfigError,
    ConsumerRecord,
    ErrorContext,
    ErrorResponse,
    ProcessingError,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    SerializationError,
    StoreEngine,
    StoreEnvironment,
    Stores,
    StreamsBuilder,
    TaskId,
    TopicPartition,
    Topology,
    fail_on_invalid_timestamp,
    log_and_continue,
    log_and_fail,
    serdes,
)
from pystreams.record import ProducedRecord, StaticMessage
from pystreams.runtime.cluster.committed_offsets import (
    CommittedOffset,
    OffsetEntries,
    encode_partition_time,
    no_entries,
)
from pystreams.runtime.core.failures.error_handlers import ErrorHandler
from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.runtime.state.store_settings import StoreSettings
from pystreams.testing.simulation.calls import InlineCalls
from pystreams.topology.plan.topology_plan import TopologyPlan

IN = TopicPartition("in", 0)


class Scheduling(Processor[str, str, str, str]):
    """Forwards what it reads, and a mark at each punctuation on stream time."""

    def __init__(self, interval_ms: int, *, lazily: bool = False) -> None:
        self._interval_ms = interval_ms
        self._lazily = lazily

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context
        if not self._lazily:
            self._schedule()

    def _schedule(self) -> None:
        def punctuate(time: int) -> None:
            self._context.forward(Record("mark", str(time), time))

        self._context.schedule(self._interval_ms, PunctuationType.STREAM_TIME, punctuate)

    def process(self, record: Record[str, str]) -> None:
        if self._lazily and record.value == "start":
            self._schedule()
        self._context.forward(record)


def processing(supplier: Callable[[], Processor[Any, Any, Any, Any]], *stores: str) -> Topology:
    builder = StreamsBuilder()
    for name in stores:
        supplied = Stores.in_memory_key_value_store(name)
        builder.add_state_store(
            Stores.key_value_store_builder(supplied, serdes.STRING, serdes.STRING)
        )
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING, name="source")
    processed = stream.process(supplier, stores=stores, name="user")
    processed.to("out", key_serde=serdes.STRING, value_serde=serdes.STRING, name="sink")
    return builder.build()


def mapping(function: Callable[[str], Any], value_serde: Any = serdes.STRING) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING, name="source")
    mapped = stream.map_values(function, name="mapper")
    mapped.to("out", key_serde=serdes.STRING, value_serde=value_serde, name="sink")
    return builder.build()


def counting(*, caching: bool = False) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    counts = stream.group_by_key().count(
        name="counts", caching=caching, store_type=StoreEngine.IN_MEMORY
    )
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


def task_of(
    topology: Topology,
    *,
    handler: ErrorHandler = log_and_fail,
    cache_enabled: bool = False,
    num_partitions: Callable[[str], int] = lambda _: 1,
    partitions: Sequence[TopicPartition] = (IN,),
    offset_entries: OffsetEntries = no_entries,
) -> StreamTask:
    plan = TopologyPlan(topology, "app")
    settings = TaskSettings(
        timestamp_extractor=fail_on_invalid_timestamp,
        deserialization_handler=handler,
        processing_handler=handler,
        production_handler=handler,
        max_task_idle_ms=0,
        stores=StoreSettings(StoreEnvironment(application_id="app", cache_enabled=cache_enabled)),
        async_calls=InlineCalls,
        num_partitions=num_partitions,
        offset_entries=offset_entries,
    )
    return StreamTask(TaskId(0, 0), plan, plan.subtopologies[0], partitions, settings, lambda _: 0)


def started(
    topology: Topology,
    committed: Mapping[TopicPartition, CommittedOffset] | None = None,
    *,
    handler: ErrorHandler = log_and_fail,
    **given: Any,
) -> StreamTask:
    task = task_of(topology, handler=handler, **given)
    task.open(Path())
    task.start(committed or {}, 0)
    return task


def add(task: StreamTask, *records: tuple[int, str], first_offset: int = 0) -> None:
    task.add_records(
        IN,
        [
            StaticMessage("in", 0, first_offset + number, b"k", value.encode(), time)
            for number, (time, value) in enumerate(records)
        ],
    )


def process_all(task: StreamTask, run_records: int = 1000) -> None:
    while (run := task.next_run(run_records)) is not None:
        task.process(run)
        task.punctuate_stream_time()


def sent(task: StreamTask, topic: str = "out") -> list[ProducedRecord]:
    return [
        record for output in task.outputs() if output.topic == topic for record in output.records
    ]


def values(task: StreamTask) -> list[str]:
    return [(value or b"").decode() for _, value, _, _ in sent(task)]


# ------------------------------------------------------------------ punctuation


def test_a_stream_time_punctuation_fires_right_after_the_record_that_makes_it_due() -> None:
    task = started(processing(lambda: Scheduling(100)))
    add(task, (5, "a"), (99, "b"), (100, "c"), (90, "d"), (450, "e"))
    process_all(task)

    assert values(task) == ["a", "5", "b", "c", "100", "d", "e", "450"]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=25),
    st.integers(1, 100),
    st.lists(st.integers(1, 7), min_size=1, max_size=5),
)
def test_punctuations_do_not_depend_on_how_records_are_batched(
    times: list[int], interval: int, sizes: list[int]
) -> None:
    def run(batches: list[int], run_records: int) -> list[str]:
        task = started(processing(lambda: Scheduling(interval)))
        records = [(time, f"r{number}") for number, time in enumerate(times)]
        offset = turn = 0
        while offset < len(records):
            size = batches[turn % len(batches)]
            add(task, *records[offset : offset + size], first_offset=offset)
            process_all(task, run_records)
            offset += size
            turn += 1
        return values(task)

    one_by_one = run([1], 1)

    assert run(sizes, 1000) == one_by_one
    assert run([1000], sizes[0]) == one_by_one


@pytest.mark.parametrize("run_records", [1, 2, 1000])
def test_what_is_scheduled_while_processing_fires_right_after_that_record(run_records: int) -> None:
    task = started(processing(lambda: Scheduling(100, lazily=True)))
    add(task, (5, "a"), (10, "start"), (20, "b"), (130, "c"), (140, "d"))
    process_all(task, run_records)

    assert values(task) == ["a", "start", "10", "b", "c", "130", "d"]
    assert task.offsets_to_commit()[IN].next_offset == 5


def test_a_wall_clock_punctuation_is_work_to_commit() -> None:
    class Ticking(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            context.schedule(
                10,
                PunctuationType.WALL_CLOCK_TIME,
                lambda time: context.forward(Record("k", str(time), time)),
            )

    task = started(processing(Ticking))

    assert task.punctuate_wall_clock(9) == 0
    assert not task.needs_commit()
    assert task.punctuate_wall_clock(35) == 1
    assert values(task) == ["35"]
    assert task.needs_commit()


# ------------------------------------------------------------------ errors


def fail(value: str) -> str:
    if value == "bad":
        raise ValueError("no good")
    return value


def test_an_error_of_the_users_code_names_task_node_and_record() -> None:
    task = started(mapping(fail))
    add(task, (0, "fine"), (0, "bad"), first_offset=7)

    with pytest.raises(ProcessingError) as caught:
        process_all(task)

    error = caught.value
    assert (error.task_id, error.node) == (TaskId(0, 0), "mapper")
    assert (error.topic, error.partition, error.offset) == ("in", 0, 8)
    for part in ("0_0", "'mapper'", "ValueError", "no good", "in-0 offset 8", "handler=continue"):
        assert part in str(error)


def test_a_handler_may_go_on_without_the_record() -> None:
    task = started(mapping(fail), handler=log_and_continue)
    add(task, (0, "a"), (0, "bad"), (0, "b"))
    process_all(task)

    assert values(task) == ["a", "b"]
    assert task.counts.dropped == 1
    assert task.offsets_to_commit()[IN].next_offset == 3


def test_an_error_in_a_punctuation_says_that_there_is_no_record() -> None:
    class Failing(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            def punctuate(_: int) -> None:
                raise ValueError("boom")

            context.schedule(10, PunctuationType.STREAM_TIME, punctuate)

        def process(self, record: Record[str, str]) -> None:
            pass

    task = started(processing(Failing))
    add(task, (1, "a"))

    with pytest.raises(
        ProcessingError, match="'user' raised ValueError on a punctuation"
    ) as caught:
        process_all(task)
    assert caught.value.offset is None


def test_an_error_in_init_names_the_task() -> None:
    class Failing(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            raise ValueError("no config")

    with pytest.raises(ProcessingError, match="task 0_0: a processor's init raised"):
        started(processing(Failing))


def routed(value_serde: Any) -> Topology:
    """Chooses the topic a record."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING, name="source")
    stream.to(
        lambda _key, _value, _record: "out",
        key_serde=serdes.STRING,
        value_serde=value_serde,
        name="sink",
    )
    return builder.build()


@pytest.mark.parametrize(
    "topology", [mapping(lambda value: value, serdes.LONG), routed(serdes.LONG)]
)
def test_a_result_that_does_not_fit_the_sink_goes_to_the_production_handler(
    topology: Topology,
) -> None:
    strict = started(topology)
    add(strict, (0, "text"), first_offset=7)
    with pytest.raises(SerializationError) as caught:
        process_all(strict)
    error = caught.value
    assert (error.task_id, error.node) == (TaskId(0, 0), "sink")
    assert (error.topic, error.partition, error.offset) == ("in", 0, 7)
    for part in ("task 0_0", "'sink'", "in-0 offset 7", "'out'", "of type str", "handler=continue"):
        assert part in str(error)
    assert "'text'" not in str(error), "values are never shown"

    lenient = started(topology, handler=log_and_continue)
    add(lenient, (0, "text"))
    process_all(lenient)
    assert lenient.counts.dropped == 1
    assert lenient.offsets_to_commit()[IN].next_offset == 1


@pytest.mark.parametrize(
    "topology", [mapping(len, serdes.BYTES), mapping(lambda value: value, serdes.UUID)]
)
def test_what_is_of_another_type_than_the_serde_takes_goes_to_the_production_handler(
    topology: Topology,
) -> None:
    asked: list[str] = []

    def leave_out(context: ErrorContext, _error: Exception) -> ErrorResponse:
        asked.append(context.stage)
        return ErrorResponse.CONTINUE

    task = started(topology, handler=leave_out)
    add(task, (0, "abc"))
    process_all(task)

    assert sent(task) == []
    assert asked == ["production"]


def test_a_skipped_record_is_logged_with_the_users_lines() -> None:
    task = started(mapping(fail), handler=log_and_continue)
    add(task, (0, "bad"))
    with capture_logs() as logs:
        process_all(task)

    (line,) = logs
    assert (line["event"], line["offset"]) == ("record skipped", 0)
    assert "in fail" in line["exception"]
    assert line["exception"].endswith("ValueError: no good")


@pytest.mark.parametrize(
    ("topology", "value", "stage"),
    [
        (mapping(fail), b"bad", "processing"),
        (mapping(lambda value: value, serdes.LONG), b"text", "production"),
        (mapping(fail), b"\xff", "deserialization"),
    ],
)
def test_a_handler_that_raises_stops_with_what_it_was_asked_about(
    topology: Topology, value: bytes, stage: str
) -> None:
    def forgetful(_context: ErrorContext, _error: Exception) -> ErrorResponse:
        raise RuntimeError("forgot")

    task = started(topology, handler=forgetful)

    def take() -> None:
        task.add_records(IN, [StaticMessage("in", 0, 3, b"k", value, 0)])
        process_all(task)

    with pytest.raises(ProcessingError) as caught:
        take()

    assert caught.value.offset == 3
    for part in (f"{stage} errors raised RuntimeError: forgot", "in-0 offset 3"):
        assert part in str(caught.value)


def test_an_extractor_that_raises_stops_with_its_source_and_the_record() -> None:
    def extract(record: ConsumerRecord, _highest: int) -> int:
        return int(record.value)

    builder = StreamsBuilder()
    builder.stream(
        "in",
        key_serde=serdes.STRING,
        value_serde=serdes.STRING,
        timestamp_extractor=extract,
        name="source",
    )
    task = started(builder.build())
    with pytest.raises(ProcessingError, match=r"'source' raised ValueError.*in-0 offset 1"):
        add(task, (0, "12"), (0, "noon"))


def test_a_supplier_that_raises_is_named_with_its_task() -> None:
    services = ["one"]

    def supply() -> Processor[str, str, str, str]:
        if not services:
            raise LookupError("no such service")
        return Processor()

    topology = processing(supply)
    services.clear()
    with pytest.raises(ProcessingError, match="task 0_0: the supplier of processor 'user' raised"):
        started(topology)


@pytest.mark.parametrize("handler", [log_and_fail, log_and_continue])
def test_a_record_is_not_dropped_because_no_broker_tells_the_partitions_of_its_topic(
    handler: ErrorHandler,
) -> None:
    def num_partitions(_: str) -> int:
        raise BrokerNotAvailableError("no broker answered")

    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.to("out", partitioner=lambda _topic, _key, _value, count: count - 1)
    task = started(builder.build(), handler=handler, num_partitions=num_partitions)
    add(task, (0, "a"))

    with pytest.raises(BrokerNotAvailableError):
        process_all(task)


@pytest.mark.parametrize(
    ("chosen", "sent"),
    [
        (1, {1: 1}),
        ({1}, {1: 1}),
        ({0, 2}, {0: 1, 2: 1}),
        (frozenset(range(3)), {0: 1, 1: 1, 2: 1}),
        (None, {2: 1}),  # Where Kafka would put it.
        (set(), {}),
    ],
)
def test_a_record_goes_to_each_partition_that_its_partitioner_chooses(
    chosen: int | set[int] | None, sent: dict[int | None, int]
) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.to("out", partitioner=lambda _topic, _key, _value, _count: chosen)
    task = started(builder.build(), num_partitions=lambda _: 3)
    add(task, (7, "a"))

    process_all(task)

    outputs = task.outputs()
    assert {output.partition: len(output.records) for output in outputs} == sent
    assert task.counts.dropped == (not sent)
    assert all(output.records == outputs[0].records for output in outputs)


def test_a_node_without_a_serde_is_named() -> None:
    builder = StreamsBuilder()
    builder.stream("in", name="source").to("out", name="sink")
    with pytest.raises(ConfigError, match=r"'sink' has no key serde.*default\.key\.serde"):
        started(builder.build())


# ------------------------------------------------------------------ offsets and commits


def test_before_the_first_record_there_are_only_committed_offsets() -> None:
    assert started(counting()).offsets_to_commit() == {}

    committed = {IN: CommittedOffset(17, encode_partition_time(900))}
    assert started(counting(), committed).offsets_to_commit() == committed


def test_partition_time_is_taken_up_and_committed_with_the_offset() -> None:
    task = started(counting(), {IN: CommittedOffset(17, encode_partition_time(900))})
    assert task.time.stream_time == 900
    add(task, (100, "a"), first_offset=17)
    process_all(task)

    assert task.time.stream_time == 900
    assert task.offsets_to_commit() == {IN: CommittedOffset(18, encode_partition_time(900))}


def test_stream_time_comes_back_with_the_partition_that_had_it() -> None:
    """It is that of all partitions, whichever read on before the restart, and after a revival."""
    builder = StreamsBuilder()
    builder.stream(["in", "other"], key_serde=serdes.STRING, value_serde=serdes.STRING)
    other = TopicPartition("other", 0)

    def task_of_two(committed: Mapping[TopicPartition, CommittedOffset]) -> StreamTask:
        task = task_of(builder.build(), partitions=[IN, other])
        task.open(Path())
        task.start(committed, 0)
        return task

    first = task_of_two({})
    add(first, (700, "a"))
    first.add_records(other, [StaticMessage("other", 0, 4, b"k", b"v", 300)])
    process_all(first)
    second = task_of_two(first.offsets_to_commit())
    assert second.time.stream_time == 700
    second.add_records(other, [StaticMessage("other", 0, 5, b"k", b"v", 400)])
    process_all(second)

    third = task_of_two(second.offsets_to_commit())
    assert third.time.stream_time == 700
    third.revive()
    third.start(second.offsets_to_commit(), 0)
    assert third.time.stream_time == 700


def test_one_of_the_offsets_that_are_committed_is_the_first() -> None:
    """It need not be the first partition that a task reads: that may never have had a record."""
    seen: list[tuple[str, bool]] = []

    def entries(
        partition: TopicPartition,
        numbers: Mapping[str, int],
        *,
        first: bool,
    ) -> bytes:
        seen.append((partition.topic, first))
        return b""

    topics = ("in", "more", "other")
    builder = StreamsBuilder()
    builder.stream(topics, key_serde=serdes.STRING, value_serde=serdes.STRING)
    partitions = [TopicPartition(topic, 0) for topic in topics]
    task = started(builder.build(), partitions=partitions, offset_entries=entries)
    for topic in ("other", "more"):
        task.add_records(TopicPartition(topic, 0), [StaticMessage(topic, 0, 0, b"k", b"v", 1)])
    process_all(task)

    assert {each.topic for each in task.offsets_to_commit()} == {"more", "other"}
    assert sorted(seen) == [("more", True), ("other", False)]


def test_offsets_cover_what_is_processed_not_what_waits() -> None:
    task = started(counting())
    add(task, (0, "a"), (0, "b"), (0, "c"), first_offset=5)
    run = task.next_run(2)
    assert run is not None
    task.process(run)

    assert task.offsets_to_commit()[IN].next_offset == 7
    assert task.buffered_records() == 1


def test_records_that_are_all_skipped_are_something_to_commit() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.LONG)
    stream.to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    task = started(builder.build(), handler=log_and_continue)
    add(task, (0, "not eight bytes"), (0, "nor these"))

    assert task.needs_commit()
    assert task.offsets_to_commit()[IN].next_offset == 2


def test_what_init_writes_is_something_to_commit() -> None:
    class Writing(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            context.get_state_store("s").put("k", "v")

    assert started(processing(Writing, "s")).needs_commit()
    assert not started(counting()).needs_commit()


def test_a_request_for_a_commit_is_answered_by_one() -> None:
    class Asking(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            context.commit()

    task = started(processing(Asking))
    assert (task.commit_requested, task.needs_commit()) == (True, True)
    task.post_commit()
    assert (task.commit_requested, task.needs_commit()) == (False, False)


def gone_or_last(_key: str, value: str, _so_far: str) -> Any:
    return None if value == "gone" else value


def test_a_cached_key_that_comes_and_goes_leaves_nothing_uncommitted() -> None:
    """It is never logged, so the commit has no new changelog offset."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    latest = stream.group_by_key().aggregate(
        str,
        gone_or_last,
        name="latest",
        value_serde=serdes.STRING,
        store_type=StoreEngine.IN_MEMORY,
        caching=True,
    )
    latest.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.STRING)
    task = started(builder.build(), cache_enabled=True)
    add(task, (0, "here"), (0, "gone"))
    process_all(task)
    task.state_manager.flush_caches()
    assert sent(task, "app-latest-changelog") == []
    task.post_commit()

    assert task.state_manager.uncommitted_bytes() == 0


# ------------------------------------------------------------------ life


def test_a_revived_task_has_forgotten_records_writes_and_outputs() -> None:
    task = started(counting())
    add(task, (0, "a"), (0, "a"))
    run = task.next_run(1)
    assert run is not None
    task.process(run)
    task.revive()

    assert task.state is TaskState.RESTORING
    assert not task.needs_commit()
    assert task.buffered_records() == 0
    assert task.state_manager.uncommitted_bytes() == 0
    assert all(not output.records for output in task.outputs())
    task.start({}, 0)
    add(task, (0, "a"))
    process_all(task)
    assert [value for _, value, _, _ in sent(task)] == [serdes.LONG.serializer("out")(1)]


def test_processors_are_closed_and_made_anew_by_a_revival() -> None:
    events: list[str] = []

    class Telling(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            events.append("init")

        def close(self) -> None:
            events.append("close")

    task = started(processing(Telling))
    task.revive()
    task.start({}, 0)
    task.close()
    task.close()

    assert events == ["init", "close", "init", "close"]


def test_a_processor_that_fails_to_close_does_not_keep_the_stores_open() -> None:
    class Failing(Processor[str, str, str, str]):
        def close(self) -> None:
            raise ValueError("stuck")

    task = started(processing(Failing, "s"))
    with pytest.raises(ProcessingError, match="close raised"):
        task.close()

    assert task.state is TaskState.CLOSED
    assert not task.state_manager.stores()["s"].is_open


def test_a_suspended_task_gives_no_records() -> None:
    task = started(counting())
    add(task, (0, "a"))
    task.suspend()

    assert not task.ready(0)
    assert task.next_run(5) is None
