"""A record of a join walks over as many keys after thousands have left as after a few."""

from __future__ import annotations

import pytest

from pystreams import JoinWindows, Materialized, StreamsBuilder, Topology, serdes
from pystreams.stores import build
from pystreams.testing import TopologyTestDriver
from tests.stores.counting import UncompactedEngine, Walked, walked

__all__ = ["walked"]

TEXT = (serdes.STRING, serdes.STRING)
WINDOW_MS, GRACE_MS = 4, 3
FEW, MANY = 60, 600
MEASURED = 24


def join(kind: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("stream", key_serde=serdes.STRING, value_serde=serdes.STRING)
    if kind == "grace":
        table = builder.table(
            "other",
            materialized=Materialized(name="history", history_retention_ms=10_000),
            key_serde=serdes.STRING,
            value_serde=serdes.STRING,
        )
        joined = stream.join(table, lambda value, row: f"{value}{row}", grace_period_ms=GRACE_MS)
    else:
        other = builder.stream("other", key_serde=serdes.STRING, value_serde=serdes.STRING)
        windows = JoinWindows.of_time_difference_and_grace(WINDOW_MS, GRACE_MS)
        method = stream.outer_join if kind == "outer" else stream.left_join
        joined = method(other, lambda value, other: f"{value}{other}", windows)
    joined.to("out", key_serde=serdes.STRING, value_serde=serdes.STRING)
    return builder.build()


@pytest.mark.parametrize("kind", ["left", "outer", "grace"])
def test_cost_of_a_record_does_not_grow_with_what_has_left(
    kind: str, walked: Walked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every third record finds a partner; the others leave what waits when their time is over."""
    monkeypatch.setattr(build, "MemoryEngine", lambda _: UncompactedEngine(walked))
    costs = []
    for count in (FEW, MANY):
        with TopologyTestDriver(join(kind)) as driver:
            stream = driver.create_input_topic("stream", *TEXT)
            other = driver.create_input_topic("other", *TEXT)
            for time in range(count + MEASURED):
                if time == count:
                    walked.forget()
                stream.pipe_input(f"{time % 7}", "a", timestamp=time)
                if time % 3 == 0:
                    other.pipe_input(f"{time % 7}", "b", timestamp=time)
            out = driver.create_output_topic("out", *TEXT).read_records()
            assert len(out) > count // 3
        costs.append((walked.keys, walked.iterators))

    few, many = costs
    assert few[0] > 0 or kind == "grace"  # Whose buffer has what waits in order.
    assert many[0] <= few[0] * 1.2
    assert many[1] <= few[1] * 1.2
