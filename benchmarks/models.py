"""A model that scores records in batches, and calls in flight, beside one after the other.

    python benchmarks/models.py --records 50000 --calls 1000

One task, without a broker, through the operators as an application has them. The model is a line
through delays, in numpy: `map_values` asks it for each record, `map_values_batch` for the records
that are there. A call waits 20 ms, as one to a service would: `map_values` waits for each,
`map_values_async` has up to `--in-flight` under way. Each result is checked, in its order, before
a number is printed; a wrong one ends with exit code 1.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np
import structlog

from benchmarks.harness import model_results, results
from benchmarks.harness.one_task import COMMIT_RECORDS, INPUT, OUTPUT, OneTask
from benchmarks.harness.output_check import WrongOutputError
from benchmarks.harness.setting import console
from pystreams import KStream, StreamsBuilder, Topology, serdes
from pystreams.record import ProducedRecord
from pystreams.runtime.adapters.event_loop import EventLoop

_CALL_S = 0.02
_WEIGHTS = np.array([2.0, 0.5])
_DOUBLE = struct.Struct(">d")

Operation = Callable[[KStream[str, float]], KStream[str, float]]


def scored(values: list[float]) -> list[float]:
    """Return what the model says to each."""
    rows = np.column_stack([np.ones(len(values)), np.array(values)])
    found: list[float] = (rows @ _WEIGHTS).tolist()
    return found


def score(value: float) -> float:
    """Return what the model says to one."""
    [result] = scored([value])
    return result


async def answer(value: float) -> float:
    """Return what a service says, some time later."""
    await asyncio.sleep(_CALL_S)
    return value + 1


def wait_for_answer(value: float) -> float:
    """Return the same, and let everything wait for it."""
    time.sleep(_CALL_S)
    return value + 1


def topology(operation: Operation) -> Topology:
    """Return the topology with one operation."""
    builder = StreamsBuilder()
    stream: Any = builder.stream(INPUT, key_serde=serdes.STRING, value_serde=serdes.DOUBLE)
    operation(stream).to(OUTPUT, key_serde=serdes.STRING, value_serde=serdes.DOUBLE)
    return builder.build()


def fed(count: int) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield the records: number n has the value n."""
    for number in range(count):
        yield b"key", _DOUBLE.pack(number), number


class Answers:
    """What must come out, in order; takes each result as it comes.

    Args:
        expected: The values.
    """

    def __init__(self, expected: Iterable[float]) -> None:
        self._expected = iter(expected)
        self.count = 0

    def see(self, record: ProducedRecord) -> None:
        """Take the next result.

        Raises:
            WrongOutputError: It is another one.
        """
        value, wanted = record[1], next(self._expected, None)
        if wanted is None or value != _DOUBLE.pack(wanted):
            raise WrongOutputError(f"result {self.count} is {value!r}, not {wanted}")
        self.count += 1


def measure(
    name: str, operation: Operation, count: int, result_of: Callable[[float], float]
) -> results.Row:
    """Run records through an operation; return its rate and the thread's CPU time.

    Raises:
        WrongOutputError: A result is missing, wrong, or not in its place.
    """
    answers, loop = Answers(map(result_of, map(float, range(count)))), EventLoop()
    with tempfile.TemporaryDirectory() as directory:
        task = OneTask(topology(operation), Path(directory), answers.see, loop.calls)
        try:
            records, began_s = fed(count), time.monotonic()
            while batch := list(islice(records, COMMIT_RECORDS)):
                task.feed(batch)
            took_s = time.monotonic() - began_s
        finally:
            task.close()
            loop.close()
    if answers.count != count:
        raise WrongOutputError(f"{name}: {answers.count} results of {count}")
    return {
        "name": name,
        "records": count,
        "records_per_s": count / took_s,
        "cpu_us": task.cpu_ns / count / 1000,
    }


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--records", type=click.IntRange(1), default=100_000, help="To be scored.")
@click.option("--calls", type=click.IntRange(1), default=1000, help="To be made.")
@click.option("--in-flight", type=click.IntRange(1), default=1000, help="Calls under way at most.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write results here.")
def main(records: int, calls: int, in_flight: int, json_file: Path | None) -> None:
    """Run the benchmark."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    many: Operation = lambda stream: stream.map_values_async(answer, max_in_flight=in_flight)  # noqa: E731
    try:
        rows = [
            measure("scored one by one", lambda stream: stream.map_values(score), records, score),
            measure(
                "scored in batches", lambda stream: stream.map_values_batch(scored), records, score
            ),
            measure(
                "calls one after the other",
                lambda stream: stream.map_values(wait_for_answer),
                calls,
                lambda value: value + 1,
            ),
            measure("calls in flight", many, calls, lambda value: value + 1),
        ]
    except WrongOutputError as error:
        console.print(f"wrong output: {error}", style="bold red", markup=False)
        sys.exit(1)
    console.print(results.markdown_table(model_results.COLUMNS, model_results.lines(rows)))
    if json_file is not None:
        content = {
            "benchmark": "models",
            "machine": results.machine(),
            "settings": {"in_flight": in_flight, "call_ms": _CALL_S * 1000},
            "rows": rows,
        }
        results.write_json(json_file, content)


if __name__ == "__main__":
    main()
