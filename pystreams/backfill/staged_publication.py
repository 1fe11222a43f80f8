"""A staging directory as what is published. Reads Parquet with pyarrow; Spark is not needed.

A task's rows come in one order, however often they are read: output before state, those of an
earlier stage first, by name of topic or store, by sequence. Going on somewhere in the middle reads
what stands before and drops it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pystreams.backfill.hand_over import PublishingRefusedError
from pystreams.backfill.history import PartitionBounds
from pystreams.backfill.publication import PartitionHistory, Publication, TaskResults
from pystreams.backfill.rows import Result, ResultKind
from pystreams.backfill.staged_rows import counted
from pystreams.backfill.staging import (
    MANIFEST,
    BackfillIdentity,
    Manifest,
    StagedStage,
    StagingDirectory,
    read_manifest,
)
from pystreams.backfill.staging_troubles import StagingError, do_again
from pystreams.ids import TaskId, TopicPartition
from pystreams.topology.nodes import SinkNode
from pystreams.topology.plan import TopologyPlan

_ROWS_OF = {
    ResultKind.OUTPUT: "records of",
    ResultKind.STATE: "records of",
    ResultKind.END: "ends of partitions of",
}


def staged_publication(path: Path, plan: TopologyPlan, *, with_outputs: bool) -> Publication:
    """Return what a complete staging directory holds.

    Args:
        path: The staging directory.
        plan: The topology that its state is published for.
        with_outputs: Whether output records are published; else they are not read either. Those of
            repartition topics never are.

    Raises:
        StagingError: The directory is not complete, is damaged, or holds no results.
        PublishingRefusedError: They are of another application or another topology.
    """
    manifest = read_manifest(path)
    identity = manifest.identity
    check_identity(path, identity, plan)
    staging = StagingDirectory(path)
    check_whole(staging, manifest)
    edges = edge_topics(plan)
    kinds = (ResultKind.OUTPUT, ResultKind.STATE) if with_outputs else (ResultKind.STATE,)
    source = _Source(staging, identity, edges, kinds, frozenset(plan.repartition_topics()))
    tasks = [
        _task(source, stages, TaskId(stages[-1].subtopology, number))
        for stages in _whole_stages(manifest)
        for number in range(stages[-1].num_tasks)
    ]
    written = frozenset(
        (topic, count)
        for stage in manifest.stages
        for topic, count in stage.output_partitions.items()
        if topic not in source.internal
    )
    return Publication(_id_of(manifest), identity.num_partitions, tasks, edges, written)


def _id_of(manifest: Manifest) -> str:
    """Return what identifies the rows of all stages; one that was run again has others."""
    attempts = " ".join(stage.attempt for stage in manifest.stages)
    return f"{manifest.identity.fingerprint}-{hashlib.sha256(attempts.encode()).hexdigest()[:16]}"


def edge_topics(plan: TopologyPlan) -> frozenset[str]:
    """Return the topics, by real name, that a topology both writes and reads."""
    written = {
        plan.topic_name(node.topic)
        for node in plan.topology.nodes.values()
        if isinstance(node, SinkNode) and isinstance(node.topic, str)
    }
    read = {topic for topic in written if plan.source_of_topic(topic) is not None}
    return frozenset(read) | frozenset(plan.repartition_topics())


def check_identity(path: Path, identity: BackfillIdentity, plan: TopologyPlan) -> None:
    """Refuse results of another application or topology.

    Raises:
        PublishingRefusedError: They are; says what differs.
    """
    if identity.application_id != plan.application_id:
        raise PublishingRefusedError(
            f"{path} holds results for application.id {identity.application_id!r}, and this is "
            f"{plan.application_id!r}: publish them under their own, or start again in another "
            "directory"
        )
    if identity.topology != BackfillIdentity.of(plan, {}, {}, {}).topology:
        raise PublishingRefusedError(
            f"the topology is not the one that {path} holds results of: publish with that one, or "
            "start again in another directory"
        )


def check_begun(
    path: Path, begun: BackfillIdentity, plan: TopologyPlan, num_partitions: Mapping[str, int]
) -> None:
    """Refuse to go on in a directory where something else was begun.

    Args:
        path: The directory.
        begun: What was begun there.
        plan: What is to be run.
        num_partitions: The partition counts of topics now.

    Raises:
        PublishingRefusedError: It is of another application or topology.
        StagingError: A topic has other partitions by now.
    """
    check_identity(path, begun, plan)
    for topic, count in begun.num_partitions.items():
        found = num_partitions.get(topic, count)
        if found != count:
            raise StagingError(
                f"topic {topic!r} has {found} partitions, and had {count} when the backfill in "
                f"{path} was begun: keys belong to other tasks now. Delete the directory, and run "
                "the backfill again"
            )


def check_whole(staging: StagingDirectory, manifest: Manifest) -> None:
    """Refuse results that are not all there, or are more than was staged.

    Raises:
        StagingError: Files of a stage are missing, damaged or too many; names the stage.
    """
    for stage in manifest.stages:
        directory = staging.stage_path(stage.position)
        for kind, staged in stage.rows.items():
            found = counted(directory, kind)
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


def _whole_stages(manifest: Manifest) -> Iterator[list[StagedStage]]:
    """Return the stages of each sub-topology, the whole one last, those that feed others first."""
    parts: dict[int, list[StagedStage]] = {}
    for stage in manifest.stages:
        parts.setdefault(stage.subtopology, []).append(stage)
        if stage.only_topic is None:
            yield parts.pop(stage.subtopology)


@dataclass(frozen=True, slots=True)
class _Source:
    """What the tasks of a publication are read from.

    Attributes:
        staging: The staging directory.
        identity: What it is of.
        edges: Topics that the topology both writes and reads.
        kinds: Which rows are published.
        internal: Topics whose records are not.
    """

    staging: StagingDirectory
    identity: BackfillIdentity
    edges: frozenset[str]
    kinds: tuple[ResultKind, ...]
    internal: frozenset[str]

    def rows(self, stages: Sequence[StagedStage], number: int) -> Iterator[Result]:
        """Return the rows of one task that are published."""
        for kind in self.kinds:
            for stage in stages:
                for name in self.staging.names(stage.position, kind, number):
                    if kind is ResultKind.STATE or name not in self.internal:
                        yield from self.staging.rows(stage.position, kind, name, number)


def _task(source: _Source, stages: Sequence[StagedStage], task_id: TaskId) -> TaskResults:
    staging, identity = source.staging, source.identity
    whole = stages[-1]
    number = task_id.partition
    bounds = identity.partition_bounds()
    ends = {
        TopicPartition(end.name, end.partition): end
        for name in staging.names(whole.position, ResultKind.END, number)
        for end in staging.rows(whole.position, ResultKind.END, name, number)
    }
    histories = {}
    for topic in whole.topics:
        if number < identity.num_partitions.get(topic, 1):
            one = TopicPartition(topic, number)
            histories[one] = _history(bounds.get(one), ends.get(one), is_edge=topic in source.edges)
    return TaskResults(
        task_id,
        histories,
        lambda first: islice(source.rows(stages, number), first, None),
    )


def _history(
    bounds: PartitionBounds | None, end: Result | None, *, is_edge: bool
) -> PartitionHistory:
    """Return what was covered of a partition; one without records is covered to its end.

    An edge's end counts what the backfill wrote there itself, which has no offset in Kafka.
    """
    start = 0 if bounds is None else bounds.first
    covered = start if bounds is None else bounds.end
    if end is None or end.timestamp < 0:
        return PartitionHistory(start, covered)
    next_offset = covered if is_edge else max(end.sequence, covered)
    return PartitionHistory(start, next_offset, end.timestamp)
