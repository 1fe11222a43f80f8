"""What the files of a store say that nobody has open, as a start would find it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pystreams.errors import StateStoreCorruptedError
from pystreams.ids import TopicPartition
from pystreams.runtime.state.files.checkpointed_offsets import (
    checkpoint_file,
    holds_state,
    may_hold_data,
    read_or_warn,
)
from pystreams.runtime.state.managed_store import RebuildReason
from pystreams.runtime.state.old_task_checkpoint import TASK_CHECKPOINT
from pystreams.runtime.state.store_rebuilds import NOT_CLOSED, WITHOUT_OFFSET
from pystreams.stores.contracts.state_store import ChangelogIdentity, StateStore
from pystreams.stores.dirty_map.opening import left_open
from pystreams.stores.engines.stored_offsets import stored_state
from pystreams.stores.store_builder import StoreBuilder


class ClosedStore(NamedTuple):
    """One store on the disk.

    Attributes:
        store: The store, not open.
        last_offset: Up to where it holds its changelog; None if that is not known, or nothing.
        identity: Which topic that is of, as far as the store says it.
        rebuild: Why it can't be used; None if it can.
        asks_to_be_opened: Whether it keeps its offset in a way of its own.
    """

    store: StateStore
    last_offset: int | None
    identity: ChangelogIdentity
    rebuild: RebuildReason | None = None
    asks_to_be_opened: bool = False


def closed_store(
    builder: StoreBuilder, task_directory: Path, changelog: TopicPartition, *, exactly_once: bool
) -> ClosedStore:
    """Return what the files of a store say; of one of a user's own only what lies beside it.

    Args:
        task_directory: The task's directory, which nobody has open.
        exactly_once: Whether what is not committed must leave no trace.

    Raises:
        StateStoreError: They can't be read.
    """
    store = builder.build()
    unknown = ClosedStore(store, None, ChangelogIdentity())
    if not store.persistent:
        return unknown
    of_task = (read_or_warn(task_directory / TASK_CHECKPOINT) or {}).get(changelog)
    if not store.manages_offsets():
        found = read_or_warn(checkpoint_file(task_directory, store.name))
        offset = (found or {}).get(changelog)
        last_offset = of_task if offset is None else offset
        had_state = holds_state(task_directory)
        if last_offset is None and may_hold_data(
            found, had_state=had_state, exactly_once=exactly_once
        ):
            return unknown._replace(rebuild=RebuildReason.distrust(NOT_CLOSED))
        return unknown._replace(last_offset=last_offset)
    if builder.engine is None:
        return unknown._replace(asks_to_be_opened=True)
    return _of_rocksdb(unknown, task_directory, changelog, of_task, exactly_once=exactly_once)


def _of_rocksdb(
    unknown: ClosedStore,
    task_directory: Path,
    changelog: TopicPartition,
    of_task: int | None,
    *,
    exactly_once: bool,
) -> ClosedStore:
    name = unknown.store.name
    try:
        found = stored_state(task_directory, name, changelog)
    except StateStoreCorruptedError as error:
        return unknown._replace(rebuild=RebuildReason.damage(error))
    last_offset, rebuild = of_task if found.offset is None else found.offset, None
    if exactly_once and found.was_left_open:
        unclosed = left_open(name, holds_nothing=found.holds_nothing)
        rebuild = RebuildReason.damage(unclosed, last_offset)
    elif exactly_once and found.holds_entries and last_offset is None:
        rebuild = RebuildReason.distrust(WITHOUT_OFFSET)
    return ClosedStore(unknown.store, last_offset, ChangelogIdentity(found.topic), rebuild)
