"""A steady rate for a long time: what the process holds, from minute to minute.

    python -m benchmarks.soak --minutes 60 --rate 500

Memory, threads, file handles, the state directory and the lag are looked at once a minute. Windows
are kept for 65 s, so that as many are open after a few minutes as after an hour: what comes and
goes among the handles are data files, with flushes and compaction.

At the end the output is checked: each key's count is what was written, and the final counts of all
minutes that have closed add up. A wrong output ends with exit code 1 and no figures.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.apps.soak_app import COUNTS, FINALS, GRACE_MS, INPUT, WINDOW_MS
from benchmarks.harness import results
from benchmarks.harness.cluster import Cluster
from benchmarks.harness.output_check import WrongOutputError
from benchmarks.harness.processes import Program, ProgramError
from benchmarks.harness.setting import console, setting
from pystreams.broker.network import free_ports

_PARTITIONS = 3
_SLICES_PER_S = 10
_SETTLE_S = 120.0
_ASK_S = 30.0
_CLOSING = 2
_CLOSING_KEY = b"last"
_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Look:
    """What a process holds at one moment.

    Attributes:
        minute: Minutes since the first record.
        resident_bytes: Its memory.
        handles: Its open file handles, connections included.
        data_files: Those of its stores that hold data, open as well: what compaction merges.
        state_bytes: Its state directory.
        written: Records written so far.
        counted: Records processed so far, as `/metrics` says.
    """

    minute: float
    resident_bytes: int
    threads: int
    handles: int
    data_files: int
    state_bytes: int
    written: int
    counted: int


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--minutes", type=float, default=60.0, help="How long.")
@click.option("--rate", type=click.IntRange(_SLICES_PER_S), default=500, help="Records a second.")
@click.option("--keys", type=click.IntRange(1), default=10_000, help="Different keys.")
@click.option("--guarantee", default="exactly_once_v2", help="Processing guarantee.")
@click.option("--look-s", type=float, default=60.0, help="How often it is looked at (s).")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write results here.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where broker and state keep their data; a temporary directory by default.",
)
@click.option("--tamper", is_flag=True, hidden=True, help="Falsify the truth before its check.")
def main(**options: Any) -> None:
    """Run it."""
    with setting(options["data_dir"]) as (directory, broker):
        looks = soak(options, Cluster(broker.bootstrap_servers), directory)
    console.print(results.markdown_table(COLUMNS, list(_lines(looks))))
    if options["json_file"] is not None:
        content = {
            "benchmark": "soak",
            "machine": results.machine(),
            "settings": {name: options[name] for name in ("minutes", "rate", "keys", "guarantee")},
            "rows": [asdict(look) for look in looks],
        }
        results.write_json(options["json_file"], content)


def soak(options: dict[str, Any], cluster: Cluster, directory: Path) -> list[Look]:
    """Write at a steady rate while the program runs; return what was seen of it.

    Raises:
        ProgramError: The program has ended, or does not get to the end of its input.
        WrongOutputError: The output is wrong.
    """
    for topic in (INPUT, COUNTS, FINALS):
        cluster.create_topic(topic, _PARTITIONS)
    (port,) = free_ports(1)
    running = Program.start(_command(options, cluster, directory, port), directory / "process.log")
    try:
        _wait_until_served(running, port)
        writer = SteadyWriter(cluster.bootstrap_servers, options["rate"], options["keys"])
        looks = []
        for minute in writer.write(options["minutes"], options["look_s"]):
            running.watch()
            looks.append(_look(minute, running, directory / "state", writer, port))
            console.print(asdict(looks[-1]))
        writer.close_windows()
        _wait_until_counted(running, port, writer.written)
        running.stop()
    finally:
        running.kill()
    if options["tamper"]:
        writer.by_minute[min(writer.by_minute)] += 1
    check(cluster, writer)
    return looks


class SteadyWriter:
    """Writes records with random keys, so many a second.

    Attributes:
        written: Records so far.
        by_key: How many each key has.
        by_minute: How many each minute of their timestamps has.
    """

    def __init__(self, bootstrap_servers: str, rate: int, keys: int) -> None:
        self.written = 0
        self.by_key: Counter[bytes] = Counter()
        self.by_minute: Counter[int] = Counter()
        self._rate = rate
        self._keys = [f"key{number:06d}".encode() for number in range(keys)]
        self._draw = random.Random(1)
        self._failures: list[object] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 20,
            }
        )

    def write(self, minutes: float, look_s: float) -> Iterator[float]:
        """Write; yields the minutes that have passed each time it is to be looked."""
        began_s = time.monotonic()
        next_look_s = look_s
        for number in range(1, round(minutes * 60 * _SLICES_PER_S) + 1):
            for _ in range(self._rate // _SLICES_PER_S):
                self._write(self._draw.choice(self._keys), int(time.time() * 1000), -1)
            self._producer.poll(0)
            passed_s = time.monotonic() - began_s
            if passed_s >= next_look_s:
                next_look_s += look_s
                yield passed_s / 60
            time.sleep(max(0.0, number / _SLICES_PER_S - (time.monotonic() - began_s)))

    def close_windows(self) -> None:
        """Write records behind the last window to each partition.

        Two, with a pause: windows that have closed are looked for once a second.
        """
        behind_ms = int(time.time() * 1000) + 2 * WINDOW_MS + GRACE_MS
        for _ in range(_CLOSING):
            for partition in range(_PARTITIONS):
                self._write(_CLOSING_KEY, behind_ms, partition)
            self._producer.flush(_ASK_S)
            time.sleep(_PAUSE_S)
        if self._producer.flush(_ASK_S) or self._failures:
            raise ProgramError(f"the input could not be written: {self._failures}")

    def _write(self, key: bytes, timestamp_ms: int, partition: int) -> None:
        self._producer.produce(
            INPUT, b"v" * 100, key, partition, timestamp=timestamp_ms, on_delivery=self._note
        )
        self.written += 1
        self.by_key[key] += 1
        self.by_minute[timestamp_ms // WINDOW_MS] += 1

    def _note(self, error: object, _message: object) -> None:
        if error is not None:
            self._failures.append(error)


def check(cluster: Cluster, writer: SteadyWriter) -> None:
    """Compare the output with what was written.

    Raises:
        WrongOutputError: A count differs.
    """
    last = {key: value for key, value in _read(cluster, COUNTS) if key != _CLOSING_KEY}
    counts = {key: count for key, count in writer.by_key.items() if key != _CLOSING_KEY}
    if last != counts:
        wrong = [key for key in counts if last.get(key) != counts[key]]
        raise WrongOutputError(f"{len(wrong)} keys have other counts: {wrong[:3]}")
    minutes: Counter[int] = Counter()
    for key, value in _read(cluster, FINALS):
        minutes[int.from_bytes(key[-8:], "big") // WINDOW_MS] += value
    closed = dict(writer.by_minute)
    closed.pop(max(closed))
    if dict(minutes) != closed:
        raise WrongOutputError(f"final counts of minutes are {dict(minutes)}, not {closed}")
    console.print(f"{writer.written:,} records, {len(closed)} minutes: output is right")


def _read(cluster: Cluster, topic: str) -> Iterator[tuple[bytes, int]]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "check",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(_PARTITIONS)])
    ended: set[int] = set()
    while len(ended) < _PARTITIONS:
        for message in consumer.consume(10_000, 1.0):
            key, value = message.key(), message.value()
            if message.error() is not None:
                ended.add(message.partition() or 0)
            elif isinstance(key, bytes) and isinstance(value, bytes):
                yield key, int.from_bytes(value, "big")
    consumer.close()


def _command(options: dict[str, Any], cluster: Cluster, directory: Path, port: int) -> list[str]:
    settings = {
        "application.id": "soak",
        "bootstrap.servers": cluster.bootstrap_servers,
        "state.dir": directory / "state",
        "processing.guarantee": options["guarantee"],
    }
    return [
        *(sys.executable, "-m", "pystreams", "run", "benchmarks.apps.soak_app:builder"),
        *("--http", f"127.0.0.1:{port}"),
        *(word for name, value in settings.items() for word in ("-c", f"{name}={value}")),
    ]


def _look(minute: float, running: Program, state: Path, writer: SteadyWriter, port: int) -> Look:
    process = Path("/proc") / str(running.pid)
    return Look(
        minute=round(minute, 1),
        resident_bytes=running.resident_bytes(),
        threads=len(list((process / "task").iterdir())),
        handles=len(list((process / "fd").iterdir())),
        data_files=len(list(state.rglob("*.sst"))),
        state_bytes=sum(_size(file) for file in state.rglob("*")),
        written=writer.written,
        counted=_counted(port),
    )


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # RocksDB has deleted it since.
        return 0


def _counted(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/status", timeout=_ASK_S) as answer:
        return int(json.load(answer)["processed_records"])


def _wait_until_served(running: Program, port: int) -> None:
    deadline_s = time.monotonic() + _SETTLE_S
    while True:
        running.watch()
        with contextlib.suppress(OSError):
            _counted(port)
            return
        if time.monotonic() > deadline_s:
            raise ProgramError(f"does not answer within {_SETTLE_S:g} s")
        time.sleep(0.5)


def _wait_until_counted(running: Program, port: int, records: int) -> None:
    deadline_s = time.monotonic() + _SETTLE_S
    while _counted(port) < records:
        running.watch()
        if time.monotonic() > deadline_s:
            raise ProgramError(f"has not counted {records:,} records in {_SETTLE_S:g} s")
        time.sleep(0.5)


COLUMNS = (
    "minute",
    "records",
    "memory, MiB",
    "threads",
    "file handles",
    "data files",
    "state, MiB",
    "behind",
)


def _lines(looks: Sequence[Look]) -> Iterator[list[str]]:
    for look in looks:
        yield [
            f"{look.minute:.0f}",
            f"{look.written:,}",
            f"{look.resident_bytes / 2**20:.0f}",
            str(look.threads),
            str(look.handles),
            str(look.data_files),
            f"{look.state_bytes / 2**20:.1f}",
            f"{look.written - look.counted:,}",
        ]


if __name__ == "__main__":
    main()
