"""The results in a complete staging directory, looked at once: all that was staged was there.

What is published and what stores are seeded from are read from the same look. Drivers are kept out
meanwhile. They are not the only ones who can remove files: one that goes afterwards, or that is
another one by then, is an error when it is read (`stage_files.StageFiles`).
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.staging.directory import (
    MANIFEST,
    Manifest,
    StagedStage,
    StagingDirectory,
    read_manifest,
)
from pystreams.backfill.staging.directory_lock import DriverLock
from pystreams.backfill.staging.errors import StagingError, do_again, in_use, told
from pystreams.backfill.staging.stage_files import StageFiles
from pystreams.kernel.loggers import get_logger

_log = get_logger("pystreams.backfill")

_NOT_WRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

_ROWS_OF = {
    ResultKind.OUTPUT: "records of",
    ResultKind.STATE: "records of",
    ResultKind.END: "ends of partitions of",
}


@dataclass(frozen=True, slots=True)
class StagedResults:
    """The results of a backfill or rescale, all of them.

    Attributes:
        files: The files of each stage, by its position.
    """

    path: Path
    manifest: Manifest
    files: Mapping[int, StageFiles]

    @classmethod
    def whole(cls, path: Path) -> Self:
        """Look at a staging directory; reads the ends of all its files.

        Raises:
            StagingError: It is not complete, is damaged, or holds no results; or files of a stage
                are missing or too many: names the stage.
        """
        manifest = read_manifest(path)
        return cls(path, manifest, check_whole(StagingDirectory(path), manifest))


@contextmanager
def kept_results(path: Path) -> Iterator[StagedResults]:
    """Look at the results in a staging directory, and keep drivers out of it meanwhile.

    Others who publish them are not kept out: they fence one another. A directory that can't be
    written is read without keeping anybody out.

    Raises:
        StagingError: As by `StagedResults.whole`; or a driver works in it.
    """
    read_manifest(path)  # A directory that holds something else gets no lock file.
    lock = _shared_lock(path)
    try:
        yield StagedResults.whole(path)
    finally:
        if lock is not None:
            lock.release()


def _shared_lock(path: Path) -> DriverLock | None:
    with told(path):
        try:
            lock = DriverLock.shared(path)
        except OSError as error:
            if error.errno not in _NOT_WRITABLE:
                raise
            _log.warning("results are read without a lock", directory=str(path), why=str(error))
            return None
    if lock is None:
        raise in_use(path, DriverLock.holder(path))
    return lock


def check_whole(staging: StagingDirectory, manifest: Manifest) -> dict[int, StageFiles]:
    """Refuse results that are not all there, or are more than was staged.

    Returns:
        The files of each stage, by its position.

    Raises:
        StagingError: Files of a stage are missing, damaged or too many; names the stage.
    """
    files = {stage.position: staging.files(stage.position) for stage in manifest.stages}
    for stage in manifest.stages:
        _check_stage(staging, stage, files[stage.position])
    return files


def _check_stage(staging: StagingDirectory, stage: StagedStage, files: StageFiles) -> None:
    directory = staging.stage_path(stage.position)
    for kind, staged in stage.rows.items():
        found = files.counts(kind)
        for name in sorted(found.keys() | staged.keys()):
            held, wanted = found.get(name, 0), staged.get(name, 0)
            if held != wanted:
                raise StagingError(
                    f"{directory} holds {held} {_ROWS_OF[kind]} {name}, and {wanted} were "
                    f"staged: files were removed or added. {do_again(directory)}"
                )
    if staging.finished_stage(stage.position) != stage:
        raise StagingError(
            f"{directory} is not the stage that {MANIFEST} lists: it was run again, or its "
            f"files were changed. {do_again(directory)}"
        )
