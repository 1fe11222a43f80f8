"""A replay: a topology over a slice of its input, in the test driver. Nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import click

from pystreams.cli.application.followed_key import FollowedKey
from pystreams.cli.application.initial_state import InitialState
from pystreams.cli.display.replayed import Show, SourceRecord
from pystreams.config import StreamsConfig
from pystreams.errors import StreamsError
from pystreams.ids import TopicPartition, all_partitions
from pystreams.record import ConsumedMessage, ProducedRecord
from pystreams.runtime.adapters.client_factory import ConfluentClients
from pystreams.runtime.cluster.committed_offsets import (
    UNKNOWN_TIME,
    CommittedOffset,
    encode_partition_time,
    numbers_of,
)
from pystreams.runtime.maintenance.input_slice import (
    SliceBounds,
    Span,
    records_by_time,
    spans_of,
)
from pystreams.testing.topology_test_driver import TopologyTestDriver
from pystreams.testing.trace import TopicReader, TraceEvent, Written
from pystreams.topology.graph.subtopologies import Subtopology
from pystreams.topology.graph.topology import Topology
from pystreams.topology.plan.partition_plan import topics_of_source
from pystreams.topology.plan.topology_plan import TopologyPlan


@dataclass(frozen=True, slots=True)
class ReplaySlice:
    """What is read.

    Attributes:
        global_spans: Offsets of those of global tables, which are filled first.
        committed: What the application's group has committed; empty where nothing tells.
    """

    spans: Mapping[TopicPartition, Span]
    global_spans: Mapping[TopicPartition, Span]
    committed: Mapping[TopicPartition, CommittedOffset]

    @property
    def num_offsets(self) -> int:
        """How many offsets the source topics' spans have; markers of transactions count, too."""
        return sum(span.end - span.first for span in self.spans.values())

    def notes(self, plan: TopologyPlan) -> Iterator[str]:
        """Tell of topics that the topology reads and writes: where their records come from."""
        read = {at.topic for at in chain(self.spans, self.global_spans)}
        for topic in plan.sink_topics():
            if topic in read:
                yield (
                    f"{topic}, which the topology writes too, is read as it is in Kafka: what this "
                    "replay would write to it comes back only of input that the application has "
                    "not processed yet"
                )
            elif plan.reads(topic):
                yield (
                    f"{topic} is not among --topic: of it the topology is given what this replay "
                    "would write to it"
                )

    def holds_results_of(self, at: TopicPartition, offset: int, topic: str) -> bool:
        """Return whether what a record led to is in a topic that is read, so that it comes by that.

        Where no group tells what was processed, it is where the slice of the topic has anything.
        """
        spans = [span for part, span in self._all_spans() if part.topic == topic]
        if not spans:
            return False
        if self.committed:
            return at in self.committed and offset < self.committed[at].next_offset
        return any(span.first < span.end for span in spans)

    def numbers_at_its_beginning(self, plan: TopologyPlan, part: Subtopology) -> dict[str, int]:
        """Return what the tasks of a sub-topology have committed where the slice begins.

        That is up to which time final results were sent, and stream times; of several tasks the
        earliest, so that none is missing. Nothing where the slice begins elsewhere.
        """
        topics = chain.from_iterable(source.topics for source in plan.sources_of(part))
        if any(plan.is_repartition(plan.topic_name(topic)) for topic in topics):
            return {}  # Where their offsets were then, nothing tells.
        of_tasks: dict[int, dict[str, int]] = {}
        for at, span in self.spans.items():
            reader = plan.subtopology_of_topic(at.topic)
            if reader is None or reader.id != part.id:
                continue
            committed = self.committed.get(at)
            if committed is None and span.first == span.end:
                continue
            if committed is None or committed.next_offset != span.first:
                return {}
            numbers = of_tasks.setdefault(at.partition, {})
            for name, number in numbers_of(committed.metadata).items():
                numbers[name] = max(number, numbers.get(name, number))
        told = list(of_tasks.values())
        known = set.intersection(*map(set, told)) if told else set()
        return {name: min(numbers[name] for numbers in told) for name in known}

    def _all_spans(self) -> Iterator[tuple[TopicPartition, Span]]:
        return chain(self.spans.items(), self.global_spans.items())


@dataclass(slots=True)
class ReplayCounts:
    """What was replayed.

    Attributes:
        followed: Of how many of them something is of the key that is followed; all without one.
        written: How many records would be written, those followed, by topic.
    """

    records: int
    followed: int
    written: Counter[str]


