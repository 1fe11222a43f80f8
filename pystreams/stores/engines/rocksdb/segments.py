"""One database a store with a column family a segment: the engine of window and session stores.

The first eight bytes of a key are its segment's id, see `pystreams.stores.time_segments.segments`.
They choose the family, which is named by the segment's first millisecond, and are not stored.
Example, segments of 60,000 ms: the key 00 00 00 00 00 00 00 02 | 61 is the key 61 in the family
`120000`.

Invariants:
- Data on disk is in `offsets`, and in families whose names are multiples of the segment interval.
  `default` holds the layout, written and flushed before the first family is made, because the same
  families mean something else to another store: `segment_interval_ms` (int64, big-endian), and
  `timestamped` (one byte, 1 if values carry their timestamp in the first eight bytes, else 0);
  and, where keys are in order of time, `time_ordered` (one byte, 1).
- A family may be empty, or expired: making and dropping one is durable at once, while the batch
  in between is not. A kill after the making leaves an empty family, which counts for nothing; a
  kill before the dropping, or a failed drop, leaves an expired one, which goes at the next expiry
  and which readers must not ask for, as the store's `Segments` say.
- After a kill the data are those of the last flush, less the families dropped since. What was in
  those is expired again as soon as the changelog is replayed up to the commit that dropped them.
- `_families` is replaced, never changed in place: readers of other threads keep what they took.

A family dropped beside readers stays readable for those who hold it. Its `Rdict` is not closed
here: it goes with its last holder, and flushes nothing, because it is dropped.
"""

from __future__ import annotations

import struct
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from rocksdict import Rdict, WriteBatch

from pystreams.errors import StateStoreError
from pystreams.kernel.loggers import get_logger
from pystreams.stores.engines.rocksdb.database import DEFAULT_CF, OFFSETS_CF, DatabaseEngine
from pystreams.stores.engines.rocksdb.iterator import ReadEntries

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pystreams.stores.contracts.key_value import KeyValueIterator, RocksDBConfigSetter
    from pystreams.stores.engines.rocksdb.iterator import RocksDBIterator

_INTERVAL_KEY = b"segment_interval_ms"
_TIMESTAMPED_KEY = b"timestamped"
_TIME_ORDERED_KEY = b"time_ordered"

_LONG = struct.Struct(">q")
_PREFIX_BYTES = 8
_prefix_of = itemgetter(slice(_PREFIX_BYTES))

_Family = tuple[Rdict, Any]
"""A segment's data, and the handle that a write batch needs."""

_log = get_logger(__name__)


