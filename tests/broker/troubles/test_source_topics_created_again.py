"""A source topic that is deleted and created again, under an application with state of the former.

What the message offers is followed to the letter: `pystreams reset`, and the configuration key.
"""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import NewTopic

from tests.broker.application import Application, Running
from tests.broker.reading import LastNumbers, answer_of, delete_named, produce, read_all, reader_of
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.variants import first_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from confluent_kafka.admin import AdminClient

    from pystreams.broker import DevelopmentBroker
    from tests.broker.conftest import CreateTopic

CODE = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
source = builder.stream("{topic}", key_serde=serdes.STRING, value_serde=serdes.STRING)
grouped = source.{grouped}
grouped.count(name="counts").to_stream().to("{output}", value_serde=serdes.LONG)
"""
GROUPED = {
    "direct": "group_by_key()",
    "repartitioned": "group_by(lambda key, _: key, name='again', "
    "key_serde=serdes.STRING, value_serde=serdes.STRING)",
}
PASSING = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
source = builder.stream("{topic}", key_serde=serdes.STRING, value_serde=serdes.STRING)
source.to("{output}", key_serde=serdes.STRING, value_serde=serdes.STRING)
"""
PARTITIONS = 2
KEYS = [b"a", b"b", b"c"]


@dataclass(frozen=True)
class Scene:
    """A counting application, its topics, and who looks at them."""

    application: Application
    admin: AdminClient
    servers: str
    topic: str
    output: str
    file: Path

    def feed(self, each: int, value: bytes = b"x") -> None:
        """Write so many records of each key."""
        produce(self.servers, self.topic, [(key, value) for key in KEYS for _ in range(each)])

    def topic_id(self) -> str:
        described = self.admin.describe_topics(TopicCollection([self.topic]))
        return str(described[self.topic].result(DEADLINE_S).topic_id)

    def create_again(self) -> None:
        former = answer_of(self.topic_id)
        delete_named(self.admin, self.topic)

        def created() -> bool:
            new = NewTopic(self.topic, PARTITIONS)
            # Fails while the former is still being deleted, and when the new one is there.
            with suppress(KafkaException):
                self.admin.create_topics([new])[self.topic].result(DEADLINE_S)
            try:
                return self.topic_id() != former
            except KafkaException:
                return False

        wait_until(created, "the topic's creation")

    def count_up_to(self, each: int, **settings: object) -> None:
        """Run until every key has this count, see that it stays so, and stop."""
        with reader_of(self.servers) as consumer:
            followed = LastNumbers(consumer, [self.output])
            running = self.application.start(**settings)
            wanted = dict.fromkeys(KEYS, each)
            running.wait_until(lambda: followed.read()[self.output] == wanted, f"{each} of each")
            running.stop()
            assert followed.read()[self.output] == wanted

    def refusal(self) -> str:
        return why_ended(self.application.start())

    def reset(self, *options: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "pystreams", "reset", str(self.file), *options]
        settings = {
            "application.id": self.application.id,
            "bootstrap.servers": self.servers,
            "state.dir": self.application.directory / "state",
        }
        for key, value in settings.items():
            words += ["-c", f"{key}={value}"]
        return subprocess.run(words, capture_output=True, text=True, check=False)


def why_ended(running: Running) -> str:
    """Wait until a process ends by an error; return what it said."""
    assert running.ended() == 1, running.tail()
    return str(running.lines("stopped by an error")[-1]["error"])


each_grouping = pytest.mark.parametrize("scene", first_of(*GROUPED), indirect=True)


@pytest.fixture
def scene(
    request: pytest.FixtureRequest,
    broker: DevelopmentBroker,
    admin: AdminClient,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
) -> Iterator[Scene]:
    topic = create_topic("again", partitions=PARTITIONS)
    output = create_topic("again-out", partitions=PARTITIONS)
    file = tmp_path / "counts.py"
    file.write_text(CODE.format(topic=topic, output=output, grouped=GROUPED[request.param]))
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "commit.interval.ms": 100,
        "group.protocol": "consumer",  # A stop leaves the group at once.
    }
    with Application(unique_name, tmp_path, file, settings) as application:
        yield Scene(application, admin, broker.bootstrap_servers, topic, output, file)


@each_grouping
def test_it_is_refused_and_after_a_reset_counts_the_new_topic_alone(scene: Scene) -> None:
    scene.feed(3)
    scene.count_up_to(3)
    scene.create_again()
    scene.feed(2)

    told = scene.refusal()
    assert "was deleted and created again" in told
    assert scene.topic_id() in told
    assert "pystreams reset" in told
    shown = scene.reset()
    assert shown.returncode == 0, shown.stderr
    assert f"{scene.application.id}-counts-changelog" in shown.stdout
    assert scene.refusal() == told, "nothing was changed"

    done = scene.reset("--execute")
    assert done.returncode == 0, done.stderr
    scene.count_up_to(2)
    scene.feed(1)
    scene.count_up_to(3)


