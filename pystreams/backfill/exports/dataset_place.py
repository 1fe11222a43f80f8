"""Where a data set appears: all of it at once, in the place of one before it or of nothing.

    .dataset.unfinished/    is being written
    dataset/                whole; `_manifest.json` tells of which results it was made
    .dataset.replaced/      the one before, from its replacement until it is deleted

So at `dataset` there is a whole one, or between two renames none. What a killed writer has left
beside it goes when the next one writes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pystreams.backfill.staging.directory import MANIFEST
from pystreams.backfill.staging.errors import StagingError, readable, told

_MADE_OF = "_manifest.json"  # Spark passes over files that begin with an underscore.


def is_dataset_of(path: Path, staging: Path) -> bool:
    """Return whether there is a data set, of the results that are staged now."""
    files = (path / _MADE_OF, staging / MANIFEST)
    return all(file.is_file() for file in files) and len({file.read_bytes() for file in files}) == 1


def check_replaceable(path: Path) -> None:
    """Refuse a place where something else is than a data set.

    Raises:
        StagingError: There are other files, or it can't be read.
    """
    with told(path):
        free = not path.exists() or (path.is_dir() and not any(path.iterdir()))
        if not free and not (path / _MADE_OF).is_file():
            raise StagingError(
                f"{path} holds files that are not of a backfill's data set: move them away, or "
                "choose an empty directory or one that is not there yet"
            )


@contextmanager
def replaced(path: Path, staging: Path) -> Iterator[Path]:
    """Give a directory to write a data set to, which gets its place when the block is left.

    A block that fails leaves the place as it was.

    Args:
        path: The place. Where it is a link, what it leads to is replaced.
        staging: The staging directory that the data set is made of; held.

    Raises:
        StagingError: Directories can't be made, renamed or removed.
    """
    place = path.resolve() if path.is_symlink() else path
    unfinished = place.with_name(f".{place.name}.unfinished")
    before = place.with_name(f".{place.name}.replaced")
    with told(path):
        _remove(unfinished)
        unfinished.mkdir(parents=True)
    yield unfinished
    with told(path):
        shutil.copyfile(staging / MANIFEST, unfinished / _MADE_OF)
        _remove(before)
        if place.exists():
            place.rename(before)
        unfinished.rename(place)
    # What can't be deleted now, as files that somebody reads over NFS, goes with the next one.
    shutil.rmtree(before, ignore_errors=True)


def num_rows(directory: Path, written: int) -> int:
    """Return how many rows the Parquet files of a directory have.

    Args:
        directory: Where Spark's workers have written them.
        written: How many they know of.

    Raises:
        StagingError: That is not how many are here; or a file is damaged.
    """
    from pyarrow import parquet

    found = 0
    for file in directory.glob("*.parquet"):
        with readable(file, directory):
            found += parquet.read_metadata(file).num_rows
    if found != written:
        raise StagingError(
            f"workers have written {written} rows to {directory}, and {found} are seen here: mount "
            "the data set's directory under the same path on all workers, or choose one that is; "
            "if it is, somebody else removes files there"
        )
    return found


def _remove(directory: Path) -> None:
    if directory.exists():
        shutil.rmtree(directory)
