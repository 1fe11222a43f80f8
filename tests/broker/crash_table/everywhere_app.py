"""The application that dies at a step: counts into every kind of store, and kills itself.

Environment: EVERYWHERE_NAME begins the names of its topics; EVERYWHERE_KILL, if set, says where to
die, such as `before:store batch:3`: before the third store batch of this process;
EVERYWHERE_WRITES_THROUGH, if set, makes the stores not transactional.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from typing import Any

from pystreams import Topology
from pystreams.runtime.adapters.confluent_producer import ConfluentProducer
from pystreams.stores.engines.rocksdb import RocksDBEngine, RocksDBSegmentEngine
from pystreams.stores.engines.rocksdb.database import Database
from tests.every_store import everywhere

STEPS: dict[str, list[tuple[type[Any], str]]] = {
    "send": [(ConfluentProducer, "send")],
    "producer flush": [(ConfluentProducer, "flush")],
    "kafka commit": [(ConfluentProducer, "commit_transaction")],
    "store batch": [(RocksDBEngine, "write"), (RocksDBSegmentEngine, "write")],
    "segment creation": [(Database, "create_family")],
    "segment expiry": [(RocksDBSegmentEngine, "_drop_below")],
    "store close": [(RocksDBEngine, "close"), (RocksDBSegmentEngine, "close")],
}


def topology() -> Topology:
    where = os.environ.get("EVERYWHERE_KILL")
    if where:
        moment, step, number = where.split(":")
        calls = itertools.count(1)
        for owner, method in STEPS[step]:
            _die_in(owner, method, moment, int(number), calls)
    name = os.environ["EVERYWHERE_NAME"]
    transactional = not os.environ.get("EVERYWHERE_WRITES_THROUGH")
    return everywhere(f"{name}-in", f"{name}-out", transactional=transactional)


def _die_in(
    owner: type[Any], method: str, moment: str, number: int, calls: itertools.count[int]
) -> None:
    original: Callable[..., Any] = getattr(owner, method)

    def dying(*arguments: Any, **keywords: Any) -> Any:
        now = next(calls) == number
        if now and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **keywords)
        if now and moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, method, dying)


def small_memtables(_store: str, options: Any) -> None:
    """Let RocksDB flush every few hundred records, so that a kill finds stores half on disk."""
    options.set_write_buffer_size(64 << 10)
