"""A plain store becomes a timestamped one: its data moves once, whatever kills it on the way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from pystreams import Position, TopicPartition
from pystreams.stores.engines.rocksdb import RocksDBEngine, plain_data
from pystreams.stores.files.metadata import pack_long
from tests.stores.killed_migration import kill_at_each_line_of_a_move
from tests.stores.managed import changelog, in_another_process

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDS = 30_000
TOTALS = changelog("totals", "shop")
POSITION = Position({TopicPartition("orders", 0): 77}).serialize()
OFFSETS = {str(TOTALS).encode(): pack_long(41), b"position": POSITION}


class Counted:
    """Opens an engine and counts what RocksDB's iterators go over meanwhile."""

    def __init__(self) -> None:
        self._options: Any = None

    def __call__(self, _: str, options: Any) -> None:
        self._options = options
        options.enable_statistics()

    def open(self, directory: Path) -> RocksDBEngine:
        engine = RocksDBEngine("totals", timestamped=True)
        engine.open(directory, self)
        return engine

    def looked_at(self) -> int:
        """Entries and tombstones, those stepped over included."""
        lines = self._options.get_statistics().splitlines()
        counts = dict(line.split(" COUNT : ") for line in lines if line.count(" COUNT : ") == 1)
        wanted = ("number.db.seek", "number.db.next", "number.iter.skip")
        return sum(int(counts[f"rocksdb.{name}"]) for name in wanted)


def plain_store(directory: Path, entries: Iterator[tuple[bytes, bytes]]) -> None:
    engine = RocksDBEngine("totals", timestamped=False)
    engine.open(directory)
    engine.write(dict(entries), dict(OFFSETS))
    engine.close()


def small(numbers: int) -> Iterator[tuple[bytes, bytes]]:
    return ((b"key%06d" % number, b"value%0100d" % number) for number in range(numbers))


def test_each_record_is_looked_at_once(tmp_path: Path) -> None:
    plain_store(tmp_path, small(RECORDS))
    opening, counted = Counted(), dict(small(RECORDS))

    engine = opening.open(tmp_path)
    looked_at = opening.looked_at()

    assert dict(engine.range(None, None)) == {
        key: b"\xff" * 8 + value for key, value in counted.items()
    }
    assert engine.metadata() == OFFSETS
    engine.close()
    assert RECORDS <= looked_at < RECORDS * 1.1


def test_later_opens_step_over_what_was_moved(tmp_path: Path) -> None:
    plain_store(tmp_path, small(RECORDS))
    Counted().open(tmp_path).close()
    opening = Counted()

    engine = opening.open(tmp_path)

    assert opening.looked_at() < RECORDS * 0.01
    engine.close()


def test_the_move_is_told_once_with_the_number_of_records(tmp_path: Path) -> None:
    plain_store(tmp_path, small(RECORDS))

    with capture_logs() as logs:
        for _ in range(2):
            Counted().open(tmp_path).close()

    assert logs == [
        {
            "event": "store.timestamps_added",
            "log_level": "info",
            "store": "totals",
            "records": RECORDS,
        }
    ]


def test_progress_of_a_long_move_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_data, "_TOLD_EVERY_RECORDS", RECORDS // 3)
    plain_store(tmp_path, small(RECORDS))

    with capture_logs() as logs:
        Counted().open(tmp_path).close()

    *progress, end = logs
    assert {line["event"] for line in progress} == {"store.timestamps_being_added"}
    told = [line["records"] for line in progress]
    assert told == sorted(told)
    assert RECORDS // 3 <= told[0] < end["records"] == RECORDS


def test_a_kill_between_any_two_steps_of_the_move_goes_on_where_it_was(tmp_path: Path) -> None:
    """Each value makes a batch of its own, and a memtable: some are on the disk at the kill."""
    directory = tmp_path / "plain"
    values = {b"key%d" % number: b"%d" % number * (1 << 20) for number in range(5)}
    plain_store(directory / "rocksdb" / "totals", iter(values.items()))

    outcomes = in_another_process(kill_at_each_line_of_a_move, directory, tmp_path / "scratch")

    assert len(outcomes) > 20
    moved_before_the_kill = [len(values) - outcome.pop("moved") for outcome in outcomes]
    assert max(moved_before_the_kill[:-1]) > 0
    for outcome in outcomes:
        assert outcome == {
            "next": {TOTALS.topic: 42},
            "entries": [[f"key{number}", -1, str(number), 1 << 20] for number in range(5)],
            "metadata": {"totals": POSITION.hex()},
            "files": [],
        }
