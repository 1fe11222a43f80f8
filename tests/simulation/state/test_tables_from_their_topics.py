"""A table that is restored from the topic it is read from: what comes back, after what changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    ConsumerRecord,
    FatalStreamsError,
    Materialized,
    Processor,
    ProcessorContext,
    Record,
    StateStoreError,
    StoreEngine,
    Stores,
    StreamsBuilder,
    TopicPartition,
    Topology,
    serdes,
    use_partition_time_on_invalid_timestamp,
    wallclock_timestamp,
)
from pystreams.runtime.cluster.committed_offsets import encode_partition_time
from pystreams.runtime.cluster.topic_ids import noted_partitions
from pystreams.runtime.topics.input_topics import InputTopics
from pystreams.testing.simulation import SimulatedProcess
from pystreams.testing.simulation.admin import SimulatedAdmin
from pystreams.testing.simulation.faults import Lifeline
from pystreams.topology.contracts.extractors import TimestampExtractor
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.simulation.applications import PATIENCE, Application, running_tasks

pytestmark = pytest.mark.simulation

GUARANTEES = ["at_least_once", "exactly_once", "exactly_once_v2"]
ALL = {"topology.optimization": "all"}


def table_of(
    *, optimized: bool = True, in_memory: bool = False, transactional: bool = True, **read: Any
) -> Topology:
    """Return a topology that keeps the topic `in` as the table `rows`."""
    builder = StreamsBuilder()
    options = {"key_serde": serdes.STRING, "value_serde": serdes.JSON} | read
    engine = StoreEngine.IN_MEMORY if in_memory else StoreEngine.ROCKSDB
    kept = Materialized(name="rows", store_type=engine, transactional=transactional)
    table: Any = builder.table("in", materialized=kept, **options)
    table.to_stream().to("out", key_serde=options["key_serde"], value_serde=serdes.JSON)
    return builder.build(ALL if optimized else None)


def store_of(process: SimulatedProcess) -> Any:
    """Return the store of the one task there is."""
    (task,) = process.threads[0]._manager.running()
    return task.state_manager.stores()["rows"]


def rows_of(process: SimulatedProcess) -> dict[str, tuple[Any, int]]:
    """Return the rows that the running task has, with their times."""
    return {key: (row.value, row.timestamp) for key, row in store_of(process).all()}


def process_all(app: Application, process: SimulatedProcess, topic: str = "in") -> None:
    """Step until all of a topic is committed."""
    partition = TopicPartition(topic, 0)
    for _ in range(400):
        process.step()
        app.broker.settle()
        offset = app.broker.group.offsets.get(partition)
        written = app.broker.log(partition).committed_records()
        if offset is not None and offset.next_offset > written[-1].message_offset:
            return
    raise AssertionError("input is left")


def until_running(process: SimulatedProcess) -> None:
    for _ in range(400):
        process.step()
        if running_tasks(process):
            return
    raise AssertionError("it does not start")


def put(app: Application, key: bytes | None, value: bytes | None, timestamp: int) -> None:
    app.broker.produce("in", key, value, timestamp)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_process_without_state_restores_the_committed_rows_and_processes_the_rest(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    first = app.process("p0", topology=table_of())
    first.start()
    for number in range(20):
        put(app, f"k{number % 5}".encode(), str(number).encode(), 1000 + number)
    process_all(app, first)
    first.stop()
    app.broker.settle()
    put(app, b"k0", b"99", 5000)
    put(app, b"k1", None, 5001)

    second = app.process("p1", topology=table_of())
    second.start()
    until_running(second)
    restored = rows_of(second)
    process_all(app, second)

    assert restored == {f"k{number}": (number + 15, 1015 + number) for number in range(5)}
    assert rows_of(second) == {
        **{key: row for key, row in restored.items() if key not in ("k0", "k1")},
        "k0": (99, 5000),
    }
    assert "app-rows-changelog" not in app.broker.partition_counts()


def doubled_time(record: ConsumerRecord, _partition_time: int) -> int:
    return -1 if record.timestamp == 13 else record.timestamp * 2


def test_what_was_skipped_or_written_otherwise_is_restored_as_it_was_processed(
    tmp_path: Path,
) -> None:
    """Other bytes than the store writes, some that can't be read, no key, no value, no time."""
    app = Application(tmp_path, deserialization_exception_handler="continue")
    topology = table_of(key_serde=serdes.JSON, timestamp_extractor=doubled_time)
    first = app.process("p0", topology=topology)
    first.start()
    put(app, b'{"a": 1}', b'{ "n":  1 }', 10)
    put(app, b'"b"', b"2", 11)
    put(app, b'"b"', b"{broken", 12)
    put(app, b'"c"', b"3", 13)
    put(app, None, b"4", 14)
    put(app, b'"d"', b"5", 15)
    put(app, b'"d"', b"null", 16)
    put(app, b'"e"', b"{broken", 17)
    process_all(app, first)
    processed = dict(store_of(first)._buffer.engine_range(None, None))
    first.stop()
    app.broker.settle()

    second = app.process("p1", topology=topology)
    second.start()
    with capture_logs() as logs:
        until_running(second)
    restored = store_of(second)

    assert dict(restored._buffer.engine_range(None, None)) == processed
    assert len(processed) == 2
    skipped = [log for log in logs if log["event"] == "record that can't be read is not restored"]
    assert [log["offset"] for log in skipped] == [2, 7]
    assert restored.committed_offset(TopicPartition("in", 0)) == 7


