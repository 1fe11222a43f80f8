"""One application for all questions, and applications of a test's own."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams import KafkaStreams, StreamsBuilder, Topology
from pystreams.broker import DevelopmentBroker
from pystreams.client import client
from pystreams.http.server import HttpOptions, HttpServer
from pystreams.http.stores import owners
from pystreams.serdes import STRING
from tests import names
from tests.broker.reading import create_topics
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.broker.writing import writer_of
from tests.http.asking import Answer, ask
from tests.http.filing import filing

FIRST_MS = 1_000_000
PARTITIONS = 3

Serve = Callable[..., "Served"]


@dataclass(frozen=True)
class Served:
    """An application that is shown.

    Attributes:
        streams: The application.
        url: Where it is shown.
        topics: What it reads.
    """

    streams: KafkaStreams
    url: str
    topics: tuple[str, ...]

    def ask(self, path: str, **parameters: Any) -> Answer:
        return ask(self.url, path, **parameters)

    def wait_for_value(self, path: str, name: str, value: Any, **parameters: Any) -> Answer:
        """Return the answer in which a field has come to a value."""

        def come() -> bool:
            answer = self.ask(path, **parameters)
            return answer.status == 200 and answer.json()[name] == value

        wait_until(come, f"{path}: {value}", told=lambda: str(self.ask(path, **parameters)))
        return self.ask(path, **parameters)


@pytest.fixture(scope="module", autouse=True)
def who_is_asked_has_time() -> Iterator[None]:
    """Let a test see owners asked, however slow this machine is.

    A client gives an owner that it does not know a second, and then leaves it alone for minutes;
    here it has as long as the client gives any answer. A process gives the owner that it asks five
    seconds, and then answers that there is none; here it has as long as a test.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(client, "_GUESS_S", DEADLINE_S)
        patched.setattr(owners, "_TIMEOUT_S", DEADLINE_S)
        yield


class Topics:
    """Makes topics of one's own and writes to them."""

    def __init__(self, broker: DevelopmentBroker) -> None:
        self._servers = broker.bootstrap_servers

    def make(self, stem: str, partitions: int = PARTITIONS) -> str:
        name = names.unique_name(f"http-{stem}")
        admin = AdminClient({"bootstrap.servers": self._servers})
        create_topics(admin, [NewTopic(name, num_partitions=partitions)])
        return name

    def write(self, topic: str, records: Sequence[tuple[str | bytes, str, int]]) -> None:
        writer = writer_of(self._servers, topic, partitioner="murmur2_random")
        for key, value, time in records:
            writer.write(topic, value, key, timestamp=FIRST_MS + time)
        writer.flush()

    def write_to(self, topic: str, partition: int, records: list[tuple[str, str, int]]) -> None:
        writer = writer_of(self._servers, topic)
        for key, value, time in records:
            writer.write(topic, value, key, timestamp=FIRST_MS + time, partition=partition)
        writer.flush()


@pytest.fixture(scope="module")
def topics(broker: DevelopmentBroker) -> Topics:
    return Topics(broker)


@contextlib.contextmanager
def served(
    broker: DevelopmentBroker,
    topology: Topology,
    directory: Path,
    options: HttpOptions | None = None,
    **config: object,
) -> Iterator[Served]:
    """Run and show an application of a test's own."""
    settings = {
        "application.id": names.unique_name("http-app"),
        "bootstrap.servers": broker.bootstrap_servers,
        "state.dir": str(directory),
        "commit.interval.ms": 100,
        **{name.replace("_", "."): value for name, value in config.items()},
    }
    streams = KafkaStreams(topology, settings)
    with HttpServer(streams, options or HttpOptions(port=0)) as server:
        try:
            yield Served(streams, server.url, ())
        finally:
            streams.close(DEADLINE_S)


def certificate_of(directory: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1, and its key."""
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    made = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=IP:127.0.0.1 -out certificate.pem -keyout key.pem"
    )
    subprocess.run(made.split(), cwd=directory, check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def created(tmp_path: Path) -> KafkaStreams:
    """An application that was not started: it needs no broker to be shown."""
    builder = StreamsBuilder()
    builder.stream("in", key_serde=STRING, value_serde=STRING).group_by_key().count(name="counts")
    config = {
        "application.id": "shown",
        "bootstrap.servers": "127.0.0.1:1",
        "state.dir": str(tmp_path),
    }
    return KafkaStreams(builder.build(), config)


@pytest.fixture(scope="module")
def filed(
    broker: DevelopmentBroker, topics: Topics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """An application that has met some records, and has committed what came of them."""
    events, places = topics.make("events"), topics.make("places", 1)
    topics.write(events, [(key, f"v{time}", time) for time in (0, 3, 12, 40) for key in "abcde"])
    topics.write(places, [("here", "there", 0)])
    directory = tmp_path_factory.mktemp("state")
    with served(broker, filing(events, places), directory) as application:
        application.streams.start()
        committed = {"isolation": "read_committed"}
        for key in "abcde":
            application.wait_for_value(f"/v1/stores/counts/{key}", "value", 4, **committed)
        for length in (2, 3):
            path = f"/v1/stores/by-length/{length}"
            application.wait_for_value(path, "value", 10, **committed)
        yield Served(application.streams, application.url, (events, places))
