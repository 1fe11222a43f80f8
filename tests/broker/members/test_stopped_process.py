"""A process that stands still for longer than its session, and goes on beside the new owner."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.reading import committed_offsets, long, produce, read_all
from tests.broker.waiting import wait_until
from tests.variants import first_of

CODE = """
import os, time
from pathlib import Path
from pystreams import StreamsBuilder, serdes

held = Path({held!r})

def maybe_wait(value):
    if value.startswith("seen"):
        held.with_name(value).touch()
    if value == "wait" and "WAITS" in os.environ:
        held.touch()
        while held.exists():
            time.sleep(0.01)
    return value

builder = StreamsBuilder()
source = builder.stream("{source}", key_serde=serdes.STRING, value_serde=serdes.STRING)
source.map_values(maybe_wait).group_by_key(
    key_serde=serdes.STRING, value_serde=serdes.STRING
).count(name="counts")
"""
NOTICED = (
    "another process has written to the changelog of a task that runs here, after it stood still"
)
BEFORE, AFTER = 10, 63


@pytest.mark.parametrize("protocol", first_of("classic", "consumer"))
def test_a_process_that_was_stopped_past_its_session_logs_no_old_counts(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    protocol: str,
) -> None:
    """It is stopped in the middle of a record: what it has counted waits to be logged."""
    source, held, file = create_topic(), tmp_path / "held", tmp_path / "counts.py"
    file.write_text(CODE.format(held=str(held), source=source))
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "processing.guarantee": "at_least_once",
        "group.protocol": protocol,
        "commit.interval.ms": 200,
        "statestore.cache.max.bytes": 0,
        **({"consumer.session.timeout.ms": 6000} if protocol == "classic" else {}),
    }
    stopped_one, other_one = (
        Application(unique_name, tmp_path / name, file, settings, environment)
        for name, environment in (("stopped", {"WAITS": "1"}), ("other", {}))
    )
    for application in (stopped_one, other_one):
        application.directory.mkdir()
    with stopped_one, other_one:
        stopped = stopped_one.start()
        stopped.wait_for("task running")
        produce(broker.bootstrap_servers, source, [(b"k", b"v")] * BEFORE)
        admin, first = AdminClient({"bootstrap.servers": broker.bootstrap_servers}), (source, 0)
        wait_until(
            lambda: committed_offsets(admin, unique_name).get(first) == BEFORE,
            "the first counts, committed: else the other would count them again",
        )
        assert logged(broker, unique_name) == BEFORE
        produce(broker.bootstrap_servers, source, [(b"k", b"wait")])
        stopped.wait_until(held.exists, "the record it waits at")
        os.killpg(stopped.process.pid, signal.SIGSTOP)
        other = other_one.start()
        produce(broker.bootstrap_servers, source, [(b"k", b"v")] * AFTER)
        everything = BEFORE + 1 + AFTER
        other.wait_until(lambda: logged(broker, unique_name) == everything, "the other's counts")
        held.unlink()
        os.killpg(stopped.process.pid, signal.SIGCONT)
        stopped.wait_for("joining the group again", "partitions lost")
        other.stop()
        stopped.stop()

    assert logged(broker, unique_name) == everything


def test_records_that_wait_in_the_client_of_a_stopped_process_are_not_sent_past_its_session(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    """Behind the new owner's they would be the newest, and the next restore would take them."""
    source, file = create_topic(), tmp_path / "counts.py"
    file.write_text(CODE.format(held=str(tmp_path / "held"), source=source))
    servers = broker.bootstrap_servers
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": "at_least_once",
        "consumer.session.timeout.ms": 15_000,
        "statestore.cache.max.bytes": 0,
    }
    waits = {"commit.interval.ms": 300_000, "producer.linger.ms": 12_000}
    stopped_one, other_one, next_one = (
        Application(unique_name, tmp_path / name, file, settings | own)
        for name, own in (
            ("stopped", waits),
            ("other", {"commit.interval.ms": 200}),
            ("next", {"commit.interval.ms": 200}),
        )
    )
    for application in (stopped_one, other_one, next_one):
        application.directory.mkdir()
    admin, partition = AdminClient({"bootstrap.servers": servers}), (source, 0)

    with stopped_one, other_one, next_one:
        stopped = stopped_one.start()
        stopped.wait_for("task running")
        seen = ["seen-first", "seen-second"]
        for name in seen:  # The first is handed to the client before the second is read.
            produce(servers, source, [(b"k", b"v")] * BEFORE + [(b"k", name.encode())])
            stopped.wait_until((tmp_path / name).exists, "the records, counted")
        os.killpg(stopped.process.pid, signal.SIGSTOP)
        assert logged(broker, unique_name) == 0
        other = other_one.start()
        produce(servers, source, [(b"k", b"v")] * AFTER)
        everything = 2 * (BEFORE + 1) + AFTER
        other.wait_until(lambda: logged(broker, unique_name) == everything, "the other's counts")
        os.killpg(stopped.process.pid, signal.SIGCONT)
        stopped.wait_for("joining the group again", "partitions lost")
        stopped.kill()
        other.wait_until(
            lambda: committed_offsets(admin, unique_name).get(partition) == everything,
            "all of it, committed",
        )
        other.kill()

        after = next_one.start()
        produce(servers, source, [(b"k", b"v")])
        after.wait_until(
            lambda: committed_offsets(admin, unique_name).get(partition) == everything + 1,
            "one more, counted on what was restored",
        )
        after.stop()

    assert logged(broker, unique_name) >= everything + 1


