"""How fast changelog records go into a store, in batches as the runtime's restorer hands them."""

from __future__ import annotations

import struct
import tempfile
import time
from pathlib import Path

from benchmarks.harness.store_jobs import SPAN_MS, name_of, number_of
from benchmarks.harness.store_kinds import CHANGELOG, KINDS, opened
from pystreams.record import StaticMessage
from pystreams.stores.kinds.session.keys import session_key
from pystreams.stores.kinds.window.keys import window_key

BATCH_RECORDS = 10_000
_KEYS = 1 << 32
_long = struct.Struct(">q")


def restore_per_s(kind: str, records: int) -> float:
    """Return records a second into a store on disk, the last record looked for.

    The changelog is compacted: each record has a key of its own. They are in no order of keys, as
    the last records of keys are.
    """
    spent_s = 0.0
    with tempfile.TemporaryDirectory(prefix="restore-") as directory:
        store = opened(kind, Path(directory), records, transactional=True)
        for first in range(0, records, BATCH_RECORDS):
            numbers = range(first, min(first + BATCH_RECORDS, records))
            batch = [_record(kind, number, records) for number in numbers]
            begin = time.perf_counter()
            store.restore(batch)
            spent_s += time.perf_counter() - begin
        last = number_of(records - 1, _KEYS)
        _, get, scan = KINDS[kind].operations(store)
        if get is not None:
            value = get(name_of(last), _time(records - 1, records))
            held = None if value is None else _long.unpack_from(value)[0]
        else:
            assert scan is not None
            held = scan(last, last + 1)
        assert held == records - 1, f"the {kind} store does not hold the last record"
        assert store.committed_offset(CHANGELOG) == records - 1
        store.close()
    return records / spent_s


def _record(kind: str, number: int, records: int) -> StaticMessage:
    at = _time(number, records)
    name = name_of(number_of(number, _KEYS)).encode()
    start = at // 1000 * 1000
    if "window" in kind:
        key = window_key(name, start)
    elif kind == "session":
        key = session_key(name, start, start + 500)
    else:
        key = name
    return StaticMessage(*CHANGELOG, number, key, _long.pack(number) + bytes(12), at)


def _time(number: int, records: int) -> int:
    return number * SPAN_MS // records
