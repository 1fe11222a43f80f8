"""How large batches may be: what is learnt of topics, when, and at what price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from pystreams import log_and_fail
from pystreams.record import OutputBuffer
from pystreams.runtime.adapters.producing.batch_limits import BatchLimits, BatchSize
from pystreams.runtime.adapters.producing.refused_records import RefusedRecords
from pystreams.testing.simulation.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Collection

KIB = 1024
MIB = 1024 * KIB
WITHIN_MS, SECONDS_LATER_MS, MINUTES_LATER_MS = 1_000.0, 10_000.0, 120_000.0

TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE
INVALID = KafkaError.INVALID_RECORD


class Cluster:
    """Topics and what they take, as far as they may be described; counts the questions."""

    def __init__(self, **limits: int) -> None:
        self.limits = limits
        self.questions: list[set[str]] = []
        self.clock = ManualClock()
        self.known = BatchLimits(self._asked, self.clock)

    def _asked(self, topics: Collection[str]) -> dict[str, int]:
        self.questions.append(set(topics))
        return {topic: self.limits[topic] for topic in topics if topic in self.limits}

    def sizes(self, *topics: str, **config: Any) -> BatchSize:
        """Return what decides about one producer's batches, when its client has been made."""
        sizes = BatchSize(
            {"message.max.bytes": MIB, "batch.size": MIB} | config, self.known, topics
        )
        sizes.settings()
        return sizes


def batch_bytes(sizes: BatchSize) -> int:
    """What the batches of the next client have at most."""
    return int(sizes.settings()["batch.size"])


def test_batches_keep_below_the_smallest_limit() -> None:
    cluster = Cluster(small=20 * KIB, large=2 * MIB)
    assert batch_bytes(cluster.sizes("small", "large")) == 20 * KIB
    assert batch_bytes(cluster.sizes("large")) == MIB


def test_what_is_known_is_not_asked_again() -> None:
    cluster = Cluster(out=20 * KIB)
    for _ in range(30):
        cluster.sizes("out")
        cluster.clock.advance_ms(MINUTES_LATER_MS)
    assert cluster.questions == [{"out"}]


def test_topics_that_can_not_be_described_are_not_asked_about_by_each_producer() -> None:
    """Without a broker each question would take seconds."""
    cluster = Cluster()
    for _ in range(30):
        cluster.sizes("out", "changelog")
        cluster.clock.advance_ms(WITHIN_MS / 2)
    assert cluster.questions == [{"out", "changelog"}]


def test_topics_that_could_not_be_described_are_asked_about_later() -> None:
    cluster = Cluster(known=20 * KIB)
    cluster.sizes("out", "known")
    cluster.limits["out"] = 10 * KIB
    cluster.clock.advance_ms(MINUTES_LATER_MS)
    assert batch_bytes(cluster.sizes("out", "known")) == 10 * KIB
    assert cluster.questions == [{"out", "known"}, {"out"}]


def test_many_records_that_are_too_large_cost_one_question() -> None:
    cluster = Cluster(out=20 * KIB)
    sizes = cluster.sizes("out")
    cluster.clock.advance_ms(SECONDS_LATER_MS)
    cluster.questions.clear()
    for _ in range(100):
        assert sizes.oversized("out", (b"key", b"x" * 30 * KIB, 1, ())) == 20 * KIB
    assert cluster.questions == [{"out"}]


def test_limit_that_was_raised_is_known_seconds_later() -> None:
    cluster = Cluster(out=20 * KIB)
    sizes = cluster.sizes("out")
    cluster.limits["out"] = 50 * KIB
    cluster.clock.advance_ms(SECONDS_LATER_MS)
    assert sizes.oversized("out", (b"key", b"x" * 30 * KIB, 1, ())) is None
    assert sizes.oversized("out", (b"key", b"x" * 60 * KIB, 1, ())) == 50 * KIB


def test_refused_batches_of_an_unknown_topic_become_smaller_each_time() -> None:
    cluster = Cluster()
    sizes = cluster.sizes()
    found = []
    for _ in range(3):
        sizes.narrow(TOO_LARGE, "out")
        found.append(batch_bytes(sizes))
    assert found == [128 * KIB, 16 * KIB, 2 * KIB]


def test_topic_that_refuses_what_it_claims_to_take_gets_smaller_batches() -> None:
    cluster = Cluster(out=MIB)
    sizes = cluster.sizes("out")
    sizes.narrow(TOO_LARGE, "out")
    assert batch_bytes(sizes) == 128 * KIB


def test_what_one_producer_has_found_out_is_not_undone_by_one_that_lags_behind() -> None:
    cluster = Cluster()
    first, second = cluster.sizes(), cluster.sizes()
    first.narrow(TOO_LARGE, "out")
    first.settings()
    first.narrow(TOO_LARGE, "out")
    second.narrow(TOO_LARGE, "out")
    assert batch_bytes(second) == 16 * KIB
    assert batch_bytes(first) == 16 * KIB


@pytest.mark.parametrize("known", [True, False], ids=["outage", "may not be described"])
def test_records_above_a_limit_that_can_not_be_asked_for_are_left_to_the_broker(
    known: bool,
) -> None:
    """All of a buffer: none of them may be dropped on a guess, or end the application."""
    cluster = Cluster(**({"out": 128 * KIB} if known else {}))
    sizes = cluster.sizes("out")
    if known:
        cluster.limits.clear()
        cluster.clock.advance_ms(SECONDS_LATER_MS)
    else:
        sizes.narrow(TOO_LARGE, "out")
        sizes.settings()
    output = OutputBuffer("out")
    output.records.extend((b"key", b"x" * size * KIB, 1, ()) for size in (200, 1, 300))
    cluster.questions.clear()

    for _ in range(2):
        RefusedRecords(log_and_fail, sizes).sift(output)

    assert [len(value or b"") // KIB for _, value, *_ in output.records] == [200, 1, 300]
    assert len(cluster.questions) == (1 if known else 0)


def test_producer_goes_on_one_by_one_in_place_of_another() -> None:
    """Until all is delivered: a batch with a wrong record is refused as often as it is sent."""
    cluster = Cluster()
    mine: dict[str, Any] = {"client.id": "mine"}
    cluster.sizes(**mine).narrow(INVALID, "out")

    successor = cluster.sizes(**mine)
    assert batch_bytes(successor) == 1
    assert not successor.had_neighbours(INVALID, (b"key", b"value", 1, ()))
    assert batch_bytes(cluster.sizes(**{"client.id": "another"})) == MIB

    successor.widen()
    assert successor.outdated
    assert batch_bytes(successor) == MIB
