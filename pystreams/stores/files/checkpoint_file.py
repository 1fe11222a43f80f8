"""Checkpoint files: changelog offsets of stores that do not keep their own, in Kafka's format.

Text: the version 0, the number of entries, one line an entry. Read and written as a whole:

    0
    1
    app-counts-changelog 3 41

says that the store holds everything up to record 41, included, of partition 3. -4 stands for an
offset that is not known. Writing goes to `<file>.tmp`, is synced and renamed, so that a crash
leaves the old file or the new one.

Spec: Kafka OffsetCheckpoint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pystreams.ids import TopicPartition
from pystreams.stores.files.metadata import OFFSET_UNKNOWN

_VERSION = "0"


class CheckpointFileError(Exception):
    """A checkpoint file can't be understood; says why. Never reaches users."""


def read_checkpoint(file: Path) -> dict[TopicPartition, int | None] | None:
    """Return the offsets in a file, None for those not known; None if there is no file.

    Raises:
        CheckpointFileError: Its text is not a checkpoint.
    """
    try:
        lines = file.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise CheckpointFileError(f"{file} is not text") from error
    if not lines or lines[0].strip() != _VERSION:
        raise CheckpointFileError(f"{file} has version {lines[:1]}, not {_VERSION}")
    try:
        entries = [line.rsplit(maxsplit=2) for line in lines[2:]]
        offsets = {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partition, offset in entries
        }
        count = int(lines[1])
    except (IndexError, ValueError) as error:
        raise CheckpointFileError(f"{file} is not a checkpoint: {error}") from error
    if count != len(offsets):
        raise CheckpointFileError(f"{file} holds {len(offsets)} entries and promises {count}")
    return {partition: offset if offset >= 0 else None for partition, offset in offsets.items()}


def write_checkpoint(file: Path, offsets: Mapping[TopicPartition, int | None]) -> None:
    """Replace a file's content, durably; None stands for an offset that is not known.

    Raises:
        OSError: The disk is full or gone; the file is as it was.
    """
    lines = [_VERSION, str(len(offsets))]
    for (topic, partition), offset in offsets.items():
        lines.append(f"{topic} {partition} {OFFSET_UNKNOWN if offset is None else offset}")
    temporary = file.with_name(f"{file.name}.tmp")
    write_synced(temporary, "\n".join(lines) + "\n")
    temporary.replace(file)
    sync_directory(file.parent)


def write_synced(file: Path, text: str) -> None:
    """Write a file whose content survives a power failure; for its name, sync its directory."""
    with file.open("w", encoding="utf-8") as output:
        output.write(text)
        output.flush()
        os.fsync(output.fileno())


def sync_directory(directory: Path) -> None:
    """Make renames and deletions in a directory survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
