"""A stream task: one partition of one sub-topology, with its queues, stores and processors.

The task is plain and synchronous: it is given records and the time, and leaves what must be sent
in output buffers. It never talks to Kafka, nor knows whether a producer of its own sends for it.

A record costs one iteration of `process`: three assignments and one call into the compiled
chain. Everything else happens once a run of records (see `record_run`).

Invariants:
- Records are processed in the order of `PartitionGroup`; a stream-time punctuation fires right
  after the record that makes it due, however the records were batched, and before the next one:
  where records are held on the way to its processor, when these have gone on.
- `offsets_to_commit` covers exactly the records whose effects are in stores and buffers.
- Stream time never falls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import length_hint
from pathlib import Path
from weakref import WeakKeyDictionary

from pystreams.errors import StateStoreCorruptedError
from pystreams.ids import TaskId, TopicPartition
from pystreams.record import ConsumedMessage, OutputBuffer
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.runtime.core.failures.task_trouble import Trouble, tells_trouble
from pystreams.runtime.core.lifecycle import TaskEvent, TaskState, next_state
from pystreams.runtime.core.operators.operator_context import OperatorContext
from pystreams.runtime.core.queues.partition_group import PartitionGroup
from pystreams.runtime.core.queues.record_queue import Item, RecordQueue, timestamp_of
from pystreams.runtime.core.queues.record_run import Order, Run
from pystreams.runtime.core.source_queue import SourceQueues
from pystreams.runtime.core.task_counts import TaskCounts
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.runtime.core.task_state import StateOfTask, state_of_task
from pystreams.runtime.core.uncommitted_growth import GrowthEstimate
from pystreams.topology.contracts.processor import PunctuationType
from pystreams.topology.graph.subtopologies import Subtopology
from pystreams.topology.plan.compiler import compile_subtopology
from pystreams.topology.plan.topology_plan import TopologyPlan


class StreamTask:
    """One task; owned and called by one thread.

    Args:
        partitions: The partitions it reads.
        known_lag: See `PartitionGroup`.
        state: Its state, open, if a standby has kept that.

    Attributes:
        record: The record being processed.
        time: Its stream time, and the wall clock's.
        partitions: The partitions it reads.
        state_manager: Its state: stores, changelogs, offsets, positions.
        growth: What an iteration adds to the uncommitted bytes.
        trouble: What has stopped it since it last went back to a commit; else None.
        held: What operators hold back: batches, and records whose answers are awaited.
        counts: What it counts.
        views: What readers on other threads have of its stores, by reader.
    """

    def __init__(
        self,
        task_id: TaskId,
        plan: TopologyPlan,
        subtopology: Subtopology,
        partitions: Sequence[TopicPartition],
        settings: TaskSettings,
        known_lag: Callable[[TopicPartition], int | None],
        state: StateOfTask | None = None,
    ) -> None:
        self._was_kept = state is not None
        state = state or state_of_task(task_id, plan, subtopology, partitions, settings)
        self.task_id, self.state = task_id, TaskState.CREATED
        self.record, self.time, self.partitions = state.record, state.time, state.partitions
        self.growth = GrowthEstimate(len(subtopology.stores))
        self.trouble: Trouble | None = None
        self._plan, self._subtopology = plan, subtopology
        self._settings, self._known_lag = settings, known_lag
        self.state_manager = state.manager
        self._group = PartitionGroup([], max_task_idle_ms=0, known_lag=known_lag)
        self._operators = self._new_context()
        self.held, recording = self._operators.held, settings.stores.recording
        self.counts = TaskCounts(self.state_manager, self._operators, self._group, recording)
        self._queues = SourceQueues((), self._operators, plan, settings)
        self.views = WeakKeyDictionary[object, object]()
        self._uncommitted_work = False
        # What `process` goes over, and what of it is not begun.
        self._taken: list[Item] = []
        self._left: Iterator[Item] = iter(())
        self.state_manager.growth.used_up = self._end_run

    # ------------------------------------------------------------------ life

    def open(self, task_directory: Path) -> None:
        """Open the stores, unless they are; the task then restores.

        Raises:
            StateStoreError: A store can't be opened.
        """
        if not self._was_kept:
            self.state_manager.open(task_directory)
        self._move(TaskEvent.OPEN)

    @tells_trouble
    def start(self, committed: Mapping[TopicPartition, CommittedOffset], now_ms: int) -> None:
        """Build the processors and run; the stores are restored.

        Args:
            committed: Committed offsets of the task's partitions, as far as there are any.
            now_ms: Wall-clock time (ms).
        """
        self.time.now_ms, self.record.message = now_ms, None
        self._use(self._new_context())
        self._operators.state_directory = self.state_manager.directory
        self._operators.committed_numbers.start(committed.values())
        trace = self._settings.trace or self.counts.nodes.around_new_steps()
        sources = compile_subtopology(self._plan, self._subtopology, self._operators, trace)
        self._queues = SourceQueues(sources, self._operators, self._plan, self._settings)
        queues = [self._queues.of(part, committed.get(part)) for part in self.partitions]
        self.state_manager.positions.start({key: at.next_offset for key, at in committed.items()})
        idle_ms = self._settings.max_task_idle_ms
        self._group = PartitionGroup(queues, max_task_idle_ms=idle_ms, known_lag=self._known_lag)
        self.counts.group = self._group
        self.time.stream_time = self._group.stream_time()
        self._move(TaskEvent.START)
        self._operators.init_processors()
        self._operators.begin_silence(self.partitions)
        begun = any(self.state_manager.measure()) or bool(self.held)
        self._uncommitted_work = begun or any(output.records for output in self.outputs())

    def revive(self) -> None:
        """Go back to what was committed: drop all but the stores, and of these a damaged one."""
        self._operators.close_processors()
        self.counts.go_back()
        self._use(self._new_context())
        self._group.clear()
        if isinstance(self.trouble, StateStoreCorruptedError):
            self.state_manager.found_damaged(self.trouble)
        self.trouble = None
        self.state_manager.rollback()
        self._uncommitted_work = False
        self.time.stream_time = -1
        self._move(TaskEvent.REVIVE)

    def suspend(self) -> None:
        """Stop processing, after the last commit: `revive` when it comes back, else `close`."""
        self._group.clear()
        self._move(TaskEvent.SUSPEND)

    def close(self) -> None:
        """Close processors and stores; what is not committed is dropped. Safe to call twice."""
        self._move(TaskEvent.CLOSE)
        try:
            self._operators.close_processors()
        finally:
            self._group.clear()
            self.state_manager.close()

    # ------------------------------------------------------------------ records

    def take_partition(self, partition: TopicPartition) -> None:
        """Read one more partition from now on, if it is not read already."""
        if partition not in self._group.queues:
            self._group.add(self._queues.of(partition))
            self.partitions = tuple(sorted((*self.partitions, partition)))

    def add_records(self, partition: TopicPartition, messages: Sequence[ConsumedMessage]) -> None:
        """Buffer a batch of one partition, decoding it in one pass.

        Raises:
            SerializationError: A record can't be decoded and the handler says to fail.
        """
        queue = self._group.queues[partition]
        queue.now_ms = self.time.now_ms
        self.counts.nodes.call(queue.node, queue.add, messages)
        self._operators.idle_input.heard(queue.now_ms)
        topic, consumed = partition.topic, self.counts.consumed
        consumed[topic] = consumed.get(topic, 0) + len(messages)
        if messages and not len(queue):
            # All were skipped: their offsets are to be committed all the same.
            self._uncommitted_work = True
            self._note_position(queue, held_back=self._measure())

    def buffered_records(self, partition: TopicPartition | None = None) -> int:
        """Return how many records wait, of one partition or of all."""
        return len(self._group if partition is None else self._group.queues[partition])

    def ready(self, monotonic_ms: float) -> bool:
        """Return whether something may be processed at a time that never goes back (ms)."""
        return self._takes_records and (self.unfinished or self._group.ready(monotonic_ms))

    @property
    def unfinished(self) -> bool:
        """Whether of what was processed something is left, to be done before all else."""
        return bool(self._operators.unfinished)

    @property
    def at_rest(self) -> bool:
        """Whether nothing is processed before more records or answers come."""
        return not self._takes_records or (self._group.at_rest and not self.unfinished)

    @property
    def _takes_records(self) -> bool:
        return self.state is TaskState.RUNNING and not self.held.full

    def next_run(self, limit: int, order: Order = timestamp_of) -> Run | None:
        """Return what to process next, or None; `limit` is 1 record or more, `order` a run's.

        A run ends early with the record that makes a stream-time punctuation due.
        """
        run = self._operators.unfinished or self._group.next_run(limit, order)
        due_ms = self._operators.punctuations.next_due_ms(PunctuationType.STREAM_TIME)
        if run is None or due_ms is None or self.unfinished:
            return run
        records = run.length_to_time(due_ms)
        return run if records == len(run) else self._group.next_run(records, order)

    @tells_trouble
    def process(self, run: Run, count: int | None = None, room_bytes: int | None = None) -> int:
        """Process what comes next.

        Args:
            run: What `next_run` has returned.
            count: How many of its records; None for all.
            room_bytes: End with the record that makes the stores write more than that, if given.

        Returns:
            How many were processed: fewer when the room was used up, or when one of them
            scheduled a stream-time punctuation, which is due right after it, or was not finished.

        Raises:
            ProcessingError: The user's code raised and the handler says to fail.
            SerializationError: A result can't be serialized and the handler says to fail.
        """
        record, time = self.record, self.time
        self.state_manager.input_comes()
        if room_bytes is not None:
            self.state_manager.growth.give_room(room_bytes)
        if run is self._operators.unfinished:
            record.message = None
            self._operators.unfinished.go_on()
        taken, steps = run.take(len(run) if count is None else count)
        self._taken, self._left, given = taken, iter(taken), len(taken)
        for (key, value, timestamp, headers, message), step in zip(self._left, steps, strict=False):
            record.message = message
            if timestamp > time.stream_time:
                time.stream_time = timestamp
            step(key, value, timestamp, headers)
        processed = len(taken)
        if processed < given:
            run.put_back(given - processed)
        self._taken, self._left = [], iter(())
        self.counts.ran(taken)
        self._uncommitted_work = True
        self.held.go_on()
        held_back = self._measure()
        for queue, first, last in run.ends():
            self._operators.origin.note_run(queue.partition, first, last, held_back=held_back)
            self._note_position(queue, held_back=held_back)
        return processed

    @tells_trouble
    def go_on(self) -> None:
        """Send on what operators need not hold back any longer: answers have come."""
        self.held.go_on()
        self.state_manager.measure()

    # ------------------------------------------------------------------ punctuation

    def punctuate_stream_time(self) -> int:
        """Fire what stream time has made due by what is finished; return how many fired."""
        if self._operators.unfinished.has_portions:
            return 0
        return self._fire(PunctuationType.STREAM_TIME, self.time.stream_time)

    def wall_clock_due_ms(self) -> int | None:
        """Return when the wall clock makes the next punctuation due (ms), None without any."""
        return self._operators.wall_clock_due_ms()

    def punctuate_wall_clock(self, now_ms: int) -> int:
        """Fire what the wall clock has made due; return how many fired."""
        return self._fire(PunctuationType.WALL_CLOCK_TIME, now_ms)

    # ------------------------------------------------------------------ commit

    @property
    def commit_requested(self) -> bool:
        """Whether a processor asked for a commit."""
        return self._operators.commit_requested

    def request_commit(self) -> None:
        """Ask for a commit, as a processor may."""
        self._operators.request_commit()

    def needs_commit(self) -> bool:
        """Return whether anything happened since the last commit, or a processor asked for one."""
        return self._uncommitted_work or self.commit_requested

    def outputs(self) -> list[OutputBuffer]:
        """Return all buffers to drain: changelogs and topics."""
        return [*self.state_manager.outputs(), *self._operators.all_outputs(self._group.queues)]

    def offsets_to_commit(self) -> dict[TopicPartition, CommittedOffset]:
        """Return the next offset of each partition that has one, with its partition time."""
        numbers = self._operators.committed_numbers.present()
        return self._group.offsets_to_commit(self._settings.offset_entries, numbers)

    @tells_trouble
    def flush_caches(self) -> None:
        """Log and forward what record caches hold, upstream stores first."""
        self.state_manager.flush_caches()
        if self.held:
            self.held.go_on()
            self.state_manager.flush_caches()  # Caches below have what went on.
        if not self.held:
            self._operators.origin.flushed()

    @tells_trouble
    def settle(self) -> None:
        """Let go what operators hold back, waiting for answers, not for a retry; flush caches."""
        began_ms = self._operators.monotonic_ms()
        self.settle_punctuation()
        self.held.settle()  # First: how often a cache sends a row on is not to hang on answers.
        self.state_manager.flush_caches()
        while self.held.settle():
            self.state_manager.flush_caches()
        if not self.held:
            self._operators.origin.flushed()
        self.held.commit_waits(began_ms)

    @tells_trouble
    def settle_punctuation(self) -> None:
        """Wait for what a punctuation that is put off waits for, and fire it; not for a retry."""
        held, unfinished = self.held, self._operators.unfinished
        self._operators.async_calls.waited_s = 0.0
        while held.punctuation_of and held.retry_at_ms is None and not unfinished.has_portions:
            held.settle()
            self.punctuate_stream_time()

    @tells_trouble
    def post_commit(self) -> None:
        """Make the stores durable; called after the Kafka commit."""
        self.state_manager.commit(self._group.next_offsets())
        self._operators.commit_requested = False
        self._uncommitted_work = False

    # ------------------------------------------------------------------ inside

    def _new_context(self) -> OperatorContext:
        return OperatorContext(
            self.task_id,
            self._plan,
            self._settings,
            self.record,
            self.time,
            self.state_manager.store,
            self._end_run,
        )

    def _use(self, operators: OperatorContext) -> None:
        self._operators = self.counts.operators = operators
        self.held = operators.held
        self.held.watch(self.state_manager.measure, self.growth.held.observe)
        call = self.counts.nodes.call
        operators.unfinished.call = operators.punctuations.call = self.held.call = call

    def _end_run(self) -> None:
        """Let the run that `process` is in end with the record it is at, at no cost to others.

        What is processed now may be another one, which has waited for it in a store.
        """
        del self._taken[len(self._taken) - length_hint(self._left) :]

    def _measure(self) -> bool:
        """Count what stores hold; return whether some of the input's effects are held back."""
        return self.state_manager.measure()[1] > 0 or bool(self.held)

    def _note_position(self, queue: RecordQueue, *, held_back: bool) -> None:
        assert queue.next_offset is not None, "a queue that was read from has a next offset"
        self.state_manager.positions.processed(
            queue.partition, queue.next_offset, forwarded=not held_back
        )

    def _move(self, event: TaskEvent) -> None:
        self.state = next_state(self.task_id, self.state, event)

    @tells_trouble
    def _fire(self, kind: PunctuationType, time_ms: int) -> int:
        fired = self._operators.fire(
            kind, time_ms, lambda: not self._group and self._settings.read_to_end(self.partitions)
        )
        if fired:
            self._uncommitted_work = True
            self.held.go_on()
            self.state_manager.measure()
        return fired
