"""What window and session stores have in common: a stream time, and segments that expire by it.

    put --> stream time --> segment still live? --no--> counted and dropped, nothing logged
                             | yes
                             v
                    segment's id + key --> dirty map, changelog (without the id), engine

A segment that the stream time leaves behind is not read any more from then on, and is dropped as
a whole at the next commit. The stream time is committed beside the data, so that a store that is
opened again drops what it would have dropped. The changelog has it too, in its keys: the highest
time among them. What it lacks are windows that a record cache never logged, because they were
deleted before it was flushed, and those that the topic's own retention has deleted.

Spec: Kafka AbstractRocksDBSegmentedBytesStore.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pystreams.kernel.loggers import get_logger
from pystreams.record import MAX_TIME, DroppedRecords
from pystreams.stores.contracts.spec import Retention, StoreKind, StoreSpec
from pystreams.stores.dirty_map.dumping import dumped
from pystreams.stores.dirty_map.index_entries import write_entry
from pystreams.stores.dirty_map.opening import first_entry
from pystreams.stores.time_segments.segmented_reader import owners_reader
from pystreams.stores.time_segments.segments import Segments, segment_id_of, segment_prefix
from pystreams.stores.time_segments.time_order import INDEX, TimeOrder, is_entry
from pystreams.stores.time_segments.uncommitted_keys import UncommittedKeys
from pystreams.stores.typed_stores.typed_state_store import TypedStateStore

if TYPE_CHECKING:
    from pystreams.ids import TopicPartition
    from pystreams.record import ConsumedMessage, ProducedRecord
    from pystreams.serdes import Serde
    from pystreams.stores.contracts.key_value import StateStoreContext
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore
    from pystreams.stores.dirty_map.restoring import Changes, RestoredChanges

K = TypeVar("K")
R = TypeVar("R")

_LONG = struct.Struct(">q")
_TIME_OF = _LONG.unpack_from
_PREFIX_OF = _LONG.pack

_log = get_logger("pystreams.stores")


@dataclass(slots=True)
class SegmentedChanges:
    """Turns changelog records into changes of live segments; what is expired is left out.

    It moves the stream time to the end of the batch first, so that nothing is written which the
    same batch expires.

    Attributes:
        segments: The store's segments; shared with the store.
        changes: Turns records into changes by the key that was logged.
        suffix_bytes: How far from a logged key's end the time stands (int64) that says in which
            segment it is kept.
        order: How stored keys are laid out; None for segment and key.
    """

    segments: Segments
    changes: RestoredChanges
    suffix_bytes: int
    order: TimeOrder | None = None

    def __call__(self, messages: Sequence[ConsumedMessage]) -> Changes:
        """Return changes by stored key."""
        segments, suffix_bytes = self.segments, self.suffix_bytes
        interval_ms = segments.interval_ms
        timed = [
            (_TIME_OF(key, len(key) - suffix_bytes)[0], key, value)
            for key, value in self.changes(messages).items()
        ]
        segments.advance(max((time for time, _, _ in timed), default=segments.stream_time))
        oldest_live, order = segments.oldest_live, self.order
        if order is not None:
            ordered: Changes = {}
            for time, key, value in timed:
                if time // interval_ms >= oldest_live:
                    order.change(ordered, _PREFIX_OF(time // interval_ms), key, value)
            return ordered
        return {
            _PREFIX_OF(time // interval_ms) + key: value
            for time, key, value in timed
            if time // interval_ms >= oldest_live
        }


def segments_of(retention: Retention, order: TimeOrder | None) -> Segments:
    """Return the segments of a window or session store, laid out in an order.

    One in order of time keeps a segment more while it is restored: what an aggregation has still
    to send on may be older than the retention, but not by more (`window_emission`).
    """
    interval_ms = retention.segment_interval_ms
    spare_ms = interval_ms if retention.time_ordered else 0
    return Segments(
        retention.retention_ms,
        interval_ms,
        spare_ms,
        reads_while_live=retention.reads_while_live,
        too_old_by=0 if order is not None and order.reads_retention else 1,
    )


class SegmentedKind(StoreKind):
    """What window and session stores can do alike."""

    segmented = True

    def changelog_defaults(
        self, retention: Retention | None, additional_retention_ms: int
    ) -> Mapping[str, str]:
        """Return settings by which old records go. Spec: Kafka WindowedChangelogTopicConfig."""
        if retention is None:
            return super().changelog_defaults(retention, additional_retention_ms)
        # Windows without an end are kept as long as Kafka can say.
        kept_ms = min(retention.retention_ms + additional_retention_ms, MAX_TIME)
        return {"cleanup.policy": "compact,delete", "retention.ms": str(kept_ms)}

    def metrics_scope(self, spec: StoreSpec) -> str:
        """Return the store's type in the tags of its metrics, as in `rocksdb-window`."""
        return f"{super().metrics_scope(spec)}-{self.name}"