def test_old_counts_that_come_late_all_the_same_are_undone_by_the_new_owner(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    """As from a connection that had begun to take them, or a network that delivers them late."""
    source, file, servers = create_topic(), tmp_path / "counts.py", broker.bootstrap_servers
    file.write_text(CODE.format(held=str(tmp_path / "held"), source=source))
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": "at_least_once",
        "commit.interval.ms": 200,
        "statestore.cache.max.bytes": 0,
    }
    owner, next_one = (
        Application(unique_name, tmp_path / name, file, settings) for name in ("owner", "next")
    )
    for application in (owner, next_one):
        application.directory.mkdir()
    admin, partition = AdminClient({"bootstrap.servers": servers}), (source, 0)

    def committed(count: int) -> bool:
        return committed_offsets(admin, unique_name).get(partition) == count

    with owner, next_one:
        running = owner.start()
        running.wait_for("task running")
        produce(servers, source, [(b"k", b"v")] * BEFORE)
        running.wait_until(lambda: committed(BEFORE), "the counts, committed")
        old = [(b"k", (1 + number).to_bytes(8, "big")) for number in range(3)]
        produce(servers, f"{unique_name}-counts-changelog", old)
        produce(servers, source, [(b"other", b"v")])
        running.wait_until(lambda: committed(BEFORE + 1), "another key's count, committed")
        (noticed,) = running.wait_for(NOTICED)
        produce(servers, source, [(b"other", b"v")])
        running.wait_until(lambda: committed(BEFORE + 2), "what comes behind")
        running.kill()
        after = next_one.start()
        produce(servers, source, [(b"k", b"v")])
        after.wait_until(lambda: committed(BEFORE + 3), "one more, counted on what was restored")
        after.stop()

    assert noticed["records"] == len(old)
    assert noticed["task"] == "0_0"
    assert len(running.lines(NOTICED)) == 1
    assert not after.lines(NOTICED)
    assert logged(broker, unique_name) == BEFORE + 1


def logged(broker: DevelopmentBroker, application_id: str) -> int:
    """Return the last count in the changelog."""
    topic = f"{application_id}-counts-changelog"
    found = read_all(broker.bootstrap_servers, topic)
    return long(found[-1].value()) if found else 0