def time_of_value(record: ConsumerRecord, partition_time: int) -> int:
    """Return the time in the record, or its partition's."""
    time: int = record.value.get("ts", partition_time)
    return time


def move_there_and_back(
    app: Application, topology: Topology, rows: list[tuple[bytes, bytes, int]]
) -> SimulatedProcess:
    """Process the first row here and the rest elsewhere; return the first process, back again."""
    first = app.process("p0", topology=topology)
    first.start()
    put(app, *rows[0])
    process_all(app, first)
    first.stop()
    app.broker.settle()
    second = app.process("p1", topology=topology)
    second.start()
    for row in rows[1:]:
        put(app, *row)
    process_all(app, second)
    second.stop()
    app.broker.settle()
    back = app.process("p0", topology=topology, disk=first.disk)
    back.start()
    until_running(back)
    return back


@pytest.mark.parametrize(
    ("extractor", "time", "restored"),
    [
        pytest.param(time_of_value, 500, 500, id="of-the-value"),
        pytest.param(wallclock_timestamp, 500, 500, id="wall-clock"),
        pytest.param(use_partition_time_on_invalid_timestamp, -1, 0, id="no-time-at-all"),
    ],
)
def test_a_record_whose_partition_time_nobody_knows_is_restored_with_its_own_time(
    extractor: TimestampExtractor, time: int, restored: int, tmp_path: Path
) -> None:
    """The restore begins in the middle: with which time before it, the topic does not say."""
    topology = table_of(timestamp_extractor=extractor)
    rows = [(b"a", b'{"ts": 100}', 400), (b"b", b"{}", time), (b"c", b'{"ts": 700}', 700)]
    back = move_there_and_back(Application(tmp_path), topology, rows)

    assert back.restored_records() == 2
    assert rows_of(back)["b"] == ({}, restored)
    assert rows_of(back)["c"] == ({"ts": 700}, 700)


def process_and_start_elsewhere(
    app: Application, topology: Topology, rows: list[tuple[bytes, bytes, int]]
) -> tuple[dict[str, Any], SimulatedProcess]:
    """Process rows; return what that made of them, and a process that has to restore them."""
    first = app.process("p0", topology=topology)
    first.start()
    for row in rows:
        put(app, *row)
    process_all(app, first)
    processed = rows_of(first)
    first.stop()
    app.broker.settle()
    second = app.process("p1", topology=topology)
    second.start()
    return processed, second


