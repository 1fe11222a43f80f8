"""What no store takes is refused with the store's name, what was given and what is wanted.

Whatever it was, the store is afterwards as it was before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from pystreams import IsolationLevel, StoreEngine, Stores, ValueAndTimestamp, Window, Windowed
from pystreams.serdes import LONG, STRING
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.contract.every_kind import KINDS
from tests.stores.support import Home

pytestmark = pytest.mark.contract

Call = Callable[[Any, Any], object]

NO_TIMES = (datetime(2024, 1, 1, tzinfo=UTC), 1.5, 2.0, "3")
TOO_GREAT = 1 << 63

TIMES: dict[str, dict[str, tuple[str, Call]]] = {
    "window": {
        "put": ("window_start", lambda store, time: store.put("a", 1, time)),
        "fetch": ("time_from", lambda store, time: store.fetch("a", time)),
        "fetch many": ("time_from", lambda store, time: list(store.fetch("a", time, 9_000))),
        "fetch_all": ("time_from", lambda store, time: list(store.fetch_all(time, 9_000))),
        "fetch_range": (
            "time_from",
            lambda store, time: list(store.fetch_range("a", "b", time, 9_000)),
        ),
        "backward_fetch": (
            "time_to",
            lambda store, time: list(store.backward_fetch("a", 0, time)),
        ),
    },
    "timestamped window": {
        "put": ("window_start", lambda store, time: store.put("a", ValueAndTimestamp(1, 2), time)),
        "put at a time": (
            "timestamp",
            lambda store, time: store.put("a", ValueAndTimestamp(1, time), 0),
        ),
        "fetch": ("time_from", lambda store, time: store.fetch("a", time)),
    },
    "timestamped": {
        "put": ("timestamp", lambda store, time: store.put("a", ValueAndTimestamp(1, time))),
        "put_with_timestamp": (
            "timestamp",
            lambda store, time: store.put_with_timestamp("a", 1, time),
        ),
        "put_if_absent": (
            "timestamp",
            lambda store, time: store.put_if_absent("z", ValueAndTimestamp(1, time)),
        ),
    },
    "session": {
        "put": ("end", lambda store, time: store.put(Windowed("a", Window(0, time)), 1)),
        "remove": ("end", lambda store, time: store.remove(Windowed("a", Window(0, time)))),
        "fetch_session": ("end", lambda store, time: store.fetch_session("a", 0, time)),
        "find_sessions": (
            "earliest_end",
            lambda store, time: list(store.find_sessions("a", time, 9)),
        ),
        "find_sessions_range": (
            "latest_start",
            lambda store, time: list(store.find_sessions_range("a", None, 0, time)),
        ),
        "find_sessions_by_end": (
            "latest_end",
            lambda store, time: list(store.find_sessions_by_end(0, time)),
        ),
    },
    "versioned": {
        "put": ("timestamp", lambda store, time: store.put("a", 1, time)),
        "delete": ("timestamp", lambda store, time: store.delete("a", time)),
    },
}
VALUES: dict[str, dict[str, tuple[str, Callable[[Any], object]]]] = {
    "plain": {
        "prefix": (
            "prefix is bytes that keys begin with as they are stored, not 'text'; 'text'.encode()",
            lambda store: store.prefix_scan("text"),
        ),
        "no prefix": ("prefix is bytes", lambda store: store.prefix_scan(None)),
        "mapping": (
            "put_all takes pairs of key and value, not {'ab': 1}; mapping.items() has those",
            lambda store: store.put_all({"ab": 1}),
        ),
        "key alone": ("pairs of key and value, not 'key'", lambda store: store.put_all(["key"])),
    },
    "timestamped": {
        "value": (
            "keeps each value with its timestamp: put ValueAndTimestamp(value, timestamp in ms)",
            lambda store: store.put("a", 7),
        ),
    },
    "timestamped window": {
        "value": (
            "keeps each value with its timestamp: put ValueAndTimestamp(value, timestamp in ms)",
            lambda store: store.put("a", 7, 0),
        ),
    },
    "session": {
        "key": (
            "keeps sessions: Windowed(key, Window(start, end)), times in ms, not 'a'",
            lambda store: store.put("a", 1),
        ),
        "no window": ("keeps sessions", lambda store: store.remove(("a", None))),
    },
}


def opened(kind: str, engine: StoreEngine, tmp_path: Path) -> Any:
    spec = replace(KINDS[kind].builder.spec, engine=engine, key_serde=STRING, value_serde=LONG)
    return Home(tmp_path).open_builder(StoreSpecBuilder(spec))


def slots(kind: str, store: Any) -> list[int]:
    read = next(iter(KINDS[kind].forward.values()))
    return [KINDS[kind].slot_of(key) for key, _ in read(store)]


@pytest.mark.parametrize("engine", [StoreEngine.IN_MEMORY, StoreEngine.ROCKSDB])
@pytest.mark.parametrize(
    ("kind", "call"), [(kind, call) for kind, calls in TIMES.items() for call in calls]
)
def test_what_is_no_time_is_refused(
    kind: str, call: str, engine: StoreEngine, tmp_path: Path
) -> None:
    store = opened(kind, engine, tmp_path)
    KINDS[kind].put(store, 1, 1)
    argument, wrong = TIMES[kind][call]

    for time in NO_TIMES:
        wanted = f"state store 's': {argument} is a time in ms, a whole number, not {time!r}"
        with pytest.raises(TypeError, match=re.escape(wanted)):
            wrong(store, time)

    assert slots(kind, store) == [1]
    KINDS[kind].put(store, 2, 2)
    store.commit({})
    assert slots(kind, store) == [1, 2]


@pytest.mark.parametrize(
    ("kind", "call"), [("window", "put"), ("session", "put"), ("versioned", "put")]
)
def test_a_time_that_kafka_has_no_room_for_is_refused_and_moves_no_stream_time(
    kind: str, call: str, tmp_path: Path
) -> None:
    store = opened(kind, StoreEngine.ROCKSDB, tmp_path)
    KINDS[kind].put(store, 1, 1)

    with pytest.raises(ValueError, match="state store 's': .*" + str(TOO_GREAT)):
        TIMES[kind][call][1](store, TOO_GREAT)

    assert slots(kind, store) == [1]


@pytest.mark.parametrize(
    ("kind", "call"), [(kind, call) for kind, calls in VALUES.items() for call in calls]
)
def test_what_is_no_entry_of_a_store_is_refused(kind: str, call: str, tmp_path: Path) -> None:
    store = opened(kind, StoreEngine.IN_MEMORY, tmp_path)
    wanted, wrong = VALUES[kind][call]

    with pytest.raises(TypeError, match="state store 's'.*" + re.escape(wanted)):
        wrong(store)


def test_a_plain_store_under_a_timestamped_face_refuses_what_is_no_time(tmp_path: Path) -> None:
    supplier = Stores.persistent_key_value_store("s")
    store: Any = Home(tmp_path).open_builder(
        Stores.timestamped_key_value_store_builder(supplier, STRING, LONG)
    )

    with pytest.raises(
        TypeError, match=r"'s': timestamp is a time in ms, a whole number, not 1\.5"
    ):
        store.put("a", ValueAndTimestamp(1, cast("int", 1.5)))


def test_other_threads_are_told_alike(tmp_path: Path) -> None:
    view = opened("window", StoreEngine.ROCKSDB, tmp_path).read_only(
        IsolationLevel.READ_UNCOMMITTED
    )

    with pytest.raises(TypeError, match="state store 's': time_to is a time in ms"):
        list(view.fetch("a", 0, "9"))
