"""What a versioned store must keep to, beyond what every store must."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, ClassVar

from pystreams.errors import StateStoreError
from pystreams.stores.contracts.versioned import (
    PUT_RETURN_CODE_NOT_PUT,
    PUT_RETURN_CODE_VALID_TO_UNDEFINED,
    VersionedRecord,
)
from pystreams.testing.store_contract import StateStoreContract, refused, same

_TIME = 1_000_000
_LATEST = PUT_RETURN_CODE_VALID_TO_UNDEFINED


class VersionedStoreContract(StateStoreContract):
    """Tests of one versioned store; see `StateStoreContract`.

    A store counts what it drops in `StateStoreContext.dropped`.

    Spec: `VersionedKeyValueStore`.

    Attributes:
        history_retention_ms: What the store was told to retain; a second or more.
    """

    keys: ClassVar[Sequence[Any]] = ("a", "a\x00", "ab", "b", "c")
    history_retention_ms: ClassVar[int] = 60_000

    def put_entry(self, store: Any, key: Any, value: Any) -> None:
        """Put a version at one and the same time."""
        store.put(key, value, _TIME)

    def delete_entry(self, store: Any, key: Any) -> None:
        """Delete at that time."""
        store.put(key, None, _TIME)

    def entries(self, store: Any) -> list[tuple[Any, Any]]:
        """Return the latest versions."""
        found = ((key, self.entry(store, key)) for key in self.keys)
        return [(key, value) for key, value in found if value is not None]

    def entry(self, store: Any, key: Any) -> Any:
        """Return the value that `get` gives."""
        record = store.get(key)
        return None if record is None else record.value

    def test_the_latest_version_has_no_end(self) -> None:
        """`put` says so, and a key's first version is its latest."""
        store = self.open_store()
        key, other, *_ = self.keys
        value = self.values[0]
        same(store.get(key), None, "get of a key never put")
        same(store.put(key, value, _TIME), _LATEST, "what put of the latest version returns")
        same(store.get(key), VersionedRecord(value, _TIME), "get")
        same(store.get(key, _TIME), VersionedRecord(value, _TIME), "get as of its first ms")
        same(store.get(key, _TIME + 1), VersionedRecord(value, _TIME), "get as of a later time")
        same(store.get(key, _TIME - 1), None, "get as of the time before it")
        same(store.get(other), None, "get of a key that begins with another")

    def test_a_version_is_valid_until_the_next(self) -> None:
        """Its end belongs to the next one; a put in the past is told its end."""
        store = self.open_store()
        key = self.keys[0]
        first, second, third, *_ = self.values
        store.put(key, first, _TIME)
        self.commit(store)
        same(store.put(key, third, _TIME + 20), _LATEST, "what put of a later version returns")
        same(store.put(key, second, _TIME + 10), _TIME + 20, "what put between two returns")
        same(store.get(key), VersionedRecord(third, _TIME + 20), "get")
        expected = VersionedRecord(first, _TIME, _TIME + 10)
        same(store.get(key, _TIME + 9), expected, "get as of the last ms of the first version")
        expected = VersionedRecord(second, _TIME + 10, _TIME + 20)
        same(store.get(key, _TIME + 10), expected, "get as of the first ms of the second version")
        same(store.get(key, _TIME + 19), expected, "get as of the last ms of the second version")

    def test_a_version_of_the_same_time_is_replaced(self) -> None:
        """The latest one as well as one in the past."""
        store = self.open_store()
        key = self.keys[0]
        first, second, third, *_ = self.values
        store.put(key, first, _TIME)
        store.put(key, first, _TIME + 10)
        same(store.put(key, second, _TIME + 10), _LATEST, "what put over the latest returns")
        same(store.put(key, third, _TIME), _TIME + 10, "what put over an older one returns")
        expected = [
            VersionedRecord(third, _TIME, _TIME + 10),
            VersionedRecord(second, _TIME + 10),
        ]
        same(list(store.get_range(key)), expected, "all versions")

    def test_a_deletion_ends_a_version(self) -> None:
        """`delete` returns it as it was; a put before the deletion is valid until then."""
        store = self.open_store()
        key = self.keys[0]
        first, second, *_ = self.values
        same(store.delete(key, _TIME - 10), None, "delete of a key without versions")
        store.put(key, first, _TIME)
        found = store.delete(key, _TIME + 10)
        same(found, VersionedRecord(first, _TIME), "what delete returns")
        same(store.get(key), None, "get after delete")
        expected = VersionedRecord(first, _TIME, _TIME + 10)
        same(store.get(key, _TIME + 9), expected, "get as of the time before the deletion")
        same(store.get(key, _TIME + 10), None, "get as of the deletion")
        found = store.put(key, second, _TIME + 5)
        same(found, _TIME + 10, "what put before the deletion returns")
        same(store.get(key), None, "get after that")
        store.put(key, None, _TIME + 5)
        expected = VersionedRecord(first, _TIME, _TIME + 5)
        same(list(store.get_range(key)), [expected], "versions after put of None between them")

    def test_versions_are_found_by_the_time_they_are_valid(self) -> None:
        """Somewhere between two times, both inclusive; oldest first, or newest if asked so."""
        store = self.open_store()
        key, other, *_ = self.keys
        first, second, third = expected = self._put_three(store, key)
        self._put_three(store, other)
        for from_time, to_time, found in (
            (None, None, expected),
            (_TIME, _TIME + 20, expected),
            (_TIME + 5, _TIME + 9, [first]),
            (_TIME + 9, _TIME + 10, [first, second]),
            (_TIME + 10, _TIME + 19, [second]),
            (None, _TIME, [first]),
            (_TIME + 20, None, [third]),
            (_TIME + 100, _TIME + 200, [third]),
            (0, _TIME - 1, []),
        ):
            times = f"get_range(key, {from_time}, {to_time}"
            same(list(store.get_range(key, from_time, to_time)), found, f"{times})")
            descending = list(store.get_range(key, from_time, to_time, descending=True))
            same(descending, found[::-1], f"{times}, descending=True)")
        refused(
            ValueError,
            lambda: list(store.get_range(key, _TIME + 1, _TIME)),
            "get_range that ends before it begins",
        )

    def test_a_range_is_of_the_moment_it_was_asked_for(self) -> None:
        """The owner may write and commit while it reads on."""
        store = self.open_store()
        key, value = self.keys[0], self.values[-1]
        expected = self._put_three(store, key)
        seen = []
        for offset, record in enumerate(islice(store.get_range(key), 10)):
            seen.append(record)
            store.put(key, value, record.timestamp + 5)
            self.commit(store, offset)
        same(seen, expected, "versions of a range with writes and commits")
        same(len(list(store.get_range(key))), 6, "versions after it")

    def test_a_put_before_the_history_is_dropped_and_counted(self) -> None:
        """It is neither kept nor logged, and is counted in `dropped`."""
        store = self.open_store()
        key, other, *_ = self.keys
        value = self.values[0]
        store.put(key, value, _TIME)
        self.commit(store)
        begin = _TIME - self.history_retention_ms
        found = store.put(other, value, begin - 1)
        same(found, PUT_RETURN_CODE_NOT_PUT, "what put before the history returns")
        same(store.delete(key, begin - 1), None, "what delete before the history returns")
        same(self.dropped.count, 2, "writes that were counted as dropped")
        same(self.changelog.records, [], "what was logged of them")
        same(store.get(other), None, "get of what was dropped")
        found = store.put(other, value, begin)
        same(found, _LATEST, "what put at the beginning of the history returns")

    def test_history_goes_back_as_far_as_its_retention(self) -> None:
        """From then on only the latest version is found, however old it is."""
        store = self.open_store()
        key, other, *_ = self.keys
        first, second, *_ = self.values
        store.put(key, first, _TIME)
        store.put(key, second, _TIME + 10)
        begin = _TIME + 20
        store.put(other, first, begin + self.history_retention_ms)
        for moment in ("before the commit", "after it"):
            same(store.get(key, _TIME + 5), None, f"get as of a time before it {moment}")
            latest = VersionedRecord(second, _TIME + 10)
            same(store.get(key, _TIME + 10), latest, f"get of the latest as of that {moment}")
            same(store.get(key, begin), latest, f"get as of its beginning {moment}")
            same(store.get(key), latest, f"get {moment}")
            self.commit(store)

    def test_a_negative_timestamp_is_refused(self) -> None:
        """A version has a time."""
        store = self.open_store()
        key, value = self.keys[0], self.values[0]
        refused(StateStoreError, lambda: store.put(key, value, -1), "put at -1 ms")
        same(store.get(key), None, "get after that")

    def test_history_restored_from_the_changelog_is_equal(self) -> None:
        """A record of the changelog has its version's time; replaying it is putting it again."""
        store = self.open_store()
        key, other, *_ = self.keys
        self._put_three(store, key)
        store.delete(key, _TIME + 15)
        store.put(other, self.values[0], _TIME + 3)
        store.put(other, None, _TIME + 30)
        store.put(other, self.values[1], _TIME + 7)
        messages = self.logged()
        times = [_TIME, _TIME + 20, _TIME + 10, _TIME + 15, _TIME + 3, _TIME + 30, _TIME + 7]
        same([message.timestamp_ms for message in messages], times, "times that were logged")
        copy = self.open_store("0_1")
        copy.restore(messages[:4])
        copy.restore(messages[4:])
        for written in (key, other):
            expected = list(store.get_range(written))
            found = list(copy.get_range(written))
            same(found, expected, f"versions of {written!r} in a restored store")

    def _put_three(self, store: Any, key: Any) -> list[VersionedRecord[Any]]:
        """Put three versions, the one between the others last; return them."""
        first, second, third, *_ = self.values
        store.put(key, first, _TIME)
        store.put(key, third, _TIME + 20)
        store.put(key, second, _TIME + 10)
        return [
            VersionedRecord(first, _TIME, _TIME + 10),
            VersionedRecord(second, _TIME + 10, _TIME + 20),
            VersionedRecord(third, _TIME + 20),
        ]
