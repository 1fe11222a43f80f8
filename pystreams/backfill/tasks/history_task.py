"""One task over its history: the runtime's own `StreamTask`, given rows, giving results.

The caller hands over the records in one of two ways. In the order in which the task is to process
them (`stage_rows`), a batch of that order at a time, each partition's records of it together: the
task's queues put them in order again, because a record that is late in its partition follows its
predecessors directly, in this order, so at the beginning of a batch one partition at most has late
records, and they are what the queues give first. Or each partition by itself, a batch of any of
them at a time, telling which will give more: then the task stops where it would have to guess what
comes next there. Whatever a live task would send is a result row; changelog records are not,
because the state at the end is given as a whole.

Commits are the stores' only, whenever they hold as much uncommitted as a thread may: there is no
Kafka commit to wait for. Nothing here knows of Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any

from pystreams.backfill.plan.rows import MessageInOrder, ResultBatch, ResultKind
from pystreams.backfill.plan.stages import Stage
from pystreams.backfill.tasks.task_turns import TaskTurns
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.record import ConsumedMessage, OutputBuffer
from pystreams.runtime.cluster.committed_offsets import (
    CommittedOffset,
    decode_partition_time,
    numbers_of,
    with_numbers,
)
from pystreams.runtime.core.queues.record_queue import Item, message_of, timestamp_of
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.topology.contracts.operator import OperatorSettings
from pystreams.topology.plan.topology_plan import TopologyPlan

_LONGEST_CALL_MS = 86_400_000
"""No commit of a broker waits for calls."""

_log = get_logger("pystreams.backfill")

RESULTS_PER_BATCH = 5000
"""A batch of results has at most so many rows; most have as many, a whole number of runs."""


@dataclass(frozen=True, slots=True)
class HistoryTaskSettings:
    """What the tasks of one backfill share.

    Attributes:
        partitions_of: Returns the partitions of a topic (real name) for the bytes of some keys.
            A record without key (None) goes where the last argument, the task's partition, says.
        uncommitted_max_bytes: What stores may hold uncommitted, -1 for no limit.
        cache_max_bytes: What record caches may hold back.
        now_ms: The wall-clock time of the whole backfill (ms).
        run_records: How many records are processed between two looks at what has piled up.
        wait: Waits so many seconds, before a record is tried again.
    """

    task: TaskSettings
    partitions_of: Callable[[str, Sequence[bytes | None], int], list[int]]
    uncommitted_max_bytes: int
    cache_max_bytes: int
    now_ms: int
    run_records: int = 1000
    wait: Callable[[float], None] = time.sleep


class HistoryTask:
    """Runs one task; used once, by one thread.

    Args:
        stage: What of it runs.
        directory: Where its stores live; exists, is empty, and is the caller's to delete.
        start: Where each partition's history begins, as far as it is not its beginning.
    """

    def __init__(
        self,
        task_id: TaskId,
        plan: TopologyPlan,
        stage: Stage,
        partitions: Sequence[TopicPartition],
        directory: Path,
        settings: HistoryTaskSettings,
        start: Mapping[TopicPartition, CommittedOffset],
    ) -> None:
        subtopology = stage.subtopology
        self._stage = stage
        self._turns = TaskTurns(plan, stage)
        # There is no wall clock to wait for: what is due is due with the record that makes it so.
        task_settings = replace(
            settings.task,
            trace=self._turns.around,
            records_for=self._turns.records_for,
            operators=OperatorSettings(
                outer_join_emit_interval_ms=0,
                window_emit_interval_ms=0,
                answers_in_turn=True,
                max_call_ms=_LONGEST_CALL_MS,
                max_retry_ms=_LONGEST_CALL_MS,
            ),
        )
        self._task = StreamTask(
            task_id, plan, subtopology, partitions, task_settings, known_lag=lambda _: 0
        )
        self._number = task_id.partition
        self._settings = settings
        self._logged = {builder.name for builder in plan.logged_stores(subtopology)}
        self._sequences: dict[str, int] = {}
        self._unchecked = 0
        task = self._task
        self._turns.follow(task.record, task.time, lambda: task.held.possible)
        self._order = _place_of if self._turns.read else timestamp_of
        self._topic_in_turn: str | None = None
        self._task.time.go_on(settings.now_ms)
        self._task.open(directory)
        self._task.state_manager.rebuild_all()
        self._task.start(start, settings.now_ms)
        holds, caches = self._task.held.possible, settings.cache_max_bytes > 0
        # What is held back goes on with the turn of its own record.
        self._run_records = (
            1 if holds and self._turns.writes_between_tables else settings.run_records
        )
        self._flushes_between = bool(self._turns.read_between_tables) and (holds or caches)

    def buffered_records(self, partition: TopicPartition) -> int:
        """Return how many records of a partition wait."""
        return self._task.buffered_records(partition)

    @property
    def topics_in_turn(self) -> frozenset[str]:
        """Topics whose records have a turn: where there are any, `feed` takes `MessageInOrder`s."""
        return self._turns.read

    @property
    def topics_with_history(self) -> frozenset[str]:
        """Those of them that may hold records of the history too, which have none."""
        return self._turns.with_history

    def feed(
        self,
        batch: Mapping[TopicPartition, Sequence[ConsumedMessage]],
        unread: Collection[TopicPartition] = (),
    ) -> Iterator[ResultBatch]:
        """Process what has come; return what was written, so much at a time.

        What is less than a batch of results waits for the next call, or for `finish`.

        Args:
            batch: The next records of each partition, in the order of their offsets. They are
                processed by their timestamps, `MessageInOrder`s by their places.
            unread: Partitions of which more will come. Nothing is processed while one of them has
                no record waiting: what it gives next might be first.

        Raises:
            StreamsError: As in a live run: a record can't be decoded, the user's code raised.
        """
        for part in self._flushed_between(batch) if self._flushes_between else (batch,):
            for partition, messages in part.items():
                self._task.add_records(partition, messages)
            yield from self._process(unread)

    def _flushed_between(
        self, batch: Mapping[TopicPartition, Sequence[ConsumedMessage]]
    ) -> Iterator[Mapping[TopicPartition, Sequence[ConsumedMessage]]]:
        """Return a batch in parts, each to be processed before the next; flush where one ends.

        An answer looks for the row that has asked: not behind a cache, nor held back. So a part
        ends before the first of those answers that follow one another.
        """
        part: dict[TopicPartition, list[ConsumedMessage]] = {}
        in_order: list[Any] = sorted(chain.from_iterable(batch.values()), key=attrgetter("place"))
        for topic, messages in groupby(in_order, key=methodcaller("topic")):
            if topic not in self._turns.read_between_tables:
                self._topic_in_turn = None
            elif topic != self._topic_in_turn:
                self._topic_in_turn = topic
                yield part
                part = {}
                self._settle()
            part.setdefault(TopicPartition(topic, self._number), []).extend(messages)
        yield part

    def _process(self, unread: Collection[TopicPartition]) -> Iterator[ResultBatch]:
        task = self._task
        while task.unfinished or all(map(task.buffered_records, unread)):
            run = task.next_run(self._run_records, self._order)
            if run is None:
                return
            self._unchecked += task.process(run) or self._settings.run_records
            self._let_go()
            task.punctuate_stream_time()
            if task.held.punctuation_of is not None:
                self._wait_for_tries(task.settle_punctuation)
            if self._unchecked >= self._settings.run_records:
                self._unchecked = 0
                self._keep_to_limits()
                yield from self._outputs(RESULTS_PER_BATCH)

    def _let_go(self) -> None:
        """Let go what is held back, if that must not wait any longer."""
        held, turns = self._task.held, self._turns
        if len(held) and (turns.writes_between_tables or held.full or turns.full):
            self._settle()
        if not len(held):
            turns.forget()

    def finish(self) -> Iterator[ResultBatch]:
        """Return what is left, the state, and how far each partition was read; then close.

        Raises:
            StateStoreError: A store of the user's own can't be given as changelog records.
        """
        self._commit()
        while self._task.unfinished:
            yield from self._process(())
            self._commit()
        yield from self._outputs(1)
        if self._stage.only_topic is None:
            yield from self._state()
            yield from self._ends()
            if dropped := self.dropped_records:
                _log.warning("records dropped", task=str(self._task.task_id), records=dropped)
        self.close()

    def close(self) -> None:
        """Close processors and stores; safe to call twice."""
        self._task.close()

    def _state(self) -> Iterator[ResultBatch]:
        number = self._number
        for name, store in self._task.state_manager.stores().items():
            if name not in self._logged:
                continue
            records = iter(store.changelog_records())
            sequence = 0
            while chunk := list(islice(records, RESULTS_PER_BATCH)):
                here = [number] * len(chunk)
                yield ResultBatch(ResultKind.STATE, number, name, here, sequence, chunk)
                sequence += len(chunk)

    @property
    def dropped_records(self) -> int:
        """How many records it has dropped, late ones and those it skipped after an error.

        Those of a part of a sub-topology count when the whole runs.
        """
        return self._task.counts.dropped if self._stage.only_topic is None else 0

    def _ends(self) -> Iterator[ResultBatch]:
        for partition, offset in sorted(self._task.offsets_to_commit().items()):
            time = decode_partition_time(offset.metadata)
            numbers = with_numbers(b"", numbers_of(offset.metadata)) or None
            yield ResultBatch(
                ResultKind.END,
                self._number,
                partition.topic,
                [partition.partition],
                offset.next_offset,
                [(None, numbers, time, ())],
            )

    def _keep_to_limits(self) -> None:
        """Flush caches and commit stores as a thread would that has the whole budget."""
        manager, settings = self._task.state_manager, self._settings
        uncommitted_bytes, cached_bytes = manager.measure()
        if cached_bytes > settings.cache_max_bytes:
            self._settle()
            uncommitted_bytes = manager.uncommitted_bytes()
        limit = settings.uncommitted_max_bytes
        asked = self._task.commit_requested
        if asked or (limit >= 0 and uncommitted_bytes > limit // 2):
            self._commit()
        self._forget_logged()

    def _commit(self) -> None:
        """Make the stores' writes durable."""
        self._settle()
        self._forget_logged()
        self._task.post_commit()

    def _settle(self) -> None:
        """Let go all that operators and caches hold back."""
        self._turns.settles = True
        self._wait_for_tries(self._task.settle)
        self._turns.settles = False

    def _wait_for_tries(self, settle: Callable[[], None]) -> None:
        """Let go what is held back; what is to be tried again is waited for.

        To the task just the waits pass: what the user's code sees of the time is the same in each
        run of the backfill.
        """
        task, task_time = self._task, self._task.time
        settle()
        while (retry_at_ms := task.held.retry_at_ms) is not None:
            waits_ms = max(retry_at_ms - task_time.monotonic_ms, 0)
            self._settings.wait(waits_ms / 1000)
            task_time.go_on(task_time.now_ms + waits_ms, task_time.monotonic_ms + waits_ms)
            task.go_on()
            settle()
        task_time.now_ms = self._settings.now_ms

    def _forget_logged(self) -> None:
        """Number the changelog records, and drop them: the state at the end is given as a whole."""
        for output in self._task.state_manager.outputs():
            if output.records:
                output.last_offset = self._sequences.get(output.topic, 0) + len(output.records) - 1
                self._sequences[output.topic] = output.last_offset + 1
                output.records.clear()

    def _outputs(self, at_least: int) -> Iterator[ResultBatch]:
        """Return and forget what waits for each topic that is no changelog and has so much."""
        changelogs = set(map(id, self._task.state_manager.outputs()))
        for output in self._task.outputs():
            if id(output) in changelogs or len(output.records) < at_least:
                continue
            if self._keeps(output.topic):
                yield from self._results(output)
            output.records.clear()

    def _keeps(self, topic: str) -> bool:
        only = self._stage.only_topic
        return topic == only if only is not None else topic not in self._stage.written_before

    def _results(self, output: OutputBuffer) -> Iterator[ResultBatch]:
        topic, number = output.topic, self._number
        for begin in range(0, len(output.records), RESULTS_PER_BATCH):
            records = output.records[begin : begin + RESULTS_PER_BATCH]
            if output.partition is None:
                keys = [key for key, *_ in records]
                partitions = self._settings.partitions_of(topic, keys, number)
            else:
                partitions = [output.partition] * len(records)
            sequence = self._sequences.get(topic, 0)
            self._sequences[topic] = sequence + len(records)
            yield ResultBatch(ResultKind.OUTPUT, number, topic, partitions, sequence, records)


def _place_of(item: Item) -> int:
    message = message_of(item)
    assert isinstance(message, MessageInOrder), "what was staged is read as rows"
    place: int = message.place
    return place
