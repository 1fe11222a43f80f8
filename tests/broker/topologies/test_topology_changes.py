"""A topology is changed between two runs, or differs between two processes of one application."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application, LogLine, Running
from tests.broker.conftest import CreateTopic
from tests.broker.reading import produce, read_all
from tests.variants import first_of

each_protocol = pytest.mark.parametrize("protocol", first_of("classic", "consumer"))

CODE = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
stream = builder.stream({sources}, key_serde=serdes.STRING, value_serde=serdes.STRING)
{step}
grouped = stream.group_by(
    lambda key, value: value, key_serde=serdes.STRING, value_serde=serdes.STRING
)
counts = grouped.count({name})
counts.to_stream().to("{output}", key_serde=serdes.STRING, value_serde=serdes.LONG)
"""

EDITS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the store of a count renamed": ({"name": '"counts"'}, {"name": '"totals"'}),
    "a source topic added": ({"name": '"counts"'}, {"name": '"counts"', "added": True}),
    "an operator inserted before an unnamed count": (
        {},
        {"step": "stream = stream.filter(lambda key, value: True)"},
    ),
}


class Edited:
    """One application whose code changes between its runs."""

    def __init__(self, directory: Path, source: str, added: str, output: str) -> None:
        self.file = directory / "edited.py"
        self._source, self._added, self._output = source, added, output

    def write(self, *, name: str = "", step: str = "", added: bool = False) -> Path:
        sources = [self._source, self._added] if added else [self._source]
        self.file.write_text(
            CODE.format(
                sources=repr(sources),
                step=step,
                name=name and f"name={name}",
                output=self._output,
            )
        )
        return self.file


def seconds_between(first: LogLine, last: LogLine) -> float:
    times = [datetime.fromisoformat(line["timestamp"]) for line in (first, last)]
    return (times[1] - times[0]).total_seconds()


@pytest.mark.parametrize(
    ("edit", "protocol"),
    first_of(
        ("a source topic added", "consumer"),
        ("an operator inserted before an unnamed count", "classic"),
        ("the store of a count renamed", "classic"),
        ("the store of a count renamed", "consumer"),
        ("a source topic added", "classic"),
        ("an operator inserted before an unnamed count", "consumer"),
    ),
)
def test_an_edited_topology_that_is_restarted_at_once_processes_at_once(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    edit: str,
    protocol: str,
) -> None:
    """The edit comes after two runs: the second one has found its identity, and stays a member."""
    servers = broker.bootstrap_servers
    source, added, output = (create_topic(partitions=2) for _ in range(3))
    edited = Edited(tmp_path, source, added, output)
    before, after = EDITS[edit]
    settings = {
        "bootstrap.servers": servers,
        "group.protocol": protocol,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 100,
    }

    def counted(records: int, running: Running) -> None:
        running.wait_until(lambda: len(read_all(servers, output)) >= records, "a new count")

    with Application(unique_name, tmp_path, edited.write(**before), settings) as application:
        for run in (1, 2):
            produce(servers, source, [(b"key", f"value{run}".encode())])
            running = application.start()
            counted(run, running)
            running.stop()
        edited.write(**after)
        produce(servers, source, [(b"key", b"new")])
        if after.get("added"):
            produce(servers, added, [(b"key", b"of the added topic")])
        running = application.start()
        counted(4 if after.get("added") else 3, running)
        start, *_ = running.lines("starting")
        last = running.lines("task running")[-1]
        print(f"{edit}, {protocol}: tasks run {seconds_between(start, last):.1f} s after the start")
        running.stop()


