"""The list of permissions in docs/security.md: an application needs all of them, and no other."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pystreams.runtime.core.failures.dead_letters import (
    HEADER_EXCEPTION,
    HEADER_OFFSET,
    HEADER_PARTITION,
    HEADER_TOPIC,
)
from tests import names
from tests.broker.application import Application, Running
from tests.broker.reading import produce, read_all, topics_of
from tests.broker.security.secured_broker import Permission, SecuredBroker
from tests.broker.security.test_every_client import COMMAND_LIMIT_S, TOPOLOGY
from tests.broker.waiting import DEADLINE_S
from tests.variants import first_of

pytestmark = pytest.mark.broker

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
PASSWORD = "not-to-be-told"
NO_TEXT = b"\xff"
"""A value that can't be read: its record goes to the dead letter queue."""
AT_ONCE = 2


def listed() -> list[tuple[str, str, str]]:
    """Return the rows of the page: operation, resource, name."""
    text = PAGE.read_text("utf-8").partition("| operation | resource | name |")[2]
    rows = re.findall(r"^\| `(\w+)` \| ([a-z ]+) \| (.+) \|$", text, re.MULTILINE)
    assert len(rows) == 8
    return rows


def permissions(row: tuple[str, str, str], application: str) -> list[Permission]:
    """Return what a row of the page is for an application."""
    operation, resource, name = row
    resource = resource.upper().replace(" ", "_")
    if name.startswith("each"):
        topics = {"READ": ("names", "in"), "WRITE": ("out", "dead")}[operation]
        return [Permission(operation, resource, f"{application}.{topic}") for topic in topics]
    prefixed = name.startswith("prefix ")
    own = re.sub(r"^(?:prefix )?`orders(-?)`$", rf"{application}\1", name)
    return [Permission(operation, resource, own, prefixed)]


def login_of(secured: SecuredBroker, user: str) -> dict[str, str]:
    """Return with what a client reaches the broker as that user."""
    return {
        "bootstrap.servers": secured.sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }


@contextmanager
def started(
    secured: SecuredBroker, directory: Path, left_out: Permission | None, guarantee: str
) -> Iterator[tuple[Running, str]]:
    """Run an application whose user has all permissions but one; yields it and its name."""
    name = directory.name
    user = f"user-of-{name}"
    secured.set_password(user, PASSWORD)
    own = [permission for row in listed() for permission in permissions(row, name)]
    secured.grant(user, [permission for permission in own if permission != left_out])
    for stem in ("names", "in", "out", "dead"):
        secured.create_topic(f"{name}.{stem}")
    produce(secured.plaintext, f"{name}.names", [(b"a", b"alice")])
    produce(secured.plaintext, f"{name}.in", [(b"a", b"1"), (b"a", NO_TEXT)])
    topology = directory / "orders.py"
    topology.write_text(TOPOLOGY.replace("{name}-", f"{name}."))
    settings = {
        **login_of(secured, user),
        "processing.guarantee": guarantee,
        "commit.interval.ms": 100,
        "repartition.purge.interval.ms": 100,
        "errors.dead.letter.queue.topic.name": f"{name}.dead",
        "deserialization.exception.handler": "continue",
    }
    with (
        Application(name, directory, topology, settings) as application,
        application.running() as running,
    ):
        yield running, name


@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "exactly_once", "at_least_once"))
def test_an_application_needs_no_more_than_is_listed(
    secured: SecuredBroker, tmp_path: Path, guarantee: str
) -> None:
    directory = tmp_path / names.unique_name(f"allowed-{guarantee}")
    directory.mkdir()
    with started(secured, directory, None, guarantee) as (running, name):
        running.wait_until(lambda: read_all(secured.plaintext, f"{name}.out"), "output")
        running.wait_until(lambda: read_all(secured.plaintext, f"{name}.dead"), "a dead letter")
        running.stop()
        # On a machine that stands still there may be other warnings.
        loud = [line for line in running.lines() if line.get("level") in {"warning", "error"}]
        told = [line for line in map(str, loud) if "uthoriz" in line or "grant " in line]
        assert not told
        internal = {"by-name-repartition", "counts-changelog"}
        assert internal <= {topic.removeprefix(f"{name}-") for topic in topics_of(secured.admin)}


