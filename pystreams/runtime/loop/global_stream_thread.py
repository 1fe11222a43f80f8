"""`GlobalStreamThread`: fills the global stores of a process, then keeps them beside their topics.

    admin: ids, beginnings, ends --> begin: each store goes on, or begins anew
                                       |
    consumer without a group --> fill: to the ends as they were --> the stream threads start
                                       |
                                     follow, until the end of the process

What it processes it commits with its offsets every `commit.interval.ms`, or earlier where much has
come. While it follows nothing may be taken back, since tasks have seen it: a topic that can't be
followed any more (cut off, deleted, created again) stops the application, and the next start reads
that store anew.

Source: Kafka Streams' `GlobalStreamThread`. Differs from Kafka: partitions that a topic gets while
it is followed are read, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from pystreams.errors import (
    OffsetOutOfRangeError,
    RetriableClientError,
    StateStoreCorruptedError,
    StateStoreError,
    StreamsError,
    as_streams_error,
)
from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.kernel.user_tracebacks import traceback_field
from pystreams.record import offset_of
from pystreams.runtime.adapters.loop_thread import RAISED_BY_CODE
from pystreams.runtime.core.global_task import GlobalTask
from pystreams.runtime.loop.global_dead_letters import GlobalDeadLetters
from pystreams.runtime.loop.global_topic_ids import GlobalTopicIds
from pystreams.runtime.loop.reports.asked_ends import AskedEnds
from pystreams.runtime.loop.reports.thread_metadata import ThreadMetadata
from pystreams.runtime.ports import ChangelogBatch
from pystreams.runtime.tasks.restore_listener import StateRestoreListener
from pystreams.runtime.tasks.thread_parts import ThreadParts

_BATCH_RECORDS = 10_000
_PIECE_RECORDS = 1_000
_WITHOUT_LIMIT_BYTES = 64 << 20  # Committed at the latest then: nobody wants it all in memory.
_DAMAGES_MAX = 3  # So often stores are begun anew while they are filled.
_RETRY_PAUSE_S = 0.5
_LOG_EVERY_MS = 10_000
_IN_NO_GROUP_MS = 1 << 62  # It has no poll interval to keep to.

_log = get_logger("pystreams.global")


class GlobalStreamThread:
    """The loop that owns the global stores.

    `run` blocks until `stop` is called; what fails meanwhile is in `error`. A simulation
    calls what it consists of: `fill`, `run_once` as often as it likes, `shut_down`.

    Args:
        parts: What the stream threads are made of.
        look_interval_ms: How often to look whether the topics are still the same.
        stop: Set when it is to end; pauses wait on it.
        failed: Called with what has failed, when it has; tasks are to end then.

    Attributes:
        error: What failed, or None.
        filled: Set when all stores are filled; or when the loop has ended.
    """

    def __init__(
        self,
        task: GlobalTask,
        parts: ThreadParts,
        *,
        look_interval_ms: int,
        stop: threading.Event,
        failed: Callable[[StreamsError], None] = lambda _: None,
    ) -> None:
        client_id = parts.identity.client_id
        self.name = global_thread_name(client_id)
        self.error: StreamsError | None = None
        self.filled = threading.Event()
        self._parts = parts
        self._task, self._clock, self._stop = task, parts.clock, stop
        self._look_interval_ms, self._tell_failed = look_interval_ms, failed
        self._listener = parts.restore_listener or StateRestoreListener()
        self._consumer = parts.clients.global_consumer(f"{client_id}-global-consumer")
        self._letters = GlobalDeadLetters(parts, f"{client_id}-global-producer", stop)
        self._next_offsets: dict[TopicPartition, int] = {}
        self._told: dict[TopicPartition, int] = {}
        self._unfilled: dict[TopicPartition, int] = {}
        self._filled_with: dict[TopicPartition, int] = {}
        self._topic_ids = GlobalTopicIds(task.state.store_of)
        self._ends = AskedEnds(parts, lambda: list(self._next_offsets), self._told.update)
        self._to_empty: dict[str, str] = {}
        self._committed_ms = self._looked_ms = self._logged_ms = self._seen_ms = 0.0
        self._emptied_ms = 0.0
        self._uncommitted, self._at_work = False, ""
        limit = parts.settings.memory.uncommitted_max_bytes
        self._uncommitted_max_bytes = _WITHOUT_LIMIT_BYTES if limit < 0 else limit

    # ------------------------------------------------------------------ from any thread

    def stop(self) -> None:
        """Ask the loop to commit and end."""
        self._stop.set()

    def remaining_records(self) -> int:
        """Return how many offsets are still to go until the stores are filled, at most."""
        positions = self._next_offsets.copy()
        return sum(
            max(end - positions.get(partition, 0), 0)
            for partition, end in self._unfilled.copy().items()
        )

    def metadata(self) -> ThreadMetadata:
        """Return what it is at, and how long ago it was seen to get on."""
        silent_ms = 0.0 if self.error else self._clock.monotonic_ms() - self._seen_ms
        return ThreadMetadata(
            thread_name=self.name,
            silent_ms=silent_ms,
            max_poll_interval_ms=_IN_NO_GROUP_MS,
            active_tasks=(),
            at_work=self._at_work,
            awaited={} if self.error else self._awaited(),
            emptied_ms=self._emptied_ms,
            silent=frozenset(self._ends.silent.copy()),
        )

    def _awaited(self) -> dict[TopicPartition, int | None]:
        """Return the partitions that hold more, or may, and the next offset of each."""
        positions, unfilled = self._next_offsets.copy(), self._unfilled.copy()
        silent, told = self._ends.silent.copy(), self._told.copy()
        return {
            partition: offset
            for partition, offset in positions.items()
            if partition in unfilled or partition in silent or offset < told.get(partition, 0)
        }

    # ------------------------------------------------------------------ the loop

    def run(self) -> None:
        """Run until stopped; keeps what failed in `error`.

        After a failure the stores stay as they are until it is stopped: tasks may still read them.
        """
        self._seen_ms = self._clock.monotonic_ms()
        try:
            self.fill()
            while not self._stop.is_set():
                self.run_once()
        except RAISED_BY_CODE as error:
            known = self._failed("global stream thread failed", error)
            self.filled.set()
            self._tell_failed(known)
            self._stop.wait()
        self.shut_down()

    def fill(self) -> None:
        """Open the stores and fill them to the ends of their topics; returns early when stopped.

        Raises:
            StreamsError: A record, a store or a topic can't be read.
        """
        self._task.state.open(self._parts.directories.global_directory())
        started_ms = self._logged_ms = self._clock.monotonic_ms()
        damages = 0
        self._begin()
        while self._unfilled and not self._stop.is_set():
            try:
                self._poll()
            except (OffsetOutOfRangeError, StateStoreCorruptedError) as error:
                damages += 1
                if damages > _DAMAGES_MAX:
                    raise
                # Stores that are not rebuilt go on: nothing sends their records' letters again.
                if not self._send_dead_letters():
                    break
                self._task.state.rebuild(self._store_of(error), str(error))
                self._begin()
            self._log_progress()
        if self._stop.is_set():
            for partition in self._unfilled:
                self._listener.on_restore_suspended(*self._counted(partition))
            return
        self._commit()
        self._looked_ms = self._clock.monotonic_ms()
        seconds = (self._looked_ms - started_ms) / 1000
        records = sum(self._task.consumed_records.values())
        _log.info("global stores filled", records=records, seconds=round(seconds, 3))
        self.filled.set()

    def run_once(self) -> None:
        """Follow the topics by one poll.

        Raises:
            FatalStreamsError: A topic can't be followed any more.
            StreamsError: A record or a store can't be read.
        """
        try:
            self._poll()
        except (OffsetOutOfRangeError, StateStoreCorruptedError) as error:
            store = self._store_of(error)
            self.empty_at_end(store, str(error))
            raise StateStoreError(
                store,
                f"it can't follow its topic any more ({error}). Tasks have used what it held, so "
                "the application stops; start again: the store is then read anew from the "
                "beginning of the topic",
            ) from error
        self._look_if_due()
        self._ends.check()

    def empty_at_end(self, store: str, reason: str) -> None:
        """Take note that a store is to be emptied when nobody reads it any more.

        Args:
            reason: Why, for the log.
        """
        self._to_empty[store] = reason

    def shut_down(self) -> None:
        """Commit what was processed, unless that failed; close stores and consumer."""
        for step in (self._last_commit, self._empty, self._task.close, self._close_clients):
            try:
                step()
            except RAISED_BY_CODE as error:
                self._failed("shutting down", error)
        self.filled.set()

    # ------------------------------------------------------------------ reading

    def _begin(self) -> None:
        """Find out where to read from, and to where; make the processors."""
        state = self._task.state
        partitions = state.partitions()
        topics = sorted({partition.topic for partition in partitions})
        told = False
        while not self._stop.is_set():
            try:
                held = self._parts.admin.offset_ranges(partitions)
                self._topic_ids.known = self._parts.admin.topic_ids(topics)
            except RetriableClientError as error:
                if not told:
                    told = True
                    _log.info("topics of global stores are waited for", why=str(error))
                self._stop.wait(_RETRY_PAUSE_S)
                continue
            self._next_offsets = state.begin(held, self._topic_ids.known)
            self._unfilled = {
                partition: found.high_watermark
                for partition, found in held.items()
                if self._next_offsets[partition] < found.end
            }
            self._filled_with = dict.fromkeys(self._unfilled, 0)
            break
        self._task.start(self._clock.now_ms())
        self._consumer.assign({})  # What was read before is read again.
        self._consumer.assign(self._next_offsets)
        for partition, end in self._unfilled.items():
            store, first = state.store_of(partition.topic), self._next_offsets[partition]
            self._listener.on_restore_start(partition, store, first, end)
        remaining = self.remaining_records()
        if remaining:
            _log.info("filling global stores", topics=topics, records=remaining)

    def _poll(self) -> None:
        self._seen_ms = self._clock.monotonic_ms()
        timeout_s = self._parts.settings.polls.poll_ms / 1000
        batches = self._consumer.poll(_BATCH_RECORDS, timeout_s)
        if sum(len(messages) for _, messages, _ in batches) < _BATCH_RECORDS // 2:
            self._emptied_ms = self._clock.monotonic_ms()
        for batch in batches:
            self._process(batch)
        since_ms = self._clock.monotonic_ms() - self._committed_ms
        if self._uncommitted and since_ms >= self._parts.settings.commit_interval_ms:
            self._commit()

    def _process(self, batch: ChangelogBatch) -> None:
        partition, messages, end_reached_at = batch
        now_ms = self._clock.now_ms()
        for start in range(0, len(messages), _PIECE_RECORDS):
            piece = messages[start : start + _PIECE_RECORDS]
            self._seen_ms = self._clock.monotonic_ms()
            self._at_work = f"it fills global stores from {partition}, offset {piece[0].offset()}"
            self._task.process(partition, piece, now_ms)
            self._uncommitted = True
            if self._task.state.uncommitted_bytes() > self._uncommitted_max_bytes:
                self._commit()
        self._at_work = ""
        next_offset = self._next_offsets[partition]
        if messages:
            last_offset = offset_of(messages[-1])
            next_offset = last_offset + 1
            if partition in self._unfilled:
                self._filled_with[partition] += len(messages)
                store = self._task.state.store_of(partition.topic)
                self._listener.on_batch_restored(partition, store, last_offset, len(messages))
        self._next_offsets[partition] = max(next_offset, end_reached_at or 0)
        end = self._unfilled.get(partition)
        # The end that is met may lie before a transaction that is open: that is not waited for.
        if end is not None and (end_reached_at is not None or next_offset >= end):
            del self._unfilled[partition]
            self._listener.on_restore_end(*self._counted(partition))

    def _counted(self, partition: TopicPartition) -> tuple[TopicPartition, str, int]:
        """Return a partition, its store, and how many records have filled it of that."""
        store = self._task.state.store_of(partition.topic)
        return partition, store, self._filled_with[partition]

    def _commit(self) -> None:
        if not self._send_dead_letters():
            return  # It is to stop.
        self._task.state.commit()
        self._uncommitted = False
        self._committed_ms = self._clock.monotonic_ms()

    def _send_dead_letters(self) -> bool:
        """Have them on the broker before their records are committed: a crash may repeat them.

        Returns:
            False: a stop came first.
        """
        self._at_work = "it sends dead letters of global stores, and waits for the broker"
        sent = self._letters.send(self._task.outputs())
        self._at_work = ""
        return sent

    def _close_clients(self) -> None:
        self._ends.close()
        self._consumer.close()
        self._letters.close()

    def _last_commit(self) -> None:
        if self.error is None and self._uncommitted:
            self._commit()

    def _empty(self) -> None:
        for store, reason in self._to_empty.items():
            self._task.state.rebuild(store, reason)

    def _store_of(self, error: OffsetOutOfRangeError | StateStoreCorruptedError) -> str:
        """Return the store that an error is about."""
        if isinstance(error, StateStoreCorruptedError):
            return error.store
        return self._task.state.store_of(error.partition.topic)

    # ------------------------------------------------------------------ the topics

    def _look_if_due(self) -> None:
        """Look now and then whether the topics are still those that were read.

        Raises:
            FatalStreamsError: One was deleted, or created again.
        """
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_ms < self._look_interval_ms:
            return
        self._looked_ms = now_ms
        try:
            found = self._parts.admin.topic_ids(sorted(self._topic_ids.known))
            counts = self._parts.admin.partition_counts()
        except StreamsError as error:
            _log.debug("topics of global stores can't be looked at", why=str(error))
            return
        self._topic_ids.check(found)
        self._take_new_partitions(counts)

    def _take_new_partitions(self, counts: Mapping[str, int]) -> None:
        """Read partitions that a topic has got since."""
        new = self._task.take_partitions(counts)
        if new:
            _log.info("topic of a global store has new partitions", partitions=list(map(str, new)))
            self._next_offsets.update(dict.fromkeys(new, 0))
            self._consumer.assign(self._next_offsets)

    # ------------------------------------------------------------------ the log

    def _log_progress(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._logged_ms >= _LOG_EVERY_MS:
            self._logged_ms = now_ms
            _log.info("still filling global stores", remaining_records=self.remaining_records())

    def _failed(self, what: str, error: BaseException) -> StreamsError:
        """Keep the first error, and log each with the lines that tell where it was raised."""
        known = as_streams_error(error)
        self.error = self.error or known
        _log.error(what, thread=self.name, error=str(known), **traceback_field(known))
        return known


def global_thread_name(client_id: str) -> str:
    """Return the name of a client's thread."""
    return f"{client_id}-GlobalStreamThread"