@each_protocol
def test_another_topology_under_the_same_application_id_stands_by_and_takes_over(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    protocol: str,
) -> None:
    """What a rolling deploy of another topology is like, and what a mistaken id is like."""
    servers = broker.bootstrap_servers
    source, other, output = (create_topic(partitions=2) for _ in range(3))
    settings = {
        "bootstrap.servers": servers,
        "group.protocol": protocol,
        "processing.guarantee": "exactly_once",
        "commit.interval.ms": 100,
    }
    places = [tmp_path / "old", tmp_path / "new"]
    for place in places:
        place.mkdir()
    old_file = Edited(places[0], source, other, output).write(name='"counts"')
    new_file = Edited(places[1], other, other, output).write(name='"others"')
    with (
        Application(unique_name, places[0], old_file, settings) as old,
        Application(unique_name, places[1], new_file, settings) as new,
    ):
        first = old.start()
        first.wait_for_tasks(4)
        second = new.start()
        [told] = second.wait_for("standing by: another topology runs")
        assert any(source in member and "127.0.0.1" in member for member in told["members"])
        assert "application.id" in told["cure"]
        produce(servers, other, [(b"key", b"of the other")])
        produce(servers, source, [(b"key", b"one"), (b"key", b"two")])
        first.wait_until(lambda: len(read_all(servers, output)) == 2, "counts of the first")
        assert not first.lines("joining the group again")
        assert not second.lines("task running")

        first.stop()
        second.wait_until(lambda: len(read_all(servers, output)) == 3, "the count of the second")
        second.stop()


def test_another_topology_that_does_not_go_ends_the_newcomer_with_its_name(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    source, other, output = (create_topic() for _ in range(3))
    settings = {"bootstrap.servers": servers, "commit.interval.ms": 100}
    places = [tmp_path / "old", tmp_path / "new"]
    for place in places:
        place.mkdir()
    old_file = Edited(places[0], source, other, output).write(name='"counts"')
    new_file = Edited(places[1], other, other, output).write(name='"others"')
    with (
        Application(unique_name, places[0], old_file, settings) as old,
        Application(unique_name, places[1], new_file, settings) as new,
    ):
        first = old.start()
        first.wait_for_tasks(2)
        second = new.start(task_timeout_ms=3000)
        assert second.ended() == 1
        [error] = second.lines("stopped by an error")
        assert f"another topology runs under application.id '{unique_name}'" in error["error"]
        assert source in error["error"]
        produce(servers, source, [(b"key", b"one")])
        first.wait_until(lambda: len(read_all(servers, output)) == 1, "the first goes on")
        first.stop()


def test_a_pod_that_was_killed_and_moves_is_told_for_whom_it_waits(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    source, output = create_topic(), create_topic()
    settings = {"bootstrap.servers": servers, "consumer.session.timeout.ms": "300000"}
    places = [tmp_path / "dead", tmp_path / "moved"]
    for place in places:
        place.mkdir()
    file = Edited(places[0], source, source, output).write(name='"counts"')
    with (
        Application(unique_name, places[0], file, settings) as dead,
        Application(unique_name, places[1], file, settings) as moved,
    ):
        killed = dead.start()
        killed.wait_for_tasks(2)
        killed.kill()
        running = moved.start()
        [told] = running.wait_for("waiting for other members of the group")

    assert any(source in member for member in told["members"])
    assert told["at_most_s"] == 300
    assert "session ends" in told["cure"]
    assert not running.lines("task running")


def test_a_pod_whose_directory_is_new_hands_over_at_its_stop(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    """The session of the first would last for five minutes."""
    servers = broker.bootstrap_servers
    source, output = create_topic(), create_topic()
    settings = {"bootstrap.servers": servers, "consumer.session.timeout.ms": "300000"}
    places = [tmp_path / "first", tmp_path / "second"]
    for place in places:
        place.mkdir()
    file = Edited(places[0], source, source, output).write(name='"counts"')
    with (
        Application(unique_name, places[0], file, settings) as first,
        Application(unique_name, places[1], file, settings) as second,
    ):
        stopped = first.start()
        stopped.wait_for_tasks(2)
        stopped.stop()
        running = second.start()
        running.wait_for_tasks(2)
        running.stop()
