"""What the random lives of all kinds of stores share: how long they are, and reads left open.

The machines are in `key_value_machine`, `segmented_machine` (window and session stores) and
`test_versioned_store_state_machine`. Each has puts, deletes, reads of ranges, iterators left open,
commits, rollbacks, restarts, crashes, and crashes between the Kafka commit and the store's batch;
readers of both isolation levels look on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from pystreams import IsolationLevel, StoreEngine, StoreNotAvailableError

LEVELS = st.sampled_from(list(IsolationLevel))
MANY_STEPS = 10_000
SHORT = settings(
    max_examples=5,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def long_run(steps: int) -> settings:
    """Return lives that are long enough for so many steps together; some end early."""
    return settings(SHORT, max_examples=max(1, steps // 60), stateful_step_count=100)


Entry = Any
"""What a read yields, as the model has it."""


def copy_in_use(directory: Path, copy: Path) -> None:
    """Copy a directory as one moment leaves it, while RocksDB deletes files in the background."""
    while True:
        before = _files(directory)
        try:
            shutil.copytree(directory, copy)
        except (FileNotFoundError, shutil.Error):
            shutil.rmtree(copy, ignore_errors=True)
            continue
        if _files(directory) == before:
            return
        shutil.rmtree(copy)


def _files(directory: Path) -> list[tuple[str, int]]:
    """Return the files below a directory with their sizes; one that goes meanwhile has none."""
    found = []
    for path in sorted(directory.rglob("*")):
        try:
            found.append((str(path), path.stat().st_size))
        except FileNotFoundError:
            found.append((str(path), -1))
    return found


class CountingMachine(RuleBasedStateMachine):
    """A machine that counts the steps of all its lives."""

    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).steps -= 1  # What an invariant counts when a life begins.

    def count_step(self) -> None:
        """To be called by an invariant."""
        type(self).steps += 1

    @classmethod
    def run_lives(cls, how_long: settings) -> int:
        """Run lives of random steps; return how many steps there were."""
        cls.steps = 0
        case = cls.TestCase
        case.settings = how_long
        case("runTest").runTest()
        return cls.steps


class MortalMachine(CountingMachine):
    """A machine whose store is closed and opened again, and dies.

    Attributes:
        engine: Where the store's bytes live.
        store: The store that is open.
        directory: Has a directory for each of the store's lives so far.
        lives: How often it has died.
        current: The model of what the owner reads.
        committed: That of what is committed.
        flushed: That of what a crash falls back to.
        offset: The offset of what is committed; None for none.
        flushed_offset: That of what a crash falls back to.
    """

    engine = StoreEngine.IN_MEMORY
    store: Any
    directory: Path
    lives: int
    current: Any
    committed: Any
    flushed: Any
    offset: int | None
    flushed_offset: int | None

    def commit_to_kafka(self) -> None:
        """Commit as far as Kafka does, before the store's batch."""
        raise NotImplementedError

    def come_back(self) -> None:
        """Open the store, see that it holds what is committed, and restore the rest."""
        raise NotImplementedError

    @rule()
    def reopen(self) -> None:
        self.store.close()
        if self.engine is StoreEngine.IN_MEMORY:
            self.committed, self.offset = self.current.empty(), None
        self.flushed, self.flushed_offset = self.committed.copy(), self.offset
        self.come_back()

    @rule()
    def crash(self) -> None:
        """Go on with a copy of the directory as it is beside the open store."""
        if self.engine is StoreEngine.ROCKSDB:
            copy_in_use(self.directory / str(self.lives), self.directory / str(self.lives + 1))
            self.lives += 1
        self.store.close()
        self.committed, self.offset = self.flushed.copy(), self.flushed_offset
        self.come_back()

    @rule()
    def crash_before_the_batch(self) -> None:
        """Kafka has committed, the store has not yet: the store is behind, never ahead."""
        self.commit_to_kafka()
        self.crash()


@dataclass
class OpenRead:
    """An iterator that another thread left open, and what the store held meanwhile.

    What it yields was there at some moment since it was opened, each key once and in order; what
    was there all the time, it yields.

    Attributes:
        level: What the reader sees.
        entries: The iterator, as key and value of the model.
        place: Where a key of the model stands in the order.
        reverse: Whether the iterator goes against it.
        states: What there was to see, each state once, oldest first.
        seen: What was yielded.
    """

    store: Any
    level: IsolationLevel
    entries: Iterator[tuple[Entry, Any]]
    place: Callable[[Entry], Any]
    reverse: bool
    states: list[dict[Entry, Any]]
    seen: list[Entry] = field(default_factory=list)

    def remember(self, state: Mapping[Entry, Any]) -> None:
        """Take note of what there is to see now."""
        if self.store.is_open and self.states[-1] != state:
            self.states.append(dict(state))

    def advance(self) -> None:
        """Read one entry and check it."""
        try:
            found = next(self.entries, None)
        except StoreNotAvailableError:
            assert not self.store.is_open
            return
        if found is None:
            if self.store.is_open:
                first, *later = self.states
                always = [key for key in first if all(key in state for state in later)]
                assert set(always) <= set(self.seen), "an entry that was always there is missing"
            return
        key, value = found
        assert any(key in state and state[key] == value for state in self.states), found
        if self.seen:
            before, now = self.place(self.seen[-1]), self.place(key)
            assert now < before if self.reverse else now > before, "out of order, or twice"
        self.seen.append(key)
