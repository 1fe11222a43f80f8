"""Processes that come to a group on a real broker: warm before they join, where few tasks move."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.broker.application import Application, LogLine, Running
from tests.broker.programs import write_counts
from tests.broker.reading import long, produce, read_all
from tests.broker.waiting import wait_until
from tests.variants import first_of

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.broker import DevelopmentBroker
    from tests.broker.conftest import CreateTopic

PARTITIONS = 6
KEYS = 3000
ENOUGH = 100
"""`acceptable.recovery.lag`: each partition has five times as many keys."""


class Feed:
    """Feeds a topic as long as it is open: some keys in turn, round by round."""

    def __init__(self, servers: str, topic: str) -> None:
        self.fed: Counter[bytes] = Counter()
        self._servers, self._topic = servers, topic

    def round(self, keys: int) -> None:
        records = [(f"key-{number}".encode(), bytes(8)) for number in range(keys)]
        produce(self._servers, self._topic, records)
        self.fed.update(key for key, _ in records)

    @contextmanager
    def open(self) -> Iterator[None]:
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(0.1):
                self.round(60)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def assigned(running: Running) -> list[set[int]]:
    """Return the shares a process was given, one after the other."""
    lines: list[LogLine] = running.lines("partitions assigned")
    return [set(next(iter(line["partitions"].values()), [])) for line in lines]


@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "at_least_once", "exactly_once"))
def test_two_processes_that_come_are_warm_and_take_tasks_from_all(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    source, output = create_topic("in", partitions=PARTITIONS), create_topic("out")
    program = write_counts(tmp_path, source, output)
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "processing.guarantee": guarantee,
        "commit.interval.ms": 100,
        "acceptable.recovery.lag": ENOUGH,
    }
    feed = Feed(broker.bootstrap_servers, source)

    def counts() -> Counter[bytes]:
        found = read_all(broker.bootstrap_servers, output)
        most: Counter[bytes] = Counter()
        for message in found:
            key = message.key() or b""
            most[key] = max(most[key], long(message.value()))
        return most

    with ExitStack() as stack:
        running = []
        for number in range(3):
            directory = tmp_path / f"member-{number}"
            directory.mkdir()
            application = Application(unique_name, directory, program, settings)
            stack.enter_context(application)
            running.append(application.start())
            if not number:
                feed.round(KEYS)
                wait_until(lambda: counts() == feed.fed, "all counts", told=running[0].tail)
                continue
            with feed.open():
                running[-1].wait_for("warm-up over: joining the group", why="warm")
                running[-1].wait_for_tasks(PARTITIONS // (number + 1))
            taken = running[-1].lines("standby takes over")
            assert len(taken) == PARTITIONS // (number + 1)
            assert all(line["remaining_records"] <= 3 * ENOUGH for line in taken)
        for member in running:
            member.wait_for_tasks(PARTITIONS // 3)
        wait_until(lambda: counts() == feed.fed, "all counts", told=running[-1].tail)
        shares = [assigned(member)[-1] for member in running]
        for member in running:
            member.stop()

    assert set().union(*shares) == set(range(PARTITIONS))
    for member, share in zip(running[:2], shares[:2], strict=True):
        before = [earlier for earlier in assigned(member) if earlier != share][-1]
        assert share < before, "who was there before was given another's task as the third came"
