"""The numbers of a stream thread, worked out by its loop and read by anybody.

Only the loop may call its consumer: a call from another thread can wait for as long as the loop
polls. So the loop publishes a frozen `ThreadStatistics` now and then, and readers take the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.clock import Clock
from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.core.task import StreamTask
from pystreams.runtime.loop.processing import Doing, Processing
from pystreams.runtime.loop.reports.statistics import ThreadStatistics
from pystreams.runtime.loop.reports.thread_metadata import TaskMetadata, ThreadMetadata
from pystreams.runtime.ports import ConsumerPort
from pystreams.runtime.tasks.committer import Committer
from pystreams.runtime.tasks.restoring.restorer import Restorer
from pystreams.runtime.tasks.restoring.standby_task import StandbyTask
from pystreams.runtime.tasks.task_manager import TaskManager

_PUBLISH_EVERY_MS = 100
_NOTHING_WAITS_FOR_MS = 5_000
"""For so long it is believed, without another look, that nothing waits."""
_HELD_BY = "record caches, map_values_batch, calls of map_values_async, punctuations behind them"
_LOOKED_AT_IN_TURN = 20
"""So many partitions of tasks that rest are looked at each time, however many there are: 200 within
a second."""


class DoubtfulPartitions(NamedTuple):
    """Partitions that are not read, or may not be.

    Attributes:
        count_unread: Tells how many nobody in the group reads.
        silent: Those whose broker does not say where they end; changes as time goes on.
    """

    count_unread: Callable[[], int]
    silent: set[TopicPartition]


class ThreadReport:
    """Publishes the numbers of one thread."""

    def __init__(
        self,
        *,
        manager: TaskManager,
        restorer: Restorer,
        committer: Committer,
        processing: Processing,
        consumer: Callable[[], ConsumerPort],
        doubtful: DoubtfulPartitions,
        clock: Clock,
    ) -> None:
        self._published = ThreadStatistics()
        self._manager = manager
        self._restorer = restorer
        self._committer = committer
        self._processing = processing
        self._consumer = consumer
        self._doubtful = doubtful
        self._clock = clock
        self._published_ms = clock.monotonic_ms() - _PUBLISH_EVERY_MS
        self._asked: dict[StreamTask, _Seen] = {}
        self._sum = _NOTHING
        self._asked_of: list[StreamTask] = []
        self._told: dict[TopicPartition, _Told] = {}
        self._in_turn: list[tuple[StreamTask, TopicPartition]] = []
        self._next_in_turn = 0

    @property
    def latest(self) -> ThreadStatistics:
        """The numbers published last; safe to read from any thread."""
        published = self._published
        lag = published.lag_records
        is_known = lag is None or self._may_be_so(lag)
        return published if is_known else replace(published, lag_records=None)

    def metadata(
        self, thread_name: str, max_poll_interval_ms: int, emptied_ms: float
    ) -> ThreadMetadata:
        """Return what the thread and its tasks are doing; from any thread."""
        return ThreadMetadata(
            thread_name=thread_name,
            silent_ms=self.silent_ms(),
            max_poll_interval_ms=max_poll_interval_ms,
            active_tasks=self.tasks(),
            standby_tasks=self.standby_tasks(),
            at_work=self.at_work(),
            emptied_ms=emptied_ms,
            restores_emptied_ms=self._restorer.told.emptied_ms,
            silent=frozenset(self._doubtful.silent.copy()),
        )

    def silent_ms(self) -> float:
        """Return how long ago the loop last published (ms); from any thread."""
        return self._clock.monotonic_ms() - self._published_ms

    def at_work(self) -> str:
        """Return what which task does, in words, as with which record; from any thread."""
        if (task := self._committer.settling) is not None:
            return f"task {task.task_id} lets go what it holds back, for a commit ({_HELD_BY})"
        doing = self._processing.doing
        if (task := self._processing.at_work) is None:
            return ""
        is_record = doing in {Doing.RECORD, Doing.HELD_RECORD}
        message = task.record.message if is_record else None
        if message is None:
            return f"task {task.task_id} {'is at work' if is_record else doing.value}"
        at = f"{message.topic()}-{message.partition()} offset {message.offset()}"
        return f"task {task.task_id} {doing.value} at {at}"

    def tasks(self) -> tuple[TaskMetadata, ...]:
        """Return what the tasks are doing; from any thread."""
        return tuple(self._metadata(task) for task in list(self._manager.tasks.values()))

    def lags(self) -> dict[TaskId, Lag]:
        """Return what is known to wait, by task; from any thread."""
        seen = self._asked.copy().items()
        return {
            task.task_id: Lag(last.answer.lag, self._lag_ms(task, last))
            for task, last in seen
            if last.answer.told_of and self._may_be_so(last.answer.lag)
        }

    def standby_tasks(self) -> tuple[TaskMetadata, ...]:
        """Return what is kept warm; from any thread."""
        kept = list(self._manager.standbys.kept.items())
        return tuple(self._metadata_of_standby(task_id, standby) for task_id, standby in kept)

    def _metadata_of_standby(self, task_id: TaskId, standby: StandbyTask) -> TaskMetadata:
        state, next_offsets = standby.state.manager, self._restorer.next_offsets(task_id)
        lag = standby.lag_records
        return TaskMetadata(
            task_id=task_id,
            state="standby",
            partitions=standby.state.partitions,
            processed_records=0,
            lag_records=lag if lag is None or self._may_be_so(lag) else None,
            stream_time_ms=-1,
            stores=tuple(state.stores()),
            changelogs={changelog: state.store_of(changelog) for changelog in state.changelogs()},
            restored_offsets=next_offsets,
            awaited=standby.awaited(next_offsets),
        )

    def _metadata(self, task: StreamTask) -> TaskMetadata:
        seen = self._asked.get(task, _UNSEEN)
        is_told = bool(seen.answer.told_of) and self._may_be_so(seen.answer.lag)
        state, is_running = task.state_manager, task.state is TaskState.RUNNING
        next_offsets = self._restorer.next_offsets(task.task_id)
        return TaskMetadata(
            task_id=task.task_id,
            state=task.state.value,
            partitions=task.partitions,
            processed_records=task.counts.processed,
            lag_records=seen.answer.lag if is_told else None,
            lag_by_topic={at: lag for at, lag in seen.lags.items() if self._may_be_so(lag)},
            lag_ms=self._lag_ms(task, seen) if is_told else None,
            progressed_ms=seen.progressed_ms,
            busy_ms_by_node=task.counts.nodes.busy_ms(),
            records_by_edge=task.counts.nodes.records_by_edge(),
            stream_time_ms=task.time.stream_time,
            stores=tuple(state.stores()),
            changelogs={changelog: state.store_of(changelog) for changelog in state.changelogs()},
            restored_offsets=next_offsets,
            awaited=seen.awaited if is_running else next_offsets,
        )

    def _may_be_so(self, lag: int) -> bool:
        """Return whether a lag is still known; that of a loop that stands still can only grow."""
        return lag > 0 or self.silent_ms() < _NOTHING_WAITS_FOR_MS

    def _lag_ms(self, task: StreamTask, seen: _Seen) -> float:
        if seen.waits_since_ms is None:
            return 0.0
        oldest_ms = task.counts.oldest_waiting_ms()
        if oldest_ms is None and seen.is_behind:
            oldest_ms = task.counts.last_timestamp
        if oldest_ms is None:
            return self._clock.monotonic_ms() - seen.waits_since_ms
        return max(0.0, self._clock.now_ms() - oldest_ms)

    def publish_if_due(self) -> None:
        """Publish, if the last time is a while ago; called by the loop in each iteration."""
        now = self._clock.monotonic_ms()
        if now - self._published_ms >= _PUBLISH_EVERY_MS:
            self._published_ms = now
            self.publish()

    def publish(self) -> None:
        """Publish the numbers of now."""
        running = len(self._manager.running())
        self._ask_tasks()
        progress, ledger = self._restorer.progress(), self._manager.ledger
        self._published = ThreadStatistics(
            tasks_running=running,
            tasks_restoring=len(self._manager.tasks) - running,
            processed_records=self._processing.processed_records,
            dropped_records=self._manager.closed_dropped + self._sum.dropped,
            calls_again=self._manager.closed_calls_again + self._sum.calls_again,
            commits=self._committer.commits,
            lag_records=self._sum.lag if self._sum.told_of else None,
            restored_records=progress.restored_records,
            restore_remaining_records=progress.remaining_records,
            uncommitted_bytes=ledger.uncommitted_bytes,
            max_uncommitted_bytes=ledger.max_uncommitted_bytes,
            cached_bytes=ledger.cached_bytes,
            unread_partitions=self._doubtful.count_unread(),
        )

    def _ask_tasks(self) -> None:
        """Bring up to date what tasks say, added up.

        Asked are those that did something since the last time, and those of which the broker is
        known to have more or less without that, which is looked at in turn. When tasks come and go,
        all are.
        """
        noted, running = self._manager.active.noted(), self._manager.running()
        if self._asked_of is not running:
            self._asked_of, self._asked, self._sum = running, {}, _NOTHING
            self._told = {}
            self._in_turn = [(task, partition) for task in running for partition in task.partitions]
            self._ask(list(self._manager.tasks.values()))
            return
        self._ask(noted)
        self._ask(self._moved_in_turn())

    def _moved_in_turn(self) -> set[StreamTask]:
        """Return the tasks whose lag is another one, of the partitions whose turn it is."""
        first = self._next_in_turn if self._next_in_turn < len(self._in_turn) else 0
        self._next_in_turn = first + _LOOKED_AT_IN_TURN
        looked_at = self._in_turn[first : self._next_in_turn]
        return {task for task, at in looked_at if self._told_now(at) != self._told.get(at)}

    def _told_now(self, partition: TopicPartition) -> _Told:
        return _Told(self._consumer().known_lag(partition), partition in self._doubtful.silent)

    def _ask(self, tasks: Iterable[StreamTask]) -> None:
        for task in tasks:
            before, (now, lags) = self._asked.get(task, _UNSEEN), self._answer(task)
            awaited = self._awaited(task)
            if (now, lags, awaited) != (before.answer, before.lags, before.awaited):
                self._asked[task] = self._seen(before, now, lags)._replace(awaited=awaited)
                changes = zip(self._sum, now, before.answer, strict=True)
                self._sum = _Answer(*(total + new - old for total, new, old in changes))

    def _answer(self, task: StreamTask) -> tuple[_Answer, dict[str, int]]:
        """Return what a task says, and what waits for it, by topic."""
        running = task.state is TaskState.RUNNING
        told_of, lags = 0, dict[str, int]()
        for partition in task.partitions if running else ():
            told = self._told[partition] = self._told_now(partition)
            lag = told.lag
            if lag is not None:
                told_of += 1
                before = lags.get(partition.topic, 0)
                lags[partition.topic] = before + lag + task.buffered_records(partition)
        counts = task.counts
        waiting = sum(lags.values())
        answer = _Answer(counts.dropped, counts.calls_again, told_of, waiting, counts.processed)
        return answer, lags

    def _awaited(self, task: StreamTask) -> dict[TopicPartition, int | None]:
        """Return the partitions of which nothing is here, though there is something, or may be."""
        if task.state is not TaskState.RUNNING:
            return {}
        return {
            partition: task.counts.next_offset(partition)
            for partition in task.partitions
            if any(self._told[partition]) and not task.buffered_records(partition)
        }

    def _seen(self, before: _Seen, now: _Answer, lags: Mapping[str, int]) -> _Seen:
        """Return what is known of a task that has something new to say."""
        moved = now.processed != before.answer.processed
        progressed_ms = self._clock.now_ms() if moved else before.progressed_ms
        since_ms = before.waits_since_ms
        if not now.lag:
            since_ms = None
        elif moved or since_ms is None:
            since_ms = self._clock.monotonic_ms()
        is_behind = now.lag > 0 and (moved or before.is_behind)
        return _Seen(now, lags, progressed_ms, since_ms, is_behind)


class Lag(NamedTuple):
    """What waits for a task.

    Attributes:
        ms: How long the oldest of them has waited; see `TaskMetadata.lag_ms`.
    """

    records: int
    ms: float


class _Told(NamedTuple):
    """What brokers tell of a partition.

    Attributes:
        lag: How many records were not polled; None when that is not known.
        is_silent: Whether they do not tell where it ends.
    """

    lag: int | None
    is_silent: bool


class _Answer(NamedTuple):
    """What a task says, or several together.

    Attributes:
        calls_again: How often functions were called again.
        told_of: Partitions of which brokers told how many records wait.
        lag: How many wait there, buffered ones included.
    """

    dropped: int
    calls_again: int
    told_of: int
    lag: int
    processed: int


class _Seen(NamedTuple):
    """What is known of a task.

    Attributes:
        lags: What waits, by topic.
        progressed_ms: When it was last seen to have processed something (ms), None if never.
        waits_since_ms: Since when something waits and nothing was processed, on the monotonic
            clock (ms); None while nothing waits.
        is_behind: Whether what waits came while the task was processing: it is about as old as
            the last record processed.
        awaited: See `TaskMetadata`.
    """

    answer: _Answer
    lags: Mapping[str, int]
    progressed_ms: int | None
    waits_since_ms: float | None
    is_behind: bool
    awaited: Mapping[TopicPartition, int | None] = MappingProxyType({})


_NOTHING = _Answer(0, 0, 0, 0, 0)
_UNSEEN = _Seen(_NOTHING, {}, None, None, is_behind=False)
