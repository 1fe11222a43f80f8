"""What every engine promises of keys that begin with a segment: memory and RocksDB."""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rocksdict import Options, Rdict

from pystreams import StateStoreError, StoreNotAvailableError
from pystreams.stores.engines.memory import MemoryEngine
from pystreams.stores.engines.rocksdb import RocksDBSegmentEngine
from pystreams.stores.time_segments.segments import SEGMENT_ID_BYTES, segment_id_of, segment_prefix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pystreams.stores.contracts.key_value import KeyValueEngine

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[2]
INTERVAL_MS = 60_000


@pytest.fixture(params=["memory", "rocksdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyValueEngine]:
    made: KeyValueEngine
    if request.param == "memory":
        made = MemoryEngine("s")
    else:
        made = RocksDBSegmentEngine("s", INTERVAL_MS)
    made.open(tmp_path / "s")
    yield made
    made.close()


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[RocksDBSegmentEngine]:
    made = RocksDBSegmentEngine("s", INTERVAL_MS)
    made.open(tmp_path / "s")
    yield made
    made.close()


def at(segment: int, key: bytes = b"") -> bytes:
    return segment_prefix(segment) + key


def content(engine: KeyValueEngine) -> dict[bytes, bytes]:
    return dict(engine.range(None, None))


def families(directory: Path) -> set[str]:
    return set(Rdict.list_cf(str(directory)))


def test_what_was_written_is_read_from_its_segment(engine: KeyValueEngine) -> None:
    engine.write({at(1, b"a"): b"1", at(2, b"a"): b"2", at(2, b""): b""}, {})
    assert [engine.get(at(n, b"a")) for n in (0, 1, 2, 3)] == [None, b"1", b"2", None]
    assert engine.get(at(2)) == b""


def test_none_deletes_and_makes_no_segment(engine: KeyValueEngine, tmp_path: Path) -> None:
    engine.write({at(1, b"a"): b"1", at(1, b"b"): b"2"}, {})
    engine.write({at(1, b"a"): None, at(7, b"a"): None}, {})
    assert content(engine) == {at(1, b"b"): b"2"}
    engine.close()
    assert not (tmp_path / "s").exists() or "420000" not in families(tmp_path / "s")


def test_order_is_by_segment_then_by_unsigned_bytes(engine: KeyValueEngine) -> None:
    keys = [at(n, key) for n in (0, 1, 200, 1 << 40) for key in (b"", b"\x00", b"a", b"\xff\xff")]
    engine.write(dict.fromkeys(reversed(keys), b"v"), {})
    assert [key for key, _ in engine.range(None, None)] == keys
    assert [key for key, _ in engine.range(None, None, reverse=True)] == keys[::-1]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (at(1, b"b"), at(2, b"b"), ["1b", "1c", "2a"]),
        (at(1, b"b"), at(1, b"c"), ["1b"]),
        (at(1), at(2), ["1a", "1b", "1c"]),
        (at(1), None, ["1a", "1b", "1c", "2a", "2b", "4a"]),
        (at(2, b"b"), at(9), ["2b", "4a"]),
        (at(3), at(4, b"a"), []),
        (None, at(1, b"b"), ["0a", "1a"]),
        (b"", at(0)[:4], []),
        (at(0)[:7], at(1)[:7], []),
        (at(1, b"d"), at(2, b"a"), []),
        (at(2, b"b"), at(1, b"a"), []),
        (at(1, b"b"), at(1, b"a"), []),
        (at(9), None, []),
    ],
)
def test_ranges_include_the_start_and_exclude_the_end(
    engine: KeyValueEngine,
    start: bytes | None,
    end: bytes | None,
    expected: list[str],
    *,
    reverse: bool,
) -> None:
    names = ["0a", "1a", "1b", "1c", "2a", "2b", "4a"]
    engine.write({at(int(name[0]), name[1:].encode()): name.encode() for name in names}, {})
    found = [value.decode() for _, value in engine.range(start, end, reverse=reverse)]
    assert found == (expected[::-1] if reverse else expected)


