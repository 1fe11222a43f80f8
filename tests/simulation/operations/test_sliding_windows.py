"""Sliding windows on the simulated broker, restored from their changelog elsewhere.

The cases are those of Kafka's SlidingWindowedKStreamIntegrationTest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    EmitStrategy,
    JoinWindows,
    KStream,
    SlidingWindows,
    StreamsBuilder,
    time_windowed_serde,
)
from pystreams.serdes import STRING
from pystreams.testing.simulation import SimulatedDisk, SimulatedProcess
from tests.simulation.applications import Application

pytestmark = pytest.mark.simulation

TEXT: Any = {"key_serde": STRING, "value_serde": STRING}
DIFFERENCE_MS = 10
Fed = tuple[str, str, int]
"""Key, value and time."""
Result = tuple[str, int, str, int]
"""Key, start of the window, value and time."""

each_emission = pytest.mark.parametrize("emit", EmitStrategy, ids=lambda emit: emit.name)
cached_or_not = pytest.mark.parametrize("caching", [True, False], ids=["cached", "not cached"])


def aggregate(
    stream: KStream[str, str], emit: EmitStrategy, *, grace_ms: int, caching: bool
) -> None:
    """Add up the values of each window as text, into the topic `out`."""
    windows = SlidingWindows.of_time_difference_and_grace(DIFFERENCE_MS, grace_ms)
    windowed = stream.group_by_key(**TEXT).windowed_by(windows).emit_strategy(emit)
    table = windowed.aggregate(
        lambda: "0",
        lambda _, value, so_far: f"{so_far}+{value}",
        value_serde=STRING,
        caching=caching,
    )
    table.to_stream().to("out", value_serde=STRING)


class Running:
    """An application over `in` and `other`, each of one partition."""

    def __init__(self, root: Path, builder: StreamsBuilder) -> None:
        self._root = root
        self.app = Application(root, window_emit_interval_ms=0)
        self.app.broker.create_topic("other", 1)
        self.process: SimulatedProcess = self.app.process(topology=builder.build())
        self.process.start()

    def feed(self, topic: str, *records: Fed) -> None:
        for key, value, time in records:
            self.app.broker.produce(topic, key.encode(), value.encode(), time)

    def run(self) -> list[Result]:
        """Process all there is; return all results so far."""
        for _ in range(30):
            self.app.clock.advance_ms(50)
            self.process.step()
        read_key = time_windowed_serde(STRING, DIFFERENCE_MS).deserializer("out")
        found = []
        for message in self.app.broker.committed_records("out"):
            key, window = read_key(message.message_key or b"")
            assert window.end == window.start + DIFFERENCE_MS
            value = (message.message_value or b"").decode()
            found.append((key, window.start, value, message.timestamp_ms))
        return found

    def restart_elsewhere(self) -> None:
        """Stop, and start on a machine that has nothing of the state."""
        self.process.stop()
        self.process.disk = SimulatedDisk(self._root / "elsewhere", self.app.faults)
        self.process.start()


WITHOUT_GRACE: list[Fed] = [
    *(("A", "1", 0), ("A", "2", 5), ("A", "3", 10), ("A", "4", 17), ("B", "5", 6)),
    *(("B", "6", 11), ("B", "7", 18), ("C", "8", 25)),
]
WITH_GRACE: list[Fed] = [
    *(("A", "1", 0), ("A", "2", 5), ("A", "3", 10), ("A", "4", 6), ("A", "5", 11)),
    *(("A", "6", 16), ("A", "7", 27), ("A", "8", 11)),
]
ON_UPDATE, ON_CLOSE = EmitStrategy.on_window_update(), EmitStrategy.on_window_close()


def results(text: str) -> list[Result]:
    """Return results that are written as `A0:0+1@0`, for key, start, value and time."""
    found = []
    for result in text.split():
        window, _, rest = result.partition(":")
        value, _, time = rest.partition("@")
        found.append((window[0], int(window[1:]), value, int(time)))
    return found


EXPECTED = {
    (0, ON_UPDATE): "A0:0+1@0 A1:0+2@5 A0:0+1+2@5 A1:0+2+3@10 A0:0+1+2+3@10 A6:0+3@10 A11:0+4@17 "
    "A7:0+3+4@17 B8:0+7@18 C15:0+8@25",
    (0, ON_CLOSE): "A0:0+1+2+3@10 A1:0+2+3@10 A6:0+3@10 A7:0+3+4@17 B8:0+7@18 A11:0+4@17",
    (5, ON_UPDATE): "A0:0+1@0 A1:0+2@5 A0:0+1+2@5 A1:0+2+3@10 A0:0+1+2+3@10 A6:0+3@10 "
    "A1:0+2+3+4@10 A6:0+3+4@10 A7:0+3@10 A0:0+1+2+3+4@10 A7:0+3+5@11 A6:0+3+4+5@11 "
    "A1:0+2+3+4+5@11 A11:0+5@11 A11:0+5+6@16 A7:0+3+5+6@16 A6:0+3+4+5+6@16 A12:0+6@16 "
    "A17:0+7@27 A17:0+7@27",
    (5, ON_CLOSE): "A0:0+1+2+3+4@10 A1:0+2+3+4+5@11 A6:0+3+4+5+6@16 A7:0+3+5+6@16 A11:0+5+6@16",
}


@each_emission
@cached_or_not
@pytest.mark.parametrize(("grace_ms", "records"), [(0, WITHOUT_GRACE), (5, WITH_GRACE)])
def test_windows_are_sent_as_kafka_sends_them_and_no_restart_sends_one_again(
    tmp_path: Path, emit: EmitStrategy, caching: bool, grace_ms: int, records: list[Fed]
) -> None:
    builder = StreamsBuilder()
    aggregate(builder.stream("in", **TEXT), emit, grace_ms=grace_ms, caching=caching)
    running = Running(tmp_path, builder)

    running.feed("in", *records)

    expected = results(EXPECTED[grace_ms, emit])
    assert running.run() == expected
    running.restart_elsewhere()
    assert running.run() == expected


@each_emission
@cached_or_not
def test_windows_of_joined_streams_go_on_where_they_are_restored(
    tmp_path: Path, emit: EmitStrategy, caching: bool
) -> None:
    builder = StreamsBuilder()
    left, right = builder.stream("in", **TEXT), builder.stream("other", **TEXT)
    near = JoinWindows.of_time_difference_with_no_grace(2)
    joined = left.join(right, lambda one, two: f"{one},{two}", near)
    aggregate(joined, emit, grace_ms=0, caching=caching)
    running = Running(tmp_path, builder)

    fed = [("A", "1", 0), ("A", "2", 5), ("B", "3", 11), ("B", "4", 15), ("C", "5", 25)]
    for topic, side in (("in", "L"), ("other", "R")):
        running.feed(topic, *((key, f"{side}{number}", time) for key, number, time in fed))
    updates = (
        "A0:0+L1,R1@0 A1:0+L2,R2@5 A0:0+L1,R1+L2,R2@5 B1:0+L3,R3@11 B12:0+L4,R4@15 "
        "B5:0+L3,R3+L4,R4@15 C15:0+L5,R5@25"
    )
    final = "A0:0+L1,R1+L2,R2@5 A1:0+L2,R2@5 B1:0+L3,R3@11 B5:0+L3,R3+L4,R4@15 B12:0+L4,R4@15"
    before = results(updates if emit is ON_UPDATE else final)
    assert running.run() == before

    running.restart_elsewhere()
    running.feed("in", ("C", "L6", 35))
    running.feed("other", ("C", "R6", 35))

    after = "C26:0+L6,R6@35 C25:0+L5,R5+L6,R6@35" if emit is ON_UPDATE else "C15:0+L5,R5@25"
    assert running.run() == before + results(after)
