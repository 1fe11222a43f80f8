"""A table that becomes a global table of its topic: what `check` says, and its cure followed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from pystreams.cli.commands.development.check import check
from tests.broker.application import Application, Running
from tests.broker.conftest import CreateTopic
from tests.broker.reading import delete_named, produce, read_all, topics_of

CODE = """
from pystreams import StreamsBuilder, serdes

text = {{"key_serde": serdes.STRING, "value_serde": serdes.STRING}}
builder = StreamsBuilder()
orders = builder.stream("{orders}", **text)
people = builder.{kind}("{people}", **text, name="people")
orders.left_join(people, {by}lambda order, person: f"{{order}} {{person}}").to("{output}", **text)
"""


@dataclass
class Scene:
    """An application that looks people up, in a table of its tasks or in a global one."""

    application: Application
    file: Path
    servers: str
    topics: dict[str, str]

    def write(self, kind: str) -> Path:
        by = "lambda key, order: key, " if kind == "global_table" else ""
        file = self.file.with_name(f"{kind}.py")
        file.write_text(CODE.format(kind=kind, by=by, **self.topics))
        shutil.copy(file, self.file)
        return file

    def order(self, running: Running, order: str) -> str:
        """Return what comes of an order of ann's."""

        def found() -> list[str]:
            messages = read_all(self.servers, self.topics["output"])
            values = [(message.value() or b"").decode() for message in messages]
            return [value for value in values if value.startswith(f"{order} ")]

        produce(self.servers, self.topics["orders"], [(b"ann", order.encode())])
        running.wait_until(found, "an answer")
        return found()[0]


@pytest.fixture
def scene(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> Iterator[Scene]:
    topics = {stem: create_topic(stem) for stem in ("people", "orders", "output")}
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 100,
    }
    file = tmp_path / "lookups.py"
    with Application(unique_name, tmp_path, file, settings) as application:
        yield Scene(application, file, broker.bootstrap_servers, topics)


def test_a_table_that_becomes_global_is_whole_and_what_it_left_can_be_deleted(
    scene: Scene, admin: AdminClient
) -> None:
    old = scene.write("table")
    produce(scene.servers, scene.topics["people"], [(b"ann", b"Ann")])
    with scene.application.running() as running:
        running.wait_for_tasks(1)
        scene.order(running, "first")
        running.stop()
    new = scene.write("global_table")

    checked = CliRunner().invoke(check, [str(old), str(new)])

    assert checked.exit_code == 0
    assert "Its old changelog topic, and its directory below each task's" in checked.stdout
    with scene.application.running() as running:
        assert scene.order(running, "second") == "second Ann"
        assert not running.lines("the topology has changed")
        running.stop()
    changelog = f"{scene.application.id}-people-changelog"
    left = scene.application.state_directory / "0_0" / "rocksdb" / "people"
    assert changelog in topics_of(admin)
    assert left.is_dir()
    delete_named(admin, changelog)
    shutil.rmtree(left)
    with scene.application.running() as running:
        assert scene.order(running, "third") == "third Ann"
        assert changelog not in topics_of(admin)
        assert not left.is_dir()
        running.stop()
