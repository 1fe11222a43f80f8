"""Where a consumer goes on after the client has gone back by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pystreams import TopicPartition
from pystreams.errors import InputLossError
from pystreams.record import StaticMessage
from pystreams.runtime.adapters.consuming.read_positions import ReadPositions
from pystreams.runtime.adapters.consuming.reset_offsets import ResetOffsets
from pystreams.runtime.ports import PartitionBatch
from pystreams.testing.simulation.clock import ManualClock

PARTITION = TopicPartition("in", 0)


class Scene:
    """A consumer at offset 100, which the client has taken back to the beginning.

    Attributes:
        ends: What the partition's leader says is its last stable offset, and what fetches said.
    """

    def __init__(self, last_stable: int, fetched: int) -> None:
        self.ends = [last_stable, fetched]
        self.clock = ManualClock(0)
        client: Any = SimpleNamespace(get_watermark_offsets=self._watermarks)
        self.positions = ReadPositions({}, ResetOffsets(client, "g", "earliest"), self.clock)
        self.positions.assign([PARTITION])
        self.positions.move({PARTITION: 100})
        first = StaticMessage("in", 0, 0, b"k", b"v", 0, ())
        assert self.positions.sift([PartitionBatch(PARTITION, [first])]) == []

    def _watermarks(self, *_: object, cached: bool = False, **__: object) -> tuple[int, int]:
        return 0, self.ends[1] if cached else self.ends[0]

    def goes_on(self) -> list[tuple[TopicPartition, int]]:
        return list(self.positions.went_back())


def test_partition_that_is_too_short_waits_and_is_then_an_error() -> None:
    scene = Scene(60, 60)
    assert scene.goes_on() == []

    scene.clock.advance_ms(5_000)
    with pytest.raises(InputLossError, match="in-0 ends at offset 60, and group 'g' goes on at"):
        scene.goes_on()


def test_leader_that_learns_its_end_meanwhile_has_lost_nothing() -> None:
    scene = Scene(60, 60)
    assert scene.goes_on() == []

    scene.clock.advance_ms(5_000)
    scene.ends = [100, 100]
    assert scene.goes_on() == [(PARTITION, 100)]


def test_partition_that_was_given_up_meanwhile_is_believed_no_sooner() -> None:
    scene = Scene(60, 60)
    assert scene.goes_on() == []
    scene.positions.forget(PARTITION)
    scene.positions.assign([PARTITION])
    scene.positions.move({PARTITION: 100})

    scene.clock.advance_ms(5_000)
    assert scene.goes_on() == []


def test_offset_behind_the_last_stable_one_is_there_while_a_transaction_is_open() -> None:
    assert Scene(90, 120).goes_on() == [(PARTITION, 100)]
