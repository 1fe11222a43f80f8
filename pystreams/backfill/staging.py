"""The staging directory: results as Parquet, one directory a stage, and what they are of.

    staging/
      .lock                           held by the driver that runs
      begun.json                      what the backfill is of; written first
      stage-1.<attempt>/              written by Spark, for one driver
      stage-0/                        such a directory when it is whole, renamed
        _stage.json                   its counts
        kind=0/name=counts/task=3/*.parquet
      manifest.json                   all of it; written last, makes the whole valid

`kind` is a `ResultKind`, `name` a topic or store, `task` the task's partition. The files of one
task's directory hold its rows in the order of `sequence`. A task that was run twice leaves one set
of files: Spark commits one attempt of each.

A stage is written to a directory of its driver's own, which gets the stage's name when it is whole.
So what a killed driver's Spark goes on writing for a while is in no stage; and of two drivers that
can't see each other's lock the first one's stage counts.

The directory must be reached by one path from the driver and from all workers: a local one for a
local master, a mounted one for a cluster.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pystreams.backfill.driver_lock import LOCK_FILE, DriverLock
from pystreams.backfill.history import PartitionBounds
from pystreams.backfill.rows import Result, ResultKind, place_of
from pystreams.backfill.staging_troubles import StagingError, readable, told
from pystreams.ids import TopicPartition
from pystreams.topology.plan import TopologyPlan

FORMAT_VERSION = 1
_MANIFEST = "manifest.json"
_BEGUN = "begun.json"
_STAGE = "_stage.json"  # Spark passes over files that begin with an underscore.


@dataclass(frozen=True, slots=True)
class BackfillIdentity:
    """What a backfill is of; equal ones may share a staging directory.

    Attributes:
        application_id: The application's id.
        topology: SHA-256 of the topology's description.
        num_partitions: Partition count of each source and repartition topic, by real name.
        num_tasks: How many tasks each sub-topology has, by its id as text.
        bounds: First offset, end offset and number of records of each partition of the history.
    """

    application_id: str
    topology: str
    num_partitions: Mapping[str, int]
    num_tasks: Mapping[str, int]
    bounds: Mapping[str, tuple[int, int, int]]

    @classmethod
    def of(
        cls,
        plan: TopologyPlan,
        num_partitions: Mapping[str, int],
        num_tasks: Mapping[int, int],
        bounds: Mapping[TopicPartition, PartitionBounds],
    ) -> BackfillIdentity:
        """Return the identity of a backfill."""
        description = str(plan.topology.describe())
        return cls(
            plan.application_id,
            hashlib.sha256(description.encode()).hexdigest(),
            dict(sorted(num_partitions.items())),
            {str(number): count for number, count in sorted(num_tasks.items())},
            {
                str(partition): (has.first, has.end, has.records)
                for partition, has in sorted(bounds.items())
            },
        )

    @property
    def fingerprint(self) -> str:
        """A text of letters and digits that differs between backfills."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def partition_bounds(self) -> dict[TopicPartition, PartitionBounds]:
        """Return the bounds of the history by partition."""
        found = {}
        for name, has in self.bounds.items():
            topic, _, number = name.rpartition("-")
            found[TopicPartition(topic, int(number))] = PartitionBounds(*has)
        return found


