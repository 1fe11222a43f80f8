"""The topology of count_app.py, asked over HTTP while it counts; runs until SIGTERM.

A few times a second it writes a line of JSON: the time, the records processed so far, and the CPU
time of the stream thread and of all others that Python has, which are the server's.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import threading
import time

import structlog

from benchmarks.apps.count_app import count_topology
from pystreams import KafkaStreams
from pystreams.http.server import HttpOptions, HttpServer

_EVERY_S = 0.05
_CLOSE_TIMEOUT_S = 30.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("-c", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    return parser.parse_args()


def sample(streams: KafkaStreams) -> dict[str, float]:
    """Return what has been done so far, and what it took."""
    stream_s, server_s = 0.0, 0.0
    for thread in threading.enumerate():
        if "StreamThread-" in thread.name:
            stream_s += _cpu_s(thread)
        elif thread.name == "pystreams-http":
            server_s += _cpu_s(thread)
    return {
        "at_s": time.monotonic(),
        "records": streams.statistics().processed_records,
        "stream_s": stream_s,
        "server_s": server_s,
    }


def _cpu_s(thread: threading.Thread) -> float:
    """Return what a thread has used that has not ended: of one that has nobody may ask."""
    if thread.ident is None:
        return 0.0  # It has not begun.
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


def main() -> None:
    options = arguments()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    topology = count_topology(options.input, options.output, operators=0)
    streams = KafkaStreams(topology, dict(setting.split("=", 1) for setting in options.settings))
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stop.append(number))
    with HttpServer(streams, HttpOptions(port=options.port)):
        streams.start()
        while not stop and not streams.wait(_EVERY_S):
            print(json.dumps(sample(streams)), flush=True)
        streams.close(_CLOSE_TIMEOUT_S)
    if streams.error is not None:
        raise SystemExit(f"failed: {streams.error}")


if __name__ == "__main__":
    main()
