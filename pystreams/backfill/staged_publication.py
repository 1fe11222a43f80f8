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

from pystreams.backfill.declared import other_keys, topology_fingerprint
from pystreams.backfill.hand_over import PublishingRefusedError
from pystreams.backfill.history import History, PartitionBounds
from pystreams.backfill.publication import PartitionHistory, Publication, TaskResults
from pystreams.backfill.rows import Result, ResultKind
from pystreams.backfill.staged_results import StagedResults
from pystreams.backfill.staged_rows import StageFiles
from pystreams.backfill.staging import BackfillIdentity, Manifest, StagedStage
from pystreams.backfill.staging_troubles import StagingError
from pystreams.ids import TaskId, TopicPartition
from pystreams.topology.nodes import SinkNode
from pystreams.topology.plan import TopologyPlan


def staged_publication(
    results: StagedResults,
    plan: TopologyPlan,
    configuration: Mapping[str, str] | None = None,
    *,
    with_outputs: bool,
) -> Publication:
    """Return staged results as what is published.

    Args:
        results: The results.
        plan: The topology that their state is published for.
        configuration: See `declared.declared_configuration`; None for a rescale, which moves state
            as it is.
        with_outputs: Whether output records are published; else they are not read either. Those of
            repartition topics never are.

    Raises:
        StagingError: A file is damaged or gone.
        PublishingRefusedError: They are of another application, topology or configuration; or the
            offsets of their history were computed, or its partitions guessed.
    """
    manifest = results.manifest
    identity = manifest.identity
    check_identity(results.path, identity, plan, configuration)
    refuse_other_offsets(identity, f"{results.path} holds results")
    edges = edge_topics(plan)
    kinds = (ResultKind.OUTPUT, ResultKind.STATE) if with_outputs else (ResultKind.STATE,)
    source = _Source(results, edges, kinds, frozenset(plan.repartition_topics()))
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


def check_identity(
    path: Path,
    identity: BackfillIdentity,
    plan: TopologyPlan,
    configuration: Mapping[str, str] | None = None,
) -> None:
    """Refuse results of another application, topology or configuration.

    Args:
        path: Where they are.
        identity: What they are of.
        plan: The topology.
        configuration: See `declared.declared_configuration`; None where it has no part.

    Raises:
        PublishingRefusedError: They are; says what differs.
    """
    if identity.application_id != plan.application_id:
        raise PublishingRefusedError(
            f"{path} holds results for application.id {identity.application_id!r}, and this is "
            f"{plan.application_id!r}: publish them under their own, or start again in another "
            "directory"
        )
    if identity.topology != topology_fingerprint(plan.topology):
        raise PublishingRefusedError(
            f"the topology is not the one that {path} holds results of: nodes, serdes, windows, "
            "stores or names of functions differ. Publish with that one, or start again in "
            "another directory"
        )
    if keys := other_keys(identity.configuration, configuration or {}):
        raise PublishingRefusedError(
            f"{path} holds results that were made with another {', '.join(keys)}: what goes on "
            "from them would read them, or treat records, in another way. Give what the backfill "
            "was run with, or start again in another directory"
        )


def refuse_other_offsets(of: History | BackfillIdentity, what: str) -> None:
    """Refuse results whose offsets are not those of Kafka's partitions.

    Args:
        of: The history, or what was staged of it.
        what: Begins the message: "... holds results", or the like.

    Raises:
        PublishingRefusedError: Offsets were computed, or partitions guessed.
    """
    if of.computed_offsets:
        raise PublishingRefusedError(
            f"{what} of an archive without offsets: the application could not go on right behind "
            "the history, since computed offsets are not the topic's. They give a data set "
            "(write_dataset, or --no-publish); for a hand-over run the backfill in another "
            "directory, over an archive with Kafka's offsets or over Kafka"
        )
    if of.guessed_partitions:
        raise PublishingRefusedError(
            f"{what} of an archive without partitions, whose offsets may have gaps: partitions "
            "were computed from the keys as Kafka's default partitioner does, and nothing shows "
            "that the topic's producer has done the same. The application could go on at offsets "
            "of another partition. They give a data set (write_dataset, or --no-publish); for a "
            "hand-over run the backfill in another directory: over an archive with Kafka's "
            "partitions, over one without gaps (and without gaps_allowed), or over Kafka"
        )


def check_begun(
    path: Path,
    begun: BackfillIdentity,
    plan: TopologyPlan,
    configuration: Mapping[str, str],
    num_partitions: Mapping[str, int],
) -> None:
    """Refuse to go on in a directory where something else was begun.

    Args:
        path: The directory.
        begun: What was begun there.
        plan: What is to be run.
        configuration: What it is to be run with; see `declared.declared_configuration`.
        num_partitions: The partition counts of topics now.

    Raises:
        PublishingRefusedError: It is of another application, topology or configuration.
        StagingError: A topic has other partitions by now.
    """
    check_identity(path, begun, plan, configuration)
    for topic, count in begun.num_partitions.items():
        found = num_partitions.get(topic, count)
        if found != count:
            raise StagingError(
                f"topic {topic!r} has {found} partitions, and had {count} when the backfill in "
                f"{path} was begun: keys belong to other tasks now. Delete the directory, and run "
                "the backfill again"
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
        results: The results.
        edges: Topics that the topology both writes and reads.
        kinds: Which rows are published.
        internal: Topics whose records are not.
    """

    results: StagedResults
    edges: frozenset[str]
    kinds: tuple[ResultKind, ...]
    internal: frozenset[str]

    def num_rows(self, stages: Sequence[StagedStage], number: int) -> int:
        """Return how many rows of one task are published."""
        places = self._places(stages, number)
        return sum(files.num_rows(kind, name, number) for files, kind, name in places)

    def rows(self, stages: Sequence[StagedStage], number: int) -> Iterator[Result]:
        """Return the rows of one task that are published."""
        for files, kind, name in self._places(stages, number):
            yield from files.rows(kind, name, number)

    def timestamps(
        self, stages: Sequence[StagedStage], number: int
    ) -> Iterator[tuple[ResultKind, str, Sequence[int]]]:
        """Return the timestamps of the same rows, with the kind and name of each."""
        for files, kind, name in self._places(stages, number):
            for batch in files.batches(kind, name, number, ["timestamp"]):
                yield kind, name, batch.column("timestamp").to_pylist()

    def _places(
        self, stages: Sequence[StagedStage], number: int
    ) -> Iterator[tuple[StageFiles, ResultKind, str]]:
        """Return where the rows of one task lie that are published, in their order."""
        for kind in self.kinds:
            for stage in stages:
                files = self.results.files[stage.position]
                for name in files.names(kind, number):
                    if kind is ResultKind.STATE or name not in self.internal:
                        yield files, kind, name


def _task(source: _Source, stages: Sequence[StagedStage], task_id: TaskId) -> TaskResults:
    identity = source.results.manifest.identity
    whole = stages[-1]
    files = source.results.files[whole.position]
    number = task_id.partition
    bounds = identity.partition_bounds()
    ends = {
        TopicPartition(end.name, end.partition): end
        for name in files.names(ResultKind.END, number)
        for end in files.rows(ResultKind.END, name, number)
    }
    histories = {}
    for topic in whole.topics:
        if number < identity.num_partitions.get(topic, 1):
            one = TopicPartition(topic, number)
            histories[one] = _history(bounds.get(one), ends.get(one), is_edge=topic in source.edges)
    return TaskResults(
        task_id,
        histories,
        source.num_rows(stages, number),
        lambda first: islice(source.rows(stages, number), first, None),
        lambda: source.timestamps(stages, number),
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
