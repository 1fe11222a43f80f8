"""RocksDB on a killed process, a full disk, a foreign or damaged directory: cause and cure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rocksdict import Options, Rdict

from pystreams import StateStoreError
from pystreams.stores.engines.rocksdb import MEMORY, RocksDBEngine, options
from tests.stores.support import CHANGELOG, Home, spec_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]

# Each commit n writes ten keys and the offset n; the value of a key is the commit that wrote it.
WRITER = """
import sys
from pystreams.stores.engines.rocksdb import RocksDBEngine

def small(name, options):
    options.set_write_buffer_size(1 << 16)

engine = RocksDBEngine("s", timestamped=True)
engine.open(__import__("pathlib").Path(sys.argv[1]), small)
for commit in range(int(sys.argv[2]), 1 << 40):
    changes = {b"k%04d" % ((commit * 10 + n) % 1000): b"%d" % commit for n in range(10)}
    engine.write(changes, {b"t-0": b"%d" % commit})
    if commit % 100 == 0:
        print(commit, flush=True)
"""


def python(program: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def as_of(commit: int) -> dict[bytes, bytes]:
    """What the writer's store holds after a commit."""
    content: dict[bytes, bytes] = {}
    for number in range(max(0, commit - 100), commit + 1):
        for n in range(10):
            content[b"k%04d" % ((number * 10 + n) % 1000)] = b"%d" % number
    return content


def test_after_sigkill_data_and_offset_are_of_one_and_the_same_commit(tmp_path: Path) -> None:
    first = 0
    for seen_at_least in (2_000, 300, 5_000):
        with python(WRITER, tmp_path / "s", first) as writer:
            assert writer.stdout is not None
            committed = first
            for line in writer.stdout:
                committed = int(line)
                if committed >= first + seen_at_least:
                    writer.send_signal(signal.SIGKILL)
                    break
        assert writer.returncode == -signal.SIGKILL
        engine = RocksDBEngine("s", timestamped=True)
        engine.open(tmp_path / "s")
        last = int(engine.metadata()[b"t-0"])
        assert first - 1 <= last
        # 64 KiB of memtables hold less than a hundred of these commits; three may wait.
        assert last > committed - 600
        assert dict(engine.range(None, None)) == as_of(last)
        engine.close()
        first = last + 1


def test_a_clean_close_loses_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    store = home.open(spec_of(timestamped=True))
    store.put_with_timestamp("a", 1, 2)
    store.commit({CHANGELOG: 8})
    store.close()
    assert (tmp_path / "rocksdb" / "s" / "CURRENT").exists()
    store = home.open(spec_of(timestamped=True))
    assert store.get("a") == (1, 2)
    assert store.committed_offset(CHANGELOG) == 8
    store.close()


def test_the_directory_has_kafka_streams_layout_and_bytes(tmp_path: Path) -> None:
    home = Home(tmp_path)
    store = home.open(spec_of(timestamped=True))
    store.put_with_timestamp("a", 3, 2)
    store.commit({CHANGELOG: 258})
    store.close()
    directory = str(tmp_path / "rocksdb" / "s")
    assert set(Rdict.list_cf(directory)) == {"default", "keyValueWithTimestamp", "offsets"}
    families = {name: Options(raw_mode=True) for name in ("keyValueWithTimestamp", "offsets")}
    database = Rdict(directory, Options(raw_mode=True), families)
    data = database.get_column_family("keyValueWithTimestamp")
    offsets = database.get_column_family("offsets")
    assert list(data.items()) == [(b"a", bytes.fromhex("00000000000000020000000000000003"))]
    assert list(offsets.items()) == [(b"app-s-changelog-0", bytes.fromhex("0000000000000102"))]
    assert list(database.items()) == []
    for family in (data, offsets, database):
        family.close()


def test_a_directory_without_rocksdicts_file_opens(tmp_path: Path) -> None:
    engine = RocksDBEngine("s", timestamped=False)
    engine.open(tmp_path)
    engine.write({b"a": b"1"}, {})
    engine.close()
    (tmp_path / "rocksdict-config.json").unlink()  # As Java leaves it.
    engine.open(tmp_path)
    assert engine.get(b"a") == b"1"
    engine.close()