def test_metadata_is_kept_apart_from_data(engine: KeyValueEngine) -> None:
    engine.write({at(0, b"k"): b"v"}, {b"t-0": b"1", b"t-1": b"2"})
    engine.write({}, {b"t-0": b"3", b"t-1": None})
    assert engine.metadata() == {b"t-0": b"3"}
    assert content(engine) == {at(0, b"k"): b"v"}


def test_segments_below_a_bound_go_with_the_write(engine: KeyValueEngine) -> None:
    engine.write({at(n, b"a"): b"1" for n in range(5)}, {})
    engine.write({at(5, b"a"): b"1"}, {}, delete_below=segment_prefix(3))
    assert [segment_id_of(key) for key in content(engine)] == [3, 4, 5]
    assert engine.get(at(2, b"a")) is None


def test_a_segment_that_went_can_be_written_again(engine: KeyValueEngine) -> None:
    engine.write({at(1, b"a"): b"1"}, {})
    engine.write({}, {}, delete_below=segment_prefix(2))
    engine.write({at(1, b"b"): b"2"}, {})
    assert content(engine) == {at(1, b"b"): b"2"}


def test_an_open_iterator_survives_writes_and_new_segments(engine: KeyValueEngine) -> None:
    engine.write({at(1, b"a"): b"1", at(2, b"a"): b"2", at(3, b"a"): b"3"}, {})
    iterator = engine.range(None, None)
    assert next(iterator) == (at(1, b"a"), b"1")
    engine.write({at(2, b"b"): b"new", at(9, b"a"): b"new"}, {})
    assert [entry for entry in iterator if entry[1] != b"new"] == [
        (at(2, b"a"), b"2"),
        (at(3, b"a"), b"3"),
    ]


def test_an_exhausted_iterator_stays_exhausted(engine: KeyValueEngine) -> None:
    engine.write({at(1, b"a"): b"1"}, {})
    iterator = engine.range(None, None)
    assert len(list(iterator)) == 1
    assert list(iterator) == []
    iterator.close()


def test_a_closed_engine_refuses_reads_and_writes(engine: KeyValueEngine) -> None:
    engine.write({at(1, b"a"): b"1", at(2, b"a"): b"2"}, {})
    iterator = engine.range(None, None)
    next(iterator)
    engine.close()
    engine.close()
    for read in (
        lambda: engine.get(at(1, b"a")),
        lambda: list(engine.range(None, None)),
        lambda: engine.write({at(1, b"a"): b"1"}, {}),
        lambda: next(iterator),
    ):
        with pytest.raises(StoreNotAvailableError, match="'s' is closed"):
            read()


def test_persistent_engines_keep_segments_and_metadata(
    engine: KeyValueEngine, tmp_path: Path
) -> None:
    written = {at(n, b"a"): b"%d" % n for n in range(4)}
    engine.write(written, {b"t-0": b"7"})
    unfinished = engine.range(None, None)  # Must not keep the database open.
    engine.close()
    engine.open(tmp_path / "s")
    expected = (written, {b"t-0": b"7"}) if engine.persistent else ({}, {})
    assert (content(engine), engine.metadata()) == expected
    unfinished.close()


def test_the_number_of_entries_is_about_right(engine: KeyValueEngine) -> None:
    engine.write({at(n % 4, b"%04d" % n): b"v" for n in range(1000)}, {})
    assert 900 <= engine.approximate_num_entries() <= 1100


