"""Questions for keys over HTTP beside a running count: what they cost it, and how soon they answer.

    python benchmarks/queries.py --records 6000000 --rate 1000

The count runs; for a turn it is left alone, for a turn a program beside it is asked at a fixed
rate, for a turn the count is asked so, and so on, so that what drifts on the machine hits all
alike. Who asks shares the processors with the count, and has the same work in both turns: at as
many addresses as the count has processes the program beside it answers from memory what they would.
What the questions cost is the last turn beside the one before. Each answer is checked: a count
never falls, and is never above what the input has. After the input's end keys are asked again, and
have to be right. One wrong answer ends the benchmark with exit code 1 and no number.

The CPU of the stream thread a record, and of the server and of who asks a question, is measured
beside the rates: it drifts less than they do where other programs run.

With `--processes 3 --partitions 12` each question goes to the process that has the key, as a client
asks that looks owners up (`query_metadata_for_key`); with `--to any` to any of them, which asks the
owner; with `--to client` `pystreams.client.Client` is given the first process, and asks whom it
chooses, from as many threads as there are connections otherwise.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from benchmarks.harness import query_results, results
from benchmarks.harness.asked_processes import AskedProcesses, Sample, Timeline, partitions_here
from benchmarks.harness.client_load import ask_with_client
from benchmarks.harness.cluster import Cluster
from benchmarks.harness.output_check import WrongOutputError
from benchmarks.harness.processes import Program
from benchmarks.harness.query_load import Load, ask_at_rate
from benchmarks.harness.setting import console, setting
from benchmarks.harness.workload import Workload
from pystreams.broker.network import free_ports
from pystreams.client import Client, HttpQueryError
from pystreams.kernel.partitioner import partition_of

_INPUT, _OUTPUT = "input", "output"
_SETTINGS = (
    *("records", "keys", "processes", "partitions", "to"),
    *("rate", "connections", "turns", "turn_s", "guarantee"),
)
_START_S, _END_S = 60.0, 300.0
_WARM_RECORDS = 20_000
_ABSENT = "absent"


Asking = Callable[[], Load]
"""Asks for a turn."""


class Turn(NamedTuple):
    """A part of the run.

    Attributes:
        sort: `alone`, `elsewhere` (the program beside the count is asked) or `asked`.
        began_s: When it began (`time.monotonic`).
        ended_s: When it ended.
        latencies_s: How long the count's answers took (s).
        asker_us: What a question took who asked (us of a processor); None: nobody did.
    """

    sort: str
    began_s: float
    ended_s: float
    latencies_s: Sequence[float] = ()
    asker_us: float | None = None


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--records", type=click.IntRange(1), default=6_000_000, help="Records of the input.")
@click.option("--keys", type=click.IntRange(1), default=100_000, help="Different keys.")
@click.option("--processes", type=click.IntRange(1), default=1, help="Processes that count.")
@click.option("--partitions", type=click.IntRange(1), default=1, help="Of the input.")
@click.option(
    "--to", type=click.Choice(["owner", "any", "client"]), default="owner", help="Who is asked."
)
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
        "settings": {name: options[name] for name in _SETTINGS},
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
    cluster.create_topic(_INPUT, options["partitions"])
    cluster.create_topic(_OUTPUT, options["partitions"])
    workload = Workload(options["records"], options["keys"], value_bytes=20)
    with console.status(f"loading {workload.records:,} records over {workload.keys:,} keys"):
        truth = workload.load(cluster.bootstrap_servers, _INPUT)
    if options["tamper"]:
        truth = type(truth)({key: number - 1 for key, number in truth.items()})
    counts = {key.decode(): number for key, number in truth.items()}
    asked = Asked(counts)
    ports = free_ports(2 * options["processes"])
    ports, other_ports = ports[::2], ports[1::2]
    running = AskedProcesses.start(
        ports, (_INPUT, _OUTPUT), _application(options, cluster), directory
    )
    other = Program.start(
        [
            *(sys.executable, "-m", "benchmarks.apps.stand_in"),
            *(f"--port={port}" for port in other_ports),
            *(f"--{name}={options[name]}" for name in ("partitions", "keys")),
        ],
        directory / "stand_in.log",
    )
    try:
        running.wait(_WARM_RECORDS, _START_S, of_each=1)
        running.wait_for_partitions("counts", options["partitions"], _START_S)
        other.watch()
        way = _with_client if options["to"] == "client" else _over_http
        ask = way(options, ports, asked)
        ask_other = way(options, other_ports, Asked(dict.fromkeys(counts, 1)))
        for first in (ask, ask_other):
            first()  # The first questions find what later ones know.
        turns = [
            turn
            for _ in range(options["turns"])
            for turn in _turns(options["turn_s"], ask, ask_other)
        ]
        running.wait(options["records"], _END_S)
        asked.is_over = True
        quiet = ask()
        running.watch()
        timeline = running.stop()
    except (OSError, HttpQueryError):
        running.watch()  # Which tells why nobody answers, if one has ended.
        raise
    finally:
        other.kill()
        running.kill()
    return _figures(timeline, turns, quiet)


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
        self._unanswered: set[str] = set()
        self.is_over = False

    def keys(self, here: Collection[int] = (0,), count: int = 1) -> Iterator[str]:
        """Yield random keys, and now and then one that is not there.

        A key is asked for once at a time: two answers could come in another order.

        Args:
            here: The partitions that the keys are of.
            count: Of how many.
        """
        keys = [key for key in self._keys if partition_of(key.encode(), count) in here]
        while True:
            key = self._chooser.choice(keys)
            if key not in self._unanswered:
                self._unanswered.add(key)
                yield key

    def check(self, path: str, status: int, body: bytes) -> None:
        """Check an answer over HTTP.

        Raises:
            WrongOutputError: It is wrong.
        """
        if status not in (200, 404):
            raise WrongOutputError(f"{path}: {status} {body.decode()}")
        self.check_found(_key_of(path), json.loads(body) if status == 200 else None)

    def check_found(self, key: str, found: Mapping[str, Any] | None) -> None:
        """Check what was found of a key.

        Raises:
            WrongOutputError: It is wrong.
        """
        self._unanswered.discard(key)
        highest, before = self._truth.get(key, 0), self._last.get(key, 0)
        value = 0 if found is None else found["value"]
        if not before <= value <= highest or (self.is_over and value != highest):
            raise WrongOutputError(f"{key} is {value} after {before}, and {highest} in the input")
        if found is not None and found["key"] != key:
            raise WrongOutputError(f"{key} is answered with {found['key']}")
        self._last[key] = value


def _application(options: Mapping[str, Any], cluster: Cluster) -> dict[str, object]:
    return {
        "application.id": "asked",
        "bootstrap.servers": cluster.bootstrap_servers,
        "processing.guarantee": options["guarantee"],
        "commit.interval.ms": 100,
    }


def _turns(turn_s: float, ask: Asking, ask_other: Asking) -> Iterator[Turn]:
    """Leave the count alone for a turn, ask what answers as it does for one, and then the count."""
    began_s = time.monotonic()
    time.sleep(turn_s)
    yield Turn("alone", began_s, time.monotonic())
    load = ask_other()
    yield Turn("elsewhere", load.began_s, load.ended_s, asker_us=_asker_us(load))
    load = ask()
    yield Turn("asked", load.began_s, load.ended_s, load.latencies_s, _asker_us(load))


def _over_http(options: Mapping[str, Any], ports: Sequence[int], asked: Asked) -> Asking:
    """Return how those that answer at some ports are asked."""
    load = {name: options[name] for name in ("rate", "connections")}
    paths = _paths(options, ports, asked)
    return partial(ask_at_rate, paths, seconds=options["turn_s"], check=asked.check, **load)


def _with_client(options: Mapping[str, Any], ports: Sequence[int], asked: Asked) -> Asking:
    """Return how those that answer at some ports are asked with a client of the first."""
    load = {"rate": options["rate"], "threads": options["connections"]}
    client = Client(f"127.0.0.1:{ports[0]}")
    ask = partial(ask_with_client, client, asked.keys(), seconds=options["turn_s"])
    return partial(ask, check=asked.check_found, **load)


def _paths(
    options: Mapping[str, Any], ports: Sequence[int], asked: Asked
) -> Mapping[int, Iterator[str]]:
    """Return what is asked at each port."""
    if options["to"] == "any":
        return dict.fromkeys(ports, map(_path_of, asked.keys()))
    count = options["partitions"]
    shares = {port: partitions_here(port, "counts") for port in ports}
    return {port: map(_path_of, asked.keys(share, count)) for port, share in shares.items()}


def _path_of(key: str) -> str:
    return f"/v1/stores/counts/{key}"


def _key_of(path: str) -> str:
    return path.rpartition("/")[2]


def _figures(timeline: Timeline, turns: Sequence[Turn], quiet: Load) -> dict[str, Any]:
    """Return the figures; rates are of turns in which there was something to count."""
    rates: dict[str, list[float]] = {"alone": [], "elsewhere": [], "asked": []}
    costs: dict[str, list[float]] = {"alone": [], "elsewhere": [], "asked": []}
    askers: dict[str, list[float]] = {"elsewhere": [], "asked": []}
    server: list[float] = []
    latencies: list[float] = []
    for sort, began_s, ended_s, answered_s, asker_us in turns:
        if asker_us is not None:
            askers[sort].append(asker_us)
        before, after = timeline.at(began_s), timeline.at(ended_s)
        records = after["records"] - before["records"]
        if answered_s:
            latencies += answered_s
            server.append(_server_us(before, after, len(answered_s)))
        if records and after["records"] < timeline.records:
            rates[sort].append(records / (ended_s - began_s))
            costs[sort].append((after["stream_s"] - before["stream_s"]) * 1e6 / records)
    before, after = timeline.at(quiet.began_s), timeline.at(quiet.ended_s)
    return {
        "turns": len(rates["asked"]),
        **{f"{sort}_records_per_s": _median(found) for sort, found in rates.items()},
        **{f"{sort}_us_per_record": _median(found) for sort, found in costs.items()},
        "kept_beside_asker": _kept(rates["elsewhere"], rates["alone"]),
        "kept": _kept(rates["asked"], rates["elsewhere"]),
        "elsewhere_asker_us_per_question": _median(askers["elsewhere"]),
        "asked_asker_us_per_question": _median(askers["asked"]),
        "quiet_asker_us_per_question": _asker_us(quiet),
        "server_us_per_question": _median(server),
        "quiet_us_per_question": _server_us(before, after, len(quiet.latencies_s)),
        **{f"p{of}_ms": query_results.percentile_ms(latencies, of) for of in (50, 99)},
        **{
            f"quiet_p{of}_ms": query_results.percentile_ms(quiet.latencies_s, of) for of in (50, 99)
        },
    }


def _asker_us(load: Load) -> float:
    return load.cpu_s * 1e6 / len(load.latencies_s)


def _kept(rates: Sequence[float], before: Sequence[float]) -> float | None:
    """Return the part of the rate of the turn before that a turn has."""
    return _median([rate / earlier for rate, earlier in zip(rates, before, strict=False)])


def _median(figures: Sequence[float]) -> float | None:
    """Return the median; None of a run that was over before a turn was."""
    return statistics.median(figures) if figures else None


def _server_us(before: Sample, after: Sample, questions: int) -> float:
    return (after["server_s"] - before["server_s"]) * 1e6 / questions


if __name__ == "__main__":
    main()
