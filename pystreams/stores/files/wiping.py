"""Deletes all that is in a store's place, whatever it is."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from pystreams.errors import StateStoreError

if TYPE_CHECKING:
    from pathlib import Path


def wipe(store: str, directory: Path) -> None:
    """Delete a store's directory, or a file in its place or in that of the one above it.

    A link stays, and what it leads to becomes empty: the place of the state is the user's choice.

    Args:
        directory: `<task directory>/rocksdb/<store>`.

    Raises:
        StateStoreError: It can't be deleted; some of it may be.
    """
    try:
        for place in (directory.parent, directory):
            if place.exists() and not place.is_dir():
                place.unlink()
        if directory.is_symlink():
            for entry in directory.iterdir():
                _delete(entry)
        elif directory.exists():
            shutil.rmtree(directory)
    except OSError as error:
        raise StateStoreError(
            store,
            f"it is to be built anew, and {directory} can't be deleted ({error}): correct its "
            "owner and mode, or delete it, then start again",
        ) from error


def _delete(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()
