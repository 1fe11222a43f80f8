"""The application of the crash tables, its topics, and what its stores and topics hold."""

from __future__ import annotations

import pickle
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from rocksdict import Rdict

from pystreams.broker import DevelopmentBroker
from pystreams.kernel.clock import SystemClock
from pystreams.stores.contracts.key_value import KeyValueEngine
from pystreams.stores.engines.rocksdb import RocksDBEngine, RocksDBSegmentEngine
from pystreams.stores.kinds.session.kind import SESSION
from pystreams.stores.kinds.versioned.kind import VERSIONED
from pystreams.stores.kinds.window.kind import WINDOW
from pystreams.stores.time_segments.segments import segment_id_of
from tests.broker.application import Application, Running
from tests.broker.crash_table import everywhere_app
from tests.broker.reading import committed_offsets, create_topics, produce, read_all, values_by_key
from tests.every_store import BUILDERS, IN_MEMORY, replayed, without_stale_entries

GUARANTEES = ["at_least_once", "exactly_once", "exactly_once_v2"]
KEYS = 10
RECORDS = 1500
STEP_MS = 700
"""Between records; all of them cover several times the stores' retention."""
DEADLINE_S = 300
"""A machine with much else to do takes long to make column families and to drop them."""


@dataclass(frozen=True)
class Held:
    """What a store holds on the disk.

    Attributes:
        metadata: The entries of `offsets`.
        segments: The segments it has families for; None if they are no families.
        oldest_live: The oldest segment that is live by all that was committed to its changelog
            when the application was killed; None if that does not matter.
    """

    entries: dict[bytes, bytes]
    metadata: dict[bytes, bytes]
    segments: set[int] | None
    oldest_live: int | None = None


class Arena:
    """One application and its topics.

    Args:
        admin: A client of it.
        name: Begins the names of the topics, and is the application's id.
        home: A directory for its state and logs.
        guarantee: Its processing guarantee.
        transactional: Whether its stores wait for the commit.
        in_memory: Whether its stores are in memory.

    Attributes:
        name: Its id.
        task_directory: Where its stores lie.
        after_kill: A copy of that, as it was after the kill.
    """

    def __init__(
        self,
        broker: DevelopmentBroker,
        admin: AdminClient,
        name: str,
        home: Path,
        guarantee: str,
        *,
        transactional: bool = True,
        in_memory: bool = False,
    ) -> None:
        self.name = name
        self.home = home
        self.task_directory = home / "state" / name / "0_0"
        self.after_kill = home / "after-kill"
        self._servers = broker.bootstrap_servers
        self._admin = admin
        self._guarantee = guarantee
        self._transactional = transactional
        self._in_memory = in_memory
        self._builders = IN_MEMORY if in_memory else BUILDERS
        # Near the broker's own time: it deletes changelog records that it finds too old.
        self._first_ms = SystemClock().now_ms() - RECORDS * STEP_MS
        self._fed = 0
        new = [NewTopic(f"{name}-{end}", num_partitions=1) for end in ("in", "out")]
        create_topics(admin, new)

    def application(
        self, kill: str = "", *, plain: bool = False, setter: str = "small_memtables"
    ) -> Application:
        """Return the application.

        Args:
            kill: Where it dies; empty for nowhere.
            plain: Whether its timestamped key-value store is a plain one.
            setter: Which function of `everywhere_app` sets the options of RocksDB.
        """
        return Application(
            self.name,
            self.home,
            Path(everywhere_app.__file__),
            {
                "bootstrap.servers": self._servers,
                "processing.guarantee": self._guarantee,
                "commit.interval.ms": 100,
                # Most commits are by volume, so that their number depends little on the machine.
                "statestore.uncommitted.max.bytes": 8000,
                "max.poll.records": 100,
                "rocksdb.config.setter": f"{everywhere_app.__name__}:{setter}",
            },
            {
                "EVERYWHERE_NAME": self.name,
                "EVERYWHERE_KILL": kill,
                "EVERYWHERE_PLAIN": "yes" if plain else "",
                "EVERYWHERE_WRITES_THROUGH": "" if self._transactional else "yes",
                "EVERYWHERE_IN_MEMORY": str(self.home) if self._in_memory else "",
            },
        )

    def feed(self, records: int) -> None:
        """Write so many more records."""
        numbers = range(self._fed, self._fed + records)
        produce(
            self._servers,
            f"{self.name}-in",
            [(f"k{number % KEYS}".encode(), b"x") for number in numbers],
            timestamps_ms=[self._first_ms + number * STEP_MS for number in numbers],
        )
        self._fed += records

    def die(self, kill: str, setter: str = "small_memtables") -> dict[str, Held]:
        """Run it until it dies there; return what its stores hold then, by their names."""
        with self.application(kill, setter=setter) as application:
            killed = application.start()
            if everywhere_app.CLOSE in kill:
                # Nothing closes before it stops.
                self._wait_until_counted(killed)
                killed.process.send_signal(signal.SIGTERM)
            assert killed.ended(deadline_s=DEADLINE_S) == -signal.SIGKILL, (
                f"never got to {kill}\n{killed.tail()}"
            )
        # Looking at them opens and closes them, which may change what they hold.
        if self.task_directory.exists():
            shutil.copytree(self.task_directory, self.after_kill)
        found = stores_in(self.after_kill)
        for name, held in found.items():
            if held.segments is not None and self.offset_of(name, held) >= 0:
                # What is committed by now may have let segments expire.
                _, oldest_live = replayed(name, self.changelog(name))
                found[name] = Held(held.entries, held.metadata, held.segments, oldest_live)
        return found

    def count_all(self, *, plain: bool = False) -> Running:
        """Start it, let it process what was fed, and stop it; return what is left of it."""
        with self.application(plain=plain) as application:
            running = application.start()
            self._wait_until_counted(running)
            running.stop()
        return running

    def changelogs(self) -> dict[str, list[Any]]:
        """Return the committed records of each store's changelog."""
        return {store: self.changelog(store) for store in self._builders}

    def changelog(self, store: str) -> list[Any]:
        """Return the committed records of a store's changelog."""
        return list(read_all(self._servers, f"{self.name}-{store}-changelog"))

    def offset_of(self, store: str, held: Held) -> int:
        """Return the changelog offset a store says it is at; -1 for none."""
        packed = held.metadata.get(f"{self.name}-{store}-changelog-0".encode())
        return -1 if packed is None else int.from_bytes(packed, "big", signed=True)

    def check_stores(
        self, found: Mapping[str, Held], changelogs: Mapping[str, list[Any]], *, whole: bool = False
    ) -> int:
        """Compare stores with their changelogs, replayed up to each store's own offset.

        Families of segments that have expired are gone for good at once, and what let them expire
        may not be on the disk yet: then the store is what its offset says but for those.

        Args:
            found: What they hold.
            whole: Whether each must have come to the end of its changelog, with all families.

        Returns:
            How many live segments are missing because they expire with what comes next.
        """
        dropped = 0
        for name, held in found.items():
            offset = self.offset_of(name, held)
            logged = changelogs[name]
            if whole:
                assert offset >= (logged[-1].offset() or 0), f"store {name} is behind"
            known = [message for message in logged if (message.offset() or 0) <= offset]
            expected, oldest_live = replayed(name, known, self._builders)
            expired = _dropped(expected, held, whole=whole)
            dropped += len(expired)
            spec = self._builders[name].spec
            assert _live(without_stale_entries(spec, held.entries), oldest_live, expired) == _live(
                without_stale_entries(spec, expected), oldest_live, expired
            ), f"store {name} at offset {offset}"
        return dropped

    def kept(self, moment: str) -> dict[str, Held]:
        """Return what stores in memory held at the last such moment, by their names."""
        held = pickle.loads((self.home / moment).read_bytes())
        return {name: Held(entries, metadata, None) for name, (entries, metadata) in held.items()}

    def check_outputs(self) -> None:
        """Each key's counts are 1, 2, ..., n; at least once some records may count twice."""
        counted = values_by_key(read_all(self._servers, f"{self.name}-out"))
        each = self._fed // KEYS
        assert counted.keys() == {f"k{key}".encode() for key in range(KEYS)}
        for key, counts in counted.items():
            if self._guarantee == "at_least_once":
                assert len(counts) >= each, key
                assert counts[-1] >= each, key
            else:
                assert counts == list(range(1, each + 1)), key

    def _wait_until_counted(self, running: Running) -> None:
        running.wait_for("task running")  # Before, the group may have no coordinator to ask.
        running.wait_until(
            lambda: self._committed() == self._fed, "all counted", deadline_s=DEADLINE_S
        )

    def _committed(self) -> int:
        return committed_offsets(self._admin, self.name).get((f"{self.name}-in", 0), 0)


