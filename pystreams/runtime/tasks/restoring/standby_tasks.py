"""The standby tasks of a thread: state kept warm for tasks that run in other processes.

    look at the group -> which tasks this thread would be given (`standby_placement`)
      open, under the directory's lock -> follow the changelogs, committed records only
        -> assigned to this thread: the open state is handed over, the rest is restored
        -> not its any more, or asked for by who shares the directory: closed, the files stay

A standby runs no processor and decides nothing: what a changelog can't continue it gives up, unless
the copy was made by this standby from the changelog itself, which is dropped and made anew. What is
wrong with a standby never ends the thread. All else comes first: while tasks restore it does
nothing, and beside records it reads now and then.

Source: Kafka Streams' `StandbyTask`, `StandbyTaskCreator`; its recycling of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path

from pystreams.errors import (
    ChangelogLossError,
    RetriableClientError,
    StreamsError,
    TaskLockedError,
)
from pystreams.ids import TaskId, TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.pools import begin_call
from pystreams.runtime.cluster.group_description import GroupDescription
from pystreams.runtime.cluster.standby_placement import standby_tasks
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.runtime.core.task_state import StateOfTask, state_of_task
from pystreams.runtime.tasks.restoring.changelog_restore import ChangelogLook
from pystreams.runtime.tasks.restoring.restorer import Restorer
from pystreams.runtime.tasks.restoring.standby_task import StandbyTask
from pystreams.runtime.tasks.thread_parts import ThreadParts
from pystreams.topology.plan.partition_plan import partitions_of_tasks

_log = get_logger("pystreams.standby")

_BESIDE_RECORDS_MS = 100
"""Between two reads while records are processed."""
_ASKED_FOR_EVERY_MS = 200
_HANDED_OVER_MS = 2_000
"""Another thread of the process lets a task go sooner that it is not to keep any more."""
_TOLD_EVERY_MS = 60_000
_CURE = (
    "if the state here is not needed, `pystreams recover` with --choose restore; the task runs "
    "elsewhere all the same, and only a takeover by this process would meet this"
)


class StandbyTasks:
    """Keeps tasks of other processes warm; owned and called by one thread.

    Args:
        tasks: The tasks that the thread runs.

    Attributes:
        kept: The standby tasks there are.
        catching_up: Whether the last read brought records, or others are to be made: there may be
            more to do at once.
    """

    def __init__(
        self,
        parts: ThreadParts,
        settings: TaskSettings,
        restorer: Restorer,
        tasks: Collection[TaskId],
    ) -> None:
        self.kept: dict[TaskId, StandbyTask] = {}
        self.catching_up = False
        self._plan, self._clock = parts.plan, parts.clock
        self._partition_counts = parts.partition_counts
        self._directories, self._admin = parts.directories, parts.admin
        self._make_pool = parts.make_waiting_pool
        self._pool: Executor | None = None
        self._replicas = parts.settings.standby_replicas
        self._settings, self._restorer, self._tasks = settings, restorer, tasks
        self._logged = {
            part.id for part in parts.plan.subtopologies if parts.plan.logged_stores(part)
        }
        self._wanted: dict[TaskId, Collection[TopicPartition]] = {}
        self._given_up: set[TaskId] = set()
        self._in_use_since_ms: dict[TaskId, float] = {}
        self._taking_over: set[TaskId] = set()
        self._to_ask: set[TaskId] = set()
        self._looks: dict[TaskId, Future[ChangelogLook]] = {}
        self._lags: Future[dict[TopicPartition, int]] | None = None
        self._ends: Future[dict[TopicPartition, int]] | None = None
        self._ids: Future[dict[str, str]] | None = None
        self._known_ids: dict[str, str] = {}
        self._read_ms = self._asked_for_ms = 0.0
        self._told_ms = float("-inf")

    # ------------------------------------------------------------------ which

    def place(self, group: GroupDescription, member_id: str) -> None:
        """Keep from now on what this thread would be given if other processes died.

        Args:
            group: The group, settled; all in it run this topology.
            member_id: The thread's member of it.
        """
        if self._replicas:
            tasks = partitions_of_tasks(self._plan, self._partition_counts(()))
            self.keep(standby_tasks(group.members, member_id, tasks, self._replicas))
        elif self.kept or self._wanted:  # What was to come before it joined, and did not.
            self.keep(())

    def keep(self, task_ids: Collection[TaskId]) -> None:
        """Keep these tasks warm from now on, as far as they have changelogs, and no others."""
        tasks = partitions_of_tasks(self._plan, self._partition_counts(()))
        wanted = {
            task_id: tasks[task_id] for task_id in task_ids if task_id.subtopology in self._logged
        }
        for task_id in self.kept.keys() - wanted.keys():
            self._close(task_id)
        self._given_up &= wanted.keys()
        for task_id in self._in_use_since_ms.keys() - wanted.keys():
            del self._in_use_since_ms[task_id]
        self._wanted = {
            task_id: reads
            for task_id, reads in sorted(wanted.items())
            if not (task_id in self.kept or task_id in self._given_up or task_id in self._tasks)
        }
        while self._to_ask:
            self._look(self.kept[self._to_ask.pop()])
        self._ask()

    def promote(
        self, task_id: TaskId, partitions: Collection[TopicPartition]
    ) -> StateOfTask | None:
        """Hand the state of a task over to who runs it here now; None if none was kept.

        Args:
            partitions: What it reads.
        """
        self._wanted.pop(task_id, None)
        self._taking_over.discard(task_id)
        standby = self.kept.get(task_id)
        if standby is None:
            return None
        if set(standby.state.partitions) != set(partitions):
            self._close(task_id)
            return None
        self._restorer.forget(standby.state.manager)
        del self.kept[task_id]
        self._to_ask.discard(task_id)
        self._looks.pop(task_id, None)
        self._taking_over.add(task_id)
        standby.state.manager.restored_records = 0
        for meters in standby.state.manager.meters().values():
            meters.restored_records = 0
        return standby.state

    def taken_over(self, task_id: TaskId, remaining_records: int) -> None:
        """Tell how much a standby that takes over has to restore, if this was one."""
        if task_id in self._taking_over:
            self._taking_over.remove(task_id)
            _log.info("standby takes over", task=str(task_id), remaining_records=remaining_records)

    # ------------------------------------------------------------------ follow

    def follow(self, *, busy: bool) -> None:
        """Bring the standbys a step further; called in each iteration in which nothing restores.

        Args:
            busy: Whether records wait to be processed.
        """
        if not self.kept and not self._wanted:
            self.catching_up = False
            return
        now = self._clock.monotonic_ms()
        if busy and now - self._read_ms < _BESIDE_RECORDS_MS:
            return
        self._read_ms = now
        self._take_answers()
        if now - self._asked_for_ms >= _ASKED_FOR_EVERY_MS:
            self._asked_for_ms = now
            self._give_up_what_is_asked_for()
        if self._wanted:
            task_id = next(iter(self._wanted))
            self._make(task_id, self._wanted.pop(task_id))
        for task_id in [task_id for task_id, look in self._looks.items() if look.done()]:
            self._attempt(task_id, partial(self._follow, task_id, self._looks.pop(task_id)))
        self.catching_up = False
        if self.kept:
            self._read()
        self.catching_up |= bool(self._wanted)

    def behind(self, task_ids: Collection[TaskId]) -> dict[TaskId, int | None]:
        """Return how many records those of these tasks are behind that it keeps, or is to keep.

        Those are left out whose directory somebody else has for longer than a moment.
        Up to where their changelogs were told to end, transactions that are open left out; None
        before that is known, and where a broker does not tell.
        """
        found: dict[TaskId, int | None] = {}
        now_ms = self._clock.monotonic_ms()
        for task_id in self._wanted.keys() & set(task_ids):
            if now_ms - self._in_use_since_ms.get(task_id, now_ms) < _HANDED_OVER_MS:
                found[task_id] = None
        for task_id in self.kept.keys() & set(task_ids):
            ends = self.kept[task_id].ends
            followed = self._restorer.next_offsets(task_id).items()
            lags = [max(end - at, 0) for key, at in followed if (end := ends.get(key)) is not None]
            found[task_id] = sum(lags) if len(lags) == len(followed) and ends else None
        return found

    def lags(self) -> Mapping[TaskId, int | None]:
        """Return how many offsets each is behind, at most; from any thread."""
        return {task_id: standby.lag_records for task_id, standby in list(self.kept.items())}

    def close(self) -> None:
        """Close all of them; what they hold stays on the disk."""
        self._wanted.clear()
        for task_id in list(self.kept):
            self._close(task_id)
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None

    # ------------------------------------------------------------------ inside

    def _make(self, task_id: TaskId, reads: Collection[TopicPartition]) -> None:
        """Open a task's state and follow it; who holds the directory has a better copy."""
        try:
            directory = self._directories.lock_task(task_id)
        except TaskLockedError as error:
            self._in_use_since_ms.setdefault(task_id, self._clock.monotonic_ms())
            _log.debug("no standby: the directory is in use", task=str(task_id), why=str(error))
            return
        self._in_use_since_ms.pop(task_id, None)
        subtopology = self._plan.by_id[task_id.subtopology]
        state = state_of_task(task_id, self._plan, subtopology, reads, self._settings)
        standby = StandbyTask(state)
        self.kept[task_id] = standby
        self._attempt(task_id, partial(self._open, standby, directory))

    def _open(self, standby: StandbyTask, directory: Path) -> None:
        manager = standby.state.manager
        manager.open(directory)
        standby.anew = set(filter(manager.is_empty, manager.changelogs()))
        _log.info("standby", task=str(manager.task_id), directory=str(directory))
        self._look(standby)

    def _attempt(self, task_id: TaskId, step: Callable[[], None]) -> None:
        """Do something about a standby; one of which that fails is closed."""
        try:
            step()
        except RetriableClientError as error:
            # What its changelogs hold is asked again after the next look at the group.
            _log.debug("standby waits for the broker", task=str(task_id), why=str(error))
            self._to_ask.add(task_id)
        except StreamsError as error:
            self._given_up.add(task_id)
            _log.warning("standby given up", task=str(task_id), why=str(error), cure=_CURE)
            self._close(task_id)

    def _look(self, standby: StandbyTask) -> None:
        """Ask what its changelogs hold; the thread has more to do than to wait for that."""
        manager = standby.state.manager
        asked = begin_call(self._waiting(), self._restorer.look, manager.changelogs())
        self._looks[manager.task_id] = asked

    def _follow(self, task_id: TaskId, look: Future[ChangelogLook]) -> None:
        standby = self.kept[task_id]
        try:
            self._restorer.follow(standby.state.manager, look.result())
            standby.begun_anew.clear()
        except ChangelogLossError as error:
            self._follow_after(standby, error)

    def _follow_after(self, standby: StandbyTask, error: ChangelogLossError) -> None:
        """Follow anew what this standby has made, wiped; raise the error for what was here before.

        The copy that was here before may be the last one. A second time in a row it would not help.
        """
        manager, changelog = standby.state.manager, error.changelog
        self._restorer.forget(manager)
        if changelog is None or changelog not in standby.anew - standby.begun_anew:
            raise error
        store = manager.rebuild(changelog)
        _log.warning(
            "standby drops its copy of a store and begins anew",
            task=str(manager.task_id),
            store=store,
            changelog=str(changelog),
            why="the changelog was deleted and created again, or has lost what was to come next",
        )
        standby.begun_anew.add(changelog)
        self._look(standby)

    def _read(self) -> None:
        before = self._restorer.followed_records
        try:
            self._restorer.poll(0.0)
        except ChangelogLossError as error:
            for task_id, standby in list(self.kept.items()):
                if error.changelog in standby.state.manager.changelogs():
                    self._attempt(task_id, partial(self._follow_after, standby, error))
        except StreamsError as error:
            # Which of them it is, the error does not say: all are made anew after the next look.
            if self._read_ms - self._told_ms >= _TOLD_EVERY_MS:
                self._told_ms = self._read_ms
                _log.warning("standbys can't be kept", why=str(error))
            for task_id in list(self.kept):
                self._close(task_id)
        self.catching_up = self._restorer.followed_records > before

    def _give_up_what_is_asked_for(self) -> None:
        for task_id in list(self.kept):
            if self._directories.is_asked_for(task_id):
                _log.info("standby leaves its directory to the task", task=str(task_id))
                self._close(task_id)

    def _close(self, task_id: TaskId) -> None:
        standby = self.kept.pop(task_id)
        self._to_ask.discard(task_id)
        self._looks.pop(task_id, None)
        self._restorer.forget(standby.state.manager)
        try:
            standby.state.manager.close()
        except StreamsError as error:
            _log.warning("standby was not closed in order", task=str(task_id), why=str(error))
        finally:
            self._directories.unlock_task(task_id)

    # ------------------------------------------------------------------ what the broker says

    def _ask(self) -> None:
        """Ask how far they are behind, and which topics their changelogs are now; don't wait."""
        if not self.kept or any(asked is not None for asked in (self._lags, self._ends, self._ids)):
            return
        topics = {
            changelog.topic
            for standby in self.kept.values()
            for changelog in standby.state.manager.changelogs()
        }
        followed = [at for task_id in self.kept for at in self._restorer.next_offsets(task_id)]
        self._lags = begin_call(self._waiting(), self._restorer.lags)
        self._ends = begin_call(self._waiting(), self._admin.told_ends, followed)
        self._ids = begin_call(self._waiting(), self._admin.topic_ids, sorted(topics))

    def _waiting(self) -> Executor:
        if self._pool is None:
            self._pool = self._make_pool()
        return self._pool

    def _take_answers(self) -> None:
        if self._lags is not None and self._lags.done():
            answer, self._lags = self._lags, None
            if answer.exception() is None:
                self._note_lags(answer.result())
        if self._ends is not None and self._ends.done():
            ends, self._ends = self._ends, None
            if ends.exception() is None:
                for task_id, standby in self.kept.items():
                    followed = self._restorer.next_offsets(task_id)
                    standby.ends = {at: ends.result().get(at) for at in followed}
        if self._ids is not None and self._ids.done():
            ids, self._ids = self._ids, None
            if ids.exception() is None:
                self._note_ids(ids.result())

    def _note_lags(self, lags: Mapping[TopicPartition, int]) -> None:
        for task_id, standby in self.kept.items():
            manager = standby.state.manager
            known = [lags[at] for at in manager.changelogs() if at in lags]
            standby.lag_records = sum(known) if known else standby.lag_records
            if standby.lag_records == 0 and not standby.warm:
                standby.warm = True
                records = manager.restored_records
                _log.info("standby is warm", task=str(task_id), records=records)

    def _note_ids(self, ids: dict[str, str]) -> None:
        """Follow those anew whose changelog is another topic by now: that is noticed there."""
        before = self._known_ids
        changed = {topic for topic in ids if before.get(topic, ids[topic]) != ids[topic]}
        self._known_ids = before | ids
        for task_id, standby in list(self.kept.items()):
            if any(at.topic in changed for at in standby.state.manager.changelogs()):
                self._attempt(task_id, partial(self._look, standby))