def test_a_plain_stores_data_moves_to_the_timestamped_store_with_timestamp_unknown(
    tmp_path: Path,
) -> None:
    """Spec: Kafka RocksDBTimestampedStore (upgrade); see `plain_data`."""
    home = Home(tmp_path)
    plain = home.open(spec_of())
    for number in range(25_000):
        plain.put(f"k{number:05d}", number)
    plain.commit({CHANGELOG: 25_000})
    plain.close()
    for _ in range(2):
        store = home.open(spec_of(timestamped=True))
        assert store.get("k00007") == (7, -1)
        assert sum(1 for _ in store.all()) == 25_000
        assert store.committed_offset(CHANGELOG) == 25_000
        store.close()


def test_an_unknown_column_family_is_refused_by_name(tmp_path: Path) -> None:
    timestamped = RocksDBEngine("s", timestamped=True)
    timestamped.open(tmp_path)
    timestamped.close()
    with pytest.raises(StateStoreError, match="unknown column family 'keyValueWithTimestamp'"):
        RocksDBEngine("s", timestamped=False).open(tmp_path)
    timestamped.open(tmp_path)  # Nothing was touched, nothing is held.
    timestamped.close()


def test_a_directory_held_by_another_process_is_refused(tmp_path: Path) -> None:
    with python(WRITER, tmp_path, 0) as other:
        assert other.stdout is not None
        other.stdout.readline()
        try:
            with pytest.raises(StateStoreError, match=r"another process.*LOCK"):
                RocksDBEngine("s", timestamped=True).open(tmp_path)
        finally:
            other.kill()


READ_ONLY = """
import os, pickle, sys
from pathlib import Path
from pystreams.errors import StateStoreError
from pystreams.stores.engines.rocksdb import RocksDBEngine

if os.getuid() == 0:
    os.setuid(65534)
for directory in sys.argv[1:]:
    try:
        RocksDBEngine("s", timestamped=False).open(Path(directory))
    except StateStoreError as error:
        print(error)
"""


@pytest.fixture
def reachable(tmp_path: Path) -> Iterator[Path]:
    """A directory that any user may enter."""
    changed = [parent for parent in (tmp_path, *tmp_path.parents) if parent.owner() != ""]
    modes = [(parent, parent.stat().st_mode) for parent in changed]
    for parent, mode in modes:
        if not mode & 0o001:
            parent.chmod(mode | 0o011)
    yield tmp_path
    for parent, mode in modes:
        parent.chmod(mode)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_a_read_only_directory_is_refused(reachable: Path) -> None:
    engine = RocksDBEngine("s", timestamped=False)
    engine.open(reachable / "existing")
    engine.close()
    for path in (reachable / "existing", *(reachable / "existing").iterdir()):
        path.chmod(0o555)
    (reachable / "existing").chmod(0o555)
    (reachable / "parent").mkdir(mode=0o555)
    with python(READ_ONLY, reachable / "existing", reachable / "parent" / "s") as child:
        assert child.stdout is not None
        lines = child.stdout.read().splitlines()
    (reachable / "existing").chmod(0o755)
    assert len(lines) == 2
    assert all("not writable for this process" in line for line in lines)


FULL_DISK = """
import os, resource, signal, sys
from pathlib import Path
from pystreams.errors import StateStoreError
from pystreams.stores.engines.rocksdb import RocksDBEngine

def small(name, options):
    options.set_write_buffer_size(1 << 16)

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
engine = RocksDBEngine("s", timestamped=sys.argv[2] == "True")
engine.open(Path(sys.argv[1]), small)
committed = 0
try:
    for commit in range(1, 100_000):
        engine.write({b"k%d" % commit: os.urandom(100)}, {b"t-0": b"%d" % commit})
        committed = commit
except StateStoreError as error:
    print(error)
try:
    engine.write({b"x": b"y"}, {})
except StateStoreError as error:
    print(error)
print(len(list(engine.range(None, None))) == committed)
engine.close()
"""


