"""`KafkaStreams` within a program of one's own: listeners, pausing, cleaning up, leaving."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

from pystreams import (
    KafkaStreams,
    State,
    StateRestoreListener,
    StreamsBuilder,
    StreamsError,
    TopicPartition,
    serdes,
)
from tests import names
from tests.broker.conftest import CreateTopic
from tests.broker.reading import group_members, produce
from tests.broker.waiting import wait_until

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker


class Program:
    """A program that counts, and may be started again."""

    def __init__(self, broker: DevelopmentBroker, name: str, topic: str, place: Path) -> None:
        self.name, self.topic = name, topic
        self.servers = broker.bootstrap_servers
        self.state_directory = place / name
        self._config = {
            "application.id": name,
            "bootstrap.servers": self.servers,
            "state.dir": str(place),
            "commit.interval.ms": 100,
        }

    def streams(self, **config: Any) -> KafkaStreams:
        builder = StreamsBuilder()
        stream = builder.stream(self.topic, key_serde=serdes.STRING, value_serde=serdes.STRING)
        stream.group_by_key().count(name="counts")
        return KafkaStreams(builder.build(), {**self._config, **config})

    def write(self, *keys: str) -> None:
        produce(self.servers, self.topic, [(key.encode(), b"x") for key in keys])

    def members(self) -> int:
        admin = AdminClient({"bootstrap.servers": self.servers})
        return group_members(admin, self.name)


@pytest.fixture
def program(
    broker: DevelopmentBroker, unique_name: str, create_topic: CreateTopic, tmp_path: Path
) -> Program:
    return Program(broker, unique_name, create_topic("in"), tmp_path)


def polls_of(streams: KafkaStreams) -> float:
    return sum(
        float(value) for name, value in streams.metrics().items() if name.name == "poll-total"
    )


def wait_for_count(streams: KafkaStreams, key: str, count: int) -> None:
    def counted() -> bool:
        if streams.state is not State.RUNNING:
            return False
        found = streams.store("counts").get(key)
        return found is not None and found.value == count

    wait_until(counted, f"{key}: {count}", told=lambda: str(streams.error))


def test_a_state_listener_hears_the_whole_life(program: Program) -> None:
    heard: list[tuple[State, State]] = []
    streams = program.streams()
    streams.set_state_listener(lambda new, old: heard.append((new, old)))
    with streams:
        wait_until(lambda: streams.state is State.RUNNING, "running")
        wait_until(lambda: (State.RUNNING, State.REBALANCING) in heard, "told")
    wait_until(lambda: heard[-1][0] is State.NOT_RUNNING, "told of the end")

    states = [State.CREATED, *(new for new, _ in heard)]
    assert [old for _, old in heard] == states[:-1]
    assert states == [
        State.CREATED,
        State.REBALANCING,
        State.RUNNING,
        State.PENDING_SHUTDOWN,
        State.NOT_RUNNING,
    ]
    with pytest.raises(StreamsError, match=r"set_state_listener comes before start\(\)"):
        streams.set_state_listener(None)


class Restores(StateRestoreListener):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def on_restore_start(
        self, topic_partition: TopicPartition, store_name: str, starting: int, ending: int
    ) -> None:
        self.heard.append(("start", topic_partition, store_name, starting, ending))

    def on_batch_restored(
        self, topic_partition: TopicPartition, store_name: str, end: int, count: int
    ) -> None:
        self.heard.append(("batch", topic_partition, store_name, end, count))

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total: int) -> None:
        self.heard.append(("end", topic_partition, store_name, total))


def test_a_restore_listener_hears_what_is_restored(program: Program) -> None:
    program.write("a", "b", "c")
    with program.streams() as streams:
        for key in "abc":
            wait_for_count(streams, key, 1)
    shutil.rmtree(program.state_directory)
    restores = Restores()
    again = program.streams()
    again.set_global_state_restore_listener(restores)
    with again:
        wait_for_count(again, "a", 1)

    changelog = TopicPartition(f"{program.name}-counts-changelog", 0)
    start, *batches, end = restores.heard
    assert start == ("start", changelog, "counts", 0, 3)
    assert {batch[:3] for batch in batches} == {("batch", changelog, "counts")}
    last_offset = batches[-1][3]
    assert (last_offset, sum(int(str(batch[4])) for batch in batches)) == (2, 3)
    assert end == ("end", changelog, "counts", 3)


def test_what_is_paused_processes_nothing_and_stays_in_the_group(program: Program) -> None:
    with program.streams() as streams:
        program.write("a")
        wait_for_count(streams, "a", 1)
        streams.pause()
        assert streams.is_paused()
        program.write("a", "a")
        wait_until(lambda: streams.statistics().lag_records == 2, "records wait")
        polls = polls_of(streams)
        wait_until(lambda: polls_of(streams) > polls + 10, "it goes on polling")
        assert streams.statistics().processed_records == 1
        assert streams.state is State.RUNNING
        assert program.members() == 1
        streams.resume()
        wait_for_count(streams, "a", 3)
        assert not streams.is_paused()


def test_it_may_be_started_paused(program: Program) -> None:
    streams = program.streams()
    streams.pause()
    with streams:
        program.write("a")
        wait_until(lambda: streams.state is State.RUNNING, "running")
        wait_until(lambda: streams.statistics().lag_records, "a record waits")
        polls = polls_of(streams)
        wait_until(lambda: polls_of(streams) > polls + 10, "it goes on polling")
        assert streams.statistics().processed_records == 0
        streams.resume()
        wait_for_count(streams, "a", 1)


def test_clean_up_removes_state_that_is_then_restored(program: Program) -> None:
    with program.streams() as streams:
        program.write("a")
        wait_for_count(streams, "a", 1)
        with pytest.raises(StreamsError, match="clean_up removes state, and the application is"):
            streams.clean_up()
    assert (program.state_directory / "0_0").exists()
    streams.clean_up()
    assert not (program.state_directory / "0_0").exists()
    assert (program.state_directory / "kafka-streams-process-metadata").exists()
    with program.streams() as again:
        program.write("a")
        wait_for_count(again, "a", 2)


@pytest.mark.parametrize("leave", [True, False])
def test_a_static_member_leaves_or_stays_as_it_is_told(program: Program, *, leave: bool) -> None:
    name = names.unique_name("instance")
    streams = program.streams(**{"consumer.group.instance.id": name})
    streams.start()
    wait_until(lambda: streams.state is State.RUNNING, "running")
    assert streams.close(60, leave_group=leave)

    assert program.members() == (0 if leave else 1)
