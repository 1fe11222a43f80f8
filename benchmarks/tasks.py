"""What a record costs beside tasks that rest, and what a task takes: of 1, 100 and 1,000.

    python benchmarks/tasks.py --tasks 1,100,1000

Each task has four stores in memory. Records come one at a time, to a task in turn, and each is
committed before the next one comes: so none shares its poll, its run or its commit with others, and
whatever grows with the tasks that rest shows in what it costs.

The thread is the real one; broker and time are simulated: a real client with the 5,000 partitions
of 1,000 tasks has threads that cost more than the loop, and so would as many databases on disk. The
time of polls is taken off, and Python's garbage collector does not go over what was there before,
because the simulated broker keeps all that is written. CPU is that of the thread; memory is what
the process has grown by when all tasks run, the topics of the simulated broker included.

Each case runs in a process of its own. To compare two trees, set PYTHONPATH to the other one.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

import click
import structlog

from pystreams import Processor, ProcessorContext, Record, StreamsBuilder, Topology, serdes
from pystreams.ids import TopicPartition
from pystreams.runtime.ports import PartitionBatch
from pystreams.stores.factories import Stores
from pystreams.testing.simulation import (
    Faults,
    ManualClock,
    SimulatedBroker,
    SimulatedDisk,
    SimulatedProcess,
)
from pystreams.testing.simulation.clients import SimulatedClients
from pystreams.testing.simulation.consumers import SimulatedConsumer

_STORES = tuple(f"store-{number}" for number in range(4))
_COMMIT_MS = 100
_ALONE = "--alone"


class Counting(Processor[str, str, str, str]):
    """Counts records by key in each of its stores."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        """Take the stores."""
        self._stores = [context.get_state_store(name) for name in _STORES]

    def process(self, record: Record[str, str]) -> None:
        """Count one record."""
        for store in self._stores:
            store.put(record.key, (store.get(record.key) or 0) + 1)


class _Clients(SimulatedClients):
    """Clients whose polls are timed.

    Attributes:
        polling_ns: The thread's CPU time in polls so far.
        group_consumers: The consumers made so far.
    """

    polling_ns = 0
    group_consumers: ClassVar[list[SimulatedConsumer]] = []

    def consumer(self, client_id: str, group_instance_id: str) -> SimulatedConsumer:
        """Make the group consumer of a thread."""
        made = super().consumer(client_id, group_instance_id)
        self.group_consumers.append(made)
        poll = made.poll

        def timed(max_records: int, timeout_s: float) -> list[PartitionBatch]:
            began_ns = time.thread_time_ns()
            try:
                return poll(max_records, timeout_s)
            finally:
                _Clients.polling_ns += time.thread_time_ns() - began_ns

        setattr(made, "poll", timed)  # noqa: B010 - a method is not assigned to
        return made


def topology() -> Topology:
    """Return one sub-topology with four stores."""
    builder = StreamsBuilder()
    for name in _STORES:
        supplier = Stores.in_memory_key_value_store(name)
        builder.add_state_store(
            Stores.key_value_store_builder(supplier, serdes.STRING, serdes.LONG)
        )
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.process(Counting, stores=_STORES)
    return builder.build()


def measure(tasks: int, records: int, guarantee: str, directory: Path) -> dict[str, Any]:
    """Run one case in this process; return its figures."""
    clock, faults = ManualClock(), Faults(1)
    broker = SimulatedBroker(clock, faults, session_timeout_ms=10**9)
    broker.create_topic("in", tasks)
    config = {
        "application.id": "tasks",
        "processing.guarantee": guarantee,
        "commit.interval.ms": _COMMIT_MS,
    }
    process = SimulatedProcess(
        topology(),
        config,
        broker,
        SimulatedDisk(directory, faults),
        make_clients=_Clients,
    )
    gc.collect()
    before_bytes = _resident_bytes()
    process.start()
    [thread] = process.threads
    while thread.statistics().tasks_running < tasks:
        process.step()
        clock.advance_ms(_COMMIT_MS)
    gc.collect()
    task_bytes = (_resident_bytes() - before_bytes) / tasks

    # A poll of the simulation looks into all partitions that are not paused.
    [consumer] = _Clients.group_consumers
    partitions = [TopicPartition("in", number) for number in range(tasks)]
    consumer.pause(partitions)
    gc.freeze()
    began_ns, began_polling_ns = time.thread_time_ns(), _Clients.polling_ns
    feeding_ns = 0
    for number in range(records):
        fed_ns = time.thread_time_ns()
        record = (f"key-{number % 1000}".encode(), b"value", number, ())
        broker.append("in", number % tasks, [record])
        consumer.pause([partitions[number % tasks - 1]])
        consumer.resume([partitions[number % tasks]])
        feeding_ns += time.thread_time_ns() - fed_ns
        while not process.step():
            pass
        clock.advance_ms(_COMMIT_MS)
        process.step()
    polling_ns = _Clients.polling_ns - began_polling_ns
    cpu_ns = time.thread_time_ns() - began_ns - feeding_ns - polling_ns
    process.stop()
    broker.settle()
    committed = sum(offset.next_offset for offset in broker.group.offsets.values())
    assert committed == records, f"{committed} of {records} records are committed"
    return {
        "tasks": tasks,
        "records": records,
        "guarantee": guarantee,
        "cpu_us_per_record": cpu_ns / records / 1000,
        "task_bytes": task_bytes,
    }


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--tasks", default="1,100,1000", help="How many tasks, with commas.")
@click.option("--records", type=click.IntRange(1), default=2000, help="Records of each case.")
@click.option("--guarantee", default="exactly_once_v2", help="The processing guarantee.")
@click.option("--runs", type=click.IntRange(1), default=3, help="Runs; the cheapest one counts.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write results here.")
@click.option(_ALONE, "alone", is_flag=True, hidden=True, help="One case, here and now.")
def main(
    tasks: str, records: int, guarantee: str, runs: int, json_file: Path | None, alone: bool
) -> None:
    """Run the benchmark."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    if alone:
        with tempfile.TemporaryDirectory() as directory:
            print(json.dumps(measure(int(tasks), records, guarantee, Path(directory))))
        return
    wanted = tasks.split(",")
    options = [f"--records={records}", f"--guarantee={guarantee}", _ALONE]
    found: dict[str, list[dict[str, Any]]] = {number: [] for number in wanted}
    for _ in range(runs):
        for number in wanted:
            command = [sys.executable, __file__, f"--tasks={number}", *options]
            found[number].append(json.loads(subprocess.check_output(command)))
    rows = [min(found[number], key=lambda row: row["cpu_us_per_record"]) for number in wanted]
    print("| tasks | CPU a record (us) | of the first | KiB a task |")
    print("|---|---|---|---|")
    for row in rows:
        cpu_us = row["cpu_us_per_record"]
        print(
            f"| {row['tasks']:,} | {cpu_us:,.0f} | {cpu_us / rows[0]['cpu_us_per_record']:.2f} "
            f"| {row['task_bytes'] / 1024:,.0f} |"
        )
    if json_file is not None:
        json_file.write_text(json.dumps({"benchmark": "tasks", "rows": rows}), encoding="utf-8")


if __name__ == "__main__":
    main()
