"""One partition of a simulated topic: records, transaction markers, and what readers see.

Invariants:
- Offsets rise by one per record; a marker takes one too. Compaction and deletion leave gaps.
- `stable_end` is the first offset of the oldest transaction whose marker is not written here;
  read_committed readers never get past it, and never see records of an aborted transaction.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from pystreams.ids import TopicPartition
from pystreams.record import ProducedRecord, StaticMessage

_OFFSET = attrgetter("offset")


@dataclass(slots=True)
class LogEntry:
    """One offset of a partition.

    Attributes:
        record: The record; None for a marker.
        transaction: Number of the transaction it belongs to; None outside of any.
    """

    offset: int
    record: ProducedRecord | None
    transaction: int | None

    @property
    def key(self) -> bytes | None:
        """The record's key; that of a marker is of no interest."""
        key, *_ = self.record or (None,)
        return key


class PartitionLog:
    """The records of one partition.

    Attributes:
        beginning: The first offset that was not deleted.
        high_watermark: The offset after the last entry.
    """

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.beginning = 0
        self.high_watermark = 0
        self._entries: list[LogEntry] = []
        self._open: dict[int, int] = {}
        self._aborted: set[int] = set()

    # ------------------------------------------------------------------ writing

    def append(self, records: Iterable[ProducedRecord], transaction: int | None = None) -> int:
        """Append records; return the last one's offset."""
        for record in records:
            if transaction is not None:
                self._open.setdefault(transaction, self.high_watermark)
            self._append(record, transaction)
        return self.high_watermark - 1

    def write_marker(self, transaction: int, *, committed: bool) -> None:
        """Decide a transaction for the readers of this partition."""
        self._open.pop(transaction, None)
        if not committed:
            self._aborted.add(transaction)
        self._append(None, transaction)

    def _append(self, record: ProducedRecord | None, transaction: int | None) -> None:
        self._entries.append(LogEntry(self.high_watermark, record, transaction))
        self.high_watermark += 1

    def delete_before(self, offset: int) -> None:
        """Delete what lies below an offset, never beyond the end."""
        self.beginning = max(self.beginning, min(offset, self.high_watermark))
        del self._entries[: self._position(self.beginning)]

    def lose_end(self, offset: int) -> None:
        """Lose what lies at an offset and above it, as in an unclean leader election."""
        self.high_watermark = min(self.high_watermark, max(offset, self.beginning))
        del self._entries[self._position(self.high_watermark) :]
        kept = {entry.transaction for entry in self._entries}
        self._open = {number: at for number, at in self._open.items() if number in kept}

    def compact(self) -> int:
        """Keep only each key's last committed record, tombstones too; return how many went.

        What is not stable stays, and so does the very last entry, as in Kafka's active segment.
        """
        stable = self.stable_end
        last: dict[bytes | None, int] = {
            entry.key: entry.offset
            for entry in self._entries
            if entry.record is not None and entry.offset < stable and self._readable(entry)
        }
        before = len(self._entries)
        self._entries = [
            entry
            for entry in self._entries
            if entry.offset >= min(stable, self.high_watermark - 1)
            or (entry.record is not None and last.get(entry.key) == entry.offset)
        ]
        return before - len(self._entries)

    # ------------------------------------------------------------------ reading

    @property
    def stable_end(self) -> int:
        """The end for read_committed readers."""
        return min(self._open.values(), default=self.high_watermark)

    def read(self, position: int, limit: int) -> tuple[list[StaticMessage], int]:
        """Read committed records.

        Returns:
            The records, and the position after what was looked at: past markers and aborted
            records too.
        """
        end = self.stable_end
        messages: list[StaticMessage] = []
        for entry in self._entries[self._position(position) :]:
            if entry.offset >= end:
                return messages, max(position, end)
            if len(messages) == limit:
                return messages, entry.offset
            if self._readable(entry):
                messages.append(self._message(entry))
        return messages, max(position, end)

    def committed_records(self) -> list[StaticMessage]:
        """Return all records a read_committed reader sees."""
        return self.read(self.beginning, len(self._entries) + 1)[0]

    def last_committed_offset(self) -> int | None:
        """Return the offset of the last record a read_committed reader sees."""
        end = self.stable_end
        for entry in reversed(self._entries):
            if entry.offset < end and self._readable(entry):
                return entry.offset
        return None

    def compacted(self, end: int | None = None) -> dict[bytes, bytes]:
        """Return the last committed value of each key, below an offset if one is given."""
        values: dict[bytes, bytes] = {}
        for message in self.committed_records():
            if end is not None and message.message_offset >= end:
                break
            key = message.message_key
            assert key is not None, f"{self.partition}: a record without a key"
            if message.message_value is None:
                values.pop(key, None)
            else:
                values[key] = message.message_value
        return values

    # ------------------------------------------------------------------ inside

    def _position(self, offset: int) -> int:
        return bisect_left(self._entries, offset, key=_OFFSET)

    def _readable(self, entry: LogEntry) -> bool:
        return entry.record is not None and entry.transaction not in self._aborted

    def _message(self, entry: LogEntry) -> StaticMessage:
        assert entry.record is not None, "markers are not shown"
        key, value, timestamp, headers = entry.record
        topic, partition = self.partition
        return StaticMessage(topic, partition, entry.offset, key, value, timestamp, headers)
