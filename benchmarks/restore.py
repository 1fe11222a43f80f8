"""Restore from changelogs of several sizes: all of it once, and what a SIGKILL leaves to do.

    python benchmarks/restore.py --sizes 1000000,10000000

For each size a changelog is written, and the counting application is started beside it with an
empty state directory: how long until it has restored all and committed its first record? Then it
counts some records, is killed, and is started again: how long now, and how much was restored? The
counts that come out prove each time that the state was the changelog's; a wrong one ends with exit
code 1.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from confluent_kafka import Producer
from rich.table import Table

from benchmarks.harness import results
from benchmarks.harness.cluster import Cluster
from benchmarks.harness.output_check import WrongOutputError, check_output
from benchmarks.harness.processes import Program, ProgramError
from benchmarks.harness.programs import BENCHMARKS, Job, pystreams_command
from benchmarks.harness.recovery import restored_records, seconds_to_commit
from benchmarks.harness.setting import console, setting

_COMMIT_MS = 100
_FED_RECORDS = 10_000
_pack = struct.Struct(">q").pack
COLUMNS = (
    "changelog",
    "keys",
    "restored",
    "full restore (s)",
    "records/s",
    "after SIGKILL (s)",
    "restored then",
)


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--sizes", default="1000000,10000000", help="Changelog records, with commas.")
@click.option(
    "--keys", default="100000", help="Different keys, for all sizes or with commas for each."
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write results here.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where broker and state keep their data; a temporary directory by default.",
)
def main(sizes: str, keys: str, json_file: Path | None, data_dir: Path | None) -> None:
    """Run the benchmark."""
    rows = []
    changelogs = [int(number) for number in sizes.split(",")]
    counts = [int(number) for number in keys.split(",")]
    if len(counts) == 1:
        counts *= len(changelogs)
    if len(counts) != len(changelogs):
        raise click.BadParameter("give one number, or one for each size", param_hint="--keys")
    with setting(data_dir) as (directory, broker):
        cluster = Cluster(broker.bootstrap_servers)
        for size, key_count in zip(changelogs, counts, strict=True):
            rows.append(measure(cluster, directory / f"state-{size}", size, key_count))
            console.print(f"{size:,} records of {key_count:,} keys done")
    table = Table(*COLUMNS)
    for row in rows:
        table.add_row(*cells(row))
    console.print(table)
    if json_file is not None:
        settings = {"sizes": sizes, "keys": keys, "runs": 1, "commit_ms": _COMMIT_MS}
        content = {
            "benchmark": "restore",
            "machine": results.machine(),
            "settings": settings,
            "rows": rows,
        }
        results.write_json(json_file, content)


def cells(row: Mapping[str, Any]) -> list[str]:
    """Return a row of the table."""
    return [
        f"{row['changelog_records']:,}",
        f"{row['keys']:,}",
        f"{row['restored']:,}",
        f"{row['full_s']:.2f}",
        f"{row['restored_per_s']:,.0f}",
        f"{row['after_kill_s']:.2f}",
        f"{row['restored_after_kill']:,}",
    ]


def measure(cluster: Cluster, state: Path, size: int, keys: int) -> dict[str, Any]:
    """Measure one size.

    Raises:
        ProgramError: The application ended by itself, or did not come back.
        WrongOutputError: A count is not the changelog's plus what came.
    """
    state.mkdir(parents=True)
    app = f"restore-{size}"
    job = Job(
        cluster.bootstrap_servers, app, f"{app}-in", f"{app}-out", state, "exactly_once", _COMMIT_MS
    )
    for topic in (job.input, job.output):
        cluster.create_topic(topic, 1)
    changelog = f"{app}-counts-changelog"
    cluster.create_topic(changelog, 1, {"cleanup.policy": "compact"})
    truth = write_changelog(cluster.bootstrap_servers, changelog, size, keys)
    command = pystreams_command(BENCHMARKS / "apps" / "count_app.py", job, 0, [])

    fed = feed(cluster.bootstrap_servers, job.input, 1, keys)
    first = Program.start(command, state / "first.log")
    try:
        full_s = seconds_to_commit(cluster, job, first, 0)
        fed += feed(cluster.bootstrap_servers, job.input, _FED_RECORDS, keys, first=fed)
        seconds_to_commit(cluster, job, first, fed - 1)
    finally:
        first.kill()
    fed += feed(cluster.bootstrap_servers, job.input, 1, keys, first=fed)
    second = Program.start(command, state / "second.log")
    try:
        after_kill_s = seconds_to_commit(cluster, job, second, fed - 1)
        second.stop()
    finally:
        second.kill()
    check(cluster, job.output, truth, fed, keys)
    cluster.keep_only([])
    restored, seconds = full_restore(first.log_text())
    return {
        "changelog_records": size,
        "keys": keys,
        "restored": restored,
        "full_s": full_s,
        "restored_per_s": restored / seconds,
        "after_kill_s": after_kill_s,
        "restored_after_kill": restored_records(second.log_text()),
    }


def full_restore(log: str) -> tuple[int, float]:
    """Return how many records a restore took and how long (s), as its log line says.

    They are fewer than were written where the broker has compacted the changelog already.

    Raises:
        ProgramError: There is no such line.
    """
    # Colours between a name and its value, if the log has them, are no digits.
    found = re.search(r"restored\s.*?records=\D*(\d+).*?seconds=\D*([\d.]+)", log)
    if found is None:
        raise ProgramError(f"it does not tell how fast it restored:\n{log}")
    return int(found.group(1)), max(float(found.group(2)), 0.001)


def key_of(number: int) -> bytes:
    """Return a key."""
    return b"key%07d" % number


def write_changelog(servers: str, topic: str, size: int, keys: int) -> dict[bytes, int]:
    """Write a changelog as the application would have; return the last count of each key."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 1_000_000,
            "enable.idempotence": True,
        }
    )
    names = [key_of(number) for number in range(keys)]
    for number in range(size):
        count = number // keys + 1
        while True:
            try:
                producer.produce(topic, _pack(count), names[number % keys], 0)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(300):
        raise WrongOutputError(f"the changelog {topic} could not be written")
    full, rest = divmod(size, keys)
    return {name: full + (position < rest) for position, name in enumerate(names)}


def feed(servers: str, topic: str, count: int, keys: int, *, first: int = 0) -> int:
    """Write input records, each with the next key; return how many."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce(topic, b"x", key_of(number % keys), 0)
    producer.flush(60)
    return count


def check(cluster: Cluster, topic: str, truth: Mapping[bytes, int], fed: int, keys: int) -> None:
    """Compare the counts that came out with the changelog's plus the input."""
    full, rest = divmod(fed, keys)
    expected = {}
    for position in range(min(fed, keys)):
        key = key_of(position)
        expected[key] = truth.get(key, 0) + full + (position < rest)
    check_output(cluster, topic, expected, every_count=False)


if __name__ == "__main__":
    main()