def slice_of(
    clients: ConfluentClients,
    plan: TopologyPlan,
    topics: Sequence[str],
    bounds: SliceBounds,
) -> ReplaySlice:
    """Return what a replay reads.

    Args:
        topics: The topics that are read; none for all that the topology reads.

    Raises:
        UsageError: The topology does not read a topic, or nothing says where one begins.
        StreamsError: A topic is not there, or there are no records.
    """
    admin = clients.admin()
    counts = admin.partition_counts()
    internal = plan.repartition_topics()
    read = {topic for node in plan.sources() for topic in topics_of_source(plan, node, counts)}
    read |= set(plan.source_topics())
    known = sorted(read - internal.keys())
    for topic in topics:
        if topic not in known:
            raise click.UsageError(
                f"the topology does not read topic {topic!r}; it reads {', '.join(known)}"
            )
    wanted = list(topics or known)
    if bounds.from_ms is None:
        _check_known(wanted, bounds)
    for topic in (*wanted, *plan.global_topics()):
        if topic not in counts:
            raise StreamsError(
                f"topic {topic!r}, which the topology reads, does not exist: name those that do "
                "with --topic, or the broker that has it with -c bootstrap.servers=..."
            )
    held = all_partitions(plan.global_topics(), counts)
    committed = admin.committed_offsets(plan.application_id)
    found = ReplaySlice(
        spans_of(admin, all_partitions(wanted, counts), bounds),
        spans_of(admin, held, SliceBounds(to_ms=bounds.to_ms)),
        committed,
    )
    if not found.num_offsets:
        ends = ", ".join(f"{at} ends at {span.end}" for at, span in found.spans.items())
        raise StreamsError(f"there are no records in this slice ({ends}): widen --from and --to")
    return found


def _check_known(topics: Sequence[str], bounds: SliceBounds) -> None:
    """Refuse to guess where topics begin: a state may tell of repartition topics only."""
    known = {partition.topic for partition in bounds.first_offsets or ()}
    unknown = sorted(set(topics) - known)
    if unknown:
        raise click.UsageError(
            f"the state does not tell up to where it covers {', '.join(unknown)}: its stores are "
            "filled from repartition topics, or by a backfill. Say where the slice begins, --from "
            "TIME"
        )


class _Driver(TopologyTestDriver):
    """A driver in which not all that is written to a topic comes back to those who read it.

    Args:
        comes_otherwise: Told a topic; returns whether what is written to it now is piped in anyway.
    """

    def __init__(self, *args: Any, comes_otherwise: Callable[[str], bool], **options: Any) -> None:
        self._comes_otherwise = comes_otherwise
        super().__init__(*args, **options)

    def pipe(self, partition: TopicPartition, message: ConsumedMessage) -> None:
        """Process a record that was read from Kafka; it has its own partition and offset there."""
        self._pipe(partition, message)

    def go_on_behind(self, spans: Mapping[TopicPartition, Span]) -> None:
        """Give what is written to topics that are read, too, offsets behind those of the slice.

        It goes to the first partition of its topic, as all that is written here.
        """
        self._offsets.update({at.topic: span.end for at, span in spans.items() if not at.partition})

    def begin_stores(self, changelogs: Mapping[str, Sequence[ProducedRecord]]) -> None:
        """Fill stores as their changelogs would.

        What is restored from a topic is committed with an offset of the topic's first partition,
        which may have no record in the slice: it has an offset from the start.
        """
        for manager in (task.state_manager for task in self._tasks):
            for topic in filter(manager.is_source, manager.changelogs()):
                if not changelogs.get(manager.store_of(topic)):
                    manager.set_offset(topic, 0)
        self.restore_stores(changelogs)

    def begin_with(self, numbers_of_part: Callable[[Subtopology], dict[str, int]]) -> None:
        """Let each task begin with what such tasks have committed with their offsets."""
        for part, task in zip(self._plan.subtopologies, self._tasks, strict=True):
            numbers = numbers_of_part(part)
            if numbers and task.partitions:
                metadata = encode_partition_time(UNKNOWN_TIME, numbers=numbers)
                task.revive()
                task.state_manager.rebuild_all()
                committed = {next(iter(task.partitions)): CommittedOffset(0, metadata)}
                task.start(committed, self._now_ms)

    def _reader_of(self, topic: str) -> Callable[[TopicPartition, ConsumedMessage], None] | None:
        return None if self._comes_otherwise(topic) else super()._reader_of(topic)


