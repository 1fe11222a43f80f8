"""Global tables on a real broker: filled before anything is processed, followed, filled again.

What is told of the second start is what it reads: the rest of the topic, or all of it where the
topic is another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from structlog.testing import capture_logs

from pystreams import (
    KafkaStreams,
    KeyQuery,
    PositionBound,
    Processor,
    Record,
    State,
    StateRestoreListener,
    Stores,
    StreamsBuilder,
    TopicPartition,
    serdes,
)
from pystreams.broker import DevelopmentBroker
from pystreams.errors import StateStoreCorruptedError
from tests.broker.application import Application, Running
from tests.broker.conftest import CreateTopic
from tests.broker.reading import answer_of, delete_named, produce, read_all
from tests.broker.waiting import DEADLINE_S, wait_until

CODE = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
people = builder.global_table(
    "{people}", key_serde=serdes.STRING, value_serde=serdes.STRING, name="people"
)
orders = builder.stream("{orders}", key_serde=serdes.STRING, value_serde=serdes.STRING)
joined = orders.left_join(people, lambda key, value: value, lambda value, row: f"{{value}} {{row}}")
joined.to("{output}", value_serde=serdes.STRING)
"""
PEOPLE = [(f"p{number}".encode(), f"name {number}".encode()) for number in range(500)]


@dataclass(frozen=True)
class Scene:
    """An application that looks people up, and its topics."""

    application: Application
    admin: AdminClient
    servers: str
    people: str
    orders: str
    output: str

    def order(self, key: str, *people: str) -> None:
        produce(self.servers, self.orders, [(key.encode(), name.encode()) for name in people])

    def answers(self, running: Running, key: str, count: int) -> list[str]:
        """Return what came of the orders of a key, once there is so much of it."""

        def found() -> list[str]:
            return [
                (message.value() or b"").decode()
                for message in read_all(self.servers, self.output)
                if message.key() == key.encode()
            ]

        running.wait_until(lambda: len(found()) >= count, "orders answered")
        return found()

    def create_people_again(self) -> None:
        former = answer_of(self._people_id)
        delete_named(self.admin, self.people)

        def created() -> bool:
            with suppress(KafkaException):
                self.admin.create_topics([NewTopic(self.people, 3)])[self.people].result(DEADLINE_S)
            with suppress(KafkaException):
                return self._people_id() != former
            return False

        wait_until(created, "topic created again")

    def _people_id(self) -> str:
        described = self.admin.describe_topics(TopicCollection([self.people]))
        return str(described[self.people].result(DEADLINE_S).topic_id)


