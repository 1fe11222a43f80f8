"""The staging directory: results as Parquet, one directory a stage, and what they are of.

    staging/
      .lock                           held by the driver that runs, or by those who publish
      begun.json                      what the backfill is of; written first
      stage-1.<attempt>/              written by Spark, for one driver
      stage-global.<run>/             rows of global tables, for the workers of one driver
      stage-0/                        such a directory when it is whole, renamed
        _stage.json                   its counts, and the attempt it came from
        kind=0/name=counts/task=3/*.parquet
      manifest.json                   all of it; written last, makes the whole valid
      published.json                  that it was handed over (`published_note`)

`kind` is a `ResultKind`, `name` a topic or store, `task` the task's partition. The files of one
task's directory hold its rows in the order of `sequence`. A task that was run twice leaves one set
of files: Spark commits one attempt of each.

A stage is written to a directory of its driver's own, which gets the stage's name when it is whole.
So what a killed driver's Spark goes on writing for a while is in no stage; and of two drivers that
can't see each other's lock the first one's stage counts. A stage that is run again comes from
another attempt: what was published of the one before does not go on with it (`staged_publication`).

The directory must be reached by one path from the driver and from all workers: a local one for a
local master, a mounted one for a cluster.
"""

from __future__ import annotations

import errno
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.staging.directory_lock import LOCK_FILE, DriverLock
from pystreams.backfill.staging.errors import StagingError, in_use, told
from pystreams.backfill.staging.notes import (
    is_unfinished,
    read_note,
    write_first_note,
    write_note,
)
from pystreams.backfill.staging.stage_files import StageFiles