def test_each_segment_is_a_family_named_by_its_first_millisecond_without_prefixes(
    on_disk: RocksDBSegmentEngine, tmp_path: Path
) -> None:
    on_disk.write({at(2, b"a"): b"1", at(28_333_333, b"b"): b"2"}, {b"t-0": b"7"})
    on_disk.close()
    directory = str(tmp_path / "s")
    assert families(tmp_path / "s") == {"default", "offsets", "120000", "1699999980000"}
    options = {name: Options(raw_mode=True) for name in families(tmp_path / "s") - {"default"}}
    database = Rdict(directory, Options(raw_mode=True), options)
    opened = {name: database.get_column_family(name) for name in options}
    assert {name: list(family.items()) for name, family in opened.items()} == {
        "120000": [(b"a", b"1")],
        "1699999980000": [(b"b", b"2")],
        "offsets": [(b"t-0", b"7")],
    }
    assert list(database.items()) == [
        (b"segment_interval_ms", struct.pack(">q", INTERVAL_MS)),
        (b"timestamped", b"\x00"),
    ]
    for family in (*opened.values(), database):
        family.close()


def test_an_iterator_over_a_dropped_segment_reads_on_and_is_released_by_close(
    on_disk: RocksDBSegmentEngine, tmp_path: Path
) -> None:
    on_disk.write({at(n, b"%d" % k): b"v" for n in (1, 2) for k in range(3)}, {})
    iterator = on_disk.range(None, None)
    next(iterator)
    on_disk.write({}, {}, delete_below=segment_prefix(2))
    assert next(iterator) == (at(1, b"1"), b"v")
    assert families(tmp_path / "s") == {"default", "offsets", "120000"}
    on_disk.close()
    with pytest.raises(StoreNotAvailableError, match="'s' is closed"):
        next(iterator)
    on_disk.open(tmp_path / "s")
    assert [segment_id_of(key) for key in content(on_disk)] == [2, 2, 2]


def test_an_unknown_column_family_is_refused_by_name(tmp_path: Path) -> None:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    database = Rdict(str(tmp_path), options, {"keyValueWithTimestamp": options})
    database.close()
    with pytest.raises(StateStoreError, match="unknown column family 'keyValueWithTimestamp'"):
        RocksDBSegmentEngine("s", INTERVAL_MS).open(tmp_path)


@pytest.mark.parametrize("interval_ms", [30_000, 120_000])
def test_another_segment_interval_is_refused_and_nothing_is_lost(
    on_disk: RocksDBSegmentEngine, tmp_path: Path, interval_ms: int
) -> None:
    on_disk.write({at(2, b"a"): b"1"}, {})
    on_disk.close()
    refusal = f"segments of 60000 ms .* {interval_ms} ms.*Keep .* segment_interval_ms=60000, or"
    with pytest.raises(StateStoreError, match=refusal):
        RocksDBSegmentEngine("s", interval_ms).open(tmp_path / "s")
    on_disk.open(tmp_path / "s")
    assert content(on_disk) == {at(2, b"a"): b"1"}


def test_values_of_the_other_kind_are_refused(
    on_disk: RocksDBSegmentEngine, tmp_path: Path
) -> None:
    on_disk.close()
    timestamped = RocksDBSegmentEngine("s", INTERVAL_MS, timestamped=True)
    with pytest.raises(StateStoreError, match=r"plain values, and .* timestamped .*Take that back"):
        timestamped.open(tmp_path / "s")


