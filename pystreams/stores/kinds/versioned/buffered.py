"""Bytes-level versioned store: history, stream time and expiry over one dirty map.

    put -> rows (dirty map) --commit--> engine        one put writes one to three rows,
      |                                               and logs one record
      +--> changelog (key, value, the version's timestamp)

Stored keys begin with the id of a segment (int64, big-endian), so that one RocksDB database, its
column family `default`, holds all segments, as in Kafka Streams. Segments that history retention
has left go with one range tombstone at the next commit; the latest values stay: their prefix
is the highest there is.

The changelog has what the store took, in order, and nothing else, so that replaying it is putting
it again. Its topic is compacted, but not before the history retention is over
(`min.compaction.lag.ms`).

What a segment covers is stored beside the rows, and checked (`versioned_layout`). So is the stream
time, without which a store that is opened again would take puts that it has dropped before; Kafka
Streams starts without any. The changelog has it as the highest timestamp of its records, as long as
compaction leaves that one.

Spec: KIP-889; Kafka RocksDBVersionedStore, LogicalKeyValueSegments,
ChangeLoggingVersionedKeyValueBytesStore, RocksDBVersionedStoreRestoreWriteBuffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING

from pystreams.errors import StateStoreError
from pystreams.kernel.loggers import get_logger
from pystreams.record import MAX_TIME, NO_RECORD, ConsumedMessage, DroppedRecords, ProducedRecord
from pystreams.stores.contracts.versioned import PUT_RETURN_CODE_NOT_PUT
from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore
from pystreams.stores.dirty_map.changelog import log_to
from pystreams.stores.dirty_map.restoring import Changes
from pystreams.stores.dirty_map.write_through import WriteThroughKeyValueStore
from pystreams.stores.files.metadata import SEGMENT_INTERVAL, pack_long
from pystreams.stores.kinds.versioned.dump import dumped_versions, stored_versions
from pystreams.stores.kinds.versioned.layout import check_layout, first_rows
from pystreams.stores.kinds.versioned.reader import RowReader, SegmentIndex, Version, VersionReader
from pystreams.stores.kinds.versioned.restoring import RestoredPut, RestoredRows
from pystreams.stores.kinds.versioned.writer import VersionWriter
from pystreams.stores.time_segments.segments import Segments, segment_id_of, segment_prefix
from pystreams.stores.typed_stores.views import sees_commits_only, view_of

if TYPE_CHECKING:
    from pystreams.config.guarantee import IsolationLevel
    from pystreams.ids import TopicPartition
    from pystreams.stores.contracts.key_value import KeyValueEngine, StateStoreContext
    from pystreams.stores.contracts.spec import Retention

_log = get_logger("pystreams.stores")


class BufferedVersionedStore(BufferedKeyValueStore):
    """Versions over one dirty map over one engine.

    Differs from Kafka: a put that is dropped is not logged. Kafka logs it, and compaction may
    then keep it in place of the value that the store has.

    Args:
        retention: History retention, which is also the grace period of puts, and the segments'
            interval. A database that was written with another interval is refused.
    """

    def __init__(self, name: str, engine: KeyValueEngine, retention: Retention) -> None:
        super().__init__(name, engine, restored=self._replayed)
        self._segments = Segments(retention.retention_ms, retention.segment_interval_ms)
        self._index = SegmentIndex()
        self.reader = self.reader_over(self.get)
        self.metadata.stream_time = lambda: self._segments.stream_time
        self._writer = VersionWriter(self._segments, self._index, self.get, self._write_row)
        self._log_put: Callable[[ProducedRecord], None] = log_to(None)
        self._dropped = DroppedRecords()
        self._warned_of_expired_put = False
        self._warned_of_expired_read = False

    # Life

    def init(self, context: StateStoreContext) -> None:
        """Open the engine, see which segments there are, and go on from the stream time it had.

        Raises:
            StateStoreError: The engine can't be opened, or it was written with another segment
                interval or by another kind of store; says why and what to do.
        """
        super().init(context)
        self._dropped = context.dropped
        self._log = log_to(None)  # Of rows: they are not what the changelog has.
        try:
            self._check_and_note_layout()
        except StateStoreError:
            self.close()
            raise
        self._log_put = log_to(context.changelog)
        self._index.ids = tuple(self._stored_segments())
        self._segments.reopen(self.metadata.committed_stream_time(), self._newest_segment())
        self._warned_of_expired_put = self._warned_of_expired_read = False

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        """Write all rows and the offsets in one batch, which also drops expired segments."""
        super().commit(changelog_offsets)
        self._keep_stream_time()

    def rollback(self) -> None:
        """Drop what is uncommitted, and what it did to the stream time.

        What has been written through stays.
        """
        super().rollback()
        if self.is_open:  # Nobody asks a store for its time that is being closed.
            self._segments.rollback(self._newest_segment)

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        """Put a batch of changelog records of one partition, with the last one's offset.

        Differs from Kafka, which first moves the stream time to the end of the batch: there a
        tombstone that is expired by then is forgotten before an older put that it had ended.
        """
        super().restore(messages)
        self._keep_stream_time()

    # Writes

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        """Put and log a version; return its end (ms) or a return code.

        Raises:
            StateStoreError: The timestamp is negative.
            TypeError: It is no whole number.
            OverflowError: It is greater than any there is.
        """
        if index(timestamp) < self.reader.history_begins():
            self._drop_put(timestamp)
            return PUT_RETURN_CODE_NOT_PUT
        if timestamp < 0:
            raise self._negative(timestamp)
        if timestamp > MAX_TIME:
            raise OverflowError(timestamp)
        self._advance(timestamp)
        valid_to = self._writer.put(key, value, timestamp)
        self._log_put((key, value, timestamp, ()))
        return valid_to

    def delete(self, key: bytes, timestamp: int) -> Version | None:
        """End the version that is valid at a time (ms), log that, and return it as it was."""
        if timestamp < self.reader.history_begins():
            self._drop_put(timestamp)
            return None
        existing = self.reader.as_of(key, timestamp)
        self.put(key, None, timestamp)
        return existing

    # Reads

    def reader_over(self, read: RowReader, *, committed: bool = False) -> VersionReader:
        """Return a reader of versions whose rows another function reads."""
        return VersionReader(
            read,
            self._index,
            self._segments,
            committed=committed,
            expired_read=self._warn_of_expired_read,
        )

    def versions_view(self, isolation_level: IsolationLevel) -> VersionReader:
        """Return a reader for other threads."""
        committed = sees_commits_only(self, isolation_level)
        return self.reader_over(view_of(self, isolation_level).get, committed=committed)

    def changelog_records(self) -> Iterator[ProducedRecord]:
        """Return changelog records that restore all committed versions."""
        return dumped_versions(self, self._live_segments(), self.reader.history_begins())

    def stored_versions(self) -> Iterator[tuple[bytes, bytes, int, int | None]]:
        """Return (key, value, timestamp, end; None for the latest) of all committed versions."""
        return stored_versions(self, self._live_segments())

    # Inside

    def _live_segments(self) -> tuple[int, ...]:
        oldest = self._segments.oldest_live
        return tuple(number for number in self._index.ids if number >= oldest)

    def _write_row(self, stored_key: bytes, row: bytes | None) -> None:
        self.write(stored_key, row, row, 0, NO_RECORD)

    def _advance(self, timestamp: int) -> None:
        segments = self._segments
        if segments.advance(timestamp):
            self.delete_below(segment_prefix(segments.oldest_live))

    def _negative(self, timestamp: int) -> StateStoreError:
        return StateStoreError(
            self.name,
            f"can't put a version at {timestamp} ms: timestamps are 0 or more; give the record "
            "a timestamp, with a timestamp_extractor if need be",
        )

    def _drop_put(self, timestamp: int) -> None:
        self._dropped.count += 1
        if not self._warned_of_expired_put:
            self._warned_of_expired_put = True
            self._warn_of_expired(
                "versioned store: put before the history retention is dropped; further ones are "
                "counted and not logged",
                timestamp,
                self._segments.stream_time,
            )

    def _warn_of_expired_read(self, time: int, stream_time: int) -> None:
        """Warn of a read that found nothing, once: of the owner's and other threads' together."""
        if not self._warned_of_expired_read:
            self._warned_of_expired_read = True
            self._warn_of_expired(
                "versioned store: read at a time before the history retention finds nothing; "
                "further ones are not logged",
                time,
                stream_time,
            )

    def _warn_of_expired(self, event: str, time: int, stream_time: int) -> None:
        _log.warning(
            event,
            store=self.name,
            time=time,
            stream_time=stream_time,
            history_retention_ms=self._segments.retention_ms,
        )

    def _check_and_note_layout(self) -> None:
        if self.persistent:
            interval_ms = self._segments.interval_ms
            check_layout(self, self._directory, interval_ms)
            if self.metadata.segment_interval_ms() is None:
                entry: dict[bytes, bytes | None] = {SEGMENT_INTERVAL: pack_long(interval_ms)}
                self._engine.write({}, entry)
                self.metadata.remember(entry)

    def _keep_stream_time(self) -> None:
        self._segments.commit()
        self._index.drop_below(self._segments.oldest_live)

    def _replayed(self, messages: Sequence[ConsumedMessage]) -> Changes:
        """Return the rows that a batch of changelog records changes, as they are at its end."""
        rows = RestoredRows(self._engine, self._index, self._segments)
        rows.put_all(self._admitted(messages))
        bound = self._delete_below
        if bound is None:
            return rows.changes
        return {key: row for key, row in rows.changes.items() if key >= bound}

    def _admitted(self, messages: Sequence[ConsumedMessage]) -> list[RestoredPut]:
        """Return the puts of a batch that history retention admits; moves the stream time.

        Each is held against the stream time that the records before it make.
        """
        puts: list[RestoredPut] = []
        retention_ms, stream_time = self._segments.retention_ms, self._segments.stream_time
        for message in messages:
            key, timestamp = message.key(), message.timestamp()[1]
            if key is not None and timestamp >= stream_time - retention_ms:
                if timestamp > stream_time:
                    stream_time = timestamp
                elif timestamp < 0:
                    raise self._negative(timestamp)
                puts.append((key, message.value(), timestamp))
        self._advance(stream_time)
        return puts

    def _newest_segment(self) -> int | None:
        """Return the newest segment that has rows in the engine."""
        return max(self._stored_segments(), default=None)

    def _stored_segments(self) -> list[int]:
        """Return the segments that have rows, ascending."""
        return [segment_id_of(stored_key) for stored_key, _ in first_rows(self)]


class WriteThroughVersionedStore(BufferedVersionedStore, WriteThroughKeyValueStore):
    """The same for a spec that is not transactional: what is written can't be undone."""
