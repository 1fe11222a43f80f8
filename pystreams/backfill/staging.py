"""The staging directory: results as Parquet, one directory a stage, and what they are of.

    staging/
      begun.json                      what the backfill is of; written first
      stage-0/                        written by Spark, whole when it holds _SUCCESS
        _stage.json                   its counts; written after that
        kind=0/name=counts/task=3/*.parquet
      manifest.json                   all of it; written last, makes the whole valid

`kind` is a `ResultKind`, `name` a topic or store, `task` the task's partition. The files of one
task's directory hold its rows in the order of `sequence`. A task that was run twice leaves one set
of files: Spark commits one attempt of each.

The directory must be reached by one path from the driver and from all workers: a local one for a
local master, a mounted one for a cluster.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pystreams.backfill.history import PartitionBounds
from pystreams.backfill.rows import Result, ResultKind
from pystreams.errors import StreamsError
from pystreams.ids import TopicPartition
from pystreams.topology.plan import TopologyPlan

FORMAT_VERSION = 1
_MANIFEST = "manifest.json"
_BEGUN = "begun.json"
_STAGE = "_stage.json"  # Spark passes over files that begin with an underscore.


class StagingError(StreamsError):
    """A staging directory can't be used: incomplete, of another backfill, or not readable."""


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

    def begin(self, identity: BackfillIdentity, now_ms: int) -> int:
        """Claim the directory for a backfill; return when it was begun first (ms).

        Raises:
            StagingError: It holds something else; says what differs.
        """
        begun = self.path / _BEGUN
        if begun.is_file():
            found = _read(begun)
            _check_same(_identity(found["identity"]), identity, self.path)
            return int(found["started_ms"])
        if self.path.is_dir() and any(self.path.iterdir()):
            raise StagingError(
                f"{self.path} holds files that are not of a backfill: choose an empty directory"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        header = {"format_version": FORMAT_VERSION, "started_ms": now_ms}
        _write(begun, {**header, "identity": asdict(identity)})
        return now_ms

    def finished_stage(self, position: int) -> StagedStage | None:
        """Return what a stage that is complete wrote, or None."""
        directory = self.stage_path(position)
        note = directory / _STAGE
        if not note.is_file() or not (directory / "_SUCCESS").is_file():
            return None
        return _staged(_read(note))

    def finish_stage(self, stage: StagedStage) -> None:
        """Note that Spark has committed a stage."""
        _write(
            self.stage_path(stage.position) / _STAGE,
            {"format_version": FORMAT_VERSION, **asdict(stage)},
        )

    def finish(self, manifest: Manifest) -> None:
        """Make the whole valid."""
        _write(self.path / _MANIFEST, {"format_version": FORMAT_VERSION, **asdict(manifest)})

    def counts(self, position: int, kind: ResultKind) -> dict[str, int]:
        """Return how many rows of a kind a stage has, by name; reads the files' ends only."""
        from pyarrow import parquet

        found: dict[str, int] = {}
        for file in self.stage_path(position).glob(f"kind={int(kind)}/name=*/task=*/*.parquet"):
            name = file.parent.parent.name.partition("=")[2]
            found[name] = found.get(name, 0) + parquet.read_metadata(file).num_rows
        return dict(sorted(found.items()))

    def names(self, position: int, kind: ResultKind, task: int) -> list[str]:
        """Return the topics or stores that a task has rows of, sorted."""
        pattern = f"kind={int(kind)}/name=*/task={task}"
        found = self.stage_path(position).glob(pattern)
        return sorted(directory.parent.name.partition("=")[2] for directory in found)

    def rows(self, position: int, kind: ResultKind, name: str, task: int) -> Iterator[Result]:
        """Return a task's rows of one kind and name, in order, a batch in memory at a time."""
        from pyarrow import parquet

        directory = self.stage_path(position) / f"kind={int(kind)}" / f"name={name}"
        for file in sorted((directory / f"task={task}").glob("*.parquet")):
            with parquet.ParquetFile(file) as opened:
                for batch in opened.iter_batches(columns=list(_ROW_COLUMNS)):
                    for row in zip(*(batch.column(one).to_pylist() for one in _ROW_COLUMNS)):  # noqa: B905
                        headers = tuple((one["key"], one["value"]) for one in row[-1] or ())
                        yield Result._make((kind, task, name, *row[:-1], headers))


_ROW_COLUMNS = ("partition", "sequence", "timestamp", "key", "value", "headers")


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


def _write(file: Path, content: Mapping[str, Any]) -> None:
    """Write a file so that it is there whole or not at all."""
    unfinished = file.with_name(f".{file.name}.unfinished")
    unfinished.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    unfinished.replace(file)


def _identity(found: Mapping[str, Any]) -> BackfillIdentity:
    bounds = {partition: tuple(has) for partition, has in found["bounds"].items()}
    return BackfillIdentity(**{**found, "bounds": bounds})


def _staged(found: Mapping[str, Any]) -> StagedStage:
    values = {name: value for name, value in found.items() if name != "format_version"}
    return StagedStage(**{**values, "topics": tuple(values["topics"])})
