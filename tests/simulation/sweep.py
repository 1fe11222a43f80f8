"""Runs the application of `tests/simulation/sweeping` for many seeds, each with trouble of its own.

    python -m tests.simulation.sweep --seeds 0:100000 --processes 2

Ends at the first seed that fails, and tells how to run it again. With `--plant` a bug is planted
first: then it is a seed that finds it which is looked for. `--plant all` tries each of them, and
ends with a table of which seed found which (docs/reliability.md).
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from multiprocessing import get_context

from pystreams.kernel.garbage_collection import collected_seldom
from tests.simulation.sweeping.planted import PLANTS
from tests.simulation.sweeping.run import STEPS
from tests.simulation.sweeping.seeds import Failure, first_failure, run_seed, shrunk

_CHUNK = 25
_TELL_EVERY_S = 10.0
_TRACE_LINES = 120


def main() -> int:
    """Run the seeds; return 1 if one failed, or if one of the planted bugs was not found."""
    arguments = _arguments()
    first, last = map(int, arguments.seeds.split(":"))
    if last == first + 1:
        without = tuple(filter(None, arguments.without.split(",")))
        failure = run_seed(first, steps=arguments.steps, without=without, plant=arguments.plant)
        if failure is not None:
            _show(failure)
        return failure is not None
    if arguments.plant:
        if arguments.plant != "all":
            return not _look_for(arguments.plant, range(first, last), arguments.steps)
        found = {name: _look_for(name, range(first, last), arguments.steps) for name in PLANTS}
        print(table_of(found, range(first, last)), flush=True)
        return not all(found.values())
    return _sweep(range(first, last), arguments.processes, arguments.steps)


def _sweep(seeds: range, processes: int, steps: int) -> int:
    begin = told = time.monotonic()
    done = 0
    for failure in _failures(seeds, processes, steps):
        if failure is not None:
            print(f"seed {failure.seed} failed: {failure.error}\nshrinking ...", flush=True)
            _show(shrunk(failure))
            return 1
        done = min(done + _CHUNK, len(seeds))
        seconds = time.monotonic() - begin
        if time.monotonic() - told > _TELL_EVERY_S:
            told = time.monotonic()
            left = seconds / done * (len(seeds) - done)
            print(f"{done} seeds clean in {seconds:.0f} s, {left:.0f} s to go", flush=True)
    seconds = time.monotonic() - begin
    print(f"{len(seeds)} seeds clean in {seconds:.0f} s: {seeds.start}:{seeds.stop}", flush=True)
    return 0


def _failures(seeds: range, processes: int, steps: int) -> Iterator[Failure | None]:
    """Iterate over chunks of seeds, in whatever order they are done."""
    chunks = [(seeds[at : at + _CHUNK], steps) for at in range(0, len(seeds), _CHUNK)]
    if processes == 1:
        yield from map(_of_chunk, chunks)
        return
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(_of_chunk, chunks)


def _of_chunk(chunk: tuple[range, int]) -> Failure | None:
    seeds, steps = chunk
    with collected_seldom():
        return first_failure(seeds, steps=steps)


def table_of(found: Mapping[str, Failure | None], seeds: range) -> str:
    """Return a table in Markdown: which planted bug was found by which of these seeds."""
    lines = ["| planted bug | found by seed | seeds tried |", "|---|---:|---:|"]
    for plant, failure in found.items():
        seed = "none" if failure is None else failure.seed
        tried = len(seeds) if failure is None else seeds.index(failure.seed) + 1
        lines.append(f"| `{plant}` | {seed} | {tried} |")
    return "\n".join(lines)


def _look_for(plant: str, seeds: range, steps: int) -> Failure | None:
    """Return how the first seed that finds a bug does; tell of it."""
    begin = time.monotonic()
    failure = first_failure(seeds, steps=steps, plant=plant)
    seconds = time.monotonic() - begin
    if failure is None or not failure.is_told:
        print(f"{plant}: not found in {len(seeds)} seeds, {seconds:.0f} s", flush=True)
        return None
    why = str(failure.error).partition("\n")[0][:150]
    print(f"{plant}: found at seed {failure.seed}, {seconds:.0f} s: {why}", flush=True)
    return failure


def _show(failure: Failure) -> None:
    print("\n".join(failure.trace[-_TRACE_LINES:]))
    traceback.print_exception(failure.error)
    print(failure.scenario)
    print(f"again: {failure.command()}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:500", help="FROM:TO")
    parser.add_argument("--processes", type=int, default=1, help="how many work side by side")
    parser.add_argument("--steps", type=int, default=STEPS, help="how long each run is")
    parser.add_argument("--without", default="", help="kinds of trouble to leave out, with commas")
    parser.add_argument("--plant", help="a planted bug, or all")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
