"""How long output stands still when processes end, come back and join, beside Kafka Streams.

    python benchmarks/downtime.py --interruptions kill,scale-up --repetitions 3
    python benchmarks/downtime.py --session-ms 0                   # the defaults of both

Two or three processes count a topic that is fed steadily, exactly-once. Then one of them is
killed, restarted, moved or added. Measured from outside is the longest time that each partition's
output is silent beyond what is usual, for tasks that could have stayed where they are, and for
those whose process ended or that went to another one. Every record must be counted once, in
order, all interruptions included: a wrong output ends with exit code 1.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import click
from rich.table import Table

from benchmarks.harness import downtime_results, results
from benchmarks.harness.cluster import Cluster
from benchmarks.harness.interruptions import (
    INTERRUPTIONS,
    Interruption,
    Silence,
    interrupt,
    until_calm,
)
from benchmarks.harness.members import CONTENDERS, Contender, Members
from benchmarks.harness.programs import Job, build_kafka_streams
from benchmarks.harness.setting import console, setting
from benchmarks.harness.silence import Arrivals, Feed, fed, keys_of_partitions

_KEYS_OF_PARTITION = 20
_DEFAULT_SESSION_MS = 45_000
_HEARTBEAT_MS = 3000
_OUR_HEARTBEAT_MS = 500


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option(
    "--interruptions",
    default=",".join(INTERRUPTIONS),
    help="What is to happen, with commas.",
)
@click.option(
    "--programs",
    default="pystreams,pystreams-consumer,kafka-streams",
    help=f"What to run, with commas: {', '.join(CONTENDERS)}.",
)
@click.option(
    "--session-ms",
    type=click.IntRange(0),
    default=6000,
    help="session.timeout.ms of all; 0 for the defaults of each.",
)
@click.option("--partitions", type=click.IntRange(3), default=6, help="Of the input.")
@click.option("--rate", type=click.IntRange(1), default=25, help="Records a second, of each.")
@click.option("--repetitions", type=click.IntRange(1), default=3, help="Of each row.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Add results here.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where broker and state keep their data; a temporary directory by default.",
)
def main(**options: Any) -> None:
    """Run the benchmark."""
    contenders = [CONTENDERS[name] for name in options["programs"].split(",")]
    kinds = [INTERRUPTIONS[name] for name in options["interruptions"].split(",")]
    if not all(contender.ours for contender in contenders):
        build_kafka_streams()
    with setting(options["data_dir"], _broker_settings(options["session_ms"])) as (place, broker):
        bench = Downtime(place, Cluster(broker.bootstrap_servers), options)
        rows = []
        for kind in kinds:
            for contender in contenders:
                rows.append(bench.row(kind, contender))
                if options["json_file"] is not None:
                    _add_to(options["json_file"], options, rows[-1:])
                console.print(f"{' | '.join(downtime_results.lines(rows)[-1])}", markup=False)
    table = Table(*downtime_results.COLUMNS, title=downtime_results.title_of(options["session_ms"]))
    for line in downtime_results.lines(rows):
        table.add_row(*line)
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
        self._keys = keys_of_partitions(options["partitions"], _KEYS_OF_PARTITION)

    def row(self, kind: Interruption, contender: Contender) -> dict[str, Any]:
        """Return what came of one interruption of one program, over all repetitions."""
        found: list[Silence] = []
        for number in range(self._options["repetitions"]):
            found += self._once(kind, contender, f"{contender.name}-{kind.name}-{number}")
        return {
            "interruption": kind.title,
            "program": contender.title,
            "session_ms": self._options["session_ms"],
            "stay_s": [silence.seconds for silence in found if not silence.moved],
            "move_s": [silence.seconds for silence in found if silence.moved],
        }

    def _once(self, kind: Interruption, contender: Contender, app: str) -> list[Silence]:
        servers, partitions = self._cluster.bootstrap_servers, self._options["partitions"]
        job = Job(
            bootstrap=servers,
            app=app,
            input=f"{app}-input",
            output=f"{app}-output",
            state=self._directory / app,
            guarantee="exactly_once_v2",
        )
        for topic in (job.input, job.output):
            self._cluster.create_topic(topic, partitions)
        settings = {"num.standby.replicas": str(kind.standbys)} | _group_settings(
            contender, self._options["session_ms"]
        )
        members = Members(contender, job, settings)
        feed = Feed(servers, job.input, self._keys, 1 / self._options["rate"])
        try:
            with Arrivals(servers, job.output, partitions) as arrivals:
                with fed(feed):
                    members.start(*kind.names)
                    if kind.second_life:
                        until_calm(members, arrivals, calm_s=0.3)
                        members.kill_all()
                        members.start(*kind.names)
                    until_calm(members, arrivals, calm_s=0.3)
                    heartbeat_ms = _heartbeat_ms(contender, self._options["session_ms"])
                    members.spread_heartbeats(heartbeat_ms / 1000, Random(app.rpartition("-")[2]))
                    found = interrupt(members, arrivals, kind)
                arrivals.check(feed.truth, members.watch)
        finally:
            members.kill_all()
        self._cluster.keep_only([])
        shutil.rmtree(job.state, ignore_errors=True)
        return found


def _heartbeat_ms(contender: Contender, session_ms: int) -> int:
    """Return how often members send heartbeats: by default, but thrice in a session at least."""
    default_ms = _OUR_HEARTBEAT_MS if contender.ours else _HEARTBEAT_MS
    return min(default_ms, (session_ms or _DEFAULT_SESSION_MS) // 3)


def _group_settings(contender: Contender, session_ms: int) -> dict[str, str]:
    """Return what makes the sessions of all alike; with KIP-848 the broker says it."""
    if contender.settings.get("group.protocol") == "consumer":
        return {}
    if not session_ms:
        return {} if contender.ours else {"session.timeout.ms": str(_DEFAULT_SESSION_MS)}
    return {
        "consumer.session.timeout.ms": str(session_ms),
        "consumer.heartbeat.interval.ms": str(_heartbeat_ms(contender, session_ms)),
    }


def _broker_settings(session_ms: int) -> dict[str, str]:
    """Return what a broker in production has, in place of what makes a development broker quick."""
    session_ms = session_ms or _DEFAULT_SESSION_MS
    return {
        "group.initial.rebalance.delay.ms": "3000",
        "group.consumer.heartbeat.interval.ms": str(min(5000, session_ms // 3)),
        "group.consumer.session.timeout.ms": str(session_ms),
        "group.consumer.assignment.interval.ms": "1000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    }


def _add_to(file: Path, options: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Write the rows to a file; what it has of a row already counts as well."""
    settings = {name: options[name] for name in ("partitions", "rate")}
    content = {"benchmark": "downtime", "machine": results.machine(), "settings": settings}
    before = json.loads(file.read_text("utf-8"))["rows"] if file.exists() else []
    merged = {_name_of(row): row for row in before}
    for row in rows:
        known = merged.get(_name_of(row), {"stay_s": [], "move_s": []})
        samples = {kind: known[kind] + row[kind] for kind in ("stay_s", "move_s")}
        merged[_name_of(row)] = row | samples
    results.write_json(file, content | {"rows": list(merged.values())})


def _name_of(row: dict[str, Any]) -> tuple[object, ...]:
    return row["interruption"], row["program"], row["session_ms"]


if __name__ == "__main__":
    main()