@pytest.mark.parametrize("timestamped", [False, True])
def test_a_full_disk_fails_the_commit_and_keeps_what_was_committed(
    tmp_path: Path, *, timestamped: bool
) -> None:
    with python(FULL_DISK, tmp_path, timestamped) as child:
        assert child.stdout is not None
        lines = [line for line in child.stdout.read().splitlines() if "[warning" not in line]
    assert child.returncode == 0
    assert ["the disk is full" in line for line in lines] == [True, True, False]
    assert lines[-1] == "True"
    engine = RocksDBEngine("s", timestamped=timestamped)
    engine.open(tmp_path)
    flushed = int(engine.metadata().get(b"t-0", b"0"))
    assert {key for key, _ in engine.range(None, None)} == {
        b"k%d" % commit for commit in range(1, flushed + 1)
    }
    engine.write({b"again": b"1"}, {})
    engine.close()


def damaged(tmp_path: Path) -> RocksDBEngine:
    """An engine whose data file has one bad block in the middle."""
    engine = RocksDBEngine("s", timestamped=False)
    engine.open(tmp_path)
    engine.write({b"%06d" % number: b"v" * 50 for number in range(5_000)}, {})
    engine.close()
    file = max(tmp_path.glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    return engine


def test_a_damaged_block_fails_reads_and_never_ends_a_range_early(tmp_path: Path) -> None:
    engine = damaged(tmp_path)
    before = MEMORY.block_cache_bytes
    MEMORY.configure(0, MEMORY.write_buffer_bytes)  # No block of before is remembered.
    try:
        engine.open(tmp_path)
        for reverse in (False, True):
            with pytest.raises(StateStoreError, match=r"its files are damaged") as caught:
                list(engine.range(None, None, reverse=reverse))
        engine.close()
        engine.open(tmp_path)  # The error, alive in `caught`, does not keep the LOCK.
        assert caught.value.store == "s"
        with pytest.raises(StateStoreError, match="can't be read"):
            [engine.get(b"%06d" % number) for number in range(5_000)]
    finally:
        engine.close()
        MEMORY.configure(before, MEMORY.write_buffer_bytes)


def test_a_damaged_manifest_is_refused(tmp_path: Path) -> None:
    damaged(tmp_path)
    next(tmp_path.glob("MANIFEST-*")).write_bytes(b"garbage")
    with pytest.raises(StateStoreError, match=r"its files are damaged"):
        RocksDBEngine("s", timestamped=False).open(tmp_path)


def test_the_users_hook_gets_name_and_options_but_not_our_crash_safety(tmp_path: Path) -> None:
    heard: list[str] = []

    def setter(name: str, options: Options) -> None:
        heard.append(name)
        options.set_atomic_flush(False)
        options.set_stats_dump_period_sec(1)
        options.set_write_buffer_size(1 << 20)

    engine = RocksDBEngine("s", timestamped=True)
    engine.open(tmp_path, setter)
    engine.close()
    written = max(tmp_path.glob("OPTIONS-*")).read_text("utf-8")
    assert heard == ["s"]
    assert "atomic_flush=true" in written
    assert "stats_dump_period_sec=0" in written
    assert "write_buffer_size=1048576" in written


def test_all_stores_share_one_memory_whose_totals_can_change(tmp_path: Path) -> None:
    before = (MEMORY.block_cache_bytes, MEMORY.write_buffer_bytes)
    engines = [RocksDBEngine(f"s{number}", timestamped=False) for number in range(8)]
    try:
        MEMORY.configure(1 << 20, 2 << 20)
        of_others = MEMORY.used_bytes()
        for engine in engines:
            engine.open(tmp_path / str(id(engine)))
        for commit in range(100):
            for engine in engines:
                engine.write({os.urandom(8): b"x" * 1000 for _ in range(10)}, {})
            del commit
        for engine in engines:
            assert len(list(engine.range(None, None))) == 1000
        # One megabyte of blocks, two of memtables, and what flushes under way hold on to until
        # the disk has taken it.
        limit = (3 << 20) + 8 * options.WRITE_BUFFER_BYTES // 4
        flushed, deadline_s = threading.Event(), time.monotonic() + 120
        while (held := MEMORY.used_bytes() - of_others) >= limit:
            assert time.monotonic() < deadline_s, f"{held} bytes are still held"
            flushed.wait(0.01)
    finally:
        for engine in engines:
            engine.close()
        MEMORY.configure(*before)
