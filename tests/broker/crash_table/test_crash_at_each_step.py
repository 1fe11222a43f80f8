"""SIGKILL before and after each step of a commit, with every kind of store, on a real broker.

After each, on the disk: every store holds exactly what its changelog holds up to the store's own
offset. After a restart: every count once and in order, every store equal to its whole changelog.
tests/simulation/test_crash_table.py does the same for every single call, without a broker.

Spec: KIP-844 "Possible failure scenarios", KIP-892 "Proposed Changes", KIP-1035.
"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams.broker import DevelopmentBroker
from pystreams.clock import SystemClock
from pystreams.stores.api import KeyValueEngine
from pystreams.stores.engines.rocksdb import RocksDBEngine, RocksDBSegmentEngine
from pystreams.stores.segments import segment_id_of
from pystreams.stores.spec import StoreKind
from tests.broker.application import Application
from tests.broker.crash_table import everywhere_app
from tests.broker.reading import LastNumbers, produce, read_all, reader_of, values_by_key
from tests.every_store import BUILDERS, replayed

KEYS = 10
RECORDS = 1500
STEP_MS = 700
"""Between records; all of them cover several times the stores' retention."""
KILL_DEADLINE_S = 120
"""A machine with much else to do takes long to make column families and to drop them."""

SOME = ["before:store batch:30", "after:segment creation:12", "before:segment expiry:3"]
ALL = [
    f"{moment}:{step}:{number}"
    for step in everywhere_app.STEPS
    for moment in ("before", "after")
    for number in (1, 4, 40)
    if (step, number) != ("store close", 40)
]

WRITING_THROUGH = [
    f"{moment}:{step}:{number}"
    for step, number in (("store batch", 30), ("segment creation", 12), ("segment expiry", 3))
    for moment in ("before", "after")
]


class Arena:
    """The application, its topics, and what its stores and topics hold."""

    def __init__(
        self, broker: DevelopmentBroker, admin: AdminClient, name: str, home: Path
    ) -> None:
        self.name = name
        self.home = home
        self.servers = broker.bootstrap_servers
        new = [NewTopic(f"{name}-{end}", num_partitions=1) for end in ("in", "out")]
        for created in admin.create_topics(new).values():
            created.result(30)

    def application(self, guarantee: str, kill: str, *, transactional: bool = True) -> Application:
        setter = f"{Path(everywhere_app.__file__).stem}"
        return Application(
            self.name,
            self.home,
            Path(everywhere_app.__file__),
            {
                "bootstrap.servers": self.servers,
                "processing.guarantee": guarantee,
                # Commits by volume, so that their number does not depend on the machine.
                "statestore.uncommitted.max.bytes": 8000,
                "max.poll.records": 100,
                "rocksdb.config.setter": f"tests.broker.crash_table.{setter}:small_memtables",
            },
            {
                "EVERYWHERE_NAME": self.name,
                "EVERYWHERE_KILL": kill,
                "EVERYWHERE_WRITES_THROUGH": "" if transactional else "yes",
            },
        )

    def feed(self, first_ms: int) -> None:
        records = [(f"k{number % KEYS}".encode(), b"x") for number in range(RECORDS)]
        produce(
            self.servers,
            f"{self.name}-in",
            records,
            timestamps_ms=[first_ms + number * STEP_MS for number in range(RECORDS)],
        )

    def changelogs(self) -> dict[str, list[Any]]:
        """Return the committed records of each store's changelog."""
        return {
            store: list(read_all(self.servers, f"{self.name}-{store}-changelog"))
            for store in BUILDERS
        }

    def check_stores(
        self, state: Path, changelogs: dict[str, list[Any]], *, whole: bool = False
    ) -> None:
        """Compare each store in a state directory with its changelog."""
        for name in BUILDERS:
            directory = state / self.name / "0_0" / "rocksdb" / name
            if not directory.exists():
                continue
            entries, metadata = content(directory, name)
            packed = metadata.get(f"{self.name}-{name}-changelog-0".encode())
            offset = -1 if packed is None else int.from_bytes(packed, "big")
            logged = changelogs[name]
            if whole:
                assert offset >= (logged[-1].offset() or 0), f"store {name} is behind"
            known = [message for message in logged if (message.offset() or 0) <= offset]
            expected, oldest_live = replayed(name, known)
            held = {
                key: value
                for key, value in entries.items()
                if oldest_live is None or not 0 <= segment_id_of(key) < oldest_live
            }
            assert held == expected, f"store {name} at offset {offset}"