@each_grouping
def test_who_goes_on_adds_the_new_topic_to_the_state(scene: Scene) -> None:
    scene.feed(3)
    scene.count_up_to(3)
    scene.create_again()
    scene.feed(2)

    found = re.search(r"set (accepted\.source\.topic\.ids)=(\S+)", scene.refusal())
    assert found is not None
    assert found[2] == f"{scene.topic}:{scene.topic_id()}"
    scene.count_up_to(5, **{found[1]: found[2]})
    scene.feed(1)
    scene.count_up_to(6)


@each_grouping
def test_a_topic_created_again_under_a_running_application_stops_it(scene: Scene) -> None:
    scene.feed(3)
    with scene.application.running(metadata_max_age_ms=300) as running:
        with reader_of(scene.servers) as consumer:
            followed = LastNumbers(consumer, [scene.output])
            wanted = dict.fromkeys(KEYS, 3)
            running.wait_until(lambda: followed.read()[scene.output] == wanted, "3 of each")
        scene.create_again()

        told = why_ended(running)
    # Seen while it was gone, by its new id, or as the group forgot the offsets of the former.
    assert "does not exist on the broker" in told or "was deleted and created again" in told


@each_grouping
def test_a_group_with_a_static_member_is_not_reset_and_its_member_is_named(scene: Scene) -> None:
    for count in (1, 2):  # A process keeps its membership once its state directory has survived.
        scene.feed(1)
        scene.count_up_to(count, group_protocol="classic")

    refused = scene.reset("--execute")
    assert refused.returncode == 1
    assert "static member stays" in refused.stderr
    assert f"{scene.application.id}-" in refused.stderr
    scene.feed(1)
    scene.count_up_to(3, group_protocol="classic")


@each_grouping
def test_offsets_are_set_where_input_is_to_be_read_from(scene: Scene) -> None:
    scene.feed(3)
    scene.count_up_to(3)

    done = scene.reset("--to-latest", "--execute")
    assert done.returncode == 0, done.stderr
    scene.feed(2)
    scene.count_up_to(2)


@pytest.mark.parametrize("scene", ["direct"], indirect=True)
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "at_least_once"))
def test_a_shorter_topic_under_a_running_application_without_state_is_read_once(
    scene: Scene, guarantee: str, protocol: str
) -> None:
    """The application looks at ids every five minutes only; the start that it asks for follows."""
    scene.file.write_text(PASSING.format(topic=scene.topic, output=scene.output))
    settings = {"processing_guarantee": guarantee, "group_protocol": protocol}

    def written(value: bytes) -> dict[bytes, int]:
        values = [
            msg.key() for msg in read_all(scene.servers, scene.output) if msg.value() == value
        ]
        return {key: values.count(key) for key in KEYS}

    def all_of(value: bytes, each: int) -> bool:
        return written(value) == dict.fromkeys(KEYS, each)

    scene.feed(9)
    with scene.application.running(**settings) as running:
        running.wait_until(lambda: all_of(b"x", 9), "9 of each")
        scene.create_again()
        scene.feed(1, b"first")
        told = why_ended(running)
    assert "created again" in told
    scene.feed(1, b"second")

    again = scene.application.start(**settings)
    again.wait_until(lambda: all_of(b"first", 1) and all_of(b"second", 1), "both of each")
    again.stop()
    assert all_of(b"first", 1)
    assert all_of(b"second", 1)
    assert all_of(b"x", 9)


@pytest.mark.parametrize("scene", ["direct"], indirect=True)
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "at_least_once"))
def test_a_shorter_topic_under_a_running_application_with_state_counts_as_is_chosen(
    scene: Scene, guarantee: str, protocol: str
) -> None:
    settings = {"processing_guarantee": guarantee, "group_protocol": protocol}
    scene.feed(9)
    with scene.application.running(**settings) as running:
        with reader_of(scene.servers) as consumer:
            followed = LastNumbers(consumer, [scene.output])
            wanted = dict.fromkeys(KEYS, 9)
            running.wait_until(lambda: followed.read()[scene.output] == wanted, "9 of each")
        scene.create_again()
        scene.feed(1)
        told = why_ended(running)
    assert "created again" in told

    found = re.search(r"set (accepted\.source\.topic\.ids)=(\S+)", scene.refusal())
    assert found is not None
    scene.count_up_to(10, **settings, **{found[1]: found[2]})
    scene.feed(1)
    scene.count_up_to(11, **settings)