MANIFEST = "manifest.json"
_BEGUN = "begun.json"
_STAGE = "_stage.json"  # Spark passes over files that begin with an underscore.


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedStage:
    """What one stage read and wrote; its fields are those of the stage's file.

    Attributes:
        position: Its place among the stages, from 0.
        subtopology: The sub-topology's id.
        only_topic: The topic whose records were kept, for a part of a sub-topology; else None.
        seconds: How long it took, by the wall clock.
        outputs: Records written, by topic.
        output_partitions: The partition count by which each of these topics was written; 1 where
            none was known.
        state: Changelog records of the final state, by store.
        ends: Source partitions whose end is told, by topic.
        attempt: Names the attempt that wrote it; each has a name of its own.
        dropped: How many records its tasks dropped: late ones, and those skipped after an error.
    """

    position: int
    subtopology: int
    topics: tuple[str, ...]
    only_topic: str | None = None
    num_tasks: int
    records: int
    seconds: float
    outputs: Mapping[str, int] = field(default_factory=dict)
    output_partitions: Mapping[str, int] = field(default_factory=dict)
    state: Mapping[str, int]
    ends: Mapping[str, int]
    attempt: str
    dropped: int = 0

    @property
    def rows(self) -> dict[ResultKind, Mapping[str, int]]:
        """How many rows it wrote, by kind and name."""
        kinds = ResultKind.OUTPUT, ResultKind.STATE, ResultKind.END
        return dict(zip(kinds, (self.outputs, self.state, self.ends), strict=True))

    @property
    def num_rows(self) -> int:
        """How many rows it wrote."""
        return sum(sum(counts.values()) for counts in self.rows.values())


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a complete staging directory holds.

    Attributes:
        stages: Its stages, in the order they ran.
        started_ms: When it was begun (ms since the epoch).
        seconds: How long all stages took, by the wall clock.
    """

    identity: BackfillIdentity
    stages: tuple[StagedStage, ...]
    started_ms: int
    seconds: float


class StagingDirectory:
    """A staging directory; used by one driver.

    Args:
        path: Where it is, or is to be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def stage_path(self, position: int) -> Path:
        """Return the directory of a stage."""
        return self.path / f"stage-{position}"

    def new_attempt(self, position: int) -> Path:
        """Return the directory that a driver writes a stage to; nobody else has it."""
        return self.path / f"{self.stage_path(position).name}.{uuid.uuid4().hex[:12]}"

    def new_global_rows(self) -> Path:
        """Return the directory that a driver writes the rows of global tables to; as an attempt."""
        return self.path / f"stage-global.{uuid.uuid4().hex[:12]}"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep all others out of the directory; make it, and clear away what killed drivers left.

        The lock ends with the process, however that ends. Where the file system has no locks,
        drivers are not kept out, and do no harm.

        Raises:
            StagingError: Another driver runs in it, or somebody publishes what is there; or it
                can't be made or written.
        """
        with told(self.path):
            lock = DriverLock.taken(self.path)
        if lock is None:
            raise in_use(self.path, DriverLock.holder(self.path))
        try:
            if lock.is_exclusive:
                self._remove_attempts()
            yield
        finally:
            if lock.is_exclusive:
                self._remove_attempts()
            lock.release()

    def _remove_attempts(self) -> None:
        for attempt in self.path.glob("stage-*.*"):
            shutil.rmtree(attempt, ignore_errors=True)

    def begin(
        self, identity: BackfillIdentity, now_ms: int, asked: Mapping[str, str] | None = None
    ) -> int:
        """Claim the directory for a backfill; return when it was begun first (ms).

        Args:
            now_ms: The time (ms since the epoch).
            asked: Bounds that were asked for by something that has become offsets; of a directory
                that is claimed already, they must be those of the first time.

        Raises:
            StagingError: It holds something else; says what differs. Or it can't be written.
        """
        begun = self.path / _BEGUN
        asked = dict(asked or {})
        if not begun.is_file():
            with told(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
                self._refuse_foreign_files()
                content = {"started_ms": now_ms, "asked": asked, "identity": asdict(identity)}
                if write_first_note(begun, content):
                    return now_ms
        found = read_note(begun)
        _refuse_another(BackfillIdentity.read(found["identity"]), identity, self.path)
        refuse_other_times(found["asked"], asked, self.path)
        return int(found["started_ms"])

    def _refuse_foreign_files(self) -> None:
        names = {file.name for file in self.path.iterdir()} - {LOCK_FILE, _BEGUN}
        if not all(map(is_unfinished, names)):
            raise StagingError(
                f"{self.path} holds files that are not of a backfill or rescale: choose an empty "
                "directory"
            )

    def finished_stage(self, position: int) -> StagedStage | None:
        """Return what a stage that is complete wrote, or None."""
        note = self.stage_path(position) / _STAGE
        return _staged(read_note(note)) if note.is_file() else None

    def finish_stage(self, stage: StagedStage, attempt: Path) -> StagedStage:
        """Give a stage its name, now that Spark has committed it.

        Args:
            attempt: Where it was written; see `new_attempt`.

        Returns:
            The stage that is there now: another driver's, if that was first.

        Raises:
            StagingError: The directory can't be written.
        """
        directory = self.stage_path(stage.position)
        with told(self.path):
            write_note(attempt / _STAGE, asdict(stage))
            while not _renamed(attempt, directory):
                finished = self.finished_stage(stage.position)
                if finished is not None:
                    shutil.rmtree(attempt, ignore_errors=True)
                    return finished
                self._clear_the_way(stage.position)
        return stage

    def _clear_the_way(self, position: int) -> None:
        """Remove what has the name of a stage, and is none."""
        aside = self.new_attempt(position)
        with suppress(FileNotFoundError):
            self.stage_path(position).rename(aside)
            # A whole one may have come there just before.
            if not (aside / _STAGE).is_file() or not _renamed(aside, self.stage_path(position)):
                shutil.rmtree(aside, ignore_errors=True)

    def finish(self, manifest: Manifest) -> None:
        """Make the whole valid.

        Raises:
            StagingError: The directory can't be written.
        """
        with told(self.path):
            write_note(self.path / MANIFEST, asdict(manifest))

    def remove(self) -> None:
        """Remove the directory, its name at once: a kill leaves nothing that looks like a part."""
        removed = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex[:12]}")
        with told(self.path):
            self.path.rename(removed)
            shutil.rmtree(removed, ignore_errors=True)

    def files(self, position: int) -> StageFiles:
        """Look at the files of a stage.

        Raises:
            StagingError: A file is damaged; names it.
        """
        return StageFiles.of(self.stage_path(position))


def begun_identity(path: Path) -> BackfillIdentity | None:
    """Return what the backfill in a directory is of, complete or not; None when there is none.

    Raises:
        StagingError: What is there can't be read.
    """
    begun = path / _BEGUN
    return BackfillIdentity.read(read_note(begun)["identity"]) if begun.is_file() else None


def begun_asked(path: Path) -> dict[str, str]:
    """Return what `StagingDirectory.begin` was given as `asked`.

    Raises:
        StagingError: Nothing was begun there, or it can't be read.
    """
    asked: dict[str, str] = read_note(path / _BEGUN)["asked"]
    return asked


def refuse_other_times(begun: Mapping[str, str], asked: Mapping[str, str], path: Path) -> None:
    """Refuse other bounds than those a backfill was begun with.

    Args:
        begun: See `begun_asked`.
        asked: The same of what is to be run; what it leaves out is as it was.

    Raises:
        StagingError: One differs; names it.
    """
    for what, by in asked.items():
        before = begun.get(what)
        if by != before:
            with_what = f"with {before}" if before else "without a time for it"
            raise StagingError(
                f"{what} is to be {by}, and what is in {path} was begun {with_what}: give what it "
                "was begun with, or leave it out; or choose another directory"
            )


def read_manifest(path: Path) -> Manifest:
    """Return the manifest of a complete staging directory.

    Raises:
        StagingError: There is none, the backfill is not complete, or another version wrote it.
    """
    file = path / MANIFEST
    if not file.is_file():
        if (path / _BEGUN).is_file():
            raise StagingError(
                f"the backfill or rescale in {path} is not complete: run it again, and it goes on "
                "with the stages that are missing"
            )
        raise StagingError(f"{path} holds no results of a backfill or rescale (no {MANIFEST})")
    found = read_note(file)
    return Manifest(
        BackfillIdentity.read(found["identity"]),
        tuple(map(_staged, found["stages"])),
        int(found["started_ms"]),
        float(found["seconds"]),
    )


def _refuse_another(begun: BackfillIdentity, wanted: BackfillIdentity, path: Path) -> None:
    if different := begun.differences(wanted):
        raise StagingError(
            f"{path} holds results of another backfill or rescale (its {', '.join(different)} "
            "differ from this one's): delete the directory, or choose another"
        )


def _renamed(directory: Path, to: Path) -> bool:
    """Give a directory a name, in one step; return whether no other has it already."""
    try:
        directory.rename(to)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        return False
    return True


def _staged(found: Mapping[str, Any]) -> StagedStage:
    values = {name: value for name, value in found.items() if name != "format_version"}
    return StagedStage(**{**values, "topics": tuple(values["topics"])})