def stores_in(task_directory: Path, *, plain: bool = False) -> dict[str, Held]:
    """Return what closed stores hold, by their names.

    Args:
        task_directory: Where they lie.
        plain: Whether the timestamped key-value store is a plain one.
    """
    return {
        name: _content(task_directory / "rocksdb" / name, engine_of(name, plain=plain))
        for name in BUILDERS
        if (task_directory / "rocksdb" / name / "CURRENT").exists()
    }


def engine_of(name: str, *, plain: bool = False) -> KeyValueEngine:
    """Return a store's engine, closed."""
    spec = everywhere_app.PLAIN.spec if plain and name == "timestamped" else BUILDERS[name].spec
    if spec.kind in {WINDOW, SESSION}:
        assert spec.retention is not None
        return RocksDBSegmentEngine(
            name, spec.retention.segment_interval_ms, timestamped=spec.engine_timestamped
        )
    return RocksDBEngine(
        name,
        timestamped=spec.engine_timestamped,
        versioned=spec.kind is VERSIONED,
    )


def _content(directory: Path, engine: KeyValueEngine) -> Held:
    segments = None
    if isinstance(engine, RocksDBSegmentEngine):
        families = {family for family in Rdict.list_cf(str(directory)) if family.isdecimal()}
        segments = {int(family) // engine._interval_ms for family in families}
    engine.open(directory)
    try:
        return Held(dict(engine.range(None, None)), engine.metadata(), segments)
    finally:
        engine.close()


def _dropped(expected: Mapping[bytes, bytes], held: Held, *, whole: bool) -> set[int]:
    """Return the segments that should be there and have no family, if that is as it may be."""
    if held.segments is None:
        return set()
    missing = {segment_id_of(key) for key in expected} - held.segments
    assert not (missing and whole), f"segments {missing} are missing"
    for segment in missing:
        assert held.oldest_live is not None
        assert segment < held.oldest_live, f"segment {segment} was dropped and has not expired"
    return missing


def _live(
    entries: Mapping[bytes, bytes], oldest_live: int | None, dropped: set[int]
) -> dict[bytes, bytes]:
    """Return the entries that are neither in an expired segment nor in a dropped one."""
    return {
        key: value
        for key, value in entries.items()
        if oldest_live is None
        or not (0 <= segment_id_of(key) < oldest_live or segment_id_of(key) in dropped)
    }
