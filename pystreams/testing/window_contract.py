"""What a window store must keep to, beyond what every store must."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from pystreams.stores.contracts.window import Window, Windowed
from pystreams.testing.store_contract import StateStoreContract, same

_FIRST_START = 1_000


class WindowStoreContract(StateStoreContract):
    """Tests of one window store without duplicates; see `StateStoreContract`.

    Nothing is asked about the order of windows of different keys. A store that expires windows by
    segment may keep them longer than `retention_ms`, but must not show them, and counts what it
    drops in `StateStoreContext.dropped`.

    Spec: `WindowStore`.

    Attributes:
        window_size_ms: How long the windows of the store are.
        retention_ms: What the store was told to retain; three times the size of a window or more.
    """

    keys: ClassVar[Sequence[Any]] = ("a", "a\x00", "ab", "b", "c")
    window_size_ms: ClassVar[int] = 10_000
    retention_ms: ClassVar[int] = 120_000

    def put_entry(self, store: Any, key: Any, value: Any) -> None:
        """Put into one and the same window."""
        store.put(key, value, _FIRST_START)

    def delete_entry(self, store: Any, key: Any) -> None:
        """Delete from that window."""
        store.put(key, None, _FIRST_START)

    def entries(self, store: Any) -> list[tuple[Any, Any]]:
        """Return the values of that window."""
        found = store.fetch_all(_FIRST_START, _FIRST_START)
        return [(windowed.key, value) for windowed, value in sorted(found, key=self._place)]

    def entry(self, store: Any, key: Any) -> Any:
        """Return what `fetch` of that window gives."""
        return store.fetch(key, _FIRST_START)

    def test_a_window_has_the_value_put_last(self) -> None:
        """Later writes replace earlier ones; None deletes; other windows stay as they are."""
        store = self.open_store()
        key, other, *_ = self.keys
        first, second, third, *_ = self.values
        start, next_start = self._starts()[:2]
        same(store.fetch(key, start), None, "fetch of a window never put")
        store.put(key, first, start)
        store.put(key, second, start)
        store.put(key, third, next_start)
        same(store.fetch(key, start), second, "fetch after two puts")
        same(store.fetch(key, next_start), third, "fetch of the key's next window")
        same(store.fetch(key, start + 1), None, "fetch at a time no window starts at")
        same(store.fetch(other, start), None, "fetch of a key that begins with another")
        store.put(key, None, start)
        same(store.fetch(key, start), None, "fetch after put of None")
        same(store.fetch(key, next_start), third, "fetch of the next window after that")

    def test_windows_of_a_key_are_found_by_their_start(self) -> None:
        """Both times are inclusive; earliest first, or latest first if asked so."""
        store = self.open_store()
        key, other, *_ = self.keys
        starts = self._starts()
        for start in (starts[4], starts[0], starts[2]):
            store.put(key, self._value_at(start), start)
            store.put(other, self._value_at(start), start)
        self.commit(store)
        for start in (starts[3], starts[1]):
            store.put(key, self._value_at(start), start)
        expected = [(start, self._value_at(start)) for start in starts]
        same(list(store.fetch(key, starts[0], starts[4])), expected, "fetch of all windows")
        same(list(store.fetch(key, starts[1], starts[3])), expected[1:4], "fetch of some windows")
        inner = store.fetch(key, starts[1] + 1, starts[3] - 1)
        same(list(inner), expected[2:3], "fetch a millisecond inside of them")
        same(list(store.fetch(key, starts[3], starts[1])), [], "fetch that ends before it begins")
        backward = store.backward_fetch(key, starts[1], starts[3])
        same(list(backward), expected[3:0:-1], "backward_fetch")

    def test_windows_of_several_keys_are_found(self) -> None:
        """Keys and times are inclusive, None leaves an end open, and windows are whole."""
        store = self.open_store()
        a, b, c, d, e = self.keys[:5]
        first, second, third = starts = self._starts()[:3]
        for key in (e, a, c):
            self._put_at(store, key, starts)
        self.commit(store)
        for key in (d, b):
            self._put_at(store, key, starts)
        last = starts[-1]
        self._holds(store.fetch_range(b, d, second, second), [b, c, d], [second], "fetch_range")
        found = store.fetch_range(None, b, first, second)
        self._holds(found, [a, b], [first, second], "fetch_range without a first key")
        found = store.fetch_range(d, None, 0, last)
        self._holds(found, [d, e], starts, "fetch_range without a last key")
        found = store.fetch_range(d, b, 0, last)
        self._holds(found, [], starts, "fetch_range whose first key is above its last")
        found = store.fetch_all(second, third)
        self._holds(found, [a, b, c, d, e], [second, third], "fetch_all")
        self._holds(store.all(), [a, b, c, d, e], starts, "all()")

    def test_backward_reads_give_the_same_the_other_way_round(self) -> None:
        """Of each read there is one in the opposite order."""
        store = self.open_store()
        starts = self._starts()
        for key in self.keys[:5]:
            self._put_at(store, key, starts)
        for forward, backward, arguments in (
            (store.all, store.backward_all, ()),
            (store.fetch_all, store.backward_fetch_all, (starts[1], starts[3])),
            (
                store.fetch_range,
                store.backward_fetch_range,
                (self.keys[1], self.keys[3], starts[1], starts[3]),
            ),
        ):
            found = list(forward(*arguments))
            same(len(found) > 0, True, f"whether {forward.__name__} finds anything")
            same(list(backward(*arguments)), found[::-1], backward.__name__)

    def test_an_iterator_goes_on_over_writes_and_commits(self) -> None:
        """The owner may write and commit while it iterates."""
        store = self.open_store()
        key, last = self.keys[0], self.values[-1]
        starts = self._starts()
        self._put_at(store, key, starts)
        seen = []
        for offset, (start, _) in enumerate(store.fetch(key, starts[0], starts[-1])):
            seen.append(start)
            store.put(key, last, start)
            self.commit(store, offset)
        same(seen, starts, "windows of an iteration with writes and commits")
        values = {value for _, value in store.fetch(key, starts[0], starts[-1])}
        same(values, {last}, "values after it")

    def test_windows_older_than_the_retention_are_not_found(self) -> None:
        """The retention counts from the latest start, and is not over before its last ms."""
        store = self.open_store()
        key, value = self.keys[0], self.values[0]
        expired, oldest = _FIRST_START, _FIRST_START + 1
        newest = _FIRST_START + self.retention_ms
        for start in (expired, oldest, newest):
            store.put(key, value, start)
        for moment in ("before the commit", "after it"):
            same(store.fetch(key, expired), None, f"fetch of an expired window {moment}")
            found = list(store.fetch(key, 0, newest))
            same(found, [(oldest, value), (newest, value)], f"fetch of windows {moment}")
            self._holds(store.all(), [key], [oldest, newest], f"all() {moment}", value)
            self.commit(store)

    def test_a_window_that_is_long_over_is_dropped_and_counted(self) -> None:
        """It is neither kept nor logged, and is counted in `dropped`."""
        store = self.open_store()
        key, other, *_ = self.keys
        value = self.values[0]
        newest = _FIRST_START + 10 * self.retention_ms
        store.put(key, value, newest)
        self.commit(store)
        store.put(other, value, _FIRST_START)
        store.flush_cache()
        same(self.dropped.count, 1, "writes that were counted as dropped")
        same(self.changelog.records, [], "what was logged of it")
        self._holds(store.all(), [key], [newest], "all()", value)

    def test_windows_restored_from_the_changelog_are_equal(self) -> None:
        """All windows come back, each with its start."""
        store = self.open_store()
        for key in self.keys[:5]:
            self._put_at(store, key, self._starts())
        store.put(self.keys[0], None, self._starts()[2])
        store.flush_cache()
        copy = self.open_store("0_1")
        copy.restore(self.logged())
        expected = sorted(store.all(), key=self._place)
        same(sorted(copy.all(), key=self._place), expected, "windows of a restored store")

    def _starts(self) -> list[int]:
        """Return the starts of five windows."""
        return [_FIRST_START + number * self.window_size_ms // 2 for number in range(5)]

    def _value_at(self, start: int) -> Any:
        return self.values[self._starts().index(start)]

    def _put_at(self, store: Any, key: Any, starts: Sequence[int]) -> None:
        for start in starts:
            store.put(key, self._value_at(start), start)

    def _place(self, entry: tuple[Any, Any]) -> tuple[int, int]:
        windowed, _ = entry
        return self.keys.index(windowed.key), windowed.window.start

    def _holds(
        self,
        found: Iterable[tuple[Any, Any]],
        keys: Sequence[Any],
        starts: Sequence[int],
        what: str,
        value: Any = None,
    ) -> None:
        """Fail unless these windows of each key were found, those of one key in order of time."""
        entries = list(found)
        expected = [
            (
                Windowed(key, Window(start, start + self.window_size_ms)),
                self._value_at(start) if value is None else value,
            )
            for key in keys
            for start in starts
        ]
        by_key = sorted(entries, key=lambda entry: self.keys.index(entry[0].key))
        same(by_key, expected, what)
