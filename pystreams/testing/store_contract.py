"""What a key-value store must keep to, as tests to run on a store of your own with pytest.

    from pystreams.testing import KeyValueStoreContract

    class TestMyStore(KeyValueStoreContract):
        def make_store(self) -> MyStore:
            return MyStore("accounts")

What a store says of itself decides what is asked of it: `persistent`, `transactional` and
`manages_offsets()`. What does not apply is skipped. Nothing here imports pytest.

Spec: KIP-892 "Changed Interfaces", KIP-1035 "Public Interfaces".
"""

from __future__ import annotations

import tempfile
import unittest
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from pystreams import serdes
from pystreams.ids import TaskId, TopicPartition
from pystreams.record import OutputBuffer, RecordContext
from pystreams.stores.contract import StateStoreContext
from pystreams.testing.messages import StaticMessage

_CHANGELOG = TopicPartition("contract-store-changelog", 0)
_TIMESTAMP = 1_000


class KeyValueStoreContract:
    """Tests of one key-value store; subclass it, with `Test` in front of the name.

    Override `keys` and `values` if the store takes others than text. Both have at least five.

    Attributes:
        keys: Different keys, in order of their bytes.
        values: Different values.
        changelog: What the store of the present test has logged, unless it was sent.
    """

    keys: ClassVar[Sequence[Any]] = ("a", "b", "c", "d", "e")
    values: ClassVar[Sequence[Any]] = ("1", "2", "3", "4", "5")

    def make_store(self) -> Any:
        """Return a new store, not yet open: always of the same name, and over the same files."""
        raise NotImplementedError(f"{type(self).__name__} must say how to make a store")

    # ------------------------------------------------------------------ around each test

    def setup_method(self) -> None:
        """Make a task's directory and changelog; pytest calls this before each test."""
        self._directory = tempfile.TemporaryDirectory(prefix="store-contract-")
        self._opened: list[Any] = []
        self.changelog = OutputBuffer(_CHANGELOG.topic, _CHANGELOG.partition)

    def teardown_method(self) -> None:
        """Close what a test has left open; pytest calls this after each test."""
        for store in self._opened:
            store.close()
        self._directory.cleanup()

    def open_store(self, task: str = "0_0", **changes: Any) -> Any:
        """Return a new store that is open.

        Args:
            task: Name of the task's directory.
            changes: Other values for the `StateStoreContext`.
        """
        store = self.make_store()
        self._opened.append(store)
        store.init(replace(self._context(task), **changes))
        return store

    def _context(self, task: str) -> StateStoreContext:
        directory = Path(self._directory.name) / task
        directory.mkdir(exist_ok=True)
        record = RecordContext()
        record.timestamp = _TIMESTAMP
        return StateStoreContext(
            application_id="contract",
            task_id=TaskId(0, 0),
            task_directory=directory,
            changelog=self.changelog,
            record=record,
            changelog_topic=_CHANGELOG.topic,
            default_key_serde=serdes.STRING,
            default_value_serde=serdes.STRING,
        )

    def _commit(self, store: Any, offset: int) -> None:
        store.flush_cache()
        self.changelog.records.clear()
        store.commit({_CHANGELOG: offset})

    def _reopen(self, store: Any) -> Any:
        store.close()
        return self.open_store()

    # ------------------------------------------------------------------ reads and writes

    def test_it_is_open_between_init_and_close(self) -> None:
        """`is_open` tells the truth, and `close` may be called twice."""
        store = self.make_store()
        _same(store.is_open, False, "is_open before init")
        store = self.open_store()
        _same(store.is_open, True, "is_open after init")
        store.close()
        store.close()
        _same(store.is_open, False, "is_open after close")

    def test_a_key_has_the_value_put_last(self) -> None:
        """Later writes replace earlier ones; None and `delete` remove a key."""
        store = self.open_store()
        key, other, *_ = self.keys
        first, second, *_ = self.values
        _same(store.get(key), None, "get of a key never put")
        store.put(key, first)
        store.put(key, second)
        store.put(other, first)
        _same(store.get(key), second, "get after two puts")
        store.put(key, None)
        _same(store.get(key), None, "get after put(key, None)")
        _same(store.delete(other), first, "what delete returns")
        _same(store.get(other), None, "get after delete")
        _same(store.delete(other), None, "what a second delete returns")

    def test_put_if_absent_and_put_all(self) -> None:
        """`put_if_absent` never replaces; `put_all` puts in order."""
        store = self.open_store()
        first, second, *_ = self.values
        _same(store.put_if_absent(self.keys[0], first), None, "first put_if_absent")
        _same(store.put_if_absent(self.keys[0], second), first, "second put_if_absent")
        store.put_all([(self.keys[1], first), (self.keys[0], None), (self.keys[1], second)])
        _same(list(store.all()), [(self.keys[1], second)], "content after put_all")

    def test_the_owner_reads_its_own_uncommitted_writes(self) -> None:
        """Reads look at what is not committed first, over and beside what is."""
        store = self.open_store()
        kept, changed, dropped, new, *_ = self.keys
        old, fresh, *_ = self.values
        store.put_all([(kept, old), (changed, old), (dropped, old)])
        self._commit(store, 2)
        store.put(changed, fresh)
        store.delete(dropped)
        store.put(new, fresh)
        _same(store.get(kept), old, "get of a committed key")
        _same(store.get(changed), fresh, "get of a key changed since the commit")
        _same(store.get(dropped), None, "get of a key deleted since the commit")
        _same(store.get(new), fresh, "get of a key put since the commit")
        entries = [(kept, old), (changed, fresh), (new, fresh)]
        _same(list(store.all()), entries, "all() over committed and uncommitted")

    def test_ranges_are_inclusive_and_in_order_of_keys(self) -> None:
        """Both ends belong to a range; None leaves an end open; reverse turns it round."""
        store = self.open_store()
        a, b, c, d, e = self.keys[:5]
        value = self.values[0]
        for key in (e, a, c):
            store.put(key, value)
        self._commit(store, 2)
        for key in (d, b):
            store.put(key, value)
        _same(_keys(store.all()), [a, b, c, d, e], "all()")
        _same(_keys(store.reverse_all()), [e, d, c, b, a], "reverse_all()")
        _same(_keys(store.range(b, d)), [b, c, d], "range")
        _same(_keys(store.reverse_range(b, d)), [d, c, b], "reverse_range")
        _same(_keys(store.range(None, b)), [a, b], "range without start")
        _same(_keys(store.range(d, None)), [d, e], "range without end")
        _same(_keys(store.range(d, b)), [], "range whose start is above its end")

    def test_an_iterator_goes_on_over_writes_and_commits(self) -> None:
        """The owner may write and commit while it iterates."""
        store = self.open_store()
        first, second, *_ = self.values
        for key in self.keys[:5]:
            store.put(key, first)
        seen = []
        for offset, (key, _) in enumerate(store.all()):
            seen.append(key)
            store.put(key, second)
            self._commit(store, offset)
        _same(seen, list(self.keys[:5]), "keys of an iteration with writes and commits")
        _same({value for _, value in store.all()}, {second}, "values after it")

    # ------------------------------------------------------------------ commit and rollback

    def test_committed_writes_outlive_close(self) -> None:
        """What was committed is there when the store is opened again."""
        store = self.open_store()
        _only(store.persistent, "it does not persist")
        key, deleted, *_ = self.keys
        store.put(deleted, self.values[0])
        self._commit(store, 0)
        store.put(key, self.values[0])
        store.delete(deleted)
        self._commit(store, 2)
        again = self._reopen(store)
        _same(list(again.all()), [(key, self.values[0])], "content after close and init")

    def test_a_rollback_takes_back_what_is_not_committed(self) -> None:
        """After a rollback, and for good, the store is as the last commit left it."""
        store = self.open_store()
        _only(store.transactional, "it is not transactional")
        kept, deleted, new, *_ = self.keys
        old, fresh, *_ = self.values
        store.put_all([(kept, old), (deleted, old)])
        self._commit(store, 1)
        store.put(kept, fresh)
        store.delete(deleted)
        store.put(new, fresh)
        store.rollback()
        self.changelog.records.clear()
        _same(list(store.all()), [(kept, old), (deleted, old)], "content after a rollback")
        _same(store.get(new), None, "get of a key that was rolled back")
        if store.persistent:
            entries = list(self._reopen(store).all())
            _same(entries, [(kept, old), (deleted, old)], "content after rollback and close")

    def test_what_is_not_committed_does_not_outlive_close(self) -> None:
        """`close` drops what was written since the last commit."""
        store = self.open_store()
        _only(store.transactional and store.persistent, "it is not transactional on a disk")
        store.put(self.keys[0], self.values[0])
        self._commit(store, 0)
        store.put(self.keys[0], self.values[1])
        store.put(self.keys[1], self.values[1])
        again = self._reopen(store)
        _same(list(again.all()), [(self.keys[0], self.values[0])], "content after close and init")

    def test_a_store_that_is_not_transactional_goes_on_after_a_rollback(self) -> None:
        """Committed data survives it, and the store may be used."""
        store = self.open_store()
        _only(not store.transactional, "it is transactional")
        store.put(self.keys[0], self.values[0])
        self._commit(store, 0)
        store.rollback()
        store.put(self.keys[1], self.values[1])
        _same(_keys(store.all()), list(self.keys[:2]), "keys after a rollback and a put")

    def test_uncommitted_bytes_are_those_that_wait(self) -> None:
        """0 unless writes wait for a commit, which are then counted."""
        store = self.open_store()
        uncommitted = store.approximate_num_uncommitted_bytes
        _same(uncommitted(), 0, "uncommitted bytes of a new store")
        store.put(self.keys[0], self.values[0])
        _same(uncommitted() > 0, store.transactional, "whether a write counts as uncommitted")
        self._commit(store, 0)
        _same(uncommitted(), 0, "uncommitted bytes after a commit")
        store.put(self.keys[1], self.values[0])
        store.rollback()
        _same(uncommitted(), 0, "uncommitted bytes after a rollback")

    def test_flush_is_deprecated_and_commits_nothing(self) -> None:
        """`flush` warns; only the runtime commits."""
        store = self.open_store()
        store.put(self.keys[0], self.values[0])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            store.flush()
        kinds = [warning.category for warning in caught]
        _same(DeprecationWarning in kinds, True, "whether flush() warns of its deprecation")
        if store.transactional:
            store.rollback()
            _same(list(store.all()), [], "content after put, flush and rollback")

    # ------------------------------------------------------------------ offsets

    def test_offsets_are_those_of_the_last_commit(self) -> None:
        """`committed_offset` follows `commit`, and nothing else."""
        store = self.open_store()
        managed = store.manages_offsets()
        _same(store.committed_offset(_CHANGELOG), None, "offset of a new store")
        store.put(self.keys[0], self.values[0])
        self._commit(store, 41)
        expected = 41 if managed else None
        if store.persistent:
            _same(store.committed_offset(_CHANGELOG), expected, "offset after commit(41)")
        store.put(self.keys[0], self.values[1])
        store.rollback()
        if store.persistent:
            _same(store.committed_offset(_CHANGELOG), expected, "offset after a rollback")

    def test_managed_offsets_outlive_close(self) -> None:
        """A store that manages its offsets still has them when it is opened again."""
        store = self.open_store()
        _only(store.manages_offsets(), "it does not manage offsets")
        store.put(self.keys[0], self.values[0])
        self._commit(store, 41)
        again = self._reopen(store)
        _same(again.committed_offset(_CHANGELOG), 41, "offset after commit(41), close and init")
        self._commit(again, 42)
        last = self._reopen(again)
        _same(last.committed_offset(_CHANGELOG), 42, "offset of a commit without data")

    def test_a_commit_without_offsets_clears_them(self) -> None:
        """`commit({})` forgets all offsets and keeps the data."""
        store = self.open_store()
        _only(store.manages_offsets(), "it does not manage offsets")
        store.put(self.keys[0], self.values[0])
        self._commit(store, 41)
        store.commit({})
        _same(store.committed_offset(_CHANGELOG), None, "offset after commit({})")
        _same(store.get(self.keys[0]), self.values[0], "get after commit({})")

    # ------------------------------------------------------------------ changelog

    def test_a_store_restored_from_its_changelog_is_equal(self) -> None:
        """What a store logs is enough to build it again; restoring logs nothing."""
        store = self.open_store()
        for key, value in zip(self.keys, self.values, strict=False):
            store.put(key, value)
        store.put(self.keys[0], self.values[1])
        store.delete(self.keys[2])
        store.flush_cache()
        expected = list(store.all())
        messages = self._logged()
        _same(len(messages) > 0, True, "whether the store logged anything")
        self.changelog.records.clear()

        copy = self.open_store("0_1")
        copy.restore(messages[:2])
        copy.restore(messages[2:])
        _same(list(copy.all()), expected, "content of a store restored from the changelog")
        _same(self.changelog.records, [], "what a store logs while it is restored")
        if copy.manages_offsets():
            last = len(messages) - 1
            _same(copy.committed_offset(_CHANGELOG), last, "offset after restore")
        copy.rollback()
        _same(list(copy.all()), expected, "content after restore and a rollback")

    def test_a_store_without_a_changelog_works(self) -> None:
        """With logging off there is no changelog to write to."""
        store = self.open_store(changelog=None)
        store.put(self.keys[0], self.values[0])
        store.flush_cache()
        store.commit({})
        _same(store.get(self.keys[0]), self.values[0], "get in a store without a changelog")
        _same(self.changelog.records, [], "what it logged all the same")

    def test_a_destroyed_store_is_empty_when_it_is_opened_again(self) -> None:
        """`destroy` leaves neither data nor offsets, and the same object may be opened again."""
        store = self.open_store()
        store.put(self.keys[0], self.values[0])
        self._commit(store, 41)
        store.put(self.keys[1], self.values[0])
        store.destroy()
        _same(store.is_open, False, "is_open after destroy")
        store.init(self._context("0_0"))
        _same(list(store.all()), [], "content after destroy and init")
        _same(store.committed_offset(_CHANGELOG), None, "offset after destroy and init")

    def _logged(self) -> list[StaticMessage]:
        """Return what was logged, as the changelog would give it back."""
        topic, partition = _CHANGELOG
        return [
            StaticMessage(topic, partition, offset, key, value, timestamp)
            for offset, (value, key, timestamp, _) in enumerate(self.changelog.records)
        ]


def _same(found: object, expected: object, what: str) -> None:
    assert found == expected, f"{what}: {found!r}, and should be {expected!r}"


def _only(applies: bool, otherwise: str) -> None:  # noqa: FBT001 - a condition, then its text
    """Skip the rest of a test that does not apply; pytest knows this exception."""
    if not applies:
        raise unittest.SkipTest(otherwise)


def _keys(entries: Any) -> list[Any]:
    return [key for key, _ in entries]
