"""A state directory that is full, read-only, in the way, or held by another process."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.programs import write_counts
from tests.broker.reading import LastNumbers, produce, read_all, reader_of, values_by_key
from tests.broker.waiting import wait_until

EOS = {"processing.guarantee": "exactly_once", "statestore.cache.max.bytes": 0}
KEYS = 2000
KEY_BYTES = 600
FILE_LIMIT_BYTES = 200_000
ROUNDS_MAX = 20
"""Some rounds of a megabyte fill a memtable of four, and its flush finds no room."""


@contextmanager
def file_size_limit(limit_bytes: int) -> Iterator[None]:
    """Let processes started within the block write no file above a size: a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_full_disk_is_told_with_a_cure_and_nothing_is_lost(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    """Fed a round at a time, so that each is a commit of its own, until the disk is full."""
    servers = broker.bootstrap_servers
    source, output = create_topic(), create_topic()
    file = write_counts(tmp_path, source, output)
    records = [(f"{key:<{KEY_BYTES}}".encode(), bytes(8)) for key in range(KEYS)]
    settings = {"bootstrap.servers": servers, **EOS}
    rounds = 0
    with (
        Application(unique_name, tmp_path, file, settings) as application,
        reader_of(servers) as consumer,
    ):
        followed = LastNumbers(consumer, [output])

        def counted() -> bool:
            return sum(followed.read()[output].values()) >= KEYS * rounds

        with file_size_limit(FILE_LIMIT_BYTES):
            full = application.start()
        while full.alive() and rounds < ROUNDS_MAX:
            produce(servers, source, records)
            rounds += 1
            wait_until(lambda: counted() or not full.alive(), "the round's counts", told=full.tail)
        assert full.ended() == 1, full.tail()
        error = full.lines("stopped by an error")[0]
        assert "'counts'" in error["error"]
        assert "the disk is full; free space" in error["error"]

        roomy = application.start()
        roomy.wait_until(counted, "all counted")
        roomy.stop()

    values = values_by_key(read_all(servers, output))
    assert len(values) == KEYS
    assert set(map(tuple, values.values())) == {tuple(range(1, rounds + 1))}


def test_file_in_the_place_of_the_state_directory_is_told_with_a_cure(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    file = write_counts(tmp_path, create_topic(), create_topic())
    (tmp_path / "state").write_text("in the way")
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with Application(unique_name, tmp_path, file, settings) as application:
        running = application.start()
        assert running.ended() == 1, running.tail()

    told = running.lines("stopped by an error")[0]
    assert told["kind"] == "StateDirectoryError"
    assert str(tmp_path / "state") in told["error"]
    assert "set another state.dir" in told["error"]


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """Make a directory read-only for everybody, the superuser included."""
    directory.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        directory.chmod(0o500)
        try:
            yield
        finally:
            directory.chmod(0o700)
        return
    mounts = [
        ["mount", "--bind", str(directory), str(directory)],
        ["mount", "-o", "remount,ro,bind", str(directory)],
    ]
    for mount in mounts:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            subprocess.run(["umount", str(directory)], capture_output=True, check=False)
            pytest.skip(f"the superuser may write anywhere, and can't mount: {done.stderr}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def test_read_only_state_directory_is_told_with_a_cure(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    file = write_counts(tmp_path, create_topic(), create_topic())
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with (
        Application(unique_name, tmp_path, file, settings) as application,
        read_only(tmp_path / "state"),
    ):
        running = application.start()
        assert running.ended() == 1, running.tail()

    told = running.lines("stopped by an error")[0]
    assert told["kind"] == "StateDirectoryError"
    assert str(tmp_path / "state") in told["error"]
    assert "set another state.dir" in told["error"]


def test_second_process_waits_for_a_task_directory_and_takes_over_when_the_first_is_gone(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    """The first is frozen: the group gives its task away, but it still holds the directory."""
    servers = broker.bootstrap_servers
    source, output = create_topic(), create_topic()
    file = write_counts(tmp_path, source, output)
    settings = {"bootstrap.servers": servers, "consumer.session.timeout.ms": 2000, **EOS}
    records = [(b"k", bytes(8))] * 100
    produce(servers, source, records)
    with Application(unique_name, tmp_path, file, settings) as application:
        first = application.start()
        first.wait_until(lambda: len(read_all(servers, output)) == 100, "first 100")
        os.kill(first.process.pid, signal.SIGSTOP)
        second = application.start()
        waiting = second.wait_for("task waits for its directory", task="0_0")[0]
        assert str(tmp_path / "state" / unique_name / "0_0") in waiting["why"]
        assert "locked by another process" in waiting["why"]
        produce(servers, source, records)
        first.kill()
        second.wait_until(lambda: len(read_all(servers, output)) >= 200, "all 200")
        second.stop()

    assert values_by_key(read_all(servers, output)) == {b"k": list(range(1, 201))}


@pytest.mark.parametrize(
    "guarantee",
    ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.sweep)],
)
def test_of_two_processes_with_one_identity_one_ends_and_says_why(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    """The second has a copy of the first one's state directory: they would fence each other."""
    servers = broker.bootstrap_servers
    source, output = create_topic(), create_topic()
    file = write_counts(tmp_path, source, output)
    settings = {
        "bootstrap.servers": servers,
        "commit.interval.ms": 100,
        "consumer.heartbeat.interval.ms": 200,
        "processing.guarantee": guarantee,
    }
    copy = tmp_path / "copy"

    def counted() -> int:
        return max(values_by_key(read_all(servers, output)).get(b"k", [0]))

    with Application(unique_name, tmp_path, file, settings) as application:
        both = [application.start()]
        produce(servers, source, [(b"k", bytes(8))] * 100)
        both[0].wait_until(lambda: counted() == 100, "the first 100")
        shutil.copytree(
            application.state_directory,
            copy / application.id,
            # What is in the directories of tasks comes and goes while it is copied.
            ignore=shutil.ignore_patterns("LOCK", ".lock", "0_*"),
        )
        both.append(application.start(state_dir=copy))
        wait_until(lambda: not all(process.alive() for process in both), "the end of one")
        (ended,) = [process for process in both if not process.alive()]
        (other,) = [process for process in both if process is not ended]
        assert ended.ended() == 1, ended.tail()
        produce(servers, source, [(b"k", bytes(8))] * 100)
        other.wait_until(lambda: counted() >= 200, "all 200")
        other.stop()

    error = ended.lines("stopped by an error")[0]["error"]
    assert "another process has the identity of this one" in error


@pytest.mark.parametrize(
    "guarantee", ["exactly_once_v2", pytest.param("exactly_once", marks=pytest.mark.sweep)]
)
def test_frozen_process_that_wakes_after_its_task_moved_adds_nothing(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    """A zombie with an open transaction is fenced; it joins again and goes on working."""
    servers = broker.bootstrap_servers
    source, output = create_topic(partitions=2), create_topic()
    file = write_counts(tmp_path, source, output)
    settings = {
        "bootstrap.servers": servers,
        "consumer.session.timeout.ms": 2000,
        "commit.interval.ms": 100,
        **EOS,
        "processing.guarantee": guarantee,
    }
    keys = [f"{key}".encode() for key in range(10)]
    rounds = 300

    def feed(count: int) -> None:
        produce(servers, source, [(key, bytes(8)) for key in keys] * count)

    with (
        Application(unique_name, tmp_path, file, settings) as application,
        reader_of(servers) as consumer,
    ):
        followed = LastNumbers(consumer, [output])

        def counted() -> int:
            return sum(followed.read()[output].values())

        zombie = application.start()
        feed(rounds)
        zombie.wait_until(lambda: counted() > 0, "first counts")
        os.kill(zombie.process.pid, signal.SIGSTOP)
        heir = application.start(state_dir=tmp_path / "elsewhere")
        feed(rounds)
        heir.wait_until(lambda: counted() == 2 * rounds * len(keys), "heir's")
        os.kill(zombie.process.pid, signal.SIGCONT)
        zombie.wait_for("joining the group again", "partitions lost")
        feed(rounds)
        zombie.wait_until(lambda: counted() == 3 * rounds * len(keys), "all")
        zombie.stop()
        heir.stop()

    counts = values_by_key(read_all(servers, output))
    assert counts == {key: list(range(1, 3 * rounds + 1)) for key in keys}
