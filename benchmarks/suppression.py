"""Memory of a suppression that holds back millions of open windows on disk.

    python benchmarks/suppression.py --windows 10000000

One task, without a broker: a count per key and window, whose results wait for their window to
close. First every window is opened, then time goes on until all have closed; each result must have
come out once, and as the count it is. Along the way it prints the process's resident memory, and
what RocksDB holds, beside the configured totals. More than the limit ends with exit code 1, and so
does a result that is missing, wrong or there twice.

The limit: what the process took before the first store, the configured block cache, memtables and
uncommitted writes, and the constants of memory.py. With `--at-once` all windows close with one
record.
"""

from __future__ import annotations

import struct
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import click
import structlog

from benchmarks.harness import results
from benchmarks.harness.one_task import INPUT, OUTPUT, REQUIRED, OneTask
from benchmarks.harness.output_check import WrongOutputError
from benchmarks.harness.setting import console
from benchmarks.memory import STORE_BYTES, WORKING_BYTES, Measurement
from pystreams import (
    BufferConfig,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    serdes,
    time_windowed_serde,
)
from pystreams.config import StreamsConfig
from pystreams.config.resolution import Source
from pystreams.record import ProducedRecord
from pystreams.stores.engines.rocksdb import MEMORY

_STORES = 2
_MOMENTS = 5
_SIZE_MS = 10
_OPEN_MS = 3_600_000
_CLOSED_BY_A_RECORD = 20
_SCRAMBLE = 0x9E3779B97F4A7C15
_UNSCRAMBLE = pow(_SCRAMBLE, -1, 1 << 64)
_MASK = (1 << 64) - 1
_CLOSING_KEY = b"closing"
_KEY_BYTES = 8


def topology(*, at_once: bool) -> Topology:
    """Return the topology: all windows are open until an hour has gone by."""
    builder = StreamsBuilder()
    raw: dict[str, Any] = {"key_serde": serdes.BYTES, "value_serde": serdes.BYTES}
    size_ms, grace_ms = (_OPEN_MS, 0) if at_once else (_SIZE_MS, _OPEN_MS)
    windows = TimeWindows.of_size_and_grace(size_ms, grace_ms)
    counts = builder.stream(INPUT, **raw).group_by_key(**raw).windowed_by(windows).count()
    finals = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    key_serde = time_windowed_serde(serdes.BYTES, size_ms)
    finals.to_stream().to(OUTPUT, key_serde=key_serde, value_serde=serdes.LONG)
    return builder.build()


class Finals:
    """What has come out.

    Args:
        windows: How many results there will be.
    """

    def __init__(self, windows: int) -> None:
        self._missing = bytearray(b"\x01") * windows
        self.count = 0

    def see(self, record: ProducedRecord) -> None:
        """Take the next result.

        Raises:
            WrongOutputError: It is no result, or was there before.
        """
        key, value, _, _ = record
        assert key is not None, "results have keys"
        if key.startswith(_CLOSING_KEY):
            return
        scrambled = int.from_bytes(key[:_KEY_BYTES], "big")
        number = scrambled * _UNSCRAMBLE & _MASK
        missing = self._missing
        if number >= len(missing) or not missing[number] or value != (1).to_bytes(8, "big"):
            raise WrongOutputError(f"window {number} came with {value!r}, or for the second time")
        missing[number] = 0
        self.count += 1


def opening(windows: int) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield a record for each window, within an hour; neighbours in number have strange keys."""
    for number in range(windows):
        key = struct.pack(">Q", number * _SCRAMBLE & _MASK)
        yield key, b"", number * _OPEN_MS // windows


def closing(windows: int, *, at_once: bool) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield records that close all windows: one, or one after the other within another hour."""
    if not at_once:
        records = windows // _CLOSED_BY_A_RECORD
        for number in range(records):
            yield _CLOSING_KEY, b"", _OPEN_MS + number * _OPEN_MS // records
    yield _CLOSING_KEY, b"", 2 * _OPEN_MS + _SIZE_MS


def measure(
    windows: int, finals: Finals, measurement: Measurement, data_dir: Path | None, *, at_once: bool
) -> dict[str, float]:
    """Open all windows, and close them; return the CPU time of each way (us a window).

    Raises:
        WrongOutputError: A result came early, for the second time, with a wrong value, or not.
    """
    with tempfile.TemporaryDirectory(dir=data_dir) as directory:
        task = OneTask(topology(at_once=at_once), Path(directory), finals.see)
        try:
            records = opening(windows)
            for tenth in range(1, _MOMENTS + 1):
                until = windows * tenth // _MOMENTS
                task.feed(islice(records, until - windows * (tenth - 1) // _MOMENTS))
                measurement.look(f"{until:,} windows open")
            if finals.count:
                raise WrongOutputError(f"{finals.count} results came while all windows were open")
            opened_ns = task.cpu_ns
            for part in _in_parts(closing(windows, at_once=at_once), windows):
                task.feed(part)
                measurement.look(f"{finals.count:,} results came")
            if finals.count != windows:
                raise WrongOutputError(f"{finals.count} results came, of {windows} windows")
            closed_ns = task.cpu_ns - opened_ns
            return {
                "cpu_us_in": opened_ns / windows / 1000,
                "cpu_us_out": closed_ns / windows / 1000,
            }
        finally:
            task.close()


def _in_parts(
    records: Iterator[tuple[bytes, bytes, int]], windows: int
) -> Iterator[Iterator[tuple[bytes, bytes, int]]]:
    """Yield the closing records in parts, after each of which memory is looked at."""
    part_records = windows // _CLOSED_BY_A_RECORD // _MOMENTS + 1
    for first in records:
        yield chain([first], islice(records, part_records - 1))


@click.command(help=__doc__.split("\n\n", maxsplit=1)[0], context_settings={"show_default": True})
@click.option("--windows", type=click.IntRange(1000), default=10_000_000, help="Open at once.")
@click.option("--at-once", is_flag=True, help="All windows close with one record.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write results here.")
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="For all data.")
def main(windows: int, at_once: bool, json_file: Path | None, data_dir: Path | None) -> None:
    """Run the benchmark."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    config = StreamsConfig.from_sources([Source("", REQUIRED)])
    block_cache_bytes = config.statestore_rocksdb_block_cache_bytes
    write_buffer_bytes = config.statestore_rocksdb_write_buffer_bytes
    MEMORY.configure(block_cache_bytes=block_cache_bytes, write_buffer_bytes=write_buffer_bytes)
    configured = block_cache_bytes + write_buffer_bytes + config.statestore_uncommitted_max_bytes
    finals = Finals(windows)
    measurement = Measurement(configured + _STORES * STORE_BYTES + WORKING_BYTES)
    try:
        costs = measure(windows, finals, measurement, data_dir, at_once=at_once)
    except WrongOutputError as error:
        console.print(f"wrong output: {error}", style="bold red", markup=False)
        sys.exit(1)
    measurement.look_back()
    console.print(measurement.table())
    if json_file is not None:
        content = {
            "benchmark": "suppression",
            "machine": results.machine(),
            "settings": {"windows": windows, "at_once": at_once} | costs,
            "rows": measurement.rows,
        }
        results.write_json(json_file, content)
    if not measurement.within_limit:
        sys.exit(1)


if __name__ == "__main__":
    main()
