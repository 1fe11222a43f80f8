"""A standby takes over: how long after the death of a process is noticed, and at what cost before.

    python benchmarks/takeover.py --keys 5000000
    python benchmarks/takeover.py --keys 5000000 --replicas 0     # the same without a standby

Two processes count, exactly-once; the store of one has that many keys. That one is killed. Measured
is the time from when the group gives its partition to the other one, which is when its session has
ended, until the task runs there. All counts are checked, those of before included: a wrong one ends
with exit code 1.

The session is longer than the time limit of transactions (10 s): offsets that were pending in one
of the dead process are waited for that long under exactly_once_v2, whatever is warm.
"""

from __future__ import annotations

import itertools
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
_WATCHED_S = 10.0
_one = struct.pack(">q", 1)


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--keys", type=click.IntRange(100), default=5_000_000, help="Keys of the store.")
@click.option("--replicas", type=click.IntRange(0, 1), default=1, help="num.standby.replicas.")
@click.option("--rate", type=click.IntRange(1), default=200, help="Records a second before it.")
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
            self._cluster.create_topic(topic, 2)
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
            warm = "standby is warm" if self._options["replicas"] else "task running"
            self._until(lambda: _lines(second, warm), first, second)
            filled_s = time.perf_counter() - begin_s
            with self._feeding():
                costs = _watch(first, second)
                first.kill()
                self._until(lambda: _is_running(second, "0_0"), second)
            self._check(second)
        finally:
            first.kill()
            second.kill()
        return {
            "restored_s": round(restored_s, 1),
            "warm_after_s": round(filled_s, 1),
            **costs,
            **self._takeover(second),
        }

    def _takeover(self, program: Program) -> dict[str, float]:
        """Return what the log of the one that took over says."""
        assigned = [line for line in _lines(program, "partitions assigned") if line["partitions"]]
        running = [line for line in _lines(program, "task running") if line["task"] == "0_0"]
        restored = [line for line in _lines(program, "restored") if line["task"] == "0_0"]
        return {
            "taken_over_s": round(_time_s(running[-1]) - _time_s(assigned[-1]), 3),
            "restored_at_takeover_records": sum(line["records"] for line in restored),
        }

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
            producer.produce("input", b"", key, partition=number % 2)
            self._fed[key] += 1
        producer.flush()

    @contextmanager
    def _feeding(self) -> Iterator[None]:
        """Write records all the time; to the partition that moves old keys, too."""
        stop, producer = threading.Event(), self._producer()

        def feed() -> None:
            for number in itertools.count():
                if stop.wait(1 / self._options["rate"]):
                    break
                old = f"old-{number % self._options['keys']}".encode()
                key = old if number % 4 == 0 else f"new-{number % _FED_KEYS}".encode()
                partition = 0 if number % 4 == 0 else number % _FED_KEYS % 2
                producer.produce("input", b"", key, partition=partition)
                self._fed[key] += 1
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
        consumer.assign([TopicPartition("output", number, 0) for number in range(2)])
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


def _watch(active: Program, standby: Program) -> dict[str, float]:
    """Return what two processes cost for a while at a steady rate."""
    programs = {"killed": active, "other": standby}
    before = {name: program.used() for name, program in programs.items()}
    time.sleep(_WATCHED_S)
    found: dict[str, float] = {}
    for name, program in programs.items():
        used = program.used()
        spent_s = used.cpu_s - before[name].cpu_s
        found[f"{name}_cpu_percent"] = round(spent_s / _WATCHED_S * 100, 1)
        found[f"{name}_memory_mib"] = used.peak_bytes >> 20
    return found


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


def _is_running(program: Program, task: str) -> bool:
    return any(line["task"] == task for line in _lines(program, "task running"))


def _time_s(line: dict[str, Any]) -> float:
    return datetime.fromisoformat(line["timestamp"]).timestamp()


if __name__ == "__main__":
    main()
