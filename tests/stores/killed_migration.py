"""Kills a process at each line of a migration in turn, and says what the next one finds.

Runs in a process of its own, which opens no database: it forks one child a kill, and one to look.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from structlog.testing import capture_logs

from pystreams import StoreBuilder, Stores, serdes
from pystreams.runtime.state.files.known_changelogs import FILE
from pystreams.runtime.state.state_manager import ProcessorStateManager
from tests.stores.managed import TASK, opened

STEPS = frozenset(("_take_in_position", "take_in_task_checkpoint", "delete"))
"""Functions between whose lines a kill comes."""
MOVE_STEPS = frozenset(("move_plain_data",))
"""Those of a plain store that becomes a timestamped one."""


def builders() -> list[StoreBuilder]:
    names = Stores.key_value_store_builder(
        Stores.persistent_key_value_store("names"), serdes.STRING, serdes.BYTES
    )
    totals = Stores.timestamped_key_value_store_builder(
        Stores.persistent_timestamped_key_value_store("totals"), serdes.STRING, serdes.BYTES
    )
    return [names, totals]


def found(manager: ProcessorStateManager, directory: Path) -> dict[str, Any]:
    """What a manager knows of its stores, as JSON."""
    stores: dict[str, Any] = dict(manager.stores())
    return {
        "next": {
            changelog.topic: offset for changelog, offset in manager.restore_positions().items()
        },
        "entries": {name: len(list(manager.store(name).all())) for name in manager.stores()},
        "metadata": {
            name: store._buffer._engine.metadata().get(b"position", b"").hex()
            for name, store in stores.items()
        },
        "files": sorted(
            path.name for path in directory.iterdir() if path.is_file() and path.name != FILE
        ),
    }


def look(directory: Path, *names: str) -> dict[str, Any]:
    """Open the stores of these names, or both, and close them again."""
    wanted = [builder for builder in builders() if not names or builder.name in names]
    manager = opened(directory, *wanted, application="shop")
    seen = found(manager, directory)
    manager.close()
    return seen


def small_memtables(_store: str, options: Any) -> None:
    """Let RocksDB flush after every batch."""
    options.set_write_buffer_size(64 << 10)


def look_after_a_move(directory: Path) -> dict[str, Any]:
    """Open the store that was a plain one, and close it again; say what it holds, as JSON."""
    with capture_logs() as logs:
        manager = opened(
            directory, builders()[1], application="shop", rocksdb_config_setter=small_memtables
        )
    seen = found(manager, directory)
    seen["entries"] = [
        [key, timestamp, value[:1].decode(), len(value)]
        for key, (value, timestamp) in manager.store("totals").all()
    ]
    seen["moved"] = sum(
        line["records"] for line in logs if line["event"] == "store.timestamps_added"
    )
    manager.close()
    return seen


def killed_at(line: int, steps: frozenset[str]) -> Callable[[FrameType, str, Any], Any]:
    """A trace function that kills the process at the n-th line of the steps."""
    seen = 0

    def in_step(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if event == "line":
            seen += 1
            if seen == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return in_step

    def on_call(frame: FrameType, event: str, argument: Any) -> Any:
        return in_step if frame.f_code.co_name in steps else None

    return on_call


def in_child(action: Callable[[], Any]) -> tuple[bool, Any]:
    """Run in a forked process; return whether it was killed, and what it returned."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            os.write(writer, json.dumps(action()).encode())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True, None
    assert status == 0, "the child raised"
    return False, json.loads(text)


def kill_at_each_line(older: str, scratch: str) -> list[dict[str, Any]]:
    """Take an older layout in, killed at each line in turn.

    Returns:
        What was found after each kill; the last entry is a run that was not killed.
    """
    return _outcomes(older, scratch, STEPS, lambda directory: look(directory, "names"))


def kill_at_each_line_of_a_move(plain: str, scratch: str) -> list[dict[str, Any]]:
    """Open a plain store's data as a timestamped store, killed at each line in turn.

    Returns:
        As `kill_at_each_line`.
    """
    return _outcomes(plain, scratch, MOVE_STEPS, look_after_a_move)


def _outcomes(
    older: str, scratch: str, steps: frozenset[str], look_at: Callable[[Path], dict[str, Any]]
) -> list[dict[str, Any]]:
    outcomes = []
    for line in range(1, 1000):
        directory = Path(scratch) / str(line) / str(TASK)
        shutil.copytree(older, directory)

        def migrate(directory: Path = directory, line: int = line) -> dict[str, Any]:
            sys.settrace(killed_at(line, steps))
            return look_at(directory)

        killed, _ = in_child(migrate)
        outcomes.append(in_child(partial(look_at, directory))[1])
        shutil.rmtree(directory)
        if not killed:
            return outcomes
    raise AssertionError("it never came to an end")
