"""How long output stands still when processes end, come back and join, beside Kafka Streams.

    python benchmarks/downtime.py --interruptions kill,scale-up --repetitions 3
    python benchmarks/downtime.py --silence-ms 0                   # the defaults of both
    python benchmarks/downtime.py --interruptions scale-up --keys 5000000    # large stores
    python benchmarks/downtime.py --json downtime.json --minutes 40  # the same again goes on

Two or three processes count a topic that is fed steadily, exactly-once. Then one of them is
killed, restarted, moved or added. Measured from outside is the longest time that each partition's
output is silent beyond what is usual: for tasks that could have stayed where they are, for those of
the process that ended, and for those that went from one living process to another. Every record
must be counted once, in order, all interruptions included: a wrong output ends with exit code 1.

With --keys stores are large: so many keys are loaded into the input and counted before anything
happens, and the feed goes on with some of them, each counted where it was. A newcomer may fill its
stores for minutes before it is given tasks: a run lasts until each process has its part of them.

The broker puts out who is silent for a session, counted from the last heartbeat. Programs send
heartbeats in different intervals, so the same session is not the same promise: what they are given
in common is how long a process may be silent, a pause of its machine say, and surely stays in its
group. A session is that and one interval, as in the defaults of both (42 s and 3 s, or 500 ms).

Each repetition goes over all rows, ours and theirs in turn, and what was measured is in the file
after each run: an interruption loses the run in progress only.
"""

from __future__ import annotations

import itertools
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import click
from rich.table import Table

from benchmarks.harness import downtime_results
from benchmarks.harness.cluster import Cluster
from benchmarks.harness.counted_keys import CountedKeys, load
from benchmarks.harness.interruptions import (
    INTERRUPTIONS,
    Findings,
    Interruption,
    interrupt,
    until_calm,
    until_warm,
)
from benchmarks.harness.members import CONTENDERS, Contender, Members
from benchmarks.harness.programs import Job, build_kafka_streams
from benchmarks.harness.setting import console, setting
from benchmarks.harness.silence import Arrivals, Feed, fed, keys_of_partitions

T = TypeVar("T")

_FED_KEYS_OF_PARTITION = 2000
"""At most, of those that were loaded: at the usual rate each record is of another for a minute."""
_FEWEST_KEYS_OF_PARTITION = 100
_IN_VAIN_S = 150.0
_KEYS_PER_S = 10_000
"""How much longer stores may take that are large."""
_PROBING_MS = 60_000
"""Kafka Streams moves tasks to copies that are warm by then; by default it is ten minutes, and this
is the least that it allows."""
_DEFAULT_SILENCE_MS = 42_000
_HEARTBEAT_MS = 3000
_OUR_HEARTBEAT_MS = 500


def _of(known: Mapping[str, T]) -> Callable[..., list[T]]:
    """Return what returns those that are named, with commas between them."""

    def chosen(_context: click.Context, _parameter: click.Parameter, text: str) -> list[T]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise click.BadParameter(f"{unknown[0]!r}: there are {', '.join(known)}")
        return [known[name] for name in names]

    return chosen


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option(
    "--interruptions",
    default=",".join(INTERRUPTIONS),
    callback=_of(INTERRUPTIONS),
    help="What is to happen, with commas.",
)
@click.option(
    "--programs",
    default="pystreams,pystreams-consumer,kafka-streams",
    callback=_of(CONTENDERS),
    help=f"What to run, with commas: {', '.join(CONTENDERS)}.",
)
@click.option(
    "--standbys",
    default="0,1",
    help="num.standby.replicas of all, with commas: each row once for each.",
)
@click.option(
    "--silence-ms",
    type=click.IntRange(0),
    default=4000,
    help="How long a process may be silent and surely stays in its group; 0 for the defaults.",
)
@click.option("--partitions", type=click.IntRange(3), default=6, help="Of the input.")
@click.option("--rate", type=click.IntRange(1), default=25, help="Records a second, of each.")
@click.option(
    "--keys",
    type=click.IntRange(1),
    help="In all stores, counted before anything happens; a few of each partition by default.",
)
@click.option("--repetitions", type=click.IntRange(1), default=3, help="Of each row.")
@click.option("--minutes", type=float, help="Begin no run after so long.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    help="Write results here after each run; what it has already is not run again.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where broker and state keep their data; a temporary directory by default.",
)
def main(**options: Any) -> None:
    """Run the benchmark."""
    kinds: list[Interruption] = options["interruptions"]
    contenders: list[Contender] = options["programs"]
    standbys = [int(number) for number in options["standbys"].split(",")]
    fewest = _FEWEST_KEYS_OF_PARTITION * options["partitions"]
    if options["keys"] is not None and options["keys"] < fewest:
        raise click.BadParameter(f"{options['keys']}: at least {fewest}", param_hint="--keys")
    if not all(contender.ours for contender in contenders):
        build_kafka_streams()
    settings = {name: options[name] for name in ("partitions", "rate")}
    measured = downtime_results.Measured(options["json_file"], settings)
    until_s = time.monotonic() + 60 * (options["minutes"] or math.inf)
    with setting(options["data_dir"], _broker_settings(options["silence_ms"])) as (place, broker):
        bench = Downtime(place, Cluster(broker.bootstrap_servers), options)
        cases = itertools.product(kinds, standbys, contenders)
        for repetition, case in itertools.product(range(options["repetitions"]), list(cases)):
            empty = bench.row(*case)
            if measured.runs(empty) > repetition:
                continue
            if time.monotonic() > until_s:
                console.print("the time is up: the same command goes on from here")
                break
            row = empty | downtime_results.samples_of(bench.run(*case, repetition))
            row |= {"loads": [round(os.getloadavg()[0], 1)], "runs": 1}
            measured.add(row)
            line = " | ".join(downtime_results.line(row))
            console.print(f"{line} | load {row['loads'][0]}", markup=False)
    table = Table(*downtime_results.COLUMNS, title=downtime_results.title_of(options["silence_ms"]))
    for row in measured.rows:
        table.add_row(*downtime_results.line(row))
    console.print(table)


