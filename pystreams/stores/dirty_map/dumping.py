"""The way back from a store to its changelog: the records that would restore what it holds.

A backfill hands its state over this way. What was written, overwritten and deleted meanwhile is
not in it: one record for each key, with the time the changelog would have given it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pystreams.record import ProducedRecord
from pystreams.stores.files.metadata import unpack_long

if TYPE_CHECKING:
    from pystreams.stores.dirty_map.buffered import BufferedKeyValueStore


def dumped(
    buffer: BufferedKeyValueStore,
    time_of: Callable[[bytes], int],
    *,
    start: bytes | None = None,
    leave_out: Callable[[bytes], bool] | None = None,
) -> Iterator[ProducedRecord]:
    """Return a changelog record for each committed key, in order of stored keys.

    Args:
        buffer: The store; one whose stored values are the logged ones, but for a timestamp.
        time_of: Returns the time (ms) of a stored key whose value carries none.
        start: The first stored key to give; None for all.
        leave_out: Returns whether a stored key is none that is logged; None where all are.
    """
    key_prefix = buffer.key_prefix_bytes
    value_prefix = buffer.value_prefix_bytes
    for stored_key, stored in buffer.engine_range(start, None):
        if leave_out is not None and leave_out(stored_key):
            continue
        time = unpack_long(stored)[0] if value_prefix else time_of(stored_key)
        yield stored_key[key_prefix:], stored[value_prefix:], time, ()
