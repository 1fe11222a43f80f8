"""Questions for keys over HTTP beside a running count: what they cost it, and how soon they answer.

    python benchmarks/queries.py --records 6000000 --rate 1000

The count runs; for a turn it is left alone, for a turn a process beside it is asked at a fixed
rate, for a turn the count is asked so, and so on, so that what drifts on the machine hits all
alike. Who asks shares the processors with the count: what the questions cost is the last turn
beside the one before. Each answer is checked: a count never falls, and is never above what the
input has. After the input's end keys are asked again, and have to be right. One wrong answer ends
the benchmark with exit code 1 and no number.

The CPU of the stream thread a record, and of the server a question, is measured beside the rates:
it drifts less than they do where other programs run.
"""

from __future__ import annotations

import bisect
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from benchmarks.harness import query_results, results
from benchmarks.harness.cluster import Cluster
from benchmarks.harness.output_check import WrongOutputError
from benchmarks.harness.processes import Program, ProgramError
from benchmarks.harness.query_load import Load, ask_at_rate
from benchmarks.harness.setting import console, setting
from benchmarks.harness.workload import Workload
from pystreams.broker.network import free_ports

_INPUT, _OUTPUT = "input", "output"
_START_S, _END_S = 60.0, 300.0
_WARM_RECORDS = 20_000
_ABSENT = "absent"

Sample = Mapping[str, float]


class Turn(NamedTuple):
    """A part of the run.

    Attributes:
        sort: `alone`, `elsewhere` (another process is asked) or `asked`.
        began_s: When it began (`time.monotonic`).
        ended_s: When it ended.
        latencies_s: How long the count's answers took (s).
    """

    sort: str
    began_s: float
    ended_s: float
    latencies_s: Sequence[float] = ()


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--records", type=click.IntRange(1), default=6_000_000, help="Records of the input.")
@click.option("--keys", type=click.IntRange(1), default=100_000, help="Different keys.")
@click.option("--rate", type=click.IntRange(1), default=1_000, help="Questions a second.")
@click.option("--connections", type=click.IntRange(1), default=8, help="Connections.")
@click.option("--turns", type=click.IntRange(1), default=20, help="Turns of each sort.")
@click.option("--turn-s", type=float, default=1.0, help="How long a turn is (s).")
@click.option("--guarantee", default="exactly_once", help="Processing guarantee.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write results here.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where broker and state keep their data; a temporary directory by default.",
)
@click.option("--tamper", is_flag=True, hidden=True, help="Falsify the truth before its check.")
def main(**options: Any) -> None:
    """Run the benchmark."""
    with setting(options["data_dir"]) as (directory, broker):
        row = measure(options, Cluster(broker.bootstrap_servers), directory)
    content = {
        "benchmark": "queries",
        "machine": results.machine(),
        "settings": {
            name: options[name]
            for name in ("records", "keys", "rate", "connections", "turns", "turn_s", "guarantee")
        },
        "rows": [row],
    }
    console.print(results.markdown_table(query_results.COLUMNS, query_results.lines([row])))
    if options["json_file"] is not None:
        results.write_json(options["json_file"], content)


def measure(options: Mapping[str, Any], cluster: Cluster, directory: Path) -> dict[str, Any]:
    """Load the input, count it and ask meanwhile; return the figures.

    Raises:
        ProgramError: The program has ended, or takes too long.
        WrongOutputError: An answer is wrong.
    """
    cluster.create_topic(_INPUT, 1)
    cluster.create_topic(_OUTPUT, 1)
    workload = Workload(options["records"], options["keys"], value_bytes=20)
    with console.status(f"loading {workload.records:,} records over {workload.keys:,} keys"):
        truth = workload.load(cluster.bootstrap_servers, _INPUT)
    if options["tamper"]:
        truth = type(truth)({key: number - 1 for key, number in truth.items()})
    asked = Asked({key.decode(): number for key, number in truth.items()})
    port, other_port = free_ports(2)
    running = Program.start(_command(options, cluster, directory, port), directory / "process.log")
    other = Program.start(
        [sys.executable, "-m", "benchmarks.apps.stand_in", f"--port={other_port}"],
        directory / "stand_in.log",
    )
    try:
        _wait(running, _WARM_RECORDS, _START_S)
        other.watch()
        turns = [
            turn
            for _ in range(options["turns"])
            for turn in _turns(options, port, other_port, asked)
        ]
        _wait(running, options["records"], _END_S)
        asked.is_over = True
        quiet = _ask(options, port, asked.paths(), asked.check)
        running.watch()
        samples = _samples(running)
        running.stop()
    finally:
        other.kill()
        running.kill()
    return _figures(samples, turns, quiet)


class Asked:
    """What is asked, and what may be answered.

    Attributes:
        is_over: Whether all of the input is counted: counts have to be those of the input.
    """

    def __init__(self, truth: Mapping[str, int]) -> None:
        self._truth = truth
        self._keys = [*truth, _ABSENT]
        self._chooser = random.Random(1)
        self._last: dict[str, int] = {}
        self.is_over = False

    def paths(self) -> Iterator[str]:
        """Yield paths of random keys, and now and then of one that is not there."""
        while True:
            yield f"/v1/stores/counts/{self._chooser.choice(self._keys)}"

    def check(self, path: str, status: int, body: bytes) -> None:
        """Check an answer.

        Raises:
            WrongOutputError: It is wrong.
        """
        key = path.rpartition("/")[2]
        highest, before = self._truth.get(key, 0), self._last.get(key, 0)
        if status not in (200, 404):
            raise WrongOutputError(f"{path}: {status} {body.decode()}")
        found = json.loads(body)
        value = found["value"] if status == 200 else 0
        if not before <= value <= highest or (self.is_over and value != highest):
            raise WrongOutputError(f"{key} is {value} after {before}, and {highest} in the input")
        if status == 200 and found["key"] != key:
            raise WrongOutputError(f"{path} is answered for {found['key']}")
        self._last[key] = value


