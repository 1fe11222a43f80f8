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

from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.plan.rows import Result, ResultKind
from pystreams.backfill.plan.turns import without_turn
from pystreams.backfill.publishing.identity_checks import check_identity, refuse_other_offsets
from pystreams.backfill.publishing.publication import PartitionHistory, Publication, TaskResults
from pystreams.backfill.staging.directory import Manifest, StagedStage
from pystreams.backfill.staging.results import StagedResults
from pystreams.backfill.staging.stage_files import StageFiles
from pystreams.ids import TaskId, TopicPartition
from pystreams.runtime.cluster.committed_offsets import decode_entries
from pystreams.topology.plan.topology_plan import TopologyPlan


def staged_publication(
    results: StagedResults,
    plan: TopologyPlan,
    configuration: Mapping[str, str] | None = None,
    *,
    with_outputs: bool,
) -> Publication:
    """Return staged results as what is published.

    Args:
        plan: The topology that their state is published for.
        configuration: See `fingerprint.declared_configuration`; None for a rescale, which moves
            state as it is.
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
    read = {topic for topic in plan.written_topics() if plan.source_of_topic(topic) is not None}
    return frozenset(read) | frozenset(plan.repartition_topics())


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
            rows = files.rows(kind, name, number)
            if kind is ResultKind.OUTPUT and name in self.edges:
                rows = (row._replace(headers=without_turn(row.headers)) for row in rows)
            yield from rows

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
            partition = TopicPartition(topic, number)
            histories[partition] = _history(
                bounds.get(partition), ends.get(partition), is_edge=topic in source.edges
            )
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
    return PartitionHistory(
        start, next_offset, end.timestamp, decode_entries(bytes(end.value or b""))
    )
