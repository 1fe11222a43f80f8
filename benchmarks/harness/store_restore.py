"""How fast changelog records go into a store, in batches as the runtime's restorer hands them."""

from __future__ import annotations

import struct
import tempfile
import time
from pathlib import Path
from typing import Any

from pystreams import serdes
from pystreams.ids import TaskId, TopicPartition
from pystreams.record import RecordContext, StaticMessage
from pystreams.stores.api import StateStoreContext
from pystreams.stores.build import build_store
from pystreams.stores.spec import StoreSpec

BATCH_RECORDS = 10_000
_CHANGELOG = TopicPartition("restore-s-changelog", 0)


def restore_per_s(records: int, keys: int) -> dict[str, float]:
    """Return records a second of a plain and a timestamped store, the content checked."""
    return {
        "key-value": _restore(StoreSpec("s"), records, keys),
        "timestamped": _restore(
            StoreSpec("s", timestamped=True, engine_timestamped=True), records, keys
        ),
    }


def _restore(spec: StoreSpec, records: int, keys: int) -> float:
    pack = struct.Struct(">q").pack
    spent_s = 0.0
    with tempfile.TemporaryDirectory(prefix="restore-") as directory:
        store: Any = build_store(spec)
        store.init(_context(Path(directory)))
        for first in range(0, records, BATCH_RECORDS):
            batch = [
                StaticMessage(
                    *_CHANGELOG, number, b"%08d" % (number % keys), pack(number) + bytes(12), number
                )
                for number in range(first, min(first + BATCH_RECORDS, records))
            ]
            begin = time.perf_counter()
            store.restore(batch)
            spent_s += time.perf_counter() - begin
        last = store.get(b"%08d" % ((records - 1) % keys))
        value = last.value if spec.timestamped else last
        assert value == pack(records - 1) + bytes(12), "the store does not hold the last record"
        assert store.committed_offset(_CHANGELOG) == records - 1
        store.close()
    return records / spent_s


def _context(directory: Path) -> StateStoreContext:
    return StateStoreContext(
        application_id="restore",
        task_id=TaskId(0, 0),
        task_directory=directory,
        changelog=None,
        record=RecordContext(),
        changelog_topic=_CHANGELOG.topic,
        default_key_serde=serdes.BYTES,
        default_value_serde=serdes.BYTES,
    )
