"""The one checkpoint file of a task, of an older layout: its offsets become those of the stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.state.files.checkpointed_offsets import delete, read_or_warn
from pystreams.runtime.state.managed_store import ManagedStore

TASK_CHECKPOINT = ".checkpoint"
"""One file for all stores of a task: the layout of Kafka Streams before 4.3."""

_log = get_logger("pystreams.stores")


def take_in_task_checkpoint(
    task_id: TaskId,
    directory: Path,
    stores: Mapping[TopicPartition, ManagedStore],
    holds_data: Callable[[ManagedStore], bool | None],
    init: Callable[[ManagedStore], None],
) -> None:
    """Take the offsets of the task's checkpoint file into its stores, if there is one.

    A store that has an offset keeps it. One that is empty takes none: what the file tells of lies
    elsewhere, as windows and sessions of Java do, or is gone. Nor does one that can't tell. Both
    are restored from the beginning. The file is deleted when all others have their offsets for
    good, which closing makes sure of: a crash at any moment loses none.

    Args:
        stores: The task's open stores that are logged, by changelog.
        holds_data: Returns whether a store holds anything, None if it can't tell.
        init: Opens a store again.
    """
    file = directory / TASK_CHECKPOINT
    offsets = read_or_warn(file)
    if offsets is None:
        return
    reopened, from_the_beginning = [], []
    for changelog, managed in stores.items():
        offset = offsets.get(changelog)
        if offset is None or not managed.store.persistent:
            continue
        if managed.committed_offset() is not None:
            continue
        found = holds_data(managed)
        if found is None and managed.checkpoint is not None:
            managed.checkpoint.distrust()
        if not found:
            from_the_beginning.append(managed.builder.name)
        elif managed.checkpoint is not None:
            managed.checkpoint.take_in(offset)
        else:
            managed.store.commit({changelog: offset})
            managed.store.close()
            reopened.append(managed)
    delete(file)
    for managed in reopened:
        init(managed)
    _log.info(
        "checkpoint file taken into the stores",
        task=str(task_id),
        file=str(file),
        restored_from_the_beginning=from_the_beginning,
    )