class Replay:
    """Runs a topology over a slice; its stores are in memory, its results are told.

    Every sub-topology is one task, whatever partitions its input has.

    Args:
        config: The application's configuration. Caches are off, so that each change is seen.
        show: Told of each event that is followed, with the record that led to it.
        key: The key that is followed; None for all.
    """

    def __init__(
        self, topology: Topology, config: StreamsConfig, show: Show, key: FollowedKey | None
    ) -> None:
        self._topology = topology
        self._plan = TopologyPlan(topology, config.application_id)
        self._readers: dict[str, TopicReader] = {}
        self._config = replace(
            config,
            statestore_cache_max_bytes=0,
            max_task_idle_ms=0,
            outer_join_emit_interval_ms=0,
            window_emit_interval_ms=0,
        )
        self._show, self._key = show, key
        self._present: SourceRecord | None = None
        self._followed: SourceRecord | None = None
        self._not_shown: OSError | None = None
        self.counts = ReplayCounts(0, 0, Counter())

    def run(self, clients: ConfluentClients, read: ReplaySlice, state: InitialState) -> None:
        """Replay.

        Raises:
            StreamsError: A record fails, as it would in the application; names it.
        """
        records = self._records(clients, read.spans)
        first = next(records, None)
        if first is None:
            return
        now_ms = max(first.timestamp()[1], 0)
        with _Driver(
            self._topology,
            self._config,
            wall_clock_ms=now_ms,
            trace=self._take,
            comes_otherwise=lambda topic: self._comes_by_itself(read, topic),
        ) as driver:
            driver.go_on_behind({**read.spans, **read.global_spans})
            driver.begin_stores(state.changelogs)
            if state.changelogs:
                driver.begin_with(partial(read.numbers_at_its_beginning, self._plan))
            for message in self._records(clients, read.global_spans):
                self._pipe(driver, message)
            for message in chain([first], records):
                timestamp = message.timestamp()[1]
                self._begin(message)
                with self._output_errors():
                    if timestamp > now_ms:
                        driver.advance_wall_clock_ms(timestamp - now_ms)
                        now_ms = timestamp
                    if self._key is None:
                        self.counts.followed += 1
                    else:
                        self._key.takes(message.topic() or "", message.key())
                    self._pipe(driver, message)

    def _records(
        self, clients: ConfluentClients, spans: Mapping[TopicPartition, Span]
    ) -> Iterator[ConsumedMessage]:
        name = f"{self._config.application_id}-replay"
        with closing(clients.history_consumer(name)) as consumer:
            yield from records_by_time(consumer, spans)

    def _begin(self, message: ConsumedMessage) -> None:
        """Take note of the record; what the clock lets go before it is not its own."""
        at = _partition_of(message)
        reader = self._readers.get(at.topic)
        if reader is None:
            reader = self._readers[at.topic] = TopicReader(self._plan, self._config, at.topic)
        key, value = reader(message.key(), message.value(), tuple(message.headers() or ()))
        offset, timestamp = message.offset() or 0, message.timestamp()[1]
        self._present = SourceRecord(at, offset, key, value, timestamp)
        self.counts.records += 1
        if self._key is not None:
            self._key.takes("", None)

    def _pipe(self, driver: _Driver, message: ConsumedMessage) -> None:
        at = _partition_of(message)
        try:
            driver.pipe(at, message)
        except StreamsError as error:
            raise StreamsError(f"replaying {at}, offset {message.offset()}: {error}") from error

    @contextmanager
    def _output_errors(self) -> Iterator[None]:
        """Raise an error of the output as what it is, also where the topology has met it."""
        try:
            yield
        except StreamsError:
            if self._not_shown is None:
                raise
        if self._not_shown is not None:
            raise self._not_shown

    def _comes_by_itself(self, read: ReplaySlice, topic: str) -> bool:
        """Return whether what is written to a topic now is read from that topic, too."""
        present = self._present
        if present is None:
            return False
        return read.holds_results_of(present.partition, present.offset, topic)

    def _take(self, event: TraceEvent) -> None:
        if self._present is None or (self._key is not None and not self._key.follows(event)):
            return
        if self._key is not None and self._followed is not self._present:
            self._followed = self._present
            self.counts.followed += 1
        if isinstance(event, Written):
            self.counts.written[event.topic] += 1
        try:
            self._show(self._present, event)
        except OSError as error:
            # Of another error a handler would be asked: the user's code seems to have failed.
            self._not_shown = error
            raise StreamsError("what happens can't be shown") from error


def _partition_of(message: ConsumedMessage) -> TopicPartition:
    return TopicPartition(message.topic() or "", message.partition() or 0)