def _command(options: Mapping[str, Any], cluster: Cluster, directory: Path, port: int) -> list[str]:
    settings = {
        "application.id": "asked",
        "bootstrap.servers": cluster.bootstrap_servers,
        "state.dir": directory / "state",
        "processing.guarantee": options["guarantee"],
        "commit.interval.ms": 100,
    }
    return [
        *(sys.executable, "-m", "benchmarks.apps.query_app"),
        *(f"--input={_INPUT}", f"--output={_OUTPUT}", f"--port={port}"),
        *(f"-c{name}={value}" for name, value in settings.items()),
    ]


def _turns(options: Mapping[str, Any], port: int, other_port: int, asked: Asked) -> Iterator[Turn]:
    """Leave the program alone for a turn, ask another one for a turn, and then this one."""
    began_s = time.monotonic()
    time.sleep(options["turn_s"])
    yield Turn("alone", began_s, time.monotonic())
    load = _ask(options, other_port, asked.paths(), _unchecked)
    yield Turn("elsewhere", load.began_s, load.ended_s)
    load = _ask(options, port, asked.paths(), asked.check)
    yield Turn("asked", load.began_s, load.ended_s, load.latencies_s)


def _unchecked(path: str, status: int, body: bytes) -> None:
    """Take any answer."""


def _ask(
    options: Mapping[str, Any],
    port: int,
    paths: Iterator[str],
    check: Callable[[str, int, bytes], None],
) -> Load:
    return ask_at_rate(
        port,
        paths,
        rate=options["rate"],
        seconds=options["turn_s"],
        connections=options["connections"],
        check=check,
    )


def _samples(running: Program) -> list[Sample]:
    lines = running.log_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def _wait(running: Program, records: int, timeout_s: float) -> None:
    """Wait until so many records are counted."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        running.watch()
        samples = _samples(running)
        if samples and samples[-1]["records"] >= records:
            return
        time.sleep(0.1)
    raise ProgramError(f"has not counted {records:,} records in {timeout_s:g} s")


def _figures(samples: Sequence[Sample], turns: Sequence[Turn], quiet: Load) -> dict[str, Any]:
    """Return the figures; rates are of turns in which there was something to count."""
    rates: dict[str, list[float]] = {"alone": [], "elsewhere": [], "asked": []}
    costs: dict[str, list[float]] = {"alone": [], "elsewhere": [], "asked": []}
    server: list[float] = []
    latencies: list[float] = []
    for sort, began_s, ended_s, answered_s in turns:
        before, after = _at(samples, began_s), _at(samples, ended_s)
        records = after["records"] - before["records"]
        if answered_s:
            latencies += answered_s
            server.append(_server_us(before, after, len(answered_s)))
        if records and after["records"] < samples[-1]["records"]:
            rates[sort].append(records / (ended_s - began_s))
            costs[sort].append((after["stream_s"] - before["stream_s"]) * 1e6 / records)
    before, after = _at(samples, quiet.began_s), _at(samples, quiet.ended_s)
    return {
        "turns": len(rates["asked"]),
        **{f"{sort}_records_per_s": _median(found) for sort, found in rates.items()},
        **{f"{sort}_us_per_record": _median(found) for sort, found in costs.items()},
        "kept_beside_asker": _kept(rates["elsewhere"], rates["alone"]),
        "kept": _kept(rates["asked"], rates["elsewhere"]),
        "server_us_per_question": _median(server),
        "quiet_us_per_question": _server_us(before, after, len(quiet.latencies_s)),
        **{f"p{of}_ms": query_results.percentile_ms(latencies, of) for of in (50, 99)},
        **{
            f"quiet_p{of}_ms": query_results.percentile_ms(quiet.latencies_s, of) for of in (50, 99)
        },
    }


def _kept(rates: Sequence[float], before: Sequence[float]) -> float | None:
    """Return the part of the rate of the turn before that a turn has."""
    return _median([rate / earlier for rate, earlier in zip(rates, before, strict=False)])


def _median(figures: Sequence[float]) -> float | None:
    """Return the median; None of a run that was over before a turn was."""
    return statistics.median(figures) if figures else None


def _server_us(before: Sample, after: Sample, questions: int) -> float:
    return (after["server_s"] - before["server_s"]) * 1e6 / questions


def _at(samples: Sequence[Sample], at_s: float) -> Sample:
    """Return what had been done at a moment, between the samples around it."""
    index = bisect.bisect([sample["at_s"] for sample in samples], at_s)
    index = min(max(index, 1), len(samples) - 1)
    before, after = samples[index - 1], samples[index]
    share = (at_s - before["at_s"]) / (after["at_s"] - before["at_s"])
    return {name: before[name] + share * (after[name] - before[name]) for name in before}


if __name__ == "__main__":
    main()
