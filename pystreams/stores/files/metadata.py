"""What a store knows about its data: the content of the `offsets` column family.

Keys are text, values are bytes: `<topic>-<partition>` holds an int64 (big-endian), the offset of
the last changelog record in the data, or -4 when that is not known; `status` (int64) is 1 while a
store that is not transactional is open and 0 after it was closed; `position` says which input
records the data reflects; `sequence` (int64), in window stores that retain duplicates, is the last
number a put was given; `stream_time` (int64, ms), in stores that expire by it, is the highest time
the data were written with; `segment_interval_ms` (int64), in versioned stores, is what one of their
segments covers, without which their rows can't be read; `buffered_records` and `buffered_bytes`
(int64), in buffers of suppressions, are how much of each they hold; `changelog_id` (eight bytes)
stands for the id of the offset's topic. Example: after the changelog record 41 of partition 3 the
key `app-counts-changelog-3` holds 00 00 00 00 00 00 00 29.

Kafka Streams asks for the names it knows, and so passes over `sequence`, `stream_time`,
`segment_interval_ms`, `buffered_records`, `buffered_bytes` and `changelog_id`.

Spec: KIP-1035 "Proposed Changes"; Kafka RocksDBStore, ColumnFamilyAccessor.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pystreams.kernel.changes import apply_changes
from pystreams.kernel.loggers import get_logger
from pystreams.stores.contracts.position import Position
from pystreams.stores.contracts.state_store import identity_noted

if TYPE_CHECKING:
    from pystreams.ids import TopicPartition
    from pystreams.record import ConsumedMessage
    from pystreams.stores.contracts.state_store import ChangelogIdentity, StateStoreContext

pack_long = struct.Struct(">q").pack
unpack_long = struct.Struct(">q").unpack_from

POSITION = b"position"
STATUS = b"status"
SEQUENCE = b"sequence"
STREAM_TIME = b"stream_time"
SEGMENT_INTERVAL = b"segment_interval_ms"
BUFFERED_RECORDS = b"buffered_records"
BUFFERED_BYTES = b"buffered_bytes"
EXPIRING = b"expiring"
"""Beside data that have an index by time, because rows expire."""
RESTORED = b"restored"
"""Is there while the data have been restored behind what the position tells."""
CHANGELOG_ID = b"changelog_id"
"""Goes with the offset: cleared when that is. Its length is one that versions before it accept."""
OPEN = 1
CLOSED = 0
OFFSET_UNKNOWN = -4
RESERVED = frozenset(
    (
        STATUS,
        POSITION,
        SEQUENCE,
        STREAM_TIME,
        SEGMENT_INTERVAL,
        BUFFERED_RECORDS,
        BUFFERED_BYTES,
        EXPIRING,
        RESTORED,
    )
)
"""Names that are not those of changelog partitions."""

_OF_EMPTY_STORES = frozenset((STATUS, SEGMENT_INTERVAL, EXPIRING))
_NO_POSITION = Position().serialize()
_log = get_logger("pystreams.stores")


def tells_of_data(metadata: Mapping[bytes, bytes]) -> bool:
    """Return whether the content of `offsets` tells that a store has held something."""
    return not metadata.keys() <= _OF_EMPTY_STORES


class StoreMetadata:
    """The committed metadata of one store, as its engine has it.

    Invariant: equals what `engine.metadata()` would return, so that a commit writes only what
    differs. Belongs to the store's thread; other threads may read an offset.

    Attributes:
        sequence: The number that a commit writes beside data or offsets; None in most stores.
        stream_time: Tells the stream time (ms) that a commit writes if it has moved, -1 before the
            first record; None in stores that have none.
        totals: Tells by name what else a commit or a restore writes if it has changed; None in
            stores that count nothing.
    """

    __slots__ = (
        "_committed",
        "_identity",
        "_input_position",
        "sequence",
        "stream_time",
        "totals",
    )

    def __init__(self) -> None:
        self._committed: dict[bytes, bytes] = {}
        self._input_position: Callable[[], Position] = Position
        self._identity: ChangelogIdentity | None = None
        self.sequence: int | None = None
        self.stream_time: Callable[[], int] | None = None
        self.totals: Callable[[], Mapping[bytes, int]] | None = None

    def load(self, committed: dict[bytes, bytes], context: StateStoreContext) -> None:
        """Take over what an engine holds, after it was opened for a store with this context."""
        self._committed = committed
        self._input_position = context.position
        self._identity = context.changelog_identity
        self._identity.stored = identity_noted(committed.get(CHANGELOG_ID))

    def offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the last changelog record in the engine; None if not known."""
        packed = self._committed.get(str(partition).encode())
        if packed is None:
            return None
        offset: int = unpack_long(packed)[0]
        return offset if offset >= 0 else None

    def committed_sequence(self) -> int:
        """Return the last number that a put was given before the last commit with data, or 0."""
        packed = self._committed.get(SEQUENCE)
        return 0 if packed is None else int(unpack_long(packed)[0])

    def committed_stream_time(self) -> int:
        """Return the stream time (ms) of the data; -1 if it is not beside them."""
        packed = self._committed.get(STREAM_TIME)
        return -1 if packed is None else int(unpack_long(packed)[0])

    def committed_total(self, name: bytes) -> int:
        """Return one of the totals as it is beside the data; 0 if it is not there."""
        packed = self._committed.get(name)
        return 0 if packed is None else int(unpack_long(packed)[0])

    def segment_interval_ms(self) -> int | None:
        """Return what a segment of the engine's data covers; None if it does not say."""
        packed = self._committed.get(SEGMENT_INTERVAL)
        return None if packed is None else int(unpack_long(packed)[0])

    def position(self) -> Position:
        """Return which input the engine's data reflects; empty if not known, or not readable."""
        try:
            return Position.deserialize(self._committed.get(POSITION, _NO_POSITION))
        except ValueError as error:
            _log.warning("position beside the data can't be read and is dropped", why=str(error))
            return Position()

    def changes(
        self, offsets: Mapping[TopicPartition, int], *, with_data: bool
    ) -> dict[bytes, bytes | None]:
        """Return what a commit has to write beside the data.

        A position that moved is not worth a write of its own: it goes along with others.

        Args:
            offsets: Changelog offsets of the data; none clears them all.
            with_data: Whether the commit writes data.
        """
        committed = self._committed
        changes: dict[bytes, bytes | None]
        if offsets:
            packed = {
                str(partition).encode(): pack_long(offset) for partition, offset in offsets.items()
            }
            changes = {
                name: value for name, value in packed.items() if committed.get(name) != value
            }
            # A store that is logged anew may end at the offset it had of the former topic.
            if changes or (self._identity is not None and self._identity.is_another):
                changes.update(self._new_identity())
        else:
            changes = {name: None for name in committed if name not in RESERVED}
        restored = RESTORED in committed
        if with_data or changes or restored:
            position = self._input_position()
            # None known yet: a store that is being taken over keeps what it says itself.
            if position and (packed_position := position.serialize()) != committed.get(POSITION):
                changes[POSITION] = packed_position
            # A store that is being restored says of itself what it said before.
            if restored and position and (with_data or POSITION in changes):
                changes[RESTORED] = None
        # Also where a store that writes through has written the data itself already.
        if self.sequence is not None and (with_data or changes):
            changes[SEQUENCE] = pack_long(self.sequence)
        return changes | self._moved_stream_time() | self._changed_totals()

    def restored(self, last: ConsumedMessage) -> dict[bytes, bytes | None]:
        """Return what is written beside a batch of changelog records that ends with this one."""
        name = f"{last.topic()}-{last.partition()}".encode()
        changes: dict[bytes, bytes | None] = {name: pack_long(last.offset())}
        if POSITION in self._committed:
            changes[RESTORED] = pack_long(last.offset())
        changes.update(self._new_identity())
        if self.sequence is not None:
            changes[SEQUENCE] = pack_long(self.sequence)
        return changes | self._moved_stream_time() | self._changed_totals()

    def remember(self, written: Mapping[bytes, bytes | None]) -> None:
        """Note what was written."""
        apply_changes(self._committed, written)
        if CHANGELOG_ID in written and self._identity is not None:
            self._identity.stored = written[CHANGELOG_ID]

    def _new_identity(self) -> dict[bytes, bytes]:
        """Return what is written beside an offset that is the first of another topic's."""
        identity = self._identity
        if identity is None or identity.current in {None, self._committed.get(CHANGELOG_ID)}:
            return {}
        return {CHANGELOG_ID: identity.current}

    def _moved_stream_time(self) -> dict[bytes, bytes]:
        """Return the stream time as an entry, if it is not what is committed."""
        stream_time = -1 if self.stream_time is None else self.stream_time()
        if stream_time <= self.committed_stream_time():
            return {}
        return {STREAM_TIME: pack_long(stream_time)}

    def _changed_totals(self) -> dict[bytes, bytes]:
        """Return the totals that are not as they are committed, as entries."""
        totals = {} if self.totals is None else self.totals()
        return {
            name: pack_long(total)
            for name, total in totals.items()
            if total != self.committed_total(name)
        }
