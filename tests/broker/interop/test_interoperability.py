"""Kafka Streams and pystreams over the same topics of a real broker: what they write is the same.

Then they change places: each goes on with what the other has left, from an empty directory. And
they change back, and ours opens the state directories that Kafka Streams has left: stores that are
kept in the same way have nothing to restore.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.interop.java_applications import JavaApplications, needs_java
from tests.broker.interop.shared_inputs import SharedInputs
from tests.broker.interop.side_by_side import PythonApplications, SideBySide, now_ms
from tests.broker.interop.topologies import KAFKA_STREAMS_FORGETS, RESTORED_ANEW

pytestmark = [needs_java, pytest.mark.timeout(900)]

HOUR_MS = 3_600_000


def first_ms() -> int:
    """Return a time at which a window begins, not so long ago that Kafka deletes records."""
    return (now_ms() - HOUR_MS) // 60_000 * 60_000


@pytest.fixture
def side_by_side(
    broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path
) -> Iterator[SideBySide]:
    with JavaApplications(tmp_path / "java.log") as java, PythonApplications() as python:
        both = SideBySide(broker.bootstrap_servers, admin, unique_name, tmp_path, java, python)
        yield both
        both.close()


@pytest.mark.sweep
def test_each_goes_on_with_what_the_other_has_left(side_by_side: SideBySide) -> None:
    run(side_by_side, seed=17, records=8)


@pytest.mark.sweep
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_each_goes_on_with_a_long_history_that_the_other_has_left(
    side_by_side: SideBySide, guarantee: str
) -> None:
    side_by_side.guarantee = guarantee
    run(side_by_side, seed=random.SystemRandom().getrandbits(32), records=300)


def run(side_by_side: SideBySide, seed: int, records: int) -> None:
    """Compare what both sets of applications write, after each change of places."""
    print(f"seed {seed}")
    side_by_side.create_topics()
    inputs = SharedInputs(side_by_side.servers, side_by_side.name, seed, first_ms())
    names = side_by_side.names()
    both_ways = [name for name in names if name not in KAFKA_STREAMS_FORGETS]

    def feed_and_compare(what: str) -> None:
        side_by_side.wait_until_running()
        for _ in inputs.steps(records):
            side_by_side.settle()
        found = side_by_side.differences()
        assert not found, "\n".join([f"{what}:", *found])

    inputs.change_places()
    side_by_side.start("java", "j", "java", names)
    side_by_side.start("python", "p", "python", names)
    feed_and_compare("each on its own")

    side_by_side.restarted = True
    side_by_side.stop("java", "j", names)
    side_by_side.stop("python", "p", both_ways)
    inputs.change_places()
    side_by_side.start("python", "j", "python-on-javas", names)
    side_by_side.start("java", "p", "java-on-pythons", both_ways)
    feed_and_compare("each restored from what the other wrote")
    assert all(side_by_side.restored("j", names).values())

    side_by_side.stop("java", "p", both_ways)
    side_by_side.stop("python", "j", both_ways)
    rows = inputs.change_places()
    side_by_side.start("java", "j", "java", both_ways)
    side_by_side.start("python", "p", "java-on-pythons", both_ways)
    feed_and_compare("Java behind, Python in the directories of Java")
    restored = side_by_side.restored("p", both_ways)
    assert {name for name in restored if restored[name]} == RESTORED_ANEW | {"stream-global"}
    assert sum(restored["stream-global"].values()) == rows, "only what was written meanwhile"
