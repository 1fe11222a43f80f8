"""What a session store must keep to, beyond what every store must."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

from pystreams.stores.contracts.window import Window, Windowed
from pystreams.testing.store_contract import StateStoreContract, refused, same

_START, _END = 1_000, 1_500
_SESSIONS = ((1_000, 1_100), (1_200, 1_200), (1_300, 1_400))
"""Three sessions of a key, apart from each other."""


class SessionStoreContract(StateStoreContract):
    """Tests of one session store; see `StateStoreContract`.

    Nothing is asked about the order of sessions of different keys. A store that expires sessions
    by segment may keep them longer than `retention_ms`, but must not show them, and counts what it
    drops in `StateStoreContext.dropped`.

    Spec: `SessionStore`.

    Attributes:
        retention_ms: What the store was told to retain; a second or more.
    """

    keys: ClassVar[Sequence[Any]] = ("a", "a\x00", "ab", "b", "c")
    retention_ms: ClassVar[int] = 120_000

    def put_entry(self, store: Any, key: Any, value: Any) -> None:
        """Put one and the same session."""
        store.put(_session(key, _START, _END), value)

    def delete_entry(self, store: Any, key: Any) -> None:
        """Remove that session."""
        store.remove(_session(key, _START, _END))

    def entries(self, store: Any) -> list[tuple[Any, Any]]:
        """Return the aggregates of that session."""
        found = store.find_sessions_range(None, None, _END, _START)
        return [(session.key, value) for session, value in sorted(found, key=self._place)]

    def entry(self, store: Any, key: Any) -> Any:
        """Return what `fetch_session` gives."""
        return store.fetch_session(key, _START, _END)

    def test_a_session_has_the_aggregate_put_last(self) -> None:
        """Later writes replace earlier ones; None and `remove` remove; both its times count."""
        store = self.open_store()
        key, other, *_ = self.keys
        first, second, *_ = self.values
        session = _session(key, _START, _END)
        same(store.fetch_session(key, _START, _END), None, "fetch_session of one never put")
        store.put(session, first)
        store.put(session, second)
        same(store.fetch_session(key, _START, _END), second, "fetch_session after two puts")
        same(store.fetch_session(key, _START + 1, _END), None, "fetch_session from another start")
        same(store.fetch_session(key, _START, _END + 1), None, "fetch_session to another end")
        found = store.fetch_session(other, _START, _END)
        same(found, None, "fetch_session of a key that begins with another")
        store.put(session, None)
        same(store.fetch_session(key, _START, _END), None, "fetch_session after put of None")
        store.put(session, first)
        store.remove(session)
        store.remove(session)
        same(store.fetch_session(key, _START, _END), None, "fetch_session after remove")

    def test_sessions_are_found_by_the_time_they_overlap(self) -> None:
        """From the earliest end to the latest start, both inclusive."""
        store = self.open_store()
        key, other, *_ = self.keys
        self._put_sessions(store, key)
        self._put_sessions(store, other)
        (_, first_end), (second_start, second_end), (third_start, _) = _SESSIONS
        for earliest_end, latest_start, expected in (
            (first_end, third_start, _SESSIONS),
            (first_end + 1, third_start, _SESSIONS[1:]),
            (first_end, third_start - 1, _SESSIONS[:2]),
            (second_end, second_start, _SESSIONS[1:2]),
            (0, second_start, _SESSIONS[:2]),
            (third_start, second_start, ()),
        ):
            what = f"find_sessions(key, {earliest_end}, {latest_start})"
            found = store.find_sessions(key, earliest_end, latest_start)
            self._holds(found, [key], expected, what)
            found = store.backward_find_sessions(key, earliest_end, latest_start)
            self._holds(found, [key], expected[::-1], f"backward_{what}")

    def test_sessions_of_a_key_come_in_order_of_their_end_then_start(self) -> None:
        """Oldest first, or newest first if asked so."""
        store = self.open_store()
        key, value = self.keys[0], self.values[0]
        ordered = ((1_010, 1_020), (1_000, 1_030), (1_005, 1_030), (1_020, 1_040))
        for start, end in (ordered[2], ordered[0]):
            store.put(_session(key, start, end), value)
        self.commit(store)
        for start, end in (ordered[3], ordered[1]):
            store.put(_session(key, start, end), value)
        expected = [(_session(key, start, end), value) for start, end in ordered]
        same(list(store.fetch(key)), expected, "fetch")
        same(list(store.backward_fetch(key)), expected[::-1], "backward_fetch")

    def test_sessions_of_several_keys_are_found(self) -> None:
        """A range of keys includes both ends; None leaves one open; backward reverses the order."""
        store = self.open_store()
        a, b, c, d, e = self.keys[:5]
        for key in (e, a, c, d, b):
            self._put_sessions(store, key)
        found = store.fetch_range(b, d)
        self._holds(found, [b, c, d], _SESSIONS, "fetch_range")
        found = store.fetch_range(None, b)
        self._holds(found, [a, b], _SESSIONS, "fetch_range without a first key")
        found = store.fetch_range(d, None)
        self._holds(found, [d, e], _SESSIONS, "fetch_range without a last key")
        (_, second, _) = _SESSIONS
        found = store.find_sessions_range(b, d, second[1], second[0])
        self._holds(found, [b, c, d], [second], "find_sessions_range")
        forward = list(store.fetch_range(b, d))
        same(list(store.backward_fetch_range(b, d)), forward[::-1], "backward_fetch_range")
        forward = list(store.find_sessions_range(None, None, 0, second[0]))
        backward = store.backward_find_sessions_range(None, None, 0, second[0])
        same(list(backward), forward[::-1], "backward_find_sessions_range")

    def test_sessions_of_all_keys_are_found_by_their_end(self) -> None:
        """Both ends of the time are inclusive."""
        store = self.open_store()
        keys = self.keys[:2]
        for key in keys:
            self._put_sessions(store, key)
        (_, first_end), (_, second_end), (_, third_end) = _SESSIONS
        found = store.find_sessions_by_end(first_end, second_end)
        self._holds(found, keys, _SESSIONS[:2], "find_sessions_by_end")
        found = store.find_sessions_by_end(first_end + 1, third_end - 1)
        self._holds(found, keys, _SESSIONS[1:2], "find_sessions_by_end inside of them")

    def test_a_session_that_can_not_be_is_refused(self) -> None:
        """It starts at 0 or later, and ends when it starts or later."""
        store = self.open_store()
        key, value = self.keys[0], self.values[0]
        for start, end in ((-1, 5), (5, 4)):
            session = _session(key, start, end)
            refused(ValueError, partial(store.put, session, value), f"put({session})")
            refused(ValueError, partial(store.remove, session), f"remove({session})")
        same(list(store.fetch_range(None, None)), [], "sessions after that")

    def test_an_iterator_goes_on_over_writes_and_commits(self) -> None:
        """The owner may write and commit while it iterates."""
        store = self.open_store()
        key, last = self.keys[0], self.values[-1]
        self._put_sessions(store, key)
        seen = []
        for offset, (session, _) in enumerate(store.fetch(key)):
            seen.append(tuple(session.window))
            store.put(session, last)
            self.commit(store, offset)
        same(seen, list(_SESSIONS), "sessions of an iteration with writes and commits")
        same({value for _, value in store.fetch(key)}, {last}, "aggregates after it")

    def test_sessions_older_than_the_retention_are_not_found(self) -> None:
        """The retention counts from the latest end, and is not over before its last ms."""
        store = self.open_store()
        key, value = self.keys[0], self.values[0]
        expired, oldest = _END, _END + 1
        newest = _END + self.retention_ms
        for end in (expired, oldest, newest):
            store.put(_session(key, end - 1, end), value)
        kept = [(end - 1, end) for end in (oldest, newest)]
        for moment in ("before the commit", "after it"):
            found = store.fetch_session(key, expired - 1, expired)
            same(found, None, f"fetch_session of an expired one {moment}")
            self._holds(store.fetch(key), [key], kept, f"fetch {moment}", value)
            found = store.find_sessions(key, 0, newest)
            self._holds(found, [key], kept, f"find_sessions {moment}", value)
            self.commit(store)

    def test_a_session_that_is_long_over_is_dropped_and_counted(self) -> None:
        """It is neither kept nor logged, and is counted in `dropped`."""
        store = self.open_store()
        key, other, *_ = self.keys
        value = self.values[0]
        newest = _END + 10 * self.retention_ms
        store.put(_session(key, newest, newest), value)
        self.commit(store)
        store.put(_session(other, _START, _END), value)
        store.flush_cache()
        same(self.dropped.count, 1, "writes that were counted as dropped")
        same(self.changelog.records, [], "what was logged of it")
        found = store.fetch_range(None, None)
        self._holds(found, [key], [(newest, newest)], "sessions that are left", value)

    def test_sessions_restored_from_the_changelog_are_equal(self) -> None:
        """All sessions come back, each with its times."""
        store = self.open_store()
        for key in self.keys[:5]:
            self._put_sessions(store, key)
        store.remove(_session(self.keys[0], *_SESSIONS[1]))
        store.flush_cache()
        copy = self.open_store("0_1")
        copy.restore(self.logged())
        expected = sorted(store.fetch_range(None, None), key=self._place)
        found = sorted(copy.fetch_range(None, None), key=self._place)
        same(found, expected, "sessions of a restored store")

    def _put_sessions(self, store: Any, key: Any) -> None:
        for times, value in zip(_SESSIONS, self.values, strict=False):
            store.put(_session(key, *times), value)

    def _place(self, entry: tuple[Any, Any]) -> tuple[int, int, int]:
        session, _ = entry
        return self.keys.index(session.key), session.window.end, session.window.start

    def _holds(
        self,
        found: Iterable[tuple[Any, Any]],
        keys: Sequence[Any],
        sessions: Sequence[tuple[int, int]],
        what: str,
        value: Any = None,
    ) -> None:
        """Fail unless these sessions of each key were found, those of one key in this order."""
        expected = [
            (
                _session(key, *times),
                self.values[_SESSIONS.index(times)] if value is None else value,
            )
            for key in keys
            for times in sessions
        ]
        by_key = sorted(found, key=lambda entry: self.keys.index(entry[0].key))
        same(by_key, expected, what)


def _session(key: Any, start: int, end: int) -> Windowed[Any]:
    return Windowed(key, Window(start, end))
