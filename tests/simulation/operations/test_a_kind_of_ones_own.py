"""A kind of store from outside the package, when its process dies: see `tests.stores.scores`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams import serdes
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import Application
from tests.stores.scores import DAY_MS, noting_scores

pytestmark = pytest.mark.simulation

NUMBER = serdes.LONG.serializer("in")


def noted(process: SimulatedProcess) -> dict[tuple[str, int], int]:
    """What a process's disk holds, by player and day."""
    return {
        (key[:-8].decode(), int.from_bytes(key[-8:], "big") // DAY_MS): int.from_bytes(value, "big")
        for _, name, files in process.disk.stores()
        if name == "scores"
        for key, value in files.data.items()
    }


@pytest.mark.parametrize("on_another_disk", [False, True])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once", "exactly_once_v2"])
def test_its_stores_go_on_where_the_last_commit_was(
    guarantee: str, on_another_disk: bool, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    app.broker.create_topic("best", 1)

    def play(player: str, day: int, score: int) -> None:
        app.broker.produce("in", player.encode(), NUMBER(score), day * DAY_MS)

    first = app.process(topology=noting_scores())
    first.start()
    for played in (("ann", 0, 3), ("ann", 0, 5), ("bob", 1, 4)):
        play(*played)
    app.run_until_processed(first)
    first.crash()
    play("ann", 0, 4)
    play("bob", 2, 9)
    app.clock.advance_ms(6000)
    app.broker.tick()
    second = app.process(
        "p1", topology=noting_scores(), disk=None if on_another_disk else first.disk
    )
    second.start()
    app.run_until_processed(second)

    assert noted(second) == {("ann", 0): 5, ("bob", 1): 4, ("bob", 2): 9}