class SegmentedStateStore(TypedStateStore[K, R]):
    """A typed store whose stored keys begin with their segment.

    Args:
        buffer: The bytes-level store; owned by this object from now on. Its `restored` is a
            `SegmentedChanges` of the same segments.
        segments: Which segments are alive; owned by this object, which alone moves their time
            but for restoring.
        order: How stored keys are laid out; None for segment and key.
    """

    __slots__ = (
        "_dropped",
        "_finds_uncommitted",
        "_keys",
        "_order",
        "_reader",
        "_segments",
        "_warned_of_expired",
    )

    suffix_bytes: ClassVar[int]
    """Bytes of times and numbers behind the record key."""

    def __init__(
        self,
        buffer: BufferedKeyValueStore,
        segments: Segments,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        order: TimeOrder | None = None,
    ) -> None:
        self._segments = segments
        self._order = order
        self._dropped = DroppedRecords()
        self._warned_of_expired = False
        self._keys = UncommittedKeys(buffer, self.suffix_bytes, b"" if order is None else INDEX)
        self._reader = owners_reader(buffer, segments, order, self._keys)
        buffer.metadata.stream_time = lambda: segments.stream_time
        super().__init__(buffer, key_serde, value_serde)

    def init(self, context: StateStoreContext) -> None:
        """Open the store, bind its serdes, and go on from the stream time it had."""
        super().init(context)
        self._dropped = context.dropped
        self._segments.reopen(self._buffer.metadata.committed_stream_time(), self._newest_segment())
        self._warned_of_expired = False
        self._finds_uncommitted = self._order is None and self._buffer.transactional

    @property
    def stream_time(self) -> int:
        """The highest time (ms) the store was written with; -1 before the first."""
        return self._segments.stream_time

    @property
    def segment_interval_ms(self) -> int:
        """What goes away at once, in stream time."""
        return self._segments.interval_ms

    @property
    def caches(self) -> bool:
        """Whether a record cache holds changes back until a flush; known once it is open."""
        return self._buffer.caches

    def keep_from(self, time: int) -> None:
        """Keep what is of a time (ms) or later until told otherwise, however old it becomes.

        For what is still to be sent on. To be said anew after each `init`.
        """
        segments = self._segments
        if segments.keep_from(time):
            self._buffer.delete_below(segment_prefix(segments.oldest_live))

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        """Apply a batch of changelog records and remember the last one's offset, atomically."""
        segments = self._segments
        oldest_live = segments.oldest_live
        self._buffer.restore(messages)
        segments.commit()
        if segments.oldest_live != oldest_live:
            # For the next batch, or the first commit.
            self._buffer.delete_below(segment_prefix(segments.oldest_live))

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything written since the last commit durable; expired segments are dropped.

        Raises:
            StateStoreError: The disk is full or gone; the store keeps what it had committed.
        """
        super().commit(changelog_offsets)
        self._segments.commit()

    def rollback(self) -> None:
        """Drop everything written since the last commit, and what it did to the stream time.

        What has been written through stays.
        """
        super().rollback()
        self._segments.rollback(self._newest_segment)

    def changelog_records(self) -> Iterator[ProducedRecord]:
        """Return changelog records that restore what is committed and not expired.

        Values without a time of their own get the last millisecond of their segment, or the
        stream time if that is earlier.
        """
        segments = self._segments
        interval_ms, stream_time = segments.interval_ms, segments.committed_stream_time

        def time_of(stored_key: bytes) -> int:
            return min(stream_time, (segment_id_of(stored_key) + 1) * interval_ms - 1)

        return dumped(
            self._buffer,
            time_of,
            start=segment_prefix(segments.oldest_live),
            leave_out=None if self._order is None else is_entry,
        )

    def _shut(self) -> None:
        super()._shut()
        self._finds_uncommitted = False

    def _write_in_segment(
        self,
        segment: bytes,
        key: bytes,
        stored: bytes | None,
        plain: bytes | None,
        timestamp: int,
        *,
        replaces: bool = False,
    ) -> None:
        """Write and log a key in the segment of these eight bytes.

        One that replaces a value is in the index already: an entry is there as long as its key.
        """
        order, keys, buffer = self._order, self._keys, self._buffer
        if order is None:
            stored_key = segment + key
            if keys.generation == buffer.generation:
                keys.note(stored_key, present=stored is not None)
            self._write(stored_key, stored, plain, timestamp, self._record)
            return
        if (stored is None or not replaces) and buffer.is_open:  # Else the write refuses.
            entry = order.entry(segment, key)
            if keys.generation == buffer.generation:
                keys.note(entry, present=stored is not None)
            write_entry(buffer, entry, present=stored is not None)
        self._write(order.stored(segment, key), stored, plain, timestamp, self._record)

    def _sent(self, key: bytes, time: int) -> bytes | None:
        """Return what is stored under a key of a time (ms), without what the cache holds back."""
        segment, order = _PREFIX_OF(time // self._segments.interval_ms), self._order
        return self._buffer.get_sent(segment + key if order is None else order.stored(segment, key))

    def _newest_segment(self) -> int | None:
        """Return the newest segment of which the engine holds something."""
        newest = first_entry(self._buffer.engine_range(None, None, reverse=True))
        return None if newest is None else segment_id_of(newest[0])

    def _live_prefix(self, time: int) -> bytes | None:
        """Move the stream time (ms) and return the segment to write to; None if it is expired."""
        segments = self._segments
        segment = time // segments.interval_ms
        if time < segments.stream_time or segment < 0:
            if segment < segments.oldest_live:
                return None
        elif segments.advance(time):
            self._buffer.delete_below(segment_prefix(segments.oldest_live))
        return _PREFIX_OF(segment)

    def _drop_expired(self, time: int) -> None:
        """Count the record that is being processed as dropped; log the first."""
        self._dropped.count += 1
        if not self._warned_of_expired:
            self._warned_of_expired = True
            _log.warning(
                "write to an expired segment is dropped; further ones are counted and not logged",
                store=self._name,
                time=time,
                stream_time=self._segments.stream_time,
                retention_ms=self._segments.retention_ms,
            )