class Downtime:
    """Interrupts one application after another.

    Args:
        directory: Where they keep their state and their logs.
        cluster: The broker.
        options: What was asked for.
    """

    def __init__(self, directory: Path, cluster: Cluster, options: dict[str, Any]) -> None:
        self._directory, self._cluster, self._options = directory, cluster, options
        self._partitions, self._loaded = options["partitions"], options["keys"] or 0
        of_each = downtime_results.KEYS_OF_PARTITION
        if self._loaded:
            of_each = min(_FED_KEYS_OF_PARTITION, self._loaded // self._partitions // 2)
        self._fed = keys_of_partitions(self._partitions, of_each)
        self._in_vain_s = _IN_VAIN_S + self._loaded / _KEYS_PER_S

    def row(self, kind: Interruption, standbys: int, contender: Contender) -> dict[str, Any]:
        """Return what names a row."""
        return {
            "interruption": kind.title,
            "standbys": standbys,
            "keys": self._loaded or sum(map(len, self._fed)),
            "program": contender.title,
            "silence_ms": self._options["silence_ms"],
        }

    def run(
        self, kind: Interruption, standbys: int, contender: Contender, repetition: int
    ) -> Findings:
        """Interrupt one program once; return how long each partition was silent."""
        app = f"{contender.name}-{kind.name}-{standbys}-{repetition}"
        servers = self._cluster.bootstrap_servers
        job = Job(
            bootstrap=servers,
            app=app,
            input=f"{app}-input",
            output=f"{app}-output",
            state=self._directory / app,
            guarantee="exactly_once_v2",
        )
        for topic in (job.input, job.output):
            self._cluster.create_topic(topic, self._partitions)
        counted = CountedKeys(max(self._loaded, 1 + max(map(max, self._fed))))
        members = Members(contender, job, self._settings(contender, standbys))
        feed = Feed(servers, job.input, self._fed, 1 / self._options["rate"], counted)
        try:
            with Arrivals(servers, job.output, self._partitions, counted) as arrivals:
                if self._loaded:
                    load(self._cluster, job.input, self._loaded, counted)
                    members.start(*kind.names)
                    arrivals.wait_until_counted(members.watch)
                    counted.check()
                with fed(feed):
                    self._make_ready(members, arrivals, kind, standbys)
                    heartbeat_ms = _heartbeat_ms(contender, self._options["silence_ms"])
                    members.spread_heartbeats(heartbeat_ms / 1000, Random(str(repetition)))
                    found = interrupt(members, arrivals, kind, self._in_vain_s)
                arrivals.wait_until_counted(members.watch)
                counted.check()
        finally:
            members.kill_all()
        self._cluster.keep_only([])
        shutil.rmtree(job.state, ignore_errors=True)
        return found

    def _settings(self, contender: Contender, standbys: int) -> dict[str, str]:
        """Return the settings of a program's processes."""
        settings = {"num.standby.replicas": str(standbys)}
        if self._loaded and not contender.ours:
            settings["probing.rebalance.interval.ms"] = str(_PROBING_MS)
        return settings | _group_settings(contender, self._options["silence_ms"])

    def _make_ready(
        self, members: Members, arrivals: Arrivals, kind: Interruption, standbys: int
    ) -> None:
        """Start the processes that do not run yet, and wait until all of them are as after days."""
        if not members.running:
            members.start(*kind.names)
        if kind.second_life:
            until_calm(members, arrivals, self._in_vain_s, calm_s=0.3)
            members.kill_all()
            members.start(*kind.names)
        until_calm(members, arrivals, self._in_vain_s, calm_s=0.3)
        copies, at_rest = 1 + standbys, bool(self._loaded and standbys)
        until_warm(members, self._partitions, copies, self._in_vain_s, at_rest=at_rest)


def _heartbeat_ms(contender: Contender, silence_ms: int) -> int:
    """Return how often members send heartbeats: by default, but thrice in a session at least."""
    default_ms = _OUR_HEARTBEAT_MS if contender.ours else _HEARTBEAT_MS
    return min(default_ms, (silence_ms or _DEFAULT_SILENCE_MS) // 2)


def _group_settings(contender: Contender, silence_ms: int) -> dict[str, str]:
    """Return what lets all be silent for the same time; with KIP-848 the broker says it."""
    if contender.settings.get("group.protocol") == "consumer":
        return {}
    if contender.ours and not silence_ms:
        return {}
    heartbeat_ms = _heartbeat_ms(contender, silence_ms)
    return {
        "consumer.session.timeout.ms": str((silence_ms or _DEFAULT_SILENCE_MS) + heartbeat_ms),
        "consumer.heartbeat.interval.ms": str(heartbeat_ms),
    }


def _broker_settings(silence_ms: int) -> dict[str, str]:
    """Return what a broker in production has, in place of what makes a development broker quick."""
    silence_ms = silence_ms or _DEFAULT_SILENCE_MS
    heartbeat_ms = min(5000, silence_ms // 2)
    return {
        "group.initial.rebalance.delay.ms": "3000",
        "group.consumer.heartbeat.interval.ms": str(heartbeat_ms),
        "group.consumer.session.timeout.ms": str(silence_ms + heartbeat_ms),
        "group.consumer.assignment.interval.ms": "1000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    }


if __name__ == "__main__":
    main()