@dataclass(frozen=True, slots=True)
class StagedStage:
    """What one stage read and wrote.

    Attributes:
        position: Its place among the stages, from 0.
        subtopology: The sub-topology's id.
        topics: Topics it read.
        only_topic: The topic whose records were kept, for a part of a sub-topology; else None.
        num_tasks: How many tasks it had.
        records: How many records it read.
        seconds: How long it took, by the wall clock.
        outputs: Records written, by topic.
        state: Changelog records of the final state, by store.
    """

    position: int
    subtopology: int
    topics: tuple[str, ...]
    only_topic: str | None
    num_tasks: int
    records: int
    seconds: float
    outputs: Mapping[str, int]
    state: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a complete staging directory holds.

    Attributes:
        identity: What the backfill is of.
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

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other drivers out of the directory; make it, and clear away what killed ones left.

        The lock ends with the process, however that ends. Where the file system has no locks,
        drivers are not kept out, and do no harm.

        Raises:
            StagingError: Another driver runs in it, or it can't be made or written.
        """
        with told(self.path):
            lock = DriverLock.taken(self.path)
        if lock is None:
            raise StagingError(
                f"another backfill runs in {self.path} ({DriverLock.holder(self.path)}): let it "
                "finish; or end it and start again, which goes on with what is missing; or choose "
                "another directory"
            )
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
            identity: What it is of.
            now_ms: The time (ms since the epoch).
            asked: Bounds that were asked for by something that has become offsets; of a directory
                that is claimed already, they must be those of the first time.

        Raises:
            StagingError: It holds something else; says what differs. Or it can't be written.
        """
        begun = self.path / _BEGUN
        asked = dict(asked or {})
        if begun.is_file():
            found = _read(begun)
            _check_same(_identity(found["identity"]), identity, self.path)
            _check_asked(found.get("asked", {}), asked, self.path)
            return int(found["started_ms"])
        with told(self.path):
            ours = {LOCK_FILE, _unfinished(begun).name}
            if self.path.is_dir() and {file.name for file in self.path.iterdir()} - ours:
                raise StagingError(
                    f"{self.path} holds files that are not of a backfill: choose an empty directory"
                )
            self.path.mkdir(parents=True, exist_ok=True)
            header = {"format_version": FORMAT_VERSION, "started_ms": now_ms}
            _write(begun, {**header, "asked": asked, "identity": asdict(identity)})
        return now_ms

    def finished_stage(self, position: int) -> StagedStage | None:
        """Return what a stage that is complete wrote, or None."""
        note = self.stage_path(position) / _STAGE
        return _staged(_read(note)) if note.is_file() else None

    def finish_stage(self, stage: StagedStage, attempt: Path) -> StagedStage:
        """Give a stage its name, now that Spark has committed it.

        Args:
            stage: What it has read and written.
            attempt: Where it was written; see `new_attempt`.

        Returns:
            The stage that is there now: another driver's, if that was first.

        Raises:
            StagingError: The directory can't be written.
        """
        directory = self.stage_path(stage.position)
        with told(self.path):
            _write(attempt / _STAGE, {"format_version": FORMAT_VERSION, **asdict(stage)})
            finished = self.finished_stage(stage.position)
            if finished is not None:
                shutil.rmtree(attempt)
                return finished
            if directory.exists():
                shutil.rmtree(directory)
            attempt.rename(directory)
        return stage

    def finish(self, manifest: Manifest) -> None:
        """Make the whole valid.

        Raises:
            StagingError: The directory can't be written.
        """
        with told(self.path):
            _write(self.path / _MANIFEST, {"format_version": FORMAT_VERSION, **asdict(manifest)})

    def remove(self) -> None:
        """Remove the directory, its name at once: a kill leaves nothing that looks like a part."""
        removed = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex[:12]}")
        with told(self.path):
            self.path.rename(removed)
            shutil.rmtree(removed, ignore_errors=True)

    def names(self, position: int, kind: ResultKind, task: int) -> list[str]:
        """Return the topics or stores that a task has rows of, sorted."""
        pattern = f"kind={int(kind)}/name=*/task={task}"
        found = self.stage_path(position).glob(pattern)
        return sorted(directory.parent.name.partition("=")[2] for directory in found)

    def rows(self, position: int, kind: ResultKind, name: str, task: int) -> Iterator[Result]:
        """Return a task's rows of one kind and name, in order, a batch in memory at a time.

        Raises:
            StagingError: A file is damaged or gone; names it.
        """
        from pyarrow import parquet

        stage = self.stage_path(position)
        directory = stage / place_of(kind, name, task)
        for file in sorted(directory.glob("*.parquet")):
            with readable(file, stage), parquet.ParquetFile(file) as opened:
                for batch in opened.iter_batches(columns=list(_ROW_COLUMNS)):
                    for row in zip(*(batch.column(one).to_pylist() for one in _ROW_COLUMNS)):  # noqa: B905
                        headers = tuple((one["key"], one["value"]) for one in row[-1] or ())
                        yield Result._make((kind, task, name, *row[:-1], headers))


