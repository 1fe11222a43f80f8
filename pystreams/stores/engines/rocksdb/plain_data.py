"""Moves what a plain store left behind to the family of the timestamped store it has become.

    `default`: key -> value   ==>   `keyValueWithTimestamp`: key -> timestamp -1, value

Done once, at open. One walk goes over all of the plain data, as it was when the walk began. Each
mebibyte of it is one atomic batch, which writes the entries to the one family and deletes them
from the other, with one range tombstone: the next open steps over all of them at once. A kill at
any moment leaves each entry in exactly one of the families, and the offset as it was; the next
open moves what is left.

Differs from Kafka: Kafka moves a key when it is next read or written, and asks both families until
then. Here opening takes as long as it takes to write the data once more, the first time.
Spec: Kafka RocksDBTimestampedStore.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

from rocksdict import WriteBatch

from pystreams.kernel.loggers import get_logger
from pystreams.stores.engines.rocksdb.database import DEFAULT_CF, Database

_BATCH_BYTES = 1 << 20
_TOLD_EVERY_RECORDS = 1_000_000
_NO_TIMESTAMP = b"\xff" * 8

_Entries = list[tuple[bytes, bytes]]

_log = get_logger(__name__)


def move_plain_data(store: str, database: Database, timestamped: Any) -> None:
    """Move all entries of `default`, if there are any.

    Args:
        store: The store's name, for the log.
        database: Open; nobody reads or writes it yet.
        timestamped: Handle of the family they go to.

    Raises:
        StateStoreError: The disk is full or gone, or the file is corrupt; what was moved before
            stays moved.
    """
    native = database.opened()
    plain = native.get_column_family_handle(DEFAULT_CF)
    records = told = 0
    with contextlib.closing(database.iterate(native)) as walk:
        while entries := _next_entries(walk):
            database.apply(partial(_move, entries, plain, timestamped), {})
            records += len(entries)
            if records - told >= _TOLD_EVERY_RECORDS:
                told = records
                _log.info("store.timestamps_being_added", store=store, records=records)
    if records:
        _log.info("store.timestamps_added", store=store, records=records)


def _next_entries(walk: Iterator[tuple[bytes, bytes]]) -> _Entries:
    """Return what makes the next batch; nothing at the end."""
    entries: _Entries = []
    size = 0
    for key, value in walk:
        entries.append((key, value))
        size += len(key) + len(value)
        if size >= _BATCH_BYTES:
            break
    return entries


def _move(entries: _Entries, plain: Any, timestamped: Any, batch: WriteBatch) -> None:
    for key, value in entries:
        batch.put(key, _NO_TIMESTAMP + value, timestamped)
    after_last = entries[-1][0] + b"\x00"
    batch.delete_range(entries[0][0], after_last, plain)