def test_a_damaged_segment_fails_reads_and_never_ends_a_range_early(
    on_disk: RocksDBSegmentEngine, tmp_path: Path
) -> None:
    on_disk.write({at(n, b"%06d" % k): b"v" * 50 for n in (1, 2) for k in range(3_000)}, {})
    on_disk.close()
    file = max((tmp_path / "s").glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    on_disk.open(tmp_path / "s")
    for reverse in (False, True):
        with pytest.raises(StateStoreError, match=r"its files are damaged") as caught:
            list(on_disk.range(None, None, reverse=reverse))
        assert type(caught.value).__name__ == "StateStoreCorruptedError"


def test_a_range_leaves_out_no_segment_that_a_commit_made_meanwhile(
    on_disk: RocksDBSegmentEngine,
) -> None:
    """Between the look at which segments there are and the one into the only one there was."""

    class Start(bytes):
        """Commits, as the owner would, when the engine cuts the segment off it."""

        commits = 0

        def __getitem__(self, part: Any) -> Any:
            if part.start == SEGMENT_ID_BYTES and not Start.commits:
                Start.commits += 1
                on_disk.write({at(1, b"a"): b"new", at(2, b"a"): b"new"}, {})
            return super().__getitem__(part)

    on_disk.write({at(1, b"a"): b"old"}, {})

    seen = [value for _, value in on_disk.range(Start(at(1)), None)]

    assert Start.commits == 1
    assert seen == [b"new", b"new"]


def test_a_reader_of_another_thread_sees_whole_commits_over_all_segments(
    on_disk: RocksDBSegmentEngine,
) -> None:
    torn: list[dict[bytes, bytes]] = []
    rounds = threading.Semaphore(0)
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen = content(on_disk)
            if len(set(seen.values())) > 1 or len(seen) not in {0, 8}:
                torn.append(seen)
            rounds.release()

    reader = threading.Thread(target=read)
    reader.start()
    for commit in range(3_000):
        on_disk.write({at(n, b"a"): b"%d" % commit for n in range(8)}, {})
    for _ in range(10):
        assert rounds.acquire(timeout=120)
    done.set()
    reader.join(30)
    assert torn == []


# Commit n writes segment n // 10 and keeps the newest three; the offset is n. It goes on while a
# few commits are not acknowledged: the kill falls anywhere between making, writing and dropping,
# and soon behind the last commit that was seen.
WRITER = """
import sys
from pathlib import Path
from pystreams.stores.engines.rocksdb import RocksDBSegmentEngine
from pystreams.stores.time_segments.segments import segment_prefix

def small(name, options):
    options.set_write_buffer_size(1 << 14)

engine = RocksDBSegmentEngine("s", 60_000)
engine.open(Path(sys.argv[1]), small)
for commit in range(int(sys.argv[2]), 1 << 40):
    sys.stdin.readline()
    segment = commit // 10
    bound = segment_prefix(max(0, segment - 2)) if commit % 10 == 0 else None
    changes = {segment_prefix(segment) + b"%d" % (commit * 10 + n): b"x" * 50 for n in range(10)}
    engine.write(changes, {b"t-0": b"%d" % commit}, delete_below=bound)
    print(commit, flush=True)
"""
AHEAD = 4


def test_after_sigkill_live_segments_and_offset_are_of_one_and_the_same_commit(
    tmp_path: Path,
) -> None:
    first = 0
    for seen_at_least in (120, 77, 205):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "s"), str(first)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        ) as writer:
            assert writer.stdin is not None
            assert writer.stdout is not None
            committed = first
            writer.stdin.write("\n" * AHEAD)
            for line in writer.stdout:
                committed = int(line)
                if committed >= first + seen_at_least:
                    writer.send_signal(signal.SIGKILL)
                    break
                writer.stdin.write("\n")
        assert writer.returncode == -signal.SIGKILL
        engine = RocksDBSegmentEngine("s", INTERVAL_MS)
        engine.open(tmp_path / "s")
        last = int(engine.metadata().get(b"t-0", b"-1"))
        # What the commits after the last flush dropped is gone with them; the rest is as of it.
        oldest = max(0, committed // 10 - 1)
        expected = {
            at(commit // 10, b"%d" % (commit * 10 + n))
            for commit in range(oldest * 10, last + 1)
            for n in range(10)
        }
        assert {key for key in content(engine) if key >= at(oldest)} == expected
        # Replaying makes the store whole again, and drops what a kill left behind.
        for commit in range(last + 1, committed + 1):
            keys = [at(commit // 10, b"%d" % (commit * 10 + n)) for n in range(10)]
            engine.write(dict.fromkeys(keys, b"x" * 50), {b"t-0": b"%d" % commit})
        engine.write({}, {}, delete_below=segment_prefix(max(0, committed // 10 - 2)))
        found = {segment_id_of(key) for key in content(engine)}
        assert found <= set(range(committed // 10 - 2, committed // 10 + 2))
        engine.close()
        assert len(families(tmp_path / "s")) <= 2 + 4
        first = committed + 1
