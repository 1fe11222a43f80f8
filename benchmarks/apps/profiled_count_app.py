"""count_app.py with a stopwatch around the stages of the runtime; the product is not changed.

Two kinds of run, because what is timed a record slows the record down:

- by batch: consume, decode, process, produce and the steps of a commit, with CPU time;
- `--detail`: within processing, the store's reads and writes, RocksDB's own part, and the sink.

Counts from the first processed record to the last commit. Writes JSON to `--timings`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pystreams.topology.plan.compiler
from benchmarks.apps import count_app
from benchmarks.apps.stopwatch import Stopwatch, calibrate
from pystreams.runtime.adapters.consuming.confluent_consumer import ConfluentConsumer
from pystreams.runtime.adapters.producing.confluent_producer import ConfluentProducer
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.loop.stream_thread import StreamThread
from pystreams.runtime.state.state_manager import ProcessorStateManager
from pystreams.stores.engines.rocksdb import RocksDBEngine
from pystreams.stores.kinds.key_value.timestamped import TypedTimestampedKeyValueStore

BATCH_STAGES: list[tuple[Any, str, str]] = [
    (StreamThread, "run_once", "the loop itself"),
    (ConfluentConsumer, "poll", "consume"),
    (StreamTask, "add_records", "decode"),
    (StreamTask, "process", "process"),
    (ProcessorStateManager, "flush_caches", "commit: flush the record cache"),
    (ConfluentProducer, "send", "produce"),
    (ConfluentProducer, "flush", "commit: flush the producer"),
    (ConfluentProducer, "commit_transaction", "commit: transaction"),
    (ConfluentConsumer, "commit", "commit: offsets"),
    (ProcessorStateManager, "commit", "commit: write to the store"),
]
DETAIL_STAGES: list[tuple[Any, str, str]] = [
    (TypedTimestampedKeyValueStore, "get_with_timestamp", "store get"),
    (TypedTimestampedKeyValueStore, "put_with_timestamp", "store put and changelog record"),
    (RocksDBEngine, "get", "RocksDB get"),
]
SINK_STAGE = "sink: serialize the result"


class Profile:
    """The numbers, from the first processed record to the last commit.

    Args:
        detail: Time what happens a record as well.
    """

    def __init__(self, *, detail: bool) -> None:
        self._detail = detail
        self._own_ns, self._callers_ns = calibrate(with_cpu=not detail)
        self._stopwatch = Stopwatch(with_cpu=not detail)
        self._records = 0
        self._committed: dict[str, Any] = {}
        self._process_cpu_ns = 0

    def install(self) -> None:
        """Wrap the product's functions."""
        stopwatch = self._stopwatch
        for owner, attribute, stage in BATCH_STAGES:
            stopwatch.wrap(owner, attribute, stage)
        if self._detail:
            for owner, attribute, stage in DETAIL_STAGES:
                stopwatch.wrap(owner, attribute, stage)
            attach_sink: Callable[..., Any] = pystreams.topology.plan.compiler._attach_sink
            pystreams.topology.plan.compiler._attach_sink = lambda *parts: stopwatch.timed(
                attach_sink(*parts), SINK_STAGE
            )
        self._count_records()
        self._keep_at_commit()
        stopwatch.watch_garbage_collection()

    def _count_records(self) -> None:
        process = StreamTask.process

        def counted(task: StreamTask, *arguments: Any) -> int:
            if not self._records:
                self._stopwatch.reset()
                self._process_cpu_ns = time.process_time_ns()
            count = process(task, *arguments)
            self._records += count
            return count

        setattr(StreamTask, "process", counted)  # noqa: B010 - mypy rightly dislikes the assignment

    def _keep_at_commit(self) -> None:
        post_commit = StreamTask.post_commit

        def kept(task: StreamTask) -> None:
            post_commit(task)
            self._committed = self._numbers()

        setattr(StreamTask, "post_commit", kept)  # noqa: B010

    def _numbers(self) -> dict[str, Any]:
        stages = self._stopwatch.stages
        corrected = self._stopwatch.wall_ns_by_stage(self._own_ns, self._callers_ns)
        return {
            "records": self._records,
            "process_cpu_ns": time.process_time_ns() - self._process_cpu_ns,
            "stages": {
                name: {"calls": stage.calls, "wall_ns": corrected[name], "cpu_ns": stage.cpu_ns}
                for name, stage in stages.items()
            },
        }

    def write(self, file: Path) -> None:
        """Write the numbers of the last commit."""
        file.write_text(json.dumps(self._committed), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timings", type=Path, required=True)
    parser.add_argument("--detail", action="store_true")
    own, rest = parser.parse_known_args()
    sys.argv[1:] = rest
    profile = Profile(detail=own.detail)
    profile.install()
    exit_code = count_app.run(count_app.arguments())
    profile.write(own.timings)
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