def test_a_restore_from_the_beginning_knows_the_partition_time_as_it_was(tmp_path: Path) -> None:
    """What had no time comes first, and was dropped; later ones took that of the partition."""
    app = Application(tmp_path)
    topology = table_of(timestamp_extractor=time_of_value)
    rows = [(b"a", b"{}", 400), (b"b", b'{"ts": 100}', 401), (b"c", b"{}", 402)]
    processed, second = process_and_start_elsewhere(app, topology, rows)
    until_running(second)

    assert processed == {"b": ({"ts": 100}, 100), "c": ({}, 100)}
    assert rows_of(second) == processed


def test_a_record_that_did_not_fit_the_store_when_it_was_processed_is_not_restored(
    tmp_path: Path,
) -> None:
    builder = StreamsBuilder()
    kept = Materialized(name="rows", key_serde=serdes.STRING, value_serde=serdes.LONG)
    builder.table("in", key_serde=serdes.STRING, value_serde=serdes.JSON, materialized=kept)
    topology = builder.build(ALL)
    app = Application(tmp_path, processing_exception_handler="continue")
    wrong = b'"no number"'
    rows = [(b"a", b"1", 10), (b"a", wrong, 11), (b"b", b"2", 12), (b"c", wrong, 13)]
    processed, second = process_and_start_elsewhere(app, topology, rows)
    with capture_logs() as logs:
        until_running(second)

    assert processed == {"a": (1, 10), "b": (2, 12)}
    assert rows_of(second) == processed
    assert store_of(second).committed_offset(TopicPartition("in", 0)) == 3
    skipped = [log for log in logs if log["event"] == "record that does not fit is not restored"]
    assert [log["offset"] for log in skipped] == [1, 3]


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("transactional", [True, False])
def test_a_restart_in_order_restores_nothing(
    guarantee: str, transactional: bool, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process(topology=table_of(transactional=transactional))
    process.start()
    put(app, b"a", b"1", 10)
    process_all(app, process)
    process.stop()
    process.start()
    put(app, b"b", b"2", 11)
    process_all(app, process)

    assert process.restored_records() == 0
    assert rows_of(process) == {"a": (1, 10), "b": (2, 11)}


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_optimization_that_is_switched_on_restores_the_store_from_the_topic(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process(topology=table_of(optimized=False))
    process.start()
    put(app, b"a", b"1", 10)
    process_all(app, process)
    process.stop()
    app.broker.settle()
    again = app.process(topology=table_of(), disk=process.disk)
    again.start()
    with capture_logs() as logs:
        until_running(again)

    assert rows_of(again) == {"a": (1, 10)}
    assert again.restored_records() == 1
    assert any("which is its source topic now" in log.get("reason", "") for log in logs)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_optimization_that_is_switched_off_is_refused_where_the_rows_are_in_no_changelog(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process(topology=table_of())
    process.start()
    put(app, b"a", b"1", 10)
    process_all(app, process)
    process.stop()
    app.broker.settle()
    again = app.process(topology=table_of(optimized=False), disk=process.disk)
    again.start()

    with pytest.raises(StateStoreError, match="Set that again; or run `pystreams reset`"):
        until_running(again)

    back = app.process(topology=table_of(), disk=process.disk)
    back.start()
    until_running(back)
    assert rows_of(back) == {"a": (1, 10)}


def test_a_topic_that_was_made_again_is_the_table_from_then_on(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = app.process(topology=table_of())
    process.start()
    put(app, b"a", b"1", 10)
    process_all(app, process)
    process.stop()
    app.broker.settle()
    app.broker.delete_topic("in")
    app.broker.create_topic("in", 1)
    put(app, b"b", b"2", 11)
    process.start()
    until_running(process)
    process_all(app, process)

    assert rows_of(process) == {"b": (2, 11)}


class Copying(Processor[str, Any, Any, Any]):
    """Keeps what it is given."""

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self._rows: Any = context.get_state_store("rows")

    def process(self, record: Record[str, Any]) -> None:
        self._rows.put(record.key, record.value)


class Looking(Processor[str, Any, str, Any]):
    """Sends on what the store has for a key."""

    def init(self, context: ProcessorContext[str, Any]) -> None:
        self._context = context
        self._rows: Any = context.get_state_store("rows")

    def process(self, record: Record[str, Any]) -> None:
        self._context.forward(record.with_value(self._rows.get(record.key)))


def start_with_a_row(app: Application) -> SimulatedProcess:
    """Read a row of the topic, which has one partition."""
    process = app.process("p0", topology=table_of())
    process.start()
    put(app, b"k", b"1", 1000)
    process_all(app, process)
    return process


def test_a_topic_that_got_partitions_is_refused_until_its_id_is_accepted(tmp_path: Path) -> None:
    """Nothing else tells that the row of a key is now looked for elsewhere."""
    app = Application(tmp_path)
    start_with_a_row(app).stop()
    app.broker.settle()
    app.broker.add_partitions("in", 3)
    told = "'in' has 3 partitions, and had 1 when it was read into store 'rows', which it restores"

    with pytest.raises(FatalStreamsError, match=f"{told}.*Copy the topic") as refused:
        app.process("p1", topology=table_of()).start()

    _, _, accepted = str(refused.value).partition("set ")
    key, _, topic_id = accepted.partition("=")
    process = app.process("p2", topology=table_of(), config={key: topic_id})
    process.start()
    put(app, b"k", b"2", 2000)
    for _ in range(PATIENCE):
        process.step()
        app.broker.settle()
        if sum(offset.next_offset for offset in app.broker.group.offsets.values()) == 2:
            break
    process.stop()
    app.broker.settle()
    again = app.process("p3", topology=table_of())
    again.start()
    assert len(again.threads) == 1, "it has been read with so many partitions"


def test_a_topic_that_gets_partitions_while_it_is_read_stops_the_application(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path)
    admin = SimulatedAdmin(app.broker, Lifeline("watch", app.faults))
    input_topics = InputTopics(TopologyPlan(table_of(), "app"), admin, "", exactly_once=True)
    input_topics.prepare(app.broker.partition_counts())
    input_topics.watch(app.broker.partition_counts())
    app.broker.add_partitions("in", 2)

    with pytest.raises(FatalStreamsError, match="'in' has 2 partitions, and had 1"):
        input_topics.watch(app.broker.partition_counts())


def test_a_topic_of_a_table_with_a_changelog_of_its_own_is_not_noted(tmp_path: Path) -> None:
    """Its changelog has the number of partitions."""
    app = Application(tmp_path)
    admin = SimulatedAdmin(app.broker, Lifeline("watch", app.faults))
    plan = TopologyPlan(table_of(optimized=False), "app")
    input_topics = InputTopics(plan, admin, "", exactly_once=True)
    input_topics.prepare(app.broker.partition_counts())

    entries = input_topics.entries(TopicPartition("in", 0), {}, first=True)
    assert noted_partitions(encode_partition_time(0, entries), "in") == 0


def looking_up() -> Topology:
    topology = Topology()
    rows = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("rows"), serdes.STRING, serdes.JSON
    )
    types: Any = {"key_serde": serdes.STRING, "value_serde": serdes.JSON}
    topology.add_read_only_state_store(rows, "read-rows", "rows", "keep-rows", Copying, **types)
    topology.add_source("source", "in", **types)
    topology.add_processor("look", Looking, "source")
    topology.connect_processor_and_state_stores("look", "rows")
    topology.add_sink("sink", "out", "look", **types)
    return topology


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_read_only_store_is_restored_from_its_topic(guarantee: str, tmp_path: Path) -> None:
    app = Application(tmp_path, guarantee)
    app.broker.create_topic("rows", 1)
    first = app.process("p0", topology=looking_up())
    first.start()
    app.broker.produce("rows", b"a", b"7", 10)
    process_all(app, first, "rows")
    first.stop()
    second = app.process("p1", topology=looking_up())
    second.start()
    until_running(second)
    assert second.restored_records() == 1
    app.broker.produce("in", b"a", b"0", 11)
    app.broker.produce("in", b"b", b"0", 12)
    process_all(app, second)
    app.broker.settle()

    sent = app.broker.committed_records("out")
    assert [(message.message_key, message.message_value) for message in sent] == [
        (b"a", b"7"),
        (b"b", None),
    ]
    assert not any(topic.endswith("-changelog") for topic in app.broker.partition_counts())