class RocksDBSegmentEngine(DatabaseEngine):
    """A `KeyValueEngine` on disk whose keys begin with eight bytes of segment id, 0 or above.

    Threads: the owner writes; `get` and `range` may be called by any thread. A range is a snapshot
    over all its segments, so a reader of another thread sees whole commits only.

    Args:
        segment_interval_ms: What one segment covers; the same at every start.
        timestamped: Whether values carry their timestamp in the first eight bytes; likewise.
        time_ordered: Whether keys are in order of time (`time_segments.time_order`); likewise.
    """

    def __init__(
        self,
        name: str,
        segment_interval_ms: int,
        *,
        timestamped: bool = False,
        time_ordered: bool = False,
    ) -> None:
        super().__init__(name)
        self._timestamped = timestamped
        self._time_ordered = time_ordered
        self._interval_ms = segment_interval_ms
        self._families: dict[bytes, _Family] = {}

    def open(
        self, directory: Path, rocksdb_config_setter: RocksDBConfigSetter | None = None
    ) -> None:
        """Open or create the database in `directory`, with the segments there are.

        Raises:
            StateStoreError: Not writable, held by another process, corrupt, foreign, or written
                with another segment interval or with values of the other kind.
        """
        database = self._database
        present = database.present_families(directory)
        names = [name for name in present if name.isdecimal()]
        database.refuse_foreign(
            set(present).difference(names, (DEFAULT_CF, OFFSETS_CF)),
            f"{DEFAULT_CF}, {OFFSETS_CF}, and the first millisecond of each segment",
        )
        native = database.open(names, rocksdb_config_setter)
        try:
            self._check_layout(native)
        except StateStoreError:
            self.close()
            raise
        families: dict[bytes, _Family] = {}
        for name in names:
            segment = native.get_column_family(name), native.get_column_family_handle(name)
            families[_LONG.pack(int(name) // self._interval_ms)] = segment
        self._families = families

    def get(self, key: bytes) -> bytes | None:
        """Return a committed value or None."""
        family = self._families.get(key[:_PREFIX_BYTES])
        if family is None:
            self._database.opened()
            return None
        try:
            return family[0].get(key[_PREFIX_BYTES:])
        except Exception as error:
            raise self._database.read_error(error) from error

    def range(
        self, start: bytes | None, end: bytes | None, *, reverse: bool = False
    ) -> KeyValueIterator[bytes, bytes]:
        """Iterate over a snapshot from `start` (inclusive) to `end` (exclusive).

        Segments come in order of their ids, or against it.
        """
        if start is not None and end is not None and start[:_PREFIX_BYTES] == end[:_PREFIX_BYTES]:
            return self._range_in_segment(start, end, reverse=reverse)
        while True:
            sequence = self._sequence_number()
            parts = self._parts(start, end, reverse=reverse)
            # Each family's iterator has a snapshot of its own. They are one and the same, and
            # there is no family they leave out, if no batch came in between; one may, from the
            # owner, if another thread reads.
            if self._sequence_number() == sequence:
                return SegmentsIterator(parts)
            for _, iterator in parts:
                iterator.close()

    def write(
        self,
        changes: Mapping[bytes, bytes | None],
        metadata: Mapping[bytes, bytes | None],
        *,
        delete_below: bytes | None = None,
    ) -> None:
        """Apply data and metadata in one write batch; None deletes.

        Makes the families it needs before, and drops those below `delete_below`, a segment's
        eight bytes, afterwards.
        """
        self._database.opened()
        if changes:
            self._create_families(changes)
        self._database.apply(lambda batch: self._fill(batch, changes), metadata)
        if delete_below is not None:
            self._drop_below(delete_below)

    def ingest(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Apply data as a sorted file a segment, durably; None deletes.

        Raises:
            StateStoreError: The disk is full or gone; some segments may have theirs.
        """
        self._database.opened()
        self._create_families(changes)
        for prefix, keys in groupby(sorted(changes), key=_prefix_of):
            family = self._families.get(prefix)
            if family is not None:  # Else there is nothing to delete.
                entries = ((key[_PREFIX_BYTES:], changes[key]) for key in keys)
                self._database.ingest(family[0], entries)

    def approximate_num_entries(self) -> int:
        """Return RocksDB's estimate of the number of keys."""
        self._database.opened()
        return sum(
            family.property_int_value("rocksdb.estimate-num-keys") or 0
            for family, _ in self._families.values()
        )

    def close(self) -> None:
        """Flush what is committed and release files and memory; safe to call twice.

        When the flush fails (a full disk), the store falls back to its last flushed commit, data
        and offset together, and the difference is restored at the next start: logged, not raised.
        """
        data = [family for family, _ in self._families.values()]
        self._families = {}  # And the handles in it.
        self._database.close(data)

    def _check_layout(self, native: Rdict) -> None:
        """Refuse a database that means something else by the same families; mark a new one."""
        layout = {
            _INTERVAL_KEY: _LONG.pack(self._interval_ms),
            _TIMESTAMPED_KEY: bytes((self._timestamped,)),
        }
        if self._time_ordered:
            layout[_TIME_ORDERED_KEY] = b"\x01"
        written = dict(self._database.iterate(native))
        if not written:
            self._database.apply(lambda batch: _put_all(batch, layout), {})
            try:
                native.flush()  # `default` alone, and `offsets` has nothing yet to run ahead of.
            except Exception as error:
                raise self._database.error("can't be written", error) from error
        elif written != layout:
            raise StateStoreError(
                self._name,
                f"{self._database.directory} was written with {_layout_text(written)}, and is "
                f"opened with {_layout_text(layout)}: the store's retention, its kind or "
                f"when its results are sent on was changed. {_way_back(written, layout)}, or "
                "delete the directory; the store is then restored from its changelog"
                f"{_exception(written, layout)}",
            )

    def _sequence_number(self) -> int:
        try:
            return self._database.opened().latest_sequence_number()
        except Exception as error:
            raise self._database.read_error(error) from error

    def _range_in_segment(
        self, start: bytes, end: bytes, *, reverse: bool
    ) -> ReadEntries | SegmentsIterator:
        """Iterate over a part of one segment: what most reads ask for, a key at some time."""
        database, prefix = self._database, start[:_PREFIX_BYTES]
        database.opened()
        start, end = start[_PREFIX_BYTES:], end[_PREFIX_BYTES:]
        # No family in a local: the traceback of an error would keep the database open.
        if prefix not in self._families or not end:
            return ReadEntries([])
        few = database.entries_if_few(self._families[prefix][0], start, end)
        if few is None:
            iterator = database.iterate(self._families[prefix][0], start, end, reverse=reverse)
            return SegmentsIterator([(prefix, iterator)])
        entries = [(prefix + key, value) for key, value in few]
        return ReadEntries(entries[::-1] if reverse else entries)

    def _parts(
        self, start: bytes | None, end: bytes | None, *, reverse: bool
    ) -> list[tuple[bytes, RocksDBIterator]]:
        """Return (prefix, iterator without it) of each segment that a range touches, in order."""
        first = None if start is None else start[:_PREFIX_BYTES]
        last = None if end is None else end[:_PREFIX_BYTES]
        parts = []
        for prefix, (family, _) in sorted(
            self._families.items(), key=itemgetter(0), reverse=reverse
        ):
            if (first is not None and prefix < first) or (last is not None and prefix > last):
                continue
            inner_start = start[_PREFIX_BYTES:] if start is not None and prefix == first else None
            inner_end = end[_PREFIX_BYTES:] if end is not None and prefix == last else None
            if inner_end != b"":
                iterator = self._database.iterate(family, inner_start, inner_end, reverse=reverse)
                parts.append((prefix, iterator))
        return parts

    def _create_families(self, changes: Mapping[bytes, bytes | None]) -> None:
        unknown = set(map(_prefix_of, changes)).difference(self._families)
        if unknown:
            entries = changes.items()
            unknown &= {_prefix_of(key) for key, value in entries if value is not None}
        for prefix in sorted(unknown):
            name = str(_LONG.unpack(prefix)[0] * self._interval_ms)
            family = self._database.create_family(name)
            handle = self._database.opened().get_column_family_handle(name)
            self._families = {**self._families, prefix: (family, handle)}

    def _fill(self, batch: WriteBatch, changes: Mapping[bytes, bytes | None]) -> None:
        families = self._families
        for key, value in changes.items():
            family = families.get(key[:_PREFIX_BYTES])
            if value is not None:
                assert family is not None
                batch.put(key[_PREFIX_BYTES:], value, family[1])
            elif family is not None:
                batch.delete(key[_PREFIX_BYTES:], family[1])

    def _drop_below(self, bound: bytes) -> None:
        for prefix in sorted(prefix for prefix in self._families if prefix < bound):
            name = str(_LONG.unpack(prefix)[0] * self._interval_ms)
            try:
                self._database.opened().drop_column_family(name)
            except Exception as error:  # noqa: BLE001 - the batch is written: nothing may fail now
                _log.warning(
                    "store.segment_not_dropped", store=self._name, segment=name, error=str(error)
                )
                return
            self._families = {key: kept for key, kept in self._families.items() if key != prefix}


def _put_all(batch: WriteBatch, entries: Mapping[bytes, bytes]) -> None:
    for key, value in entries.items():
        batch.put(key, value)


def _layout_text(layout: Mapping[bytes, bytes]) -> str:
    interval = layout.get(_INTERVAL_KEY, b"")
    length = f"{_LONG.unpack(interval)[0]} ms" if len(interval) == 8 else "unknown length"
    kind = "timestamped" if layout.get(_TIMESTAMPED_KEY) == b"\x01" else "plain"
    order = " in order of time" if _TIME_ORDERED_KEY in layout else ""
    return f"segments of {length} and {kind} values{order}"


def _way_back(written: Mapping[bytes, bytes], layout: Mapping[bytes, bytes]) -> str:
    interval = written.get(_INTERVAL_KEY, b"")
    others = (_TIMESTAMPED_KEY, _TIME_ORDERED_KEY)
    if len(interval) == 8 and all(written.get(key) == layout.get(key) for key in others):
        return f"Keep the segments with segment_interval_ms={_LONG.unpack(interval)[0]}"
    return "Take that back"


def _exception(written: Mapping[bytes, bytes], layout: Mapping[bytes, bytes]) -> str:
    """Return when deleting the directory does not help: keys of another kind are noise."""
    if written.get(_TIMESTAMPED_KEY) == layout[_TIMESTAMPED_KEY]:
        return ""
    return (
        ". If windows became sessions or sessions windows, that does not fit either: give the "
        "store another name"
    )


class SegmentsIterator:
    """One walk over the iterators of several segments, that gives their keys the prefix back."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[tuple[bytes, RocksDBIterator]]) -> None:
        self._parts = parts[::-1]

    def __iter__(self) -> SegmentsIterator:
        return self

    def __next__(self) -> tuple[bytes, bytes]:
        parts = self._parts
        while parts:
            prefix, iterator = parts[-1]
            entry = next(iterator, None)
            if entry is not None:
                return prefix + entry[0], entry[1]
            parts.pop()
        raise StopIteration

    def close(self) -> None:
        """Stop: the reader is done."""
        for _, iterator in self._parts:
            iterator.close()
        self._parts.clear()