PASSING_ON = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
stream = builder.stream("{name}.in", key_serde=serdes.STRING, value_serde=serdes.STRING)
stream.map_values(str.upper).to("{name}.out", value_serde=serdes.STRING)
"""


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_right_to_write_that_is_taken_away_for_a_time_costs_no_record(
    secured: SecuredBroker, tmp_path: Path, guarantee: str
) -> None:
    """Whatever the handler drops: Kafka Streams does not ask it either."""
    name = names.unique_name("revoked")
    user = f"user-of-{name}"
    secured.set_password(user, PASSWORD)
    secured.grant(user, [own for row in listed() for own in permissions(row, name)])
    write = Permission("WRITE", "TOPIC", f"{name}.out")
    for stem in ("names", "in", "out"):
        secured.create_topic(f"{name}.{stem}")
    topology = tmp_path / "passing_on.py"
    topology.write_text(PASSING_ON.format(name=name))
    settings = {
        **login_of(secured, user),
        "processing.guarantee": guarantee,
        "production.exception.handler": "continue",
        "commit.interval.ms": 100,
    }

    def outputs() -> set[bytes | None]:
        return {message.value() for message in read_all(secured.plaintext, f"{name}.out")}

    with Application(name, tmp_path, topology, settings) as application:
        with application.running() as running:
            produce(secured.plaintext, f"{name}.in", [(b"k", b"before")])
            running.wait_until(lambda: outputs() == {b"BEFORE"}, "output")
            secured.revoke(user, write)
            produce(secured.plaintext, f"{name}.in", [(b"k", b"meanwhile")])
            assert running.ended() == 1, running.tail()
            told = str(running.lines("stopped by an error")[-1]["error"])
        secured.grant(user, [write])
        with application.running() as running:
            running.wait_until(lambda: b"MEANWHILE" in outputs(), "what came meanwhile")
            running.stop()

    assert "grant WRITE on" in told
    assert "production.exception.handler" not in told


REDRIVE = [
    Permission("READ", "TOPIC", "{queue}"),
    Permission("WRITE", "TOPIC", "{queue}"),
    Permission("WRITE", "TOPIC", "{source}"),
    Permission("WRITE", "TRANSACTIONAL_ID", "pystreams-redrive-{queue}"),
]
"""The rows of the page for `dlq redrive`."""


def redrive(
    secured: SecuredBroker, left_out: Permission | None, directory: Path
) -> tuple[subprocess.CompletedProcess[str], str, str]:
    """Redrive a letter as a user who has these permissions but one; returns queue and source."""
    name = names.unique_name("redriven")
    user, queue, source = f"user-of-{name}", f"{name}.dead", f"{name}.in"
    secured.set_password(user, PASSWORD)
    for topic in (queue, source):
        secured.create_topic(topic)
    secured.grant(
        user,
        [
            replace(own, name=own.name.format(queue=queue, source=source))
            for own in REDRIVE
            if own != left_out
        ],
    )
    origin = [(HEADER_TOPIC, source), (HEADER_PARTITION, "0"), (HEADER_OFFSET, "0")]
    writer = Producer({"bootstrap.servers": secured.plaintext})
    headers: list[tuple[str, str | bytes | None]] = [(HEADER_EXCEPTION, "TimeoutError"), *origin]
    writer.produce(queue, b"late", b"k", headers=headers)
    assert writer.flush(DEADLINE_S) == 0
    file = directory / "redrive.properties"
    login = login_of(secured, user)
    file.write_text("".join(f"{key}={value}\n" for key, value in login.items()))
    words = ("dlq", "redrive", queue, "--config", str(file))
    done = subprocess.run(
        [sys.executable, "-m", "pystreams", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=COMMAND_LIMIT_S,
    )
    return done, queue, source


def test_a_redrive_needs_no_more_than_is_listed(secured: SecuredBroker, tmp_path: Path) -> None:
    done, _, source = redrive(secured, None, tmp_path)

    assert done.returncode == 0, done.stderr
    assert [message.value() for message in read_all(secured.plaintext, source)] == [b"late"]


@pytest.mark.parametrize("missing", REDRIVE, ids=lambda own: f"{own.operation} {own.name}")
def test_a_permission_that_a_redrive_misses_is_named(
    secured: SecuredBroker, tmp_path: Path, missing: Permission
) -> None:
    done, queue, source = redrive(secured, missing, tmp_path)

    told = done.stdout + done.stderr
    name = missing.name.format(queue=queue, source=source)
    assert name in told
    assert re.search(rf"\b{missing.operation}\b", told.rpartition("grant ")[2]), told
    assert done.returncode in {1, 2}, told
    assert not read_all(secured.plaintext, source)


LEFT_OUT = [(row, place) for row in listed() for place in range(len(permissions(row, "orders")))]


@pytest.fixture(scope="module")
def told(
    secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[int, Future[tuple[Permission, str]]]]:
    """What an application says without one of them; some side by side, as each waits a lot."""

    def run(number: int) -> tuple[Permission, str]:
        row, place = LEFT_OUT[number]
        directory = tmp_path_factory.mktemp(names.unique_name(f"refused{number}"), numbered=False)
        missing = permissions(row, directory.name)[place]
        with started(secured, directory, missing, "exactly_once_v2") as (running, _):
            if missing.operation == "DELETE":
                lines = running.wait_for("records were not purged")
                return missing, str(lines[0]["why"])
            assert running.ended() == 1, running.tail()
            return missing, str(running.lines("stopped by an error")[-1]["error"])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {number: pool.submit(run, number) for number in range(len(LEFT_OUT))}


@pytest.mark.parametrize("number", range(len(LEFT_OUT)))
def test_a_permission_that_is_missing_is_named(
    told: dict[int, Future[tuple[Permission, str]]], number: int
) -> None:
    missing, text = told[number].result()

    assert missing.name.rstrip("-") in text
    cure = text.rpartition("grant ")[2]
    assert re.search(rf"\b{missing.operation}\b", cure)
    assert missing.resource.lower().replace("_id", "").replace("_", " ") in cure
    assert PASSWORD not in text
