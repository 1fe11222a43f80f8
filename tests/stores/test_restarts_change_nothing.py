"""A restart changes no result: every kind of store goes on as if it had not been there.

Two stores of a kind get the same random writes. One is restarted somewhere in between: closed in
order, ended before its last batch, or brought up elsewhere from its changelog alone. From then on
both answer, drop and hold the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pystreams import StoreEngine, StoreKind, Window, Windowed
from pystreams.serdes import LONG, STRING
from pystreams.stores.build import build_store
from pystreams.stores.contracts.spec import Retention, StoreSpec
from pystreams.stores.kinds.buffer.kind import BUFFER
from pystreams.stores.kinds.buffer.waiting_record import WaitingRecord
from pystreams.stores.kinds.key_value.kind import KEY_VALUE
from pystreams.stores.kinds.list.kind import LIST
from pystreams.stores.kinds.session.kind import SESSION
from pystreams.stores.kinds.versioned.kind import VERSIONED
from pystreams.stores.kinds.window.kind import WINDOW
from tests.stores.support import CHANGELOG, Home, Message
from tests.stores.waiting import let_leave, put

RETENTION = Retention(100, 50, window_size_ms=10)
WAIT_MS = 100
MAX_TIME_MS = 400

Write = tuple[str, int, int | None]
"""Key, time (ms) and number; None deletes."""
Restart = Literal["closed in order", "ended before its batch", "without its disk"]


def put_session(store: Any, write: Write) -> None:
    key, time, number = write
    store.put(Windowed(key, Window(time // 2, time)), number)


def put_in_list(store: Any, write: Write) -> None:
    key, _, number = write
    if number is None:
        store.delete(key)
    else:
        store.put(key, number)


def wait_in_buffer(store: Any, write: Write) -> list[WaitingRecord]:
    key, time, number = write
    put(store, WaitingRecord(key.encode(), b"%d" % (number or 0), time))
    return let_leave(store, time - WAIT_MS)


@dataclass(frozen=True)
class Kind:
    """One kind of store.

    Attributes:
        spec: What it is.
        write: Writes into it; what it returns is a result.
        content: Everything it gives out.
    """

    spec: StoreSpec
    write: Callable[[Any, Write], object]
    content: Callable[[Any], object]


def spec_of(kind: StoreKind, **changes: Any) -> StoreSpec:
    return replace(StoreSpec("s", kind, key_serde=STRING, value_serde=LONG), **changes)


def all_entries(store: Any) -> object:
    return list(store.all())


KINDS = {
    "plain": Kind(
        spec_of(KEY_VALUE),
        lambda store, write: store.put(write[0], write[2]),
        all_entries,
    ),
    "timestamped": Kind(
        spec_of(KEY_VALUE, timestamped=True, engine_timestamped=True),
        lambda store, write: store.put_with_timestamp(write[0], write[2], write[1]),
        all_entries,
    ),
    "of limited size": Kind(
        spec_of(KEY_VALUE, max_entries=3, engine=StoreEngine.IN_MEMORY),
        lambda store, write: store.put(f"{write[0]}{write[1] % 3}", write[2]),
        all_entries,
    ),
    "window": Kind(
        spec_of(WINDOW, retention=RETENTION),
        lambda store, write: store.put(write[0], write[2], write[1]),
        all_entries,
    ),
    "timestamped window": Kind(
        spec_of(WINDOW, retention=RETENTION, timestamped=True, engine_timestamped=True),
        lambda store, write: store.put_with_timestamp(write[0], write[2], 7, write[1]),
        all_entries,
    ),
    "window with duplicates": Kind(
        spec_of(WINDOW, retention=replace(RETENTION, retain_duplicates=True)),
        lambda store, write: store.put(write[0], write[2], write[1]),
        all_entries,
    ),
    "session": Kind(
        spec_of(SESSION, retention=RETENTION),
        put_session,
        lambda store: list(store.fetch_range(None, None)),
    ),
    "versioned": Kind(
        spec_of(VERSIONED, retention=RETENTION),
        lambda store, write: store.put(write[0], write[2], write[1]),
        lambda store: [list(store.get_range(key)) for key in "ab"],
    ),
    "list": Kind(
        spec_of(LIST),
        put_in_list,
        lambda store: [(key, list(values)) for key, values in store.all()],
    ),
    "buffer": Kind(spec_of(BUFFER), wait_in_buffer, lambda store: store.latest_timestamp()),
}


class Life:
    """A store that is written to, and restarted."""

    def __init__(self, kind: Kind, directory: Path, **changes: Any) -> None:
        self._kind = kind
        self._spec = replace(kind.spec, **changes)
        self._directory = directory
        self._lives = 0
        self._changelog: list[Message] = []
        self._open()

    def results_of(self, writes: list[Write]) -> Iterator[object]:
        """Write, and give what a user sees after each write."""
        for write in writes:
            dropped = self._home.dropped.count
            result = self._kind.write(self.store, write)
            dropped = self._home.dropped.count - dropped
            yield write, result, dropped, self._kind.content(self.store)

    def commit(self, *, with_store: bool = True) -> None:
        self.store.flush_cache()
        records = self._home.changelog.records
        for key, value, timestamp, _ in records:
            self._changelog.append(Message(key, value, len(self._changelog), timestamp))
        records.clear()
        if with_store and self._changelog:
            self.store.commit({CHANGELOG: len(self._changelog) - 1})

    def restart(self, how: Restart) -> None:
        self.commit(with_store=how != "ended before its batch")
        self.store.close()
        if how == "without its disk":
            self._lives += 1
        self._open()
        offset = self.store.committed_offset(CHANGELOG)
        rest = self._changelog[0 if offset is None else offset + 1 :]
        half = len(rest) // 2
        for batch in (rest[:half], rest[half:]):
            if batch:
                self.store.restore(batch)

    def _open(self) -> None:
        self._home = Home(self._directory / str(self._lives), cache_enabled=True)
        self.store: Any = build_store(self._spec)
        self.store.init(self._home.context())


@contextmanager
def two_lives(kind: Kind, engine: StoreEngine, *, caching: bool) -> Iterator[tuple[Life, Life]]:
    """Give a life in memory, to be left alone, and one to be restarted."""
    with tempfile.TemporaryDirectory() as directory:
        undisturbed = Life(kind, Path(directory), caching=caching, engine=StoreEngine.IN_MEMORY)
        restarted = Life(kind, Path(directory), caching=caching, engine=engine)
        yield undisturbed, restarted
        undisturbed.store.close()
        restarted.store.close()


WRITES = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.integers(0, MAX_TIME_MS), st.none() | st.integers(0, 2**40)
    ),
    max_size=12,
)
RESURRECTED: tuple[list[Write], list[Write]] = (
    [("a", 40, 1), ("a", 60, None), ("b", 390, 1)],
    [("a", 55, 5)],
)
"""What is expired by then, and would be the latest of its key."""


@pytest.mark.property
@pytest.mark.parametrize("engine", StoreEngine)
@pytest.mark.parametrize("transactional", [True, False], ids=["transactional", "writing through"])
@pytest.mark.parametrize("name", KINDS)
def test_a_restart_changes_no_result(
    name: str, engine: StoreEngine, *, transactional: bool
) -> None:
    kind = KINDS[name]
    if kind.spec.max_entries is not None and engine is not StoreEngine.IN_MEMORY:
        pytest.skip("there is none on disk")
    kind = replace(kind, spec=replace(kind.spec, transactional=transactional))

    @settings(max_examples=10, deadline=None)
    @given(
        parts=st.tuples(WRITES, WRITES, WRITES),
        how=st.sampled_from(["closed in order", "ended before its batch", "without its disk"]),
        caching=st.booleans(),
    )
    @example(parts=([], *RESURRECTED), how="closed in order", caching=False)
    @example(parts=([], *RESURRECTED), how="without its disk", caching=False)
    @example(
        parts=(RESURRECTED[0], [], RESURRECTED[1]), how="ended before its batch", caching=False
    )
    def goes_on(parts: tuple[list[Write], ...], how: Restart, *, caching: bool) -> None:
        with two_lives(kind, engine, caching=caching) as (undisturbed, restarted):
            for life in (undisturbed, restarted):
                list(life.results_of(parts[0]))
                life.commit()
                list(life.results_of(parts[1]))
            undisturbed.commit()
            restarted.restart(how)
            found = zip(
                undisturbed.results_of(parts[2]), restarted.results_of(parts[2]), strict=True
            )
            for expected, result in found:
                assert result == expected

    goes_on()
