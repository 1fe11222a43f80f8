"""Left and outer joins of two streams on the simulated broker: a restart changes no result.

Their stream time is that of all records, those included that their stores do not keep.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from pystreams import JoinWindows, StreamsBuilder, Topology, serdes
from tests.simulation.applications import Application

pytestmark = pytest.mark.simulation

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
WINDOWS = JoinWindows.of_time_difference_with_no_grace(10)
Restart = Literal["none", "stop", "crash"]


def joined(kind: str) -> Topology:
    """Join records whose values begin with L with those that begin with R."""
    builder = StreamsBuilder()
    stream = builder.stream("in", **TEXT)
    left = stream.filter(lambda _, value: value.startswith("L"))
    right = stream.filter(lambda _, value: value.startswith("R"))
    join = getattr(left, kind)
    join(right, lambda one, two: f"{one}+{two}", WINDOWS, store_name="j").to("out", **TEXT)
    return builder.build()


def results(
    root: Path, kind: str, restart: Restart, guarantee: str, *first: tuple[bytes | None, bytes]
) -> list[bytes | None]:
    """What is sent when such records of time 1000 come, a restart, then a pair of time 100."""
    app = Application(root, guarantee, outer_join_emit_interval_ms=0)
    process = app.process(topology=joined(kind))

    def go_on() -> None:
        for _ in range(20):
            process.step()
            app.clock.advance_ms(100)

    process.start()
    for key, value in first:
        app.broker.produce("in", key, value, 1000)
        go_on()
    if restart != "none":
        process.crash() if restart == "crash" else process.stop()
        process.start()
    for value in (b"L1", b"R1"):
        app.broker.produce("in", b"k", value, 100)
        go_on()
    process.stop()
    return [message.message_value for message in app.broker.committed_records("out")]


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("restart", ["none", "stop", "crash"])
@pytest.mark.parametrize("kind", ["left_join", "outer_join"])
def test_the_time_of_a_record_without_a_key_is_known_after_a_restart(
    tmp_path: Path, kind: str, restart: Restart, guarantee: str
) -> None:
    found = results(tmp_path, kind, restart, guarantee, (None, b"L0"))

    assert found == [b"L0+None", b"L1+None", b"L1+R1"]


@pytest.mark.parametrize("restart", ["none", "stop", "crash"])
def test_the_time_of_a_record_without_a_key_of_the_other_side_is_known_after_a_restart(
    tmp_path: Path, restart: Restart
) -> None:
    found = results(tmp_path, "left_join", restart, "exactly_once", (None, b"R0"))

    assert found == [b"L1+None", b"L1+R1"]
