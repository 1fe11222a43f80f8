"""What goes wrong with the files of a staging directory, told with its cure."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pystreams.errors import StreamsError

_CURES = {
    errno.EACCES: "give this user write access, or choose another directory",
    errno.EPERM: "give this user write access, or choose another directory",
    errno.EROFS: "the file system is read-only: choose another directory",
    errno.ENOSPC: "the disk is full: free some space, and start again",
    errno.EDQUOT: "the quota is used up: free some space, and start again",
    errno.EFBIG: "files may not be so large: lift the limit, and start again",
    errno.ENOTDIR: "a file is in the way: remove it, or choose another directory",
    errno.EEXIST: "a file is in the way: remove it, or choose another directory",
}


class StagingError(StreamsError):
    """A staging directory can't be used: incomplete, of something else, or not readable."""


@contextmanager
def told(directory: Path) -> Iterator[None]:
    """Turn the failure of a file operation in a staging directory into an error with its cure."""
    try:
        yield
    except OSError as error:
        cure = _CURES.get(error.errno or 0, "choose another directory")
        reason = error.strerror or str(error)
        raise StagingError(
            f"the staging directory {directory} can't be used ({reason}): {cure}"
        ) from error


@contextmanager
def readable(file: Path, stage: Path) -> Iterator[None]:
    """Turn what pyarrow says about a file of a stage into an error with its cure."""
    try:
        yield
    except FileNotFoundError as error:
        raise StagingError(f"{file} is gone, and was there before. {_bring_back(stage)}") from error
    except (OSError, ValueError) as error:  # Arrow's own are ValueErrors.
        raise StagingError(
            f"{file} can't be read ({type(error).__name__}: {error}). {do_again(stage)}"
        ) from error


def check_unchanged(file: Path, stage: Path, num_rows: int, had: int) -> None:
    """See that a file of a stage has the rows that it had when the stage was looked at.

    Raises:
        StagingError: It has others.
    """
    if num_rows != had:
        raise StagingError(
            f"{file} has {num_rows} rows, and had {had} before. {_bring_back(stage)}"
        )


def _bring_back(stage: Path) -> str:
    return (
        "Somebody removes or changes files, or their file system is not there any more: bring back "
        "what was there, and start again, which goes on. What is lost for good is made again. "
        f"{do_again(stage)}"
    )


def in_use(directory: Path, holder: str) -> StagingError:
    """Return what is wrong with a directory that another process works in."""
    return StagingError(
        f"another backfill or rescale runs in {directory} ({holder}): let it finish; or end it and "
        "start again, which goes on with what is missing; or choose another directory"
    )


def do_again(stage: Path) -> str:
    """Return what to do about a stage that is damaged."""
    return (
        f"Delete the directory {stage} and, if it is there, {stage.parent / 'manifest.json'}; then "
        "start again, which does that stage again"
    )
