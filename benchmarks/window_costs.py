"""What a record of a windowed aggregation costs as other open windows, overlap and keys grow.

    python benchmarks/window_costs.py --open 1000,10000,100000,1000000

One task on disk, without a broker: its stores are opened, so many windows of other keys are made,
and then a hundred keys get a record every half second, for a minute and a half of stream time. All
other windows stay open; a thousand old ones close meanwhile, the same in each case, so that final
results are looked for and found. CPU time is that of the task's thread, in records read, processed
and committed, a thousand a commit.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import structlog

from benchmarks.count import Names
from benchmarks.harness import results, window_results
from benchmarks.harness.one_task import INPUT, OUTPUT, OneTask
from benchmarks.harness.setting import console
from benchmarks.harness.window_kinds import EMITS, KINDS
from pystreams import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    serdes,
    session_windowed_serde,
    time_windowed_serde,
)

_SIZE_MS = 1_000
_GRACE_MS = 1_000_000
_NOW_MS = 10_000_000
_MEASURED_MS = 90_000
_BEHIND_MS = 500
_OLD_WINDOWS = 1_000
_FEW_WINDOWS = 1_000
_OVERLAP = 5
_KEYS = 100

OPEN, OVERLAP, KEYS = "open windows", "overlap", "keys"
"""What grows."""


@dataclass(frozen=True, slots=True)
class CostCase:
    """What is measured.

    Attributes:
        grows: What grows from this case to the next.
        kind: How time is cut.
        emit: When results are sent on.
        windows: How many windows of other keys are open.
        overlap: How many windows a record is in, where they hop.
        keys: How many keys get the measured records.
    """

    grows: str
    kind: str
    emit: str
    windows: int = _FEW_WINDOWS
    overlap: int = _OVERLAP
    keys: int = _KEYS

    def topology(self) -> Topology:
        """Return a topology that counts."""
        builder = StreamsBuilder()
        text: dict[str, Any] = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
        grouped = builder.stream(INPUT, **text).group_by_key(**text)
        emit = (
            EmitStrategy.on_window_close()
            if self.emit == "close"
            else EmitStrategy.on_window_update()
        )
        key_serde: Any = time_windowed_serde(serdes.STRING, _SIZE_MS)
        if self.kind == "session":
            sessions = SessionWindows.of_inactivity_gap_and_grace(_SIZE_MS, _GRACE_MS)
            table = grouped.windowed_by(sessions).emit_strategy(emit).count()
            key_serde = session_windowed_serde(serdes.STRING)
        elif self.kind == "sliding":
            sliding = SlidingWindows.of_time_difference_and_grace(_SIZE_MS, _GRACE_MS)
            table = grouped.windowed_by(sliding).emit_strategy(emit).count()
        else:
            windows = TimeWindows.of_size_and_grace(_SIZE_MS, _GRACE_MS)
            if self.kind == "hopping":
                windows = windows.advance_by(_SIZE_MS // self.overlap)
            table = grouped.windowed_by(windows).emit_strategy(emit).count()
        table.to_stream().to(OUTPUT, key_serde=key_serde, value_serde=serdes.LONG)
        return builder.build()

    def others(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield the records whose windows are there before: old ones, then those that stay open."""
        for number in range(_OLD_WINDOWS):
            behind = number * _MEASURED_MS // _OLD_WINDOWS
            yield f"old-{number}".encode(), b"v", _NOW_MS - _GRACE_MS - _SIZE_MS + behind
        records = self.windows // (self.overlap if self.kind == "hopping" else 1)
        for number in range(records):
            behind = _GRACE_MS * 8 // 10 * (records - number) // records
            # Neighbours in number are strangers in order, as keys of users are.
            key = number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
            yield f"other-{key:016x}".encode(), b"v", _NOW_MS - behind

    def measured(self, records: int) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield the records that are measured; one in five is out of order."""
        chooser = random.Random(1)
        for number in range(records):
            behind = chooser.randint(1, _BEHIND_MS) if chooser.random() < 0.2 else 0
            key = f"key-{chooser.randrange(self.keys)}".encode()
            yield key, b"v", _NOW_MS + number * _MEASURED_MS // records - behind


def cost_us(case: CostCase, records: int, data_dir: Path | None) -> float:
    """Run a case; return the CPU time of a record (us)."""
    with tempfile.TemporaryDirectory(dir=data_dir) as directory:
        task = OneTask(case.topology(), Path(directory))
        try:
            task.feed(case.others())
            before_ns = task.cpu_ns
            task.feed(case.measured(records))
            return (task.cpu_ns - before_ns) / records / 1000
        finally:
            task.close()


def cases_of(options: dict[str, Any]) -> list[CostCase]:
    """Return what is measured, in order."""
    kinds, emits = options["kinds"], options["emits"]
    cases = [
        CostCase(OPEN, kind, emit, windows=windows)
        for kind in kinds
        for emit in emits
        for windows in _numbers(options["open_windows"])
    ]
    if "hopping" in kinds:
        cases += [
            CostCase(OVERLAP, "hopping", emit, overlap=overlap)
            for emit in emits
            for overlap in _numbers(options["overlaps"])
        ]
    cases += [
        CostCase(KEYS, kind, emit, keys=keys)
        for kind in kinds
        for emit in emits
        for keys in _numbers(options["keys"])
    ]
    return cases


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option(
    "--open",
    "open_windows",
    default="1000,10000,100000,1000000",
    help="How many other windows are open, with commas.",
)
@click.option("--overlaps", default="1,10,100", help="Windows a record is in, with commas.")
@click.option("--keys", default="100,1000,10000", help="Keys that get records, with commas.")
@click.option("--records", type=click.IntRange(1000), default=20_000, help="Measured in each case.")
@click.option(
    "--kinds",
    type=Names(KINDS),
    default=",".join(KINDS),
    help="How time is cut, with commas.",
)
@click.option(
    "--emit",
    "emits",
    type=Names(EMITS),
    default=",".join(EMITS),
    help="When results are sent on, with commas.",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write results here.")
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="For all data.")
def main(**options: Any) -> None:
    """Run the benchmark."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    rows: list[dict[str, Any]] = []
    for case in cases_of(options):
        cpu_us = cost_us(case, options["records"], options["data_dir"])
        rows.append(asdict(case) | {"cpu_us": cpu_us})
        console.print(
            f"{case.kind} on {case.emit}: {case.windows:,} other windows open, {case.keys:,} keys, "
            f"overlap {case.overlap}: {cpu_us:.1f} us a record"
        )
    content = {
        "benchmark": "window-costs",
        "machine": results.machine(),
        "settings": {"records": options["records"]},
        "rows": rows,
    }
    for table in window_results.cost_tables(content).values():
        console.print(table)
    if options["json_file"] is not None:
        results.write_json(options["json_file"], content)


if __name__ == "__main__":
    main()
