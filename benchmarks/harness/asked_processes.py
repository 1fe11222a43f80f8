"""Processes of one application that count and are asked meanwhile; each tells what it has done."""

from __future__ import annotations

import bisect
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self
from urllib.request import urlopen

from benchmarks.harness.processes import Program, ProgramError

Sample = Mapping[str, float]
"""What has been done up to a moment; see `benchmarks/apps/query_app.py`."""


def partitions_here(port: int, store: str) -> set[int]:
    """Return the partitions of a store that a process has."""
    return _partitions(port, store, "limit=1")


def answers_for_all(ports: Sequence[int], store: str, partitions: int) -> bool:
    """Return whether each process answers for all partitions: those it has, and those of others."""
    try:
        here = [number for port in ports for number in partitions_here(port, store)]
        return sorted(here) == list(range(partitions)) and all(
            _partitions(port, store, f"limit=1&partition={number}") == {number}
            for port in ports
            for number in range(partitions)
        )
    except OSError:  # It does not listen yet, or a partition is on its way: 503.
        return False


def _partitions(port: int, store: str, asked: str) -> set[int]:
    with urlopen(f"http://127.0.0.1:{port}/v1/stores/{store}?{asked}") as answer:
        return {part["partition"] for part in json.load(answer)["partitions"]}


class AskedProcesses:
    """The processes, each with a port and a disk of its own.

    Attributes:
        ports: Where they are asked.
    """

    def __init__(self, programs: Sequence[Program], ports: Sequence[int]) -> None:
        self._programs = programs
        self.ports = ports

    @classmethod
    def start(
        cls, ports: Sequence[int], topics: Sequence[str], settings: Mapping[str, object], at: Path
    ) -> Self:
        """Start a process for each port.

        Args:
            topics: The input and the output.
            settings: Of all of them.
            at: Where state and logs go.
        """
        programs = []
        for port in ports:
            own = {
                **settings,
                "state.dir": at / f"state-{port}",
                "application.server": f"127.0.0.1:{port}",
            }
            command = [
                *(sys.executable, "-m", "benchmarks.apps.query_app", f"--port={port}"),
                *(f"--input={topics[0]}", f"--output={topics[1]}"),
                *(f"-c{name}={value}" for name, value in own.items()),
            ]
            programs.append(Program.start(command, at / f"process-{port}.log"))
        return cls(programs, ports)

    def wait(self, records: int, timeout_s: float, *, of_each: int = 0) -> None:
        """Wait until so many records are counted by all together, and so many by each.

        Raises:
            ProgramError: One has ended, or it takes too long.
        """
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            self.watch()
            counted = self._counted()
            if sum(counted) >= records and min(counted) >= of_each:
                return
            time.sleep(0.1)
        raise ProgramError(f"has not counted {records:,} records in {timeout_s:g} s")

    def wait_for_partitions(self, store: str, partitions: int, timeout_s: float) -> None:
        """Wait until each process answers for all partitions of a store.

        Raises:
            ProgramError: One has ended, or it takes too long.
        """
        deadline_s = time.monotonic() + timeout_s
        while not answers_for_all(self.ports, store, partitions):
            self.watch()
            if time.monotonic() > deadline_s:
                raise ProgramError(
                    f"not every process answers for all {partitions} partitions of {store!r} in "
                    f"{timeout_s:g} s"
                )
            time.sleep(0.1)

    def has_counted(self, records: int) -> bool:
        """Return whether so many records are counted by all together."""
        return sum(self._counted()) >= records

    def watch(self) -> None:
        """Look after them.

        Raises:
            ProgramError: One has ended.
        """
        for program in self._programs:
            program.watch()

    def stop(self) -> Timeline:
        """Stop them all, and return what was done when."""
        timeline = Timeline(self._samples())
        for program in self._programs:
            program.stop()
        return timeline

    def kill(self) -> None:
        """End them as a crash would; does nothing when they have ended."""
        for program in self._programs:
            program.kill()

    def _counted(self) -> list[float]:
        return [found[-1]["records"] if found else 0 for found in self._samples()]

    def _samples(self) -> list[list[Sample]]:
        return [
            [
                json.loads(line)
                for line in program.log_text().splitlines()
                if line.startswith("{") and line.endswith("}")
            ]
            for program in self._programs
        ]


class Timeline:
    """What all processes have done together, moment by moment.

    Args:
        samples: Of each process, in order of time.
    """

    def __init__(self, samples: Sequence[Sequence[Sample]]) -> None:
        self._samples = samples
        self.records = sum(found[-1]["records"] for found in samples)

    def at(self, moment_s: float) -> Sample:
        """Return what had been done at a moment (`time.monotonic`), between the samples around."""
        done = dict.fromkeys(("records", "stream_s", "server_s"), 0.0)
        for samples in self._samples:
            index = bisect.bisect([sample["at_s"] for sample in samples], moment_s)
            index = min(max(index, 1), len(samples) - 1)
            before, after = samples[index - 1], samples[index]
            share = (moment_s - before["at_s"]) / (after["at_s"] - before["at_s"])
            for name in done:
                done[name] += before[name] + share * (after[name] - before[name])
        return done
