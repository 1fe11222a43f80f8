"""A state manager over real stores, and what tests of crashes need around it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pystreams import StoreBuilder, StoreEnvironment, TaskId, TopicPartition
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.state.state_manager import ProcessorStateManager
from pystreams.runtime.state.store_settings import StoreSettings
from pystreams.stores.contracts.state_store import RocksDBConfigSetter

TASK = TaskId(0, 0)
ALL_OF_IT = OffsetRange(0, 1 << 40, 1 << 40)
"""What a broker holds of a changelog that has lost nothing."""
ROOT = Path(__file__).parent.parent.parent


def changelog(store: str, application: str = "app") -> TopicPartition:
    return TopicPartition(f"{application}-{store}-changelog", 0)


def manager_of(
    *builders: StoreBuilder,
    exactly_once: bool = False,
    application: str = "app",
    cache_enabled: bool = False,
    rocksdb_config_setter: RocksDBConfigSetter | None = None,
) -> ProcessorStateManager:
    """A manager of one task, its stores not yet open."""
    stores = [
        (builder, changelog(builder.name, application).topic, builder.logging)
        for builder in builders
    ]
    environment = StoreEnvironment(
        application_id=application,
        cache_enabled=cache_enabled,
        rocksdb_config_setter=rocksdb_config_setter,
        exactly_once=exactly_once,
    )
    return ProcessorStateManager(TASK, stores, StoreSettings(environment))


def look_at_changelogs(manager: ProcessorStateManager) -> None:
    """Do what the runtime does before it restores: the broker holds all of each changelog."""
    for held in manager.changelogs():
        manager.check_of(held).first_offset_to_restore(ALL_OF_IT)


def opened(
    directory: Path, *builders: StoreBuilder, exactly_once: bool = False, **others: Any
) -> ProcessorStateManager:
    manager = manager_of(*builders, exactly_once=exactly_once, **others)
    manager.open(directory)
    look_at_changelogs(manager)
    return manager


def send(manager: ProcessorStateManager, next_offsets: Mapping[str, int]) -> None:
    """Do what the loop does before a Kafka commit: changelog records are sent, acknowledged."""
    manager.flush_caches()
    for output in manager.outputs():
        if output.records:
            store = output.topic.split("-")[1]
            output.last_offset = next_offsets[store] + len(output.records) - 1
            output.records.clear()


def commit(manager: ProcessorStateManager, **next_offsets: int) -> None:
    """Send and commit.

    Args:
        next_offsets: By store, the offset its first changelog record gets.
    """
    send(manager, next_offsets)
    manager.commit()


def in_another_process(function: Callable[..., object], *arguments: object) -> Any:
    """Call a function of a test module in a new process, which may kill itself.

    Returns:
        What it returned, by way of JSON; None if it was killed.
    """
    program = (
        "import json, sys; from pathlib import Path; "
        f"from {function.__module__} import {function.__name__} as function; "
        "print(json.dumps(function(*json.loads(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps([str(given) for given in arguments])],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    if done.returncode < 0:
        return None
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
