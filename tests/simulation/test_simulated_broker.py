"""The simulated broker keeps Kafka's promises; what it got wrong, simulations would not find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pystreams import TopicPartition
from pystreams.errors import RetriableClientError, TaskMigratedError, TransactionAbortableError
from pystreams.record import OutputBuffer, ProducedRecord
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.testing.simulation import (
    NO_FAULTS,
    Faults,
    Lifeline,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
    SimulatedCrash,
    SimulatedDisk,
    SimulatedEngine,
)
from pystreams.testing.simulation.partition_log import PartitionLog

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.testing.simulation.clients import SimulatedProducer
    from pystreams.testing.simulation.consumers import SimulatedConsumer

pytestmark = pytest.mark.simulation

T0 = TopicPartition("t", 0)


def record(key: str, value: str | None = "v") -> ProducedRecord:
    return (key.encode(), None if value is None else value.encode(), 0, ())


def keys(log: PartitionLog) -> list[str]:
    return [(message.message_key or b"").decode() for message in log.committed_records()]


class Listener:
    """Takes what it is given from its beginning."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[str]]] = []
        self.consumer: SimulatedConsumer | None = None

    def _note(self, event: str, partitions: list[TopicPartition]) -> None:
        self.events.append((event, sorted(map(str, partitions))))

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self._note("assigned", partitions)
        assert self.consumer is not None
        self.consumer.start_at(dict.fromkeys(partitions))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self._note("revoked", partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self._note("lost", partitions)


class Hesitant(Listener):
    """Takes partitions and does nothing with them."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Wait."""


class World:
    """A broker with topic `t`, and clients of one process."""

    def __init__(self, partitions: int = 1, *, incremental: bool = False) -> None:
        self.clock = ManualClock()
        self.faults = Faults(0)
        self.broker = SimulatedBroker(
            self.clock,
            self.faults,
            session_timeout_ms=1000,
            transaction_timeout_ms=1000,
            incremental=incremental,
        )
        self.broker.create_topic("t", partitions)
        self.lifeline = Lifeline("p", self.faults)
        self.clients = SimulatedClients(self.broker, self.lifeline)

    def producer(self, name: str = "id") -> SimulatedProducer:
        producer = self.clients.producer("c", name)
        producer.init_transactions()
        return producer

    def consumer(self, name: str = "c") -> tuple[SimulatedConsumer, Listener]:
        consumer, listener = self.clients.consumer(name, name), Listener()
        listener.consumer = consumer
        consumer.subscribe(["t"], [], listener)
        return consumer, listener

    def send(self, producer: SimulatedProducer, *names: str) -> OutputBuffer:
        output = OutputBuffer("t", 0, is_changelog=True)
        output.records.extend(record(name) for name in names)
        producer.begin_transaction()
        producer.send(output)
        producer.flush()
        return output


# ------------------------------------------------------------------ logs


def test_readers_stop_at_an_open_transaction_and_skip_an_aborted_one() -> None:
    log = PartitionLog(T0)
    log.append([record("a")])
    log.append([record("b")], 1)
    log.append([record("c")], 2)
    log.append([record("d")])

    assert (log.stable_end, log.high_watermark) == (1, 4)
    assert keys(log) == ["a"]
    log.write_marker(1, committed=True)
    assert (log.stable_end, keys(log)) == (2, ["a", "b"])
    log.write_marker(2, committed=False)
    assert (log.stable_end, log.high_watermark) == (6, 6)
    assert keys(log) == ["a", "b", "d"]


def test_reading_moves_past_markers_and_aborted_records() -> None:
    log = PartitionLog(T0)
    log.append([record("a")], 1)
    log.write_marker(1, committed=False)

    assert log.read(0, 10) == ([], 2)


def test_compaction_keeps_the_last_record_of_each_key_and_what_is_not_stable() -> None:
    log = PartitionLog(T0)
    log.append([record("a", "1"), record("b", "1"), record("a", "2"), record("b", None)])
    log.append([record("a", "3")], 1)
    before = log.compacted()

    assert log.compact() == 2
    assert log.compacted() == before == {b"a": b"2"}
    assert [message.message_offset for message in log.committed_records()] == [2, 3]
    log.write_marker(1, committed=True)
    assert log.compacted() == {b"a": b"3"}


def test_deleted_records_are_gone() -> None:
    log = PartitionLog(T0)
    log.append([record("a"), record("b"), record("c")])
    log.delete_before(2)

    assert (log.beginning, keys(log)) == (2, ["c"])
    log.delete_before(100)
    assert (log.beginning, keys(log)) == (3, [])


# ------------------------------------------------------------------ transactions


def test_a_new_producer_fences_the_old_one_and_aborts_what_it_left() -> None:
    world = World()
    old = world.producer()
    world.send(old, "a")
    new = world.producer()

    assert keys(world.broker.log(T0)) == []
    assert world.broker.log(T0).stable_end == world.broker.log(T0).high_watermark
    with pytest.raises(TaskMigratedError, match="fenced"):
        old.commit_transaction({}, None)  # type: ignore[arg-type]
    world.send(new, "b")
    new.commit_transaction({}, None)  # type: ignore[arg-type]
    world.broker.settle()
    assert keys(world.broker.log(T0)) == ["b"]


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    world = World()
    producer = world.producer()
    world.send(producer, "a")
    world.clock.advance_ms(1001)
    world.broker.tick()
    world.broker.settle()

    assert world.broker.log(T0).stable_end == 2
    with pytest.raises(TaskMigratedError):
        producer.commit_transaction({}, None)  # type: ignore[arg-type]


def test_offsets_of_a_decided_transaction_are_pending_until_their_marker() -> None:
    world = World()
    consumer, _ = world.consumer()
    while not consumer._positions:
        consumer.poll(10, 0.1)
    producer = world.producer()
    world.send(producer, "a")
    producer.commit_transaction({T0: CommittedOffset(7, "")}, consumer.group_metadata())

    with pytest.raises(RetriableClientError, match="pending"):
        consumer.committed([T0])
    world.broker.settle()
    assert consumer.committed([T0]) == {T0: CommittedOffset(7, "")}


def test_committed_offsets_go_with_their_topic_and_those_of_an_open_transaction_too() -> None:
    world = World()
    consumer, _ = world.consumer()
    while not consumer._positions:
        consumer.poll(10, 0.1)
    other = TopicPartition("other", 0)
    world.broker.create_topic("other", 1)
    world.broker.group.commit({T0: CommittedOffset(3, ""), other: CommittedOffset(4, "")})
    world.broker.delete_topic("other")
    world.broker.create_topic("other", 1)
    assert world.broker.group.offsets == {T0: CommittedOffset(3, "")}

    producer = world.producer()
    world.send(producer, "a")
    offsets = {T0: CommittedOffset(7, ""), other: CommittedOffset(8, "")}
    producer.commit_transaction(offsets, consumer.group_metadata())
    world.broker.delete_topic("other")
    world.broker.settle()
    assert world.broker.group.offsets == {T0: CommittedOffset(7, "")}


def test_offsets_of_somebody_who_left_the_group_abort_the_transaction() -> None:
    world = World()
    consumer, _ = world.consumer()
    while not consumer._positions:
        consumer.poll(10, 0.1)
    metadata = consumer.group_metadata()
    consumer.close(leave=True)
    producer = world.producer()
    world.send(producer, "a")

    with pytest.raises(TransactionAbortableError, match="unknown member"):
        producer.commit_transaction({T0: CommittedOffset(7, "")}, metadata)
    with pytest.raises(TransactionAbortableError):
        producer.flush()
    producer.abort_transaction()
    world.broker.settle()
    assert keys(world.broker.log(T0)) == []


def test_a_flush_tells_the_offset_of_the_last_record() -> None:
    world = World()
    world.broker.append("t", 0, [record("before")])

    assert world.send(world.producer(), "a", "b").last_offset == 2


def test_a_flush_does_not_tell_the_offsets_of_what_was_to_be_forgotten() -> None:
    world = World()
    producer = world.clients.producer("c", None)
    output = OutputBuffer("t", 0, is_changelog=True)
    output.records.append(record("a"))
    producer.send(output)

    producer.forget_sent()
    producer.flush()

    assert output.last_offset is None
    assert world.broker.log(T0).high_watermark == 1


# ------------------------------------------------------------------ group


@pytest.mark.parametrize("incremental", [False, True])
def test_partitions_are_owned_by_one_member_at_a_time(*, incremental: bool) -> None:
    world = World(4, incremental=incremental)
    (first, told), (second, told_too) = world.consumer("a"), world.consumer("b")
    while len(first._positions) < 4:
        first.poll(10, 0.01)
    for _ in range(10):
        first.poll(10, 0.01)
        second.poll(10, 0.01)
        assert first._positions.keys().isdisjoint(second._positions)

    assert (len(first._positions), len(second._positions)) == (2, 2)
    given_up = ["t-2", "t-3"] if incremental else ["t-0", "t-1", "t-2", "t-3"]
    assert ("revoked", given_up) in told.events
    assert told_too.events[-1] == ("assigned", ["t-2", "t-3"])


def test_a_static_member_that_comes_back_is_given_what_it_had_whatever_it_reads_now() -> None:
    world = World()
    world.broker.create_topic("u", 1)
    before, _ = world.consumer()
    while not before._positions:
        before.poll(10, 0.01)
    before.close()
    again, listener = world.consumer()
    again.subscribe(["u"], [], listener)
    again.poll(10, 0.01)
    assert listener.events == [("assigned", ["t-0"])]

    again.leave()
    again.subscribe(["u"], [], listener)
    while "u" not in {topic for topic, _ in again._positions}:
        again.poll(10, 0.01)
    assert listener.events[1:] == [("revoked", ["t-0"]), ("assigned", ["u-0"])]


def test_a_member_that_does_not_poll_loses_what_it_had() -> None:
    world = World()
    consumer, listener = world.consumer()
    while not consumer._positions:
        consumer.poll(10, 0.01)
    metadata = consumer.group_metadata()
    world.clock.advance_ms(1001)
    world.broker.tick()

    with pytest.raises(TaskMigratedError, match="unknown member"):
        world.broker.group.check(metadata)
    for _ in range(3):
        consumer.poll(10, 0.01)
    assert listener.events == [("assigned", ["t-0"]), ("lost", ["t-0"]), ("assigned", ["t-0"])]


def test_assigned_partitions_give_nothing_before_they_have_a_position() -> None:
    world = World()
    world.broker.append("t", 0, [record("a")])
    consumer, _ = world.consumer()
    consumer.subscribe(["t"], [], Hesitant())
    for _ in range(5):
        assert consumer.poll(10, 0.01) == []
    consumer.start_at({T0: None})

    [(partition, messages)] = consumer.poll(10, 0.01)
    assert (partition, len(messages)) == (T0, 1)
    assert consumer.known_lag(T0) == 0


# ------------------------------------------------------------------ crashes and disks


def test_a_dead_process_can_do_nothing_more() -> None:
    world = World()
    producer = world.producer()
    world.lifeline.crash_in(1)
    producer.begin_transaction()
    output = OutputBuffer("t", 0)
    output.records.append(record("a"))

    for _ in range(3):
        with pytest.raises(SimulatedCrash):
            producer.send(output)
    assert world.broker.log(T0).high_watermark == 0


def test_a_crash_leaves_each_store_at_one_of_its_commits(tmp_path: Path) -> None:
    found = set()
    for seed in range(40):
        faults = Faults(seed, NO_FAULTS)
        disk = SimulatedDisk(tmp_path / str(seed), faults)
        directory = tmp_path / str(seed) / "0_0" / "rocksdb" / "s"
        engine = SimulatedEngine("s", disk, Lifeline("p", faults), faults)
        engine.open(directory)
        for number in range(3):
            engine.write({b"k": b"%d" % number}, {b"offset": b"%d" % number})
        disk.crash()
        again = SimulatedEngine("s", disk, Lifeline("p", faults), faults)
        again.open(directory)
        value, offset = again.get(b"k"), again.metadata().get(b"offset")
        assert value == offset, "data and offset are of the same commit"
        found.add(value)

    assert found == {None, b"0", b"1", b"2"}


@pytest.mark.parametrize("segmented", [False, True])
def test_segments_are_dropped_for_good_and_other_deletions_with_their_batch(
    segmented: bool, tmp_path: Path
) -> None:
    """As RocksDB drops column families at once, and deletes ranges in a batch."""
    found = set()
    for seed in range(20):
        faults = Faults(seed, NO_FAULTS)
        root = tmp_path / str(seed)
        disk = SimulatedDisk(root, faults)
        engine = SimulatedEngine("s", disk, Lifeline("p", faults), faults, segmented=segmented)
        engine.open(root / "0_0" / "rocksdb" / "s")
        engine.write({b"1": b"old", b"2": b"kept"}, {})
        disk.files(root / "0_0" / "rocksdb" / "s").flush()
        engine.write({b"3": b"new"}, {}, delete_below=b"2")
        disk.crash()
        [(_, _, files)] = disk.stores()
        found.add(b"".join(files.data))

    assert found == ({b"2", b"23"} if segmented else {b"12", b"23"})


def test_a_store_that_was_closed_is_whole_after_a_crash(tmp_path: Path) -> None:
    faults = Faults(0)
    disk = SimulatedDisk(tmp_path, faults)
    engine = SimulatedEngine("s", disk, Lifeline("p", faults), faults)
    engine.open(tmp_path / "0_0" / "rocksdb" / "s")
    engine.write({b"k": b"v"}, {})
    engine.close()
    disk.crash()
    engine.open(tmp_path / "0_0" / "rocksdb" / "s")

    assert engine.get(b"k") == b"v"
