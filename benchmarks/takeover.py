"""A standby takes over: how long after the death of a process is noticed, and at what cost before.

    python benchmarks/takeover.py --keys 5000000
    python benchmarks/takeover.py --keys 5000000 --replicas 0     # the same without a standby

Two processes count one partition, exactly-once: one has the task, whose store has that many keys,
the other one nothing but its standby. What both cost is watched while records flow; then the one
with the task is killed. Measured is the time from when the group gives its partition to the other
one, which is when its session has ended, until the task runs there, and how many records of the
changelog it read for that. All counts are checked, those of before included: a wrong one ends with
exit code 1.

The session is longer than the time limit of transactions (10 s): offsets that were pending in one
of the dead process are waited for that long under exactly_once_v2, whatever is warm.
"""

from __future__ import annotations

import json
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.harness import results
from benchmarks.harness.cluster import Cluster
from benchmarks.harness.output_check import WrongOutputError
from benchmarks.harness.processes import Program, ProgramError
from benchmarks.harness.setting import console, setting

if TYPE_CHECKING:
    from collections.abc import Iterator

_APPLICATION = "takeover"
_CHANGELOG = f"{_APPLICATION}-counts-changelog"
_TOPOLOGY = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
stream = builder.stream("input", key_serde=serdes.STRING, value_serde=serdes.STRING)
stream.group_by_key().count(name="counts").to_stream().to(
    "output", key_serde=serdes.STRING, value_serde=serdes.LONG
)
"""
_SESSION_MS = 14_000
_FED_KEYS = 50
_WAIT_S = 900.0
_WATCHED_S = 20.0
_FED_EVERY_S = 0.01
_STRIDE = 7_919
_one = struct.pack(">q", 1)


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--keys", type=click.IntRange(100), default=5_000_000, help="Keys of the store.")
@click.option("--replicas", type=click.IntRange(0, 1), default=1, help="num.standby.replicas.")
@click.option("--rate", type=click.IntRange(1), default=2_000, help="Records a second.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write results here.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where broker and state keep their data; a temporary directory by default.",
)
def main(**options: Any) -> None:
    """Run the benchmark."""
    with setting(options["data_dir"]) as (directory, broker):
        row = Takeover(directory, Cluster(broker.bootstrap_servers), options).measure()
    for name, value in row.items():
        console.print(f"{name.replace('_', ' '):>36}  {value:,}")
    if options["json_file"] is not None:
        settings = {name: options[name] for name in ("keys", "replicas", "rate")}
        content = {"benchmark": "takeover", "machine": results.machine(), "settings": settings}
        results.write_json(options["json_file"], content | {"rows": [row]})


class Takeover:
    """Two processes, of which one is killed.

    Args:
        directory: Where they keep their state and their logs.
        cluster: The broker.
        options: What was asked for.
    """

    def __init__(self, directory: Path, cluster: Cluster, options: dict[str, Any]) -> None:
        self._directory, self._cluster, self._options = directory, cluster, options
        self._servers = cluster.bootstrap_servers
        self._topology = directory / "counting.py"
        self._topology.write_text(_TOPOLOGY)
        self._fed: Counter[bytes] = Counter()

    def measure(self) -> dict[str, float]:
        """Run it; return what was measured."""
        for topic in ("input", "output"):
            self._cluster.create_topic(topic, 1)
        first = self._start("a")
        self._feed_once()
        self._until(lambda: sum(self._cluster.end_offsets("output")) >= _FED_KEYS, first)
        first.stop()
        self._fill_changelog()
        begin_s = time.perf_counter()
        first, second = self._start("a"), self._start("b")
        try:
            self._until(lambda: _lines(first, "task running"), first, second)
            restored_s = time.perf_counter() - begin_s
            warm = "standby is warm" if self._options["replicas"] else "partitions assigned"
            self._until(lambda: _lines(second, warm), first, second)
            filled_s = time.perf_counter() - begin_s
            with self._feeding():
                costs = self._watch(active=first, standby=second)
                killed_s = time.time()
                first.kill()
                self._until(lambda: _lines(second, "task running"), second)
            self._check(second)
        finally:
            first.kill()
            second.kill()
        return {
            "restored_s": round(restored_s, 1),
            "warm_after_s": round(filled_s, 1),
            **costs,
            **_takeover(second, killed_s),
        }

    def _watch(self, **programs: Program) -> dict[str, float]:
        """Return what processes cost for a while at a steady rate; memory at the end of it."""
        before = {name: program.used().cpu_s for name, program in programs.items()}
        (begin,) = self._cluster.end_offsets("input")
        time.sleep(_WATCHED_S)
        (end,) = self._cluster.end_offsets("input")
        found: dict[str, float] = {"watched_records": end - begin}
        for name, program in programs.items():
            spent_s = program.used().cpu_s - before[name]
            found[f"{name}_cpu_percent"] = round(spent_s / _WATCHED_S * 100, 1)
            found[f"{name}_cpu_s_per_million"] = round(spent_s / (end - begin) * 1e6, 1)
            found[f"{name}_memory_mib"] = program.resident_bytes() >> 20
            found[f"{name}_peak_memory_mib"] = program.used().peak_bytes >> 20
        return found

    # ------------------------------------------------------------------ input

    def _producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._servers,
                "linger.ms": 50,
                "queue.buffering.max.messages": 1_000_000,
                "partitioner": "murmur2_random",
            }
        )

    def _fill_changelog(self) -> None:
        """Write what a long life would have left: each key was counted once."""
        producer = self._producer()
        for number in range(self._options["keys"]):
            while True:
                try:
                    producer.produce(_CHANGELOG, _one, f"old-{number}".encode(), partition=0)
                    break
                except BufferError:
                    producer.poll(0.1)
            if not number % 10_000:
                producer.poll(0)
        producer.flush()

    def _feed_once(self) -> None:
        producer = self._producer()
        for number in range(_FED_KEYS):
            key = f"new-{number}".encode()
            producer.produce("input", b"", key, partition=0)
            self._fed[key] += 1
        producer.flush()

    @contextmanager
    def _feeding(self) -> Iterator[None]:
        """Write records all the time; a quarter of them has keys from all over the store."""
        stop, producer = threading.Event(), self._producer()
        keys, rate = self._options["keys"], self._options["rate"]

        def feed() -> None:
            begin_s, number = time.monotonic(), 0
            while not stop.wait(_FED_EVERY_S):
                while number < (time.monotonic() - begin_s) * rate:
                    old = f"old-{number * _STRIDE % keys}".encode()
                    key = f"new-{number % _FED_KEYS}".encode() if number % 4 else old
                    producer.produce("input", b"", key, partition=0)
                    self._fed[key] += 1
                    number += 1
                producer.poll(0)
            producer.flush()

        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            yield
        finally:
            stop.set()
            feeder.join()

    # ------------------------------------------------------------------ output

    def _check(self, program: Program) -> None:
        """Wait until all is counted, and see that every count came once, in order."""
        counts: dict[bytes, list[int]] = {}
        expected = {key: fed + key.startswith(b"old-") for key, fed in self._fed.items()}
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": "check"})
        consumer.assign([TopicPartition("output", 0, 0)])
        deadline_s = time.monotonic() + _WAIT_S
        while any(counts.get(key, [0])[-1] < last for key, last in expected.items()):
            program.watch()
            if time.monotonic() > deadline_s:
                raise WrongOutputError("counts are missing")
            for message in consumer.consume(10_000, 0.5):
                key, value = message.key(), message.value()
                if message.error() is None and key is not None and value is not None:
                    counts.setdefault(key, []).append(struct.unpack(">q", value)[0])
        consumer.close()
        for key, last in expected.items():
            begin = 2 if key.startswith(b"old-") else 1
            if counts[key] != list(range(begin, last + 1)):
                raise WrongOutputError(f"{key!r}: {counts[key]}")

    # ------------------------------------------------------------------ processes

    def _start(self, name: str) -> Program:
        keys = {
            "application.id": _APPLICATION,
            "bootstrap.servers": self._servers,
            "state.dir": self._directory / name,
            "consumer.group.instance.id": name,
            "processing.guarantee": "exactly_once_v2",
            "statestore.cache.max.bytes": 0,
            "num.standby.replicas": self._options["replicas"],
            "consumer.session.timeout.ms": _SESSION_MS,
        }
        command = [sys.executable, "-m", "pystreams", "run", str(self._topology)]
        command += ["--log-level", "debug", "--log-format", "json"]
        for key, value in keys.items():
            command += ["-c", f"{key}={value}"]
        runs = len(list(self._directory.glob(f"{name}-*.log")))
        return Program.start(command, self._directory / f"{name}-{runs}.log")

    def _until(self, condition: Callable[[], object], *programs: Program) -> None:
        deadline_s = time.monotonic() + _WAIT_S
        while not condition():
            for program in programs:
                program.watch()
            if time.monotonic() > deadline_s:
                raise ProgramError(f"in vain for {_WAIT_S:g} s:\n{programs[-1].log_tail()}")
            time.sleep(0.05)


def _takeover(program: Program, killed_s: float) -> dict[str, float]:
    """Return what the log of the one that took over says."""
    assigned = [line for line in _lines(program, "partitions assigned") if line["partitions"]]
    noticed_s, running_s = _time_s(assigned[-1]), _time_s(_lines(program, "task running")[-1])
    kept = _lines(program, "standby takes over")
    found = {"noticed_after_s": noticed_s - killed_s, "taken_over_s": running_s - noticed_s}
    if kept:
        found["remaining_at_takeover_records"] = kept[-1]["remaining_records"]
    found["read_at_takeover_records"] = sum(line["records"] for line in _lines(program, "restored"))
    return {name: round(value, 3) for name, value in found.items()}


def _lines(program: Program, message: str) -> list[dict[str, Any]]:
    found = []
    for text in program.log_text().splitlines():
        if message in text:
            try:
                line = json.loads(text)
            except ValueError:  # It is being written.
                continue
            if line["message"] == message:
                found.append(line)
    return found


def _time_s(line: dict[str, Any]) -> float:
    return datetime.fromisoformat(line["timestamp"]).timestamp()


if __name__ == "__main__":
    main()
