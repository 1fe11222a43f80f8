"""Writes that wait while RocksDB catches up, and fail when it never will.

RocksDB makes a writer wait while three memtables are not flushed yet, or too many files are not
merged. On a full disk that wait never ends: RocksDB goes on trying by itself, so the writer is
not told, and the application would stand still without a word. So nothing here waits inside
RocksDB. A write is refused at once while there is a stall (`no_slowdown`), and tried again:

- a failed flush makes RocksDB refuse writes with the true cause: raised at the next try;
- a failed merge stops no write until the files are too many. Then there is a stall, background
  errors have been counted, and nobody knows whether a merge will succeed once more: after
  `HOPELESS_AFTER_S` of such a stall the write fails;
- a stall without any background error is a slow disk: it is waited out, however long it takes.

Spec: RocksDB `DBImpl::DelayWrite`, `ErrorHandler`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rocksdict import Rdict, WriteBatch, WriteOptions

HOPELESS_AFTER_S = 10.0
"""How long a stall after background errors is waited out."""

_STALL = "Write stall"
_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 1.0
_PART_OF_WAIT = 8
"""While writes are stopped, a pause is this part of the time waited so far."""


class StalledForeverError(Exception):
    """RocksDB takes no writes, its background work has failed, and it says no more than that."""


def write_options() -> WriteOptions:
    """Return the options of all writes: without the log, refused while there is a stall."""
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign, assignment]
    options.no_slowdown = True
    return options


def fill(batch: WriteBatch, changes: Mapping[bytes, bytes | None], family: Any) -> None:
    """Put changes of one family into a batch; None deletes."""
    put = batch.put
    delete = batch.delete
    for key, value in changes.items():
        if value is None:
            delete(key, family)
        else:
            put(key, value, family)


def write(
    native: Rdict,
    make_batch: Callable[[], WriteBatch],
    options: WriteOptions,
    hopeless_after_s: float = HOPELESS_AFTER_S,
) -> None:
    """Write a batch, waiting for stalls to end.

    Args:
        make_batch: Makes the batch; called again for another try, because a refused batch is
            spent.
        options: See `write_options`.
        hopeless_after_s: How long a stall is waited out once background work has failed (s).

    Raises:
        StalledForeverError: Nothing is written; the disk is probably full.
        Exception: Whatever else RocksDB says. Nothing is written.
    """
    while not _accepted(native, make_batch(), options):
        _wait_out_stall(native, options, hopeless_after_s)


def _accepted(native: Rdict, batch: WriteBatch, options: WriteOptions) -> bool:
    """Write a batch; return False when there is a stall."""
    try:
        native.write(batch, options)
    except Exception as error:
        if _STALL in str(error):
            return False
        raise
    return True


def _wait_out_stall(native: Rdict, options: WriteOptions, hopeless_after_s: float) -> None:
    """Return when an empty batch gets through."""
    began_s = time.monotonic()
    pause_s = _FIRST_PAUSE_S
    while True:
        time.sleep(pause_s)
        if _accepted(native, WriteBatch(raw_mode=True), options):
            return
        waited_s = time.monotonic() - began_s
        failures = native.property_int_value("rocksdb.background-errors") or 0
        if failures and waited_s > hopeless_after_s:
            message = f"writes are stopped, and background work failed {failures} times"
            raise StalledForeverError(message)
        if native.property_int_value("rocksdb.is-write-stopped"):
            pause_s = max(waited_s / _PART_OF_WAIT, _FIRST_PAUSE_S)
        else:
            # Writes are slowed down. Every try that is refused counts as if it had been written,
            # so that only longer and longer pauses get one through.
            pause_s = max(waited_s, _FIRST_PAUSE_S)
        pause_s = min(pause_s, _LONGEST_PAUSE_S)
