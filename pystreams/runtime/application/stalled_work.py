"""What makes no progress though there is something to do: tasks, and partitions that are read.

A partition is judged by the next offset that is to be read of it while nothing of it is here. So a
task that waits for one of its partitions, or takes its records in order of time, is not at fault.
Nor is a partition whose records wait in the client behind those of others: unless its broker is
silent, a minute counts only up to the moment when the consumer had nothing more to hand on.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pystreams.ids import TopicPartition, by_topic
from pystreams.runtime.application.troubles import Trouble, TroubleKind
from pystreams.runtime.core.lifecycle import TaskState
from pystreams.runtime.loop.reports.thread_metadata import TaskMetadata, ThreadMetadata

_STALLED_MS = 60_000.0
_BEGINS = (TaskState.CREATED.value, TaskState.RESTORING.value)
_TOLD_PARTITIONS = 5
_OF_NOTHING_COMES = (
    "the broker that has it does not answer fetches, or a transaction of somebody else stays open "
    "there. See that this process reaches each broker, not only the first ones"
)


class StalledWork:
    """Finds what makes no progress, from one look to the next."""

    def __init__(self) -> None:
        # What was seen of whatever is watched when it last moved, and when that was (ms).
        self._moved: dict[Hashable, tuple[Hashable, float]] = {}
        self._before = self._moved

    def found(self, threads: Sequence[ThreadMetadata], now_ms: float) -> Iterator[Trouble]:
        """Yield what has made no progress for a minute.

        Args:
            threads: Those that go round their loops; what others do is not known.
        """
        self._before, self._moved = self._moved, {}
        for thread in threads:
            inputs = _Reading(min(now_ms, thread.emptied_ms), thread.silent)
            changelogs = _Reading(min(now_ms, thread.restores_emptied_ms), frozenset())
            for task in thread.active_tasks:
                if task.state == TaskState.RUNNING.value:
                    yield from self._of_running(task, inputs, now_ms)
                elif task.state in _BEGINS:
                    yield from self._of_restoring(task, changelogs, now_ms)
            # While tasks restore, standbys wait.
            if not any(task.state in _BEGINS for task in thread.active_tasks):
                for standby in thread.standby_tasks:
                    kind, of = TroubleKind.STALLED_STANDBY, str(standby.task_id)
                    # What is not read yet comes behind nothing.
                    unread = frozenset(
                        at for at, offset in standby.awaited.items() if offset is None
                    )
                    reading = _Reading(changelogs.emptied_ms, unread)
                    yield from self._of_awaited((kind, of), standby.awaited, reading, now_ms)
            for topic in by_topic(thread.awaited):
                awaited = {at: offset for at, offset in thread.awaited.items() if at.topic == topic}
                key = TroubleKind.STALLED_GLOBAL, topic
                yield from self._of_awaited(key, awaited, inputs, now_ms)

    def _of_running(self, task: TaskMetadata, inputs: _Reading, now_ms: float) -> Iterator[Trouble]:
        of = str(task.task_id)
        since_ms = now_ms
        if task.lag_records:
            since_ms = self._since_ms(
                (TroubleKind.STALLED_TASK, of), task.processed_records, now_ms
            )
        key = TroubleKind.STALLED_PARTITION, of
        unread = list(self._of_awaited(key, task.awaited, inputs, now_ms))
        # Of a task that has nothing here others' records may come first.
        lagging = {topic for topic, lag in task.lag_by_topic.items() if lag}
        has_nothing = bool(task.awaited) and lagging <= {at.topic for at in task.awaited}
        until_ms = inputs.emptied_ms if has_nothing and not unread else now_ms
        if until_ms - since_ms < _STALLED_MS:
            yield from unread
            return
        partitions = ", ".join(map(str, task.partitions))
        text = (
            f"of {partitions} {task.lag_records} records wait, and none was taken: it waits for "
            "another of its partitions (max.task.idle.ms), for answers or a retry, or for a "
            "transaction of somebody else that stays open; or the partition's broker does not "
            "answer fetches, or records of other partitions come first"
        )
        text = "; ".join([text, *(trouble.text for trouble in unread)])
        yield Trouble(TroubleKind.STALLED_TASK, of, text, since_ms)

    def _of_restoring(
        self, task: TaskMetadata, changelogs: _Reading, now_ms: float
    ) -> Iterator[Trouble]:
        of = str(task.task_id)
        if task.awaited:
            key = TroubleKind.STALLED_RESTORE, of
            yield from self._of_awaited(key, task.awaited, changelogs, now_ms)
            return
        since_ms = self._since_ms((TroubleKind.STALLED_RESTORE, of), task.state, now_ms)
        if now_ms - since_ms >= _STALLED_MS:
            text = (
                "it does not begin: it waits for its directory, for members that run another "
                "topology, or for brokers to tell what its changelogs hold; the log says for which"
            )
            yield Trouble(TroubleKind.STALLED_RESTORE, of, text, since_ms)

    def _of_awaited(
        self,
        key: tuple[TroubleKind, str],
        awaited: Mapping[TopicPartition, int | None],
        reading: _Reading,
        now_ms: float,
    ) -> Iterator[Trouble]:
        """Yield one trouble with all the partitions of which nothing comes."""
        since_ms = {
            partition: self._since_ms((*key, partition), offset, now_ms)
            for partition, offset in awaited.items()
        }
        stalled = [
            at
            for at, seen_ms in since_ms.items()
            if (now_ms if at in reading.silent else reading.emptied_ms) - seen_ms >= _STALLED_MS
        ]
        if stalled:
            text = f"nothing comes of {_named(stalled, awaited)}: {_OF_NOTHING_COMES}"
            yield Trouble(*key, text, min(since_ms[partition] for partition in stalled))

    def _since_ms(self, what: Hashable, seen: Hashable, now_ms: float) -> float:
        """Return since when something was seen to be as it is."""
        known, since_ms = self._before.get(what, (None, now_ms))
        since_ms = since_ms if known == seen and what in self._before else now_ms
        self._moved[what] = seen, since_ms
        return since_ms


class _Reading(NamedTuple):
    """How a consumer reads.

    Attributes:
        emptied_ms: When it last had nothing more to hand on; see `ThreadMetadata`.
        silent: Partitions whose broker does not say where they end.
    """

    emptied_ms: float
    silent: frozenset[TopicPartition]


def _named(stalled: Sequence[TopicPartition], awaited: Mapping[TopicPartition, int | None]) -> str:
    names = []
    for partition in sorted(stalled)[:_TOLD_PARTITIONS]:
        offset = awaited[partition]
        names.append(str(partition) if offset is None else f"{partition} at offset {offset}")
    if len(stalled) > _TOLD_PARTITIONS:
        names.append(f"{len(stalled) - _TOLD_PARTITIONS} more")
    return ", ".join(names)
