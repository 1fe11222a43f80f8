"""Notes in a staging directory: JSON files, each there whole or not at all.

They survive a power failure, as far as the file system takes part.
"""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pystreams.backfill.staging.errors import StagingError
from pystreams.stores.files.checkpoint_file import sync_directory, write_synced

FORMAT_VERSION = 2
_UNFINISHED = ".unfinished"
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS})


def read_note(file: Path) -> dict[str, Any]:
    """Return what a note says.

    Raises:
        StagingError: It can't be read, or another version of pystreams wrote it.
    """
    try:
        found: dict[str, Any] = json.loads(file.read_text("utf-8"))
        version = found["format_version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StagingError(
            f"{file} can't be read ({type(error).__name__}: {error}): delete the directory "
            f"{file.parent}, and start again"
        ) from error
    if version != FORMAT_VERSION:
        raise StagingError(
            f"{file} is of format version {version}, and this pystreams reads {FORMAT_VERSION}: "
            "use the pystreams that wrote it, or start again in another directory"
        )
    return found


def write_note(file: Path, content: Mapping[str, Any]) -> None:
    """Write a note; what it said before is gone.

    Raises:
        OSError: It can't be written.
    """
    _written(file, content).replace(file)
    _sync_directory(file.parent)


def write_first_note(file: Path, content: Mapping[str, Any]) -> bool:
    """Write a note unless somebody else has; return whether this one is there now.

    Where the file system has no hard links, of two that write at the same time the last one stays.

    Raises:
        OSError: It can't be written.
    """
    unfinished = _written(file, content)
    try:
        os.link(unfinished, file)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
    _sync_directory(file.parent)
    return True


def is_unfinished(name: str) -> bool:
    """Return whether a file of this name is a note that a killed process was writing."""
    return name.startswith(".") and name.endswith(_UNFINISHED)


def _written(file: Path, content: Mapping[str, Any]) -> Path:
    """Write a note under a name that nobody else has."""
    unfinished = file.with_name(f".{file.name}.{uuid.uuid4().hex[:12]}{_UNFINISHED}")
    note = {"format_version": FORMAT_VERSION, **content}
    write_synced(unfinished, json.dumps(note, indent=2) + "\n")
    return unfinished


def _sync_directory(directory: Path) -> None:
    # Some network file systems can't; the note is there for whoever is alive.
    with suppress(OSError):
        sync_directory(directory)