@pytest.fixture(params=["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.sweep)])
def scene(
    request: pytest.FixtureRequest,
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
) -> Iterator[Scene]:
    servers = broker.bootstrap_servers
    people, orders = create_topic("people", partitions=3), create_topic("orders", partitions=1)
    output = create_topic("output", partitions=1)
    file = tmp_path / "lookups.py"
    file.write_text(CODE.format(people=people, orders=orders, output=output))
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": request.param,
        "commit.interval.ms": 100,
        "metadata.max.age.ms": 500,
    }
    produce(servers, people, PEOPLE)
    with Application(unique_name, tmp_path, file, settings) as application:
        yield Scene(
            application,
            AdminClient({"bootstrap.servers": servers}),
            servers,
            people,
            orders,
            output,
        )


def filled(running: Running) -> int:
    """Return how many records it took to fill the stores, once they are filled."""
    (line,) = running.wait_for("global stores filled")
    return int(line["records"])


def test_table_is_whole_before_the_first_record_is_processed_and_follows_its_topic(
    scene: Scene,
) -> None:
    scene.order("first", *(key.decode() for key, _ in PEOPLE))
    running = scene.application.start()
    first = scene.answers(running, "first", len(PEOPLE))
    produce(scene.servers, scene.people, [(b"new", b"later")])
    scene.order("again", "new")

    def met() -> bool:
        scene.order("again", "new")
        return "new later" in scene.answers(running, "again", 1)

    running.wait_until(met, "the new row met")
    assert first == [f"{key.decode()} {value.decode()}" for key, value in PEOPLE]
    assert filled(running) == len(PEOPLE)
    running.stop()


def test_restart_reads_what_has_come_since(scene: Scene) -> None:
    with scene.application.running() as running:
        assert filled(running) == len(PEOPLE)
        running.stop()
    produce(scene.servers, scene.people, [(b"new", b"later"), (b"p1", None)])
    scene.order("second", "new", "p1", "p2")
    with scene.application.running() as restarted:
        assert filled(restarted) == 2
        assert scene.answers(restarted, "second", 3) == ["new later", "p1 None", "p2 name 2"]
        restarted.stop()


def test_killed_application_has_the_whole_table_again(scene: Scene) -> None:
    with scene.application.running() as running:
        filled(running)
        running.kill()
    produce(scene.servers, scene.people, [(b"new", b"later")])
    scene.order("second", "new", "p2")
    with scene.application.running() as restarted:
        assert filled(restarted) <= len(PEOPLE) + 1
        assert scene.answers(restarted, "second", 2) == ["new later", "p2 name 2"]
        restarted.stop()


def test_topic_created_again_is_told_and_read_anew(scene: Scene) -> None:
    with scene.application.running() as running:
        filled(running)
        scene.create_people_again()
        assert running.ended() != 0
        told = [str(line.get("error", "")) for line in running.lines()]
        # "and created again", or, where two looks find no topic in between, "create it again".
        assert any("was deleted" in line for line in told), told
    produce(scene.servers, scene.people, [(b"p1", b"other")])
    scene.order("second", "p1", "p2")
    with scene.application.running() as restarted:
        restarted.wait_for("global store is read anew from the beginning of its topic")
        assert filled(restarted) == 1
        assert scene.answers(restarted, "second", 2) == ["p1 other", "p2 None"]
        restarted.stop()


def test_partition_that_the_topic_gets_while_the_application_runs_is_read(scene: Scene) -> None:
    with scene.application.running() as running:
        filled(running)
        grown = scene.admin.create_partitions([NewPartitions(scene.people, 5)])
        grown[scene.people].result(DEADLINE_S)
        running.wait_for("topic of a global store has new partitions")
        produce(scene.servers, scene.people, [(b"new", b"in the last")], partition_of=lambda _: 4)

        def met() -> bool:
            scene.order("later", "new")
            return "new in the last" in scene.answers(running, "later", 1)

        running.wait_until(met, "the new partition's row met")
        running.stop()


def test_processes_that_share_a_state_directory_have_the_table_each(scene: Scene) -> None:
    with scene.application.running("--processes", "2") as running:
        running.wait_for("global stores filled", count=2)
        scene.order("both", "p1", "p2")
        assert scene.answers(running, "both", 2) == ["p1 name 1", "p2 name 2"]
        running.stop()
    found = {path.name for path in scene.application.state_directory.glob("global*")}
    assert found == {"global", "global-1"}


class Told(StateRestoreListener):
    """Adds up what it is told, by store."""

    def __init__(self) -> None:
        self.started: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()

    def on_restore_start(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        starting_offset: int,
        ending_offset: int,
    ) -> None:
        self.started[store_name] += ending_offset - starting_offset

    def on_restore_end(
        self, topic_partition: TopicPartition, store_name: str, total_restored: int
    ) -> None:
        self.ended[store_name] += total_restored


def test_topology_of_a_global_table_alone_runs_and_is_queried(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    servers, topic = broker.bootstrap_servers, create_topic("people", partitions=3)
    produce(servers, topic, PEOPLE)
    builder = StreamsBuilder()
    builder.global_table(topic, name="people", key_serde=serdes.STRING, value_serde=serdes.STRING)
    config = {
        "application.id": unique_name,
        "bootstrap.servers": servers,
        "state.dir": str(tmp_path),
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 9_000,
    }
    with KafkaStreams(builder.build(), config) as streams:
        wait_until(
            lambda: streams.state is State.RUNNING, "running", told=lambda: str(streams.error)
        )
        people = streams.store("people")
        assert people.get("p1").value == "name 1"
        assert len(list(people.all())) == len(PEOPLE)
        result = streams.query(KeyQuery("p2"), store="people")
        assert result.only_value() == "name 2"
        assert result.global_result is not None
        assert result.partition_results == {}
        produce(servers, topic, [(b"new", b"later")])
        wait_until(lambda: people.get("new"), "the new row")
        later = streams.query(
            KeyQuery("new"), store="people", position_bound=PositionBound.at(result.position)
        )
        assert later.only_value() == "later"
        assert any(
            dict(name.tags).get("task-id") == "-1_-1" and value == len(PEOPLE) + 1
            for name, value in streams.metrics().items()
            if name.name == "records-consumed-total"
        )
    assert streams.state is State.NOT_RUNNING
    streams.clean_up()
    assert not list(tmp_path.glob(f"{unique_name}/global*"))


def test_processor_that_blocks_while_a_global_store_is_filled_is_told_with_its_line(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    servers, topic, answered = broker.bootstrap_servers, create_topic("words"), Event()
    produce(servers, topic, [(b"a", b"first")])

    class WaitsForAnAnswer(Processor[str, str, None, None]):
        def process(self, record: Record[str, str]) -> None:
            answered.wait()

    builder = StreamsBuilder()
    words = Stores.key_value_store_builder(
        Stores.in_memory_key_value_store("words"), serdes.STRING, serdes.STRING
    )
    builder.add_global_store(
        words, topic, WaitsForAnAnswer, key_serde=serdes.STRING, value_serde=serdes.STRING
    )
    config = {
        "application.id": unique_name,
        "bootstrap.servers": servers,
        "state.dir": str(tmp_path),
    }
    with KafkaStreams(builder.build(), config) as streams:
        try:
            wait_until(lambda: streams.troubles, "told")
            [trouble] = streams.troubles
        finally:
            answered.set()
        wait_until(
            lambda: streams.state is State.RUNNING, "running", told=lambda: str(streams.error)
        )
        wait_until(lambda: not streams.troubles, "over")

    assert trouble.of.endswith("-GlobalStreamThread")
    assert f"it fills global stores from {topic}-0, offset 0" in trouble.text
    assert "answered.wait()" in trouble.stack
    [line, *_] = [
        each.getMessage() for each in caplog.records if "stands still" in each.getMessage()
    ]
    assert "answered.wait()" in line


def test_dead_letters_of_a_global_table_are_sent_in_the_batches_that_their_queues_take(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    """The second queue is met when the first has told how large a batch may be."""
    servers, topic = broker.bootstrap_servers, create_topic("people")
    queues = {
        queue: create_topic(queue, config={"max.message.bytes": limit})
        for queue, limit in (("first", "12000"), ("second", "4000"))
    }
    builder = StreamsBuilder()
    builder.global_table(topic, name="people", key_serde=serdes.STRING, value_serde=serdes.LONG)
    config: dict[str, Any] = {
        "application.id": unique_name,
        "bootstrap.servers": servers,
        "state.dir": str(tmp_path),
        "commit.interval.ms": 100,
        "deserialization.exception.handler": "continue",
        "errors.dead.letter.queue.topic.name": lambda context, _: queues[context.key.decode()],
    }
    bad = [(b"first", b"not a long" + b"x" * 500)] * 60
    produce(servers, topic, bad)
    with KafkaStreams(builder.build(), config) as streams:
        wait_until(
            lambda: streams.state is State.RUNNING, "running", told=lambda: str(streams.error)
        )
        produce(servers, topic, [(b"second", value) for _, value in bad])
        wait_until(
            lambda: streams.error or len(read_all(servers, queues["second"])) >= len(bad),
            "the letters",
        )
    assert len(read_all(servers, queues["first"])) == len(bad)
    assert len(read_all(servers, queues["second"])) >= len(bad)


class MeetsDamage(Processor[str, str, None, None]):
    """Meets a damaged file of the global store, as far as anybody can tell."""

    def process(self, record: Record[str, str]) -> None:
        raise StateStoreCorruptedError("people", f"a damaged file was met at {record.key}")


def test_store_in_which_a_task_meets_damage_is_read_anew_by_the_next_start(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    servers, topic = broker.bootstrap_servers, create_topic("people", partitions=3)
    orders = create_topic("orders", partitions=1)
    produce(servers, topic, PEOPLE)
    builder = StreamsBuilder()
    text: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
    builder.global_table(topic, name="people", **text)
    builder.stream(orders, **text).process(MeetsDamage)
    config = {
        "application.id": unique_name,
        "bootstrap.servers": servers,
        "state.dir": str(tmp_path),
        "processing.guarantee": "exactly_once_v2",
    }
    filled_with = []
    for _ in range(2):
        streams = KafkaStreams(builder.build(), config)
        with capture_logs() as logs:
            streams.start()
            produce(servers, orders, [(b"1", b"p1")])
            assert streams.wait(DEADLINE_S)
        assert isinstance(streams.error, StateStoreCorruptedError)
        filled_with += [line["records"] for line in logs if line["event"] == "global stores filled"]
    assert filled_with == [len(PEOPLE), len(PEOPLE)]
