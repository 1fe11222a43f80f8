"""The results in a complete staging directory, looked at once: all that was staged was there.

What is published and what stores are seeded from are read from the same look. A file that goes
afterwards, or that is another one by then, is an error when it is read (`staged_rows.StageFiles`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pystreams.backfill.rows import ResultKind
from pystreams.backfill.staged_rows import StageFiles
from pystreams.backfill.staging import (
    MANIFEST,
    Manifest,
    StagedStage,
    StagingDirectory,
    read_manifest,
)
from pystreams.backfill.staging_troubles import StagingError, do_again

_ROWS_OF = {
    ResultKind.OUTPUT: "records of",
    ResultKind.STATE: "records of",
    ResultKind.END: "ends of partitions of",
}


@dataclass(frozen=True, slots=True)
class StagedResults:
    """The results of a backfill or rescale, all of them.

    Attributes:
        path: The staging directory.
        manifest: What it says of them.
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


def check_whole(staging: StagingDirectory, manifest: Manifest) -> dict[int, StageFiles]:
    """Refuse results that are not all there, or are more than was staged.

    Args:
        staging: Where they are.
        manifest: What it says of them.

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