def content(directory: Path, name: str) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
    """Return the entries and the metadata of a closed store."""
    spec = BUILDERS[name].spec
    engine: KeyValueEngine
    if spec.kind in {StoreKind.WINDOW, StoreKind.SESSION}:
        assert spec.retention is not None
        engine = RocksDBSegmentEngine(
            name, spec.retention.segment_interval_ms, timestamped=spec.engine_timestamped
        )
    else:
        engine = RocksDBEngine(name, timestamped=spec.engine_timestamped)
    engine.open(directory)
    try:
        return dict(engine.range(None, None)), engine.metadata()
    finally:
        engine.close()


def check_kill(arena: Arena, guarantee: str, kill: str, *, transactional: bool = True) -> None:
    # Near the broker's own time: it deletes changelog records that it finds too old.
    arena.feed(SystemClock().now_ms() - RECORDS * STEP_MS)
    with arena.application(guarantee, kill, transactional=transactional) as application:
        killed = application.start()
        assert killed.ended(deadline_s=KILL_DEADLINE_S) == -signal.SIGKILL, (
            f"never got to {kill}\n{killed.tail()}"
        )
    after_kill = arena.home / "after-kill"
    if (arena.home / "state").exists():
        shutil.copytree(arena.home / "state", after_kill)

    with (
        arena.application(guarantee, "", transactional=transactional) as application,
        reader_of(arena.servers) as consumer,
    ):
        followed = LastNumbers(consumer, [f"{arena.name}-out"])
        restarted = application.start()
        restarted.wait_for("task running")
        restarted.wait_until(
            lambda: sum(followed.read()[f"{arena.name}-out"].values()) == RECORDS, "all counted"
        )
        restarted.stop()

    changelogs = arena.changelogs()
    if transactional:
        arena.check_stores(after_kill, changelogs)
    arena.check_stores(arena.home / "state", changelogs, whole=True)
    counted = values_by_key(read_all(arena.servers, f"{arena.name}-out"))
    assert counted == {
        f"k{key}".encode(): list(range(1, RECORDS // KEYS + 1)) for key in range(KEYS)
    }


@pytest.mark.parametrize("kill", SOME)
def test_kill_leaves_every_store_with_what_its_offset_says(
    broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path, kill: str
) -> None:
    check_kill(Arena(broker, admin, unique_name, tmp_path), "exactly_once", kill)


@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("guarantee", ["exactly_once", "exactly_once_v2"])
@pytest.mark.parametrize("kill", ALL)
def test_kill_at_each_step_leaves_every_store_with_what_its_offset_says(
    broker: DevelopmentBroker,
    admin: AdminClient,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
    kill: str,
) -> None:
    check_kill(Arena(broker, admin, unique_name, tmp_path), guarantee, kill)


@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("guarantee", ["exactly_once", "exactly_once_v2"])
@pytest.mark.parametrize("kill", WRITING_THROUGH)
def test_kill_rebuilds_stores_that_write_through(
    broker: DevelopmentBroker,
    admin: AdminClient,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
    kill: str,
) -> None:
    """What they held at the kill is not to be trusted; after the restart all is right again."""
    arena = Arena(broker, admin, unique_name, tmp_path)
    check_kill(arena, guarantee, kill, transactional=False)
