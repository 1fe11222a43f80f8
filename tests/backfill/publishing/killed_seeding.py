"""A process that seeds and kills itself at a chosen moment.

    python killed_seeding.py <pickled steps>

One process a moment, forked before any store was opened. Prints how many moments there are.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from pystreams import Processor, Record, TaskId, TopicPartition, Topology
from pystreams.backfill.plan.rows import Result, ResultKind
from pystreams.backfill.publishing.publication import PartitionHistory, Publication, TaskResults
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.publishing.seeding_scene import Scene
from tests.every_store import BUILDERS, TYPES

STORES = ("timestamped", "window")
TASK = TaskId(0, 0)
START_MS = 1_000_000
_WATCHED = ("backfill/publishing/store_seeder.py", "rocksdb/bulk_load.py", "rocksdb/database.py")


class Nothing(Processor[str, str, str, str]):
    """Its stores are seeded here, never written."""

    def process(self, record: Record[str, str]) -> None:
        raise AssertionError("it never runs")


def scene(directory: Path) -> Scene:
    """Two stores of one task, a dozen rows each."""
    topology = Topology()
    topology.add_source("source", "in", key_serde=TYPES[0], value_serde=TYPES[0])
    topology.add_processor("write", Nothing, "source")
    for store in STORES:
        topology.add_state_store(BUILDERS[store], "write")
    results = []
    for store in STORES:
        for number in range(12):
            start = START_MS + number * 10_000
            suffix = struct.pack(">qi", start, 0) if store == "window" else b""
            results.append(
                Result(
                    ResultKind.STATE,
                    0,
                    store,
                    0,
                    number,
                    start,
                    b"k%02d" % number + suffix,
                    struct.pack(">q", number),
                    (),
                )
            )
    history = {TopicPartition("in", 0): PartitionHistory(0, 12)}
    tasks = [TaskResults(TASK, history, 0, lambda _: iter(()), lambda: iter(()))]
    publication = Publication("backfill1", {"in": 1}, tasks, frozenset(), frozenset())
    return Scene(TopologyPlan(topology, "app"), publication, results, directory)


class Moments:
    """Counts the calls in the modules that seed, and kills the process at one of them.

    Args:
        deadly: The number of the call to die at, -1 to live.
    """

    def __init__(self, deadly: int) -> None:
        self.count = 0
        self._deadly = deadly

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Take note of a call to or from one of our functions, as `sys.setprofile` tells it."""
        code = frame.f_code
        if event in {"call", "c_call"} and code.co_filename.endswith(_WATCHED):
            if self.count == self._deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            self.count += 1


def seed_and_die(directory: Path, deadly: int) -> int:
    """Seed; return how many moments there were."""
    moments = Moments(deadly)
    made = scene(directory)
    sys.setprofile(moments)
    made.seed()
    sys.setprofile(None)
    return moments.count


def in_a_child(directory: Path, deadly: int) -> bool:
    """Seed in a process of its own; return whether it was killed."""
    child = os.fork()
    if child == 0:
        seed_and_die(directory, deadly)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    return os.WIFSIGNALED(status)


def kill_at(steps: Sequence[tuple[Path, int]]) -> list[bool]:
    """Seed once a step, in a directory of its own."""
    return [in_a_child(directory, deadly) for directory, deadly in steps]


if __name__ == "__main__":
    print(json.dumps(kill_at(pickle.loads(Path(sys.argv[1]).read_bytes()))))