_ROW_COLUMNS = ("partition", "sequence", "timestamp", "key", "value", "headers")


def counted(stage: Path, kind: ResultKind) -> dict[str, int]:
    """Return how many rows of a kind a stage's directory holds, by name; reads the files' ends.

    Raises:
        StagingError: A file is damaged; names it.
    """
    from pyarrow import parquet

    found: dict[str, int] = {}
    for file in stage.glob(f"kind={int(kind)}/name=*/task=*/*.parquet"):
        name = file.parent.parent.name.partition("=")[2]
        with readable(file, stage):
            found[name] = found.get(name, 0) + parquet.read_metadata(file).num_rows
    return dict(sorted(found.items()))


def begun_identity(path: Path) -> BackfillIdentity | None:
    """Return what the backfill in a directory is of, complete or not; None when there is none.

    Raises:
        StagingError: What is there can't be read.
    """
    begun = path / _BEGUN
    return _identity(_read(begun)["identity"]) if begun.is_file() else None


def read_manifest(path: Path) -> Manifest:
    """Return the manifest of a complete staging directory.

    Raises:
        StagingError: There is none, the backfill is not complete, or another version wrote it.
    """
    file = path / _MANIFEST
    if not file.is_file():
        if (path / _BEGUN).is_file():
            raise StagingError(
                f"the backfill in {path} is not complete: run it again, and it goes on with the "
                "stages that are missing"
            )
        raise StagingError(f"{path} holds no results of a backfill (no {_MANIFEST})")
    found = _read(file)
    return Manifest(
        _identity(found["identity"]),
        tuple(map(_staged, found["stages"])),
        int(found["started_ms"]),
        float(found["seconds"]),
    )


def _check_same(found: BackfillIdentity, wanted: BackfillIdentity, path: Path) -> None:
    """Refuse a directory of another backfill.

    Raises:
        StagingError: Something differs; names what.
    """
    different = [
        what
        for what, here, there in (
            ("application.id", wanted.application_id, found.application_id),
            ("topology", wanted.topology, found.topology),
            ("number of partitions", wanted.num_partitions, found.num_partitions),
            ("number of tasks", wanted.num_tasks, found.num_tasks),
            ("history", wanted.bounds, found.bounds),
        )
        if here != there
    ]
    if different:
        raise StagingError(
            f"{path} holds results of another backfill (its {', '.join(different)} "
            "differ from this one's): delete the directory, or choose another"
        )


def _check_asked(found: Mapping[str, str], wanted: Mapping[str, str], path: Path) -> None:
    """Refuse other bounds than those a backfill was begun with.

    Raises:
        StagingError: One differs; names it.
    """
    for what, by in wanted.items():
        before = found.get(what)
        if by != before:
            begun = f"with {before}" if before else "without a time for it"
            raise StagingError(
                f"{what} is to be {by}, and the backfill in {path} was begun {begun}: give what it "
                "was begun with, or leave it out; or choose another directory"
            )


def _read(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text("utf-8"))
        version = found["format_version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StagingError(
            f"{file} can't be read ({type(error).__name__}: {error}): delete the directory "
            f"{file.parent}, and run the backfill again"
        ) from error
    if version != FORMAT_VERSION:
        raise StagingError(
            f"{file} is of format version {version}, and this pystreams reads {FORMAT_VERSION}: "
            "use the pystreams that wrote it, or run the backfill again in another directory"
        )
    return found


def _unfinished(file: Path) -> Path:
    return file.with_name(f".{file.name}.unfinished")


def _write(file: Path, content: Mapping[str, Any]) -> None:
    """Write a file so that it is there whole or not at all."""
    unfinished = _unfinished(file)
    unfinished.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    unfinished.replace(file)


def _identity(found: Mapping[str, Any]) -> BackfillIdentity:
    bounds = {partition: tuple(has) for partition, has in found["bounds"].items()}
    return BackfillIdentity(**{**found, "bounds": bounds})


def _staged(found: Mapping[str, Any]) -> StagedStage:
    values = {name: value for name, value in found.items() if name != "format_version"}
    return StagedStage(**{**values, "topics": tuple(values["topics"])})
