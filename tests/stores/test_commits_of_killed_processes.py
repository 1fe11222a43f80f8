"""What SIGKILL leaves of a store's commits on a real disk: each whole, or not at all."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import StoreBuilder, Stores, ValueAndTimestamp, serdes
from tests.broker.waiting import wait_until
from tests.stores.managed import ROOT, changelog, commit, in_another_process, opened

KEYS = 50
PADDING = "x" * 2000
SEED = 1035
COMMITTED = 20


def numbers() -> StoreBuilder:
    """Timestamped: data, offset and position are in three column families."""
    supplier = Stores.persistent_timestamped_key_value_store("numbers")
    return Stores.timestamped_key_value_store_builder(supplier, serdes.STRING, serdes.STRING)


def small_memtables(_: str, options: Any) -> None:
    """Let RocksDB write files all the time, in the background."""
    options.set_write_buffer_size(64 << 10)


def commit_for_ever(directory: str) -> None:
    """Write the number of the commit under every key, with the same number as offset."""
    manager = opened(
        Path(directory), numbers(), exactly_once=True, rocksdb_config_setter=small_memtables
    )
    for number in itertools.count(1):
        put(manager, number)
        commit(manager, numbers=number * KEYS)
        if number == COMMITTED:
            (Path(directory) / "begun").touch()


def put(manager: Any, number: int) -> None:
    store = manager.store("numbers")
    for key in range(KEYS):
        store.put(f"{key}", ValueAndTimestamp(f"{number} {PADDING}", number))


@pytest.mark.parametrize("kill", range(4))
def test_a_kill_while_files_are_written_leaves_whole_commits_in_all_column_families(
    kill: int, tmp_path: Path
) -> None:
    call = "import sys; from tests.stores.test_commits_of_killed_processes import commit_for_ever"
    program = f"{call}; commit_for_ever(sys.argv[1])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as writing:
        wait_until(lambda: (tmp_path / "begun").exists() or writing.poll(), "the first commits")
        # The moment itself: a delay drawn from the seed, not a wait for anything.
        threading.Event().wait(random.Random(SEED + kill).uniform(0.0, 0.2))
        writing.kill()

    manager = opened(tmp_path, numbers(), exactly_once=True)
    (position,) = manager.restore_positions().values()
    found = {entry.value.split()[0] for _, entry in manager.store("numbers").all()}
    manager.close()

    assert position is not None, "files were written"
    # The next offset stands behind the commit whose data is there.
    assert found == {str(position // KEYS - 1)}, "no key has the data of another commit"


def killed_in_a_transaction(directory: str) -> str:
    manager = opened(Path(directory), numbers(), exactly_once=True)
    put(manager, 1)
    commit(manager, numbers=KEYS)
    manager.close()
    manager = opened(Path(directory), numbers(), exactly_once=True)
    put(manager, 2)
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def test_a_kill_in_a_transaction_wipes_nothing(tmp_path: Path) -> None:
    """RocksDB gives a database an identity when it is made."""
    assert in_another_process(killed_in_a_transaction, tmp_path) is None
    identity = (tmp_path / "rocksdb" / "numbers" / "IDENTITY").read_text()

    with capture_logs() as logs:
        manager = opened(tmp_path, numbers(), exactly_once=True)

    values = {entry.value.split()[0] for _, entry in manager.store("numbers").all()}
    assert values == {"1"}
    assert manager.restore_positions() == {changelog("numbers"): 2 * KEYS}
    manager.close()
    assert (tmp_path / "rocksdb" / "numbers" / "IDENTITY").read_text() == identity
    assert not [line for line in logs if "rebuilt" in line["event"]]
