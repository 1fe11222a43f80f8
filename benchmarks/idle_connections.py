"""What connections that ask nothing cost a count that is served over HTTP, and bad requests.

    python benchmarks/idle_connections.py --connections 1000
    python benchmarks/idle_connections.py --connections 1000 --bad-per-s 100

The count is left alone for a turn; for the next one so many connections are open and say nothing;
again and again. What they cost, once open, is the rate of such a turn beside that of the one
before. In the end all that was read must be counted, and nobody may have been answered wrongly:
each connection is asked for health before it is closed. Bad requests come meanwhile, each over a
connection of its own, and all must be refused.
"""

from __future__ import annotations

import contextlib
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import Any

import click

from benchmarks.harness.asked_processes import AskedProcesses, Timeline
from benchmarks.harness.cluster import Cluster
from benchmarks.harness.output_check import WrongOutputError
from benchmarks.harness.setting import console, setting
from benchmarks.harness.workload import Workload
from pystreams.broker.network import free_ports

_INPUT, _OUTPUT = "input", "output"
_WARM_RECORDS = 20_000
_START_S, _END_S = 60.0, 300.0
_HEALTH = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
_ANSWER_S = 10.0
_BAD = (
    b"nothing that is HTTP\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS where there is none.
    b"GET /v1/status HTTP/1.1\r\nhost: elsewhere.example\r\n\r\n",
    b"GET /v1/stores/counts/%ff HTTP/1.1\r\nhost: elsewhere.example\r\n\r\n",
    b"GET /%b HTTP/1.1\r\nhost: localhost\r\n\r\n" % (b"x" * 20_000),
    b"GET / HTTP/1.1\r\nhost: localhost\r\nx: %b\r\n\r\n" % (b"x" * 100_000),
    b"POST /v1/status HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999999\r\n\r\nx",
)


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--records", type=click.IntRange(1), default=6_000_000, help="Records of the input.")
@click.option("--keys", type=click.IntRange(1), default=100_000, help="Different keys.")
@click.option("--connections", type=click.IntRange(1), default=1_000, help="That say nothing.")
@click.option("--bad-per-s", type=click.IntRange(0), default=0, help="Bad requests meanwhile.")
@click.option("--turn-s", type=float, default=2.0, help="How long a turn is (s).")
def main(**options: Any) -> None:
    """Run the benchmark."""
    with setting(None) as (directory, broker):
        timeline, turns = measure(options, Cluster(broker.bootstrap_servers), directory)
    alone, beside = (
        [_rate(timeline, turn[which]) for turn in turns if _is_busy(timeline, turn)]
        for which in (0, 1)
    )
    kept = statistics.median(idle / rate for idle, rate in zip(beside, alone, strict=True))
    console.print(
        f"left alone {statistics.median(alone):,.0f} records/s; beside {options['connections']:,} "
        f"connections that say nothing and {options['bad_per_s']} bad requests a second "
        f"{statistics.median(beside):,.0f}, {kept:.2f} of the turn before; medians of "
        f"{len(alone)} turns of {options['turn_s']:g} s"
    )


Turn = tuple[tuple[float, float], tuple[float, float]]
"""When the count was left alone, and when there were connections: from and to (s)."""


def measure(
    options: dict[str, Any], cluster: Cluster, directory: Path
) -> tuple[Timeline, list[Turn]]:
    """Count the input, with and without connections in turn.

    Raises:
        WrongOutputError: A connection had no answer in the end, or a bad request one.
    """
    for topic in (_INPUT, _OUTPUT):
        cluster.create_topic(topic, 1)
    Workload(options["records"], options["keys"], value_bytes=20).load(
        cluster.bootstrap_servers, _INPUT
    )
    application = {
        "application.id": "beside-connections",
        "bootstrap.servers": cluster.bootstrap_servers,
        "processing.guarantee": "exactly_once",
        "commit.interval.ms": 100,
    }
    ports = free_ports(1)
    running = AskedProcesses.start(ports, (_INPUT, _OUTPUT), application, directory)
    turns: list[Turn] = []
    try:
        running.wait(_WARM_RECORDS, _START_S)
        while not running.has_counted(options["records"]):
            alone = _a_while(options["turn_s"])
            with (
                _connections(ports[0], options["connections"]),
                _bad_requests(ports[0], options["bad_per_s"]),
            ):
                turns.append((alone, _a_while(options["turn_s"])))
        running.wait(options["records"], _END_S)
        return running.stop(), turns
    finally:
        running.kill()


def _a_while(seconds: float) -> tuple[float, float]:
    began_s = time.monotonic()
    time.sleep(seconds)
    return began_s, time.monotonic()


@contextlib.contextmanager
def _connections(port: int, number: int) -> Iterator[None]:
    with contextlib.ExitStack() as opened:
        connections = [
            opened.enter_context(socket.create_connection(("127.0.0.1", port), _ANSWER_S))
            for _ in range(number)
        ]
        _ask_for_health(port)  # Once it is answered all are open for the server, too.
        yield
        for connection in connections:
            connection.sendall(_HEALTH)
        for connection in connections:
            if not connection.recv(1 << 12).startswith(b"HTTP/1.1 200 "):
                raise WrongOutputError("a connection was not answered")


@contextlib.contextmanager
def _bad_requests(port: int, per_s: int) -> Iterator[None]:
    ended = threading.Event()

    def answers() -> list[bytes]:
        found = list[bytes]()
        requests = cycle(_BAD)
        while not ended.wait(1 / per_s):
            found.append(_refusal(port, next(requests)))
        return found

    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(answers) if per_s else None
        try:
            yield
        finally:
            ended.set()
    for answer in sent.result() if sent else ():
        if answer and not answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")):
            raise WrongOutputError(f"a bad request was answered with {answer[:100]!r}")


def _refusal(port: int, request: bytes) -> bytes:
    """Return the beginning of the answer; nothing if the connection was closed."""
    with socket.create_connection(("127.0.0.1", port), _ANSWER_S) as connection:
        try:
            connection.sendall(request)
            return connection.recv(1 << 12)
        except ConnectionError:
            return b""


def _ask_for_health(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), _ANSWER_S) as connection:
        connection.sendall(_HEALTH)
        connection.recv(1 << 12)


def _rate(timeline: Timeline, turn: tuple[float, float]) -> float:
    began_s, ended_s = turn
    records = timeline.at(ended_s)["records"] - timeline.at(began_s)["records"]
    return records / (ended_s - began_s)


def _is_busy(timeline: Timeline, turn: Turn) -> bool:
    """Return whether there was something to count until its end."""
    return timeline.at(turn[1][1])["records"] < timeline.records


if __name__ == "__main__":
    main()
