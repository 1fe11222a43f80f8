"""What every state store must keep to, as tests to run on a store of your own with pytest.

    from pystreams.testing import KeyValueStoreContract

    class TestMyStore(KeyValueStoreContract):
        def make_store(self) -> MyStore:
            return MyStore("accounts")

`KeyValueStoreContract`, `WindowStoreContract`, `SessionStoreContract` and `VersionedStoreContract`
add the reads and writes of their kind. A store with methods of its own subclasses
`StateStoreContract` and says how an entry is written and read.

What a store says of itself decides what is asked of it: `persistent`, `transactional` and
`manages_offsets()`. What does not apply is skipped. Nothing here imports pytest.

Spec: KIP-892 "Changed Interfaces", KIP-1035 "Public Interfaces".
"""

from __future__ import annotations

import tempfile
import unittest
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from pystreams import serdes
from pystreams.ids import TaskId, TopicPartition
from pystreams.record import DroppedRecords, OutputBuffer, PresentRecord, StaticMessage
from pystreams.stores.contracts.state_store import StateStoreContext, StoreEnvironment

_CHANGELOG = TopicPartition("contract-store-changelog", 0)
RECORD_TIMESTAMP = 1_000
"""Timestamp (ms) of the record that is being processed."""


class StateStoreContract:
    """Tests of one store; subclass it, with `Test` in front of the name.

    Override `keys` and `values` if the store takes others than text. Both have at least five.

    Attributes:
        keys: Different keys, in order of their bytes.
        values: Different values.
        changelog: What the store of the present test has logged, unless it was sent.
        record: What the task is processing in the present test.
        dropped: What the stores of the present test have dropped.
        environment: What stores are opened with.
    """

    keys: ClassVar[Sequence[Any]] = ("a", "b", "c", "d", "e")
    values: ClassVar[Sequence[Any]] = ("1", "2", "3", "4", "5")
    environment = StoreEnvironment(
        application_id="contract",
        default_key_serde=serdes.STRING,
        default_value_serde=serdes.STRING,
    )

    def make_store(self) -> Any:
        """Return a new store, not yet open: always of the same name, and over the same files."""
        raise NotImplementedError(f"{type(self).__name__} must say how to make a store")

    def put_entry(self, store: Any, key: Any, value: Any) -> None:
        """Write a key's value, in place of the one it had."""
        raise NotImplementedError(f"{type(self).__name__} must say how an entry is written")

    def delete_entry(self, store: Any, key: Any) -> None:
        """Delete a key's value."""
        raise NotImplementedError(f"{type(self).__name__} must say how an entry is deleted")

    def entries(self, store: Any) -> list[tuple[Any, Any]]:
        """Return all keys with their values, in the order of `keys`."""
        raise NotImplementedError(f"{type(self).__name__} must say how entries are read")

    def entry(self, store: Any, key: Any) -> Any:
        """Return a key's value, or None."""
        return next((value for found, value in self.entries(store) if found == key), None)

    # ------------------------------------------------------------------ around each test

    def setup_method(self) -> None:
        """Make a task's directory and changelog; pytest calls this before each test."""
        self._directory = tempfile.TemporaryDirectory(prefix="store-contract-")
        self._opened: list[Any] = []
        self.changelog = OutputBuffer(*_CHANGELOG, is_changelog=True)
        self.record = PresentRecord()
        self.dropped = DroppedRecords()
        self.record.timestamp = RECORD_TIMESTAMP

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

    def commit(self, store: Any, offset: int = 0) -> None:
        """Commit a store as its task does: what it logged is sent first."""
        store.flush_cache()
        self.changelog.records.clear()
        store.commit({_CHANGELOG: offset})

    def logged(self) -> list[StaticMessage]:
        """Return what was logged, as the changelog would give it back."""
        topic, partition = _CHANGELOG
        return [
            StaticMessage(topic, partition, offset, *record)
            for offset, record in enumerate(self.changelog.records)
        ]

    def _context(self, task: str) -> StateStoreContext:
        directory = Path(self._directory.name) / task
        directory.mkdir(exist_ok=True)
        return StateStoreContext(
            environment=self.environment,
            task_id=TaskId(0, 0),
            task_directory=directory,
            changelog=self.changelog,
            changelog_topic=_CHANGELOG.topic,
            record=self.record,
            dropped=self.dropped,
        )

    def _reopen(self, store: Any) -> Any:
        store.close()
        return self.open_store()

    # ------------------------------------------------------------------ life and reads

    def test_it_is_open_between_init_and_close(self) -> None:
        """`is_open` tells the truth, and `close` may be called twice."""
        store = self.make_store()
        same(store.is_open, False, "is_open before init")
        store = self.open_store()
        same(store.is_open, True, "is_open after init")
        store.close()
        store.close()
        same(store.is_open, False, "is_open after close")

    def test_the_owner_reads_its_own_uncommitted_writes(self) -> None:
        """Reads look at what is not committed first, over and beside what is."""
        store = self.open_store()
        kept, changed, dropped, new, *_ = self.keys
        old, fresh, *_ = self.values
        for key in (kept, changed, dropped):
            self.put_entry(store, key, old)
        self.commit(store, 2)
        self.put_entry(store, changed, fresh)
        self.delete_entry(store, dropped)
        self.put_entry(store, new, fresh)
        same(self.entry(store, kept), old, "value of a committed key")
        same(self.entry(store, changed), fresh, "value of a key changed since the commit")
        same(self.entry(store, dropped), None, "value of a key deleted since the commit")
        same(self.entry(store, new), fresh, "value of a key put since the commit")
        entries = [(kept, old), (changed, fresh), (new, fresh)]
        same(self.entries(store), entries, "entries, committed and uncommitted")

    # ------------------------------------------------------------------ commit and rollback

    def test_committed_writes_outlive_close(self) -> None:
        """What was committed is there when the store is opened again."""
        store = self.open_store()
        applies(store.persistent, "it does not persist")
        key, deleted, *_ = self.keys
        self.put_entry(store, deleted, self.values[0])
        self.commit(store, 0)
        self.put_entry(store, key, self.values[0])
        self.delete_entry(store, deleted)
        self.commit(store, 2)
        again = self._reopen(store)
        same(self.entries(again), [(key, self.values[0])], "entries after close and init")

    def test_a_rollback_takes_back_what_is_not_committed(self) -> None:
        """After a rollback, and for good, the store is as the last commit left it."""
        store = self.open_store()
        applies(store.transactional, "it is not transactional")
        kept, deleted, new, *_ = self.keys
        old, fresh, *_ = self.values
        self.put_entry(store, kept, old)
        self.put_entry(store, deleted, old)
        self.commit(store, 1)
        self.put_entry(store, kept, fresh)
        self.delete_entry(store, deleted)
        self.put_entry(store, new, fresh)
        store.rollback()
        self.changelog.records.clear()
        committed = [(kept, old), (deleted, old)]
        same(self.entries(store), committed, "entries after a rollback")
        same(self.entry(store, new), None, "value of a key that was rolled back")
        if store.persistent:
            again = self._reopen(store)
            same(self.entries(again), committed, "entries after rollback and close")

    def test_what_is_not_committed_does_not_outlive_close(self) -> None:
        """`close` drops what was written since the last commit."""
        store = self.open_store()
        applies(store.transactional and store.persistent, "it is not transactional on a disk")
        self.put_entry(store, self.keys[0], self.values[0])
        self.commit(store, 0)
        self.put_entry(store, self.keys[0], self.values[1])
        self.put_entry(store, self.keys[1], self.values[1])
        again = self._reopen(store)
        same(self.entries(again), [(self.keys[0], self.values[0])], "entries after close and init")

    def test_a_store_that_is_not_transactional_goes_on_after_a_rollback(self) -> None:
        """Committed data survives it, and the store may be used."""
        store = self.open_store()
        applies(not store.transactional, "it is transactional")
        self.put_entry(store, self.keys[0], self.values[0])
        self.commit(store, 0)
        store.rollback()
        self.put_entry(store, self.keys[1], self.values[1])
        found = [key for key, _ in self.entries(store)]
        same(found, list(self.keys[:2]), "keys after a rollback and a put")

    def test_uncommitted_bytes_are_those_that_wait(self) -> None:
        """0 unless writes wait for a commit, which are then counted."""
        store = self.open_store()
        uncommitted = store.approximate_num_uncommitted_bytes
        same(uncommitted(), 0, "uncommitted bytes of a new store")
        self.put_entry(store, self.keys[0], self.values[0])
        same(uncommitted() > 0, store.transactional, "whether a write counts as uncommitted")
        self.commit(store, 0)
        same(uncommitted(), 0, "uncommitted bytes after a commit")
        self.put_entry(store, self.keys[1], self.values[0])
        store.rollback()
        same(uncommitted(), 0, "uncommitted bytes after a rollback")

    def test_flush_is_deprecated_and_commits_nothing(self) -> None:
        """`flush` warns; only the runtime commits."""
        store = self.open_store()
        self.put_entry(store, self.keys[0], self.values[0])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            store.flush()
        kinds = [warning.category for warning in caught]
        same(DeprecationWarning in kinds, True, "whether flush() warns of its deprecation")
        if store.transactional:
            store.rollback()
            same(self.entries(store), [], "entries after put, flush and rollback")

    # ------------------------------------------------------------------ offsets

    def test_offsets_are_those_of_the_last_commit(self) -> None:
        """`committed_offset` follows `commit`, and nothing else."""
        store = self.open_store()
        managed = store.manages_offsets()
        same(store.committed_offset(_CHANGELOG), None, "offset of a new store")
        self.put_entry(store, self.keys[0], self.values[0])
        self.commit(store, 41)
        expected = 41 if managed else None
        if store.persistent:
            same(store.committed_offset(_CHANGELOG), expected, "offset after commit(41)")
        self.put_entry(store, self.keys[0], self.values[1])
        store.rollback()
        if store.persistent:
            same(store.committed_offset(_CHANGELOG), expected, "offset after a rollback")

    def test_managed_offsets_outlive_close(self) -> None:
        """A store that manages its offsets still has them when it is opened again."""
        store = self.open_store()
        applies(store.manages_offsets(), "it does not manage offsets")
        self.put_entry(store, self.keys[0], self.values[0])
        self.commit(store, 41)
        again = self._reopen(store)
        same(again.committed_offset(_CHANGELOG), 41, "offset after commit(41), close and init")
        self.commit(again, 42)
        last = self._reopen(again)
        same(last.committed_offset(_CHANGELOG), 42, "offset of a commit without data")

    def test_a_commit_without_offsets_clears_them(self) -> None:
        """`commit({})` forgets all offsets and keeps the data."""
        store = self.open_store()
        applies(store.manages_offsets(), "it does not manage offsets")
        self.put_entry(store, self.keys[0], self.values[0])
        self.commit(store, 41)
        store.commit({})
        same(store.committed_offset(_CHANGELOG), None, "offset after commit({})")
        same(self.entry(store, self.keys[0]), self.values[0], "value after commit({})")

    # ------------------------------------------------------------------ changelog

    def test_a_store_restored_from_its_changelog_is_equal(self) -> None:
        """What a store logs is enough to build it again; restoring logs nothing."""
        store = self.open_store()
        for key, value in zip(self.keys, self.values, strict=False):
            self.put_entry(store, key, value)
        self.put_entry(store, self.keys[0], self.values[1])
        self.delete_entry(store, self.keys[2])
        store.flush_cache()
        expected = self.entries(store)
        messages = self.logged()
        same(len(messages) > 0, True, "whether the store logged anything")
        self.changelog.records.clear()

        copy = self.open_store("0_1")
        copy.restore(messages[:2])
        copy.restore(messages[2:])
        same(self.entries(copy), expected, "entries of a store restored from the changelog")
        same(self.changelog.records, [], "what a store logs while it is restored")
        if copy.manages_offsets():
            last = len(messages) - 1
            same(copy.committed_offset(_CHANGELOG), last, "offset after restore")
        copy.rollback()
        same(self.entries(copy), expected, "entries after restore and a rollback")

    def test_a_store_without_a_changelog_works(self) -> None:
        """With logging off there is no changelog to write to."""
        store = self.open_store(changelog=None)
        self.put_entry(store, self.keys[0], self.values[0])
        store.flush_cache()
        store.commit({})
        found = self.entry(store, self.keys[0])
        same(found, self.values[0], "value in a store without a changelog")
        same(self.changelog.records, [], "what it logged all the same")

    def test_a_destroyed_store_is_empty_when_it_is_opened_again(self) -> None:
        """`destroy` leaves neither data nor offsets, and the same object may be opened again."""
        store = self.open_store()
        self.put_entry(store, self.keys[0], self.values[0])
        self.commit(store, 41)
        self.put_entry(store, self.keys[1], self.values[0])
        store.destroy()
        same(store.is_open, False, "is_open after destroy")
        store.init(self._context("0_0"))
        same(self.entries(store), [], "entries after destroy and init")
        same(store.committed_offset(_CHANGELOG), None, "offset after destroy and init")

    def test_what_it_says_of_holding_data_is_so(self) -> None:
        """`holds_data` tells a store with data from one that is new or destroyed."""
        store = self.open_store()
        applies(store.persistent and store.holds_data() is not None, "it can't tell")
        same(store.holds_data(), False, "holds_data of a new store")
        self.put_entry(store, self.keys[0], self.values[0])
        self.commit(store)
        again = self._reopen(store)
        same(again.holds_data(), True, "holds_data after a commit, close and init")
        again.destroy()
        again.init(self._context("0_0"))
        same(again.holds_data(), False, "holds_data after destroy and init")


def same(found: object, expected: object, what: str) -> None:
    """Fail unless what was found is what should be."""
    assert found == expected, f"{what}: {found!r}, and should be {expected!r}"


def refused(error: type[Exception], call: Callable[[], object], what: str) -> None:
    """Fail unless a call raises an error."""
    try:
        call()
    except error:
        return
    raise AssertionError(f"{what}: it was taken, and should be refused with {error.__name__}")


def applies(condition: bool, otherwise: str) -> None:  # noqa: FBT001 - a condition, then its text
    """Skip the rest of a test that does not apply; pytest knows this exception."""
    if not condition:
        raise unittest.SkipTest(otherwise)
