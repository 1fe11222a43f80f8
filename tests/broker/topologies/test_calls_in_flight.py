"""Members come and stop while calls are under way that take longer than a rebalance.

Whoever has to give partitions away waits for the answers of the records that it commits; each
record is answered once, those of a key in their order, and a member that is asked to stop ends in
order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application, Running
from tests.broker.reading import create_topics, long, produce, read_all
from tests.variants import first_of

CODE = """
import asyncio
from pathlib import Path

from pystreams import StreamsBuilder, serdes

CALLED = Path("{called}")


async def slowly(number):
    with CALLED.open("a") as file:
        file.write(f"{{number}}\\n")
    await asyncio.sleep(3 if number % 7 == 0 else 1)
    return -number


builder = StreamsBuilder()
numbers = builder.stream("{name}-in", key_serde=serdes.STRING, value_serde=serdes.LONG)
answers = numbers.map_values_async(slowly, max_in_flight=20, timeout_ms=30_000, ordered={ordered})
answers.to("{name}-out", key_serde=serdes.STRING, value_serde=serdes.LONG)
"""
PARTITIONS = 2
KEYS = 12
POLL_MS = 60_000


@dataclass
class Arena:
    """One application that calls, and its topics."""

    application: Application
    servers: str
    name: str
    called: Path
    fed: int = 0

    def feed(self, count: int) -> None:
        """Write the next numbers, each to the key of its remainder."""
        numbers = range(self.fed, self.fed + count)
        records = [(b"key %d" % (n % KEYS), n.to_bytes(8, "big")) for n in numbers]
        produce(self.servers, f"{self.name}-in", records)
        self.fed += count

    def wait_for_calls_after(self, calls: int, running: Running) -> int:
        """Wait until more calls than so many have begun; return how many have."""
        running.wait_until(lambda: self.calls() > calls, "more calls")
        return self.calls()

    def calls(self) -> int:
        return len(self.called.read_text().splitlines()) if self.called.exists() else 0

    def answers(self) -> dict[bytes, list[int]]:
        """Return what a read_committed reader finds for each key, in order."""
        found: dict[bytes, list[int]] = defaultdict(list)
        for message in read_all(self.servers, f"{self.name}-out"):
            found[message.key() or b""].append(-long(message.value()))
        return found

    def wanted(self) -> dict[bytes, list[int]]:
        return {b"key %d" % key: list(range(key, self.fed, KEYS)) for key in range(KEYS)}


@pytest.fixture(params=first_of(False, True), ids=["by key", "ordered"])
def arena(
    request: pytest.FixtureRequest,
    broker: DevelopmentBroker,
    admin: AdminClient,
    unique_name: str,
    tmp_path: Path,
) -> Iterator[Arena]:
    topics = [NewTopic(f"{unique_name}-{end}", num_partitions=PARTITIONS) for end in ("in", "out")]
    create_topics(admin, topics)
    file, called = tmp_path / "calling.py", tmp_path / "called"
    file.write_text(CODE.format(called=called, name=unique_name, ordered=request.param))
    settings: dict[str, object] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 500,
        "consumer.max.poll.interval.ms": POLL_MS,
        "producer.transaction.timeout.ms": POLL_MS,
    }
    with Application(unique_name, tmp_path, file, settings) as application:
        yield Arena(application, broker.bootstrap_servers, unique_name, called)


def test_a_member_comes_and_the_first_stops_with_calls_under_way(arena: Arena) -> None:
    arena.feed(40)
    first = arena.application.start()
    begun = arena.wait_for_calls_after(0, first)

    second = arena.application.start()
    second.wait_for("task running")
    arena.feed(40)
    arena.wait_for_calls_after(begun, second)
    first.stop()
    arena.feed(20)
    second.wait_until(lambda: arena.answers() == arena.wanted(), "all answers")
    second.stop()

    assert arena.answers() == arena.wanted()
    told = [line["message"] for running in (first, second) for line in running.lines()]
    assert not [message for message in told if "max.poll.interval.ms" in message]
