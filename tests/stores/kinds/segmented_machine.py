"""Random lives of a store that keeps keys by segment, beside a plain model of it.

The machine has commits, rollbacks, restarts, crashes, restores and iterators left open; a kind of
store adds its writes and reads, and says what its entries are.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, precondition, rule

from pystreams import IsolationLevel, StoreKind, StoreNotAvailableError, ValueAndTimestamp
from pystreams.serdes import LONG, STRING
from pystreams.stores.build import build_store
from pystreams.stores.contracts.spec import Retention, StoreSpec
from tests.stores.machine_parts import LEVELS, Entry, MortalMachine, OpenRead
from tests.stores.support import CHANGELOG, Home, Message

if TYPE_CHECKING:
    from collections.abc import Iterator

RETENTION_MS = 100
INTERVAL_MS = 50
KEYS = st.sampled_from(["", "a", "a\x00", "a\x00\x00\x00", "b", "ab"])
NUMBERS = st.sampled_from([None, 1, 2, 3, 4])
DELTAS = st.integers(-160, 100) | st.integers(0, 60)
"""Times are drawn around the stream time: expired, late, and moving it."""
MANY_KEYS = [f"a{number:02}" for number in range(20)]
"""So many deletions a read does not walk over a second time."""


@dataclass
class Model:
    """What a store holds: values by entry, its stream time, and what waits to be dropped.

    An entry is a key and the times that belong to it. `kept_time` is the time beside the data.

    Attributes:
        time_of: The time of an entry that decides its segment.
        key_of: The entry's key in the changelog.
    """

    time_of: Callable[[Entry], int]
    key_of: Callable[[Entry], bytes]
    numbers: dict[Entry, Any] = field(default_factory=dict)
    time: int = -1
    bound: int | None = None
    kept_time: int = -1

    def copy(self) -> Model:
        return replace(self, numbers=dict(self.numbers))

    def empty(self) -> Model:
        return Model(self.time_of, self.key_of)

    def oldest_live(self) -> int:
        return max(0, self.time - RETENTION_MS) // INTERVAL_MS

    def segment_of(self, entry: Entry) -> int:
        return self.time_of(entry) // INTERVAL_MS

    def advance(self, time: int) -> None:
        before = self.oldest_live()
        self.time = max(self.time, time)
        if self.oldest_live() != before:
            self.bound = self.oldest_live()

    def put(self, entry: Entry, number: Any) -> bool:
        """Put or delete; return whether the entry's segment is live."""
        self.advance(self.time_of(entry))
        if self.segment_of(entry) < self.oldest_live():
            return False
        if number is None:
            self.numbers.pop(entry, None)
        else:
            self.numbers[entry] = number
        return True

    def drop_expired(self) -> int | None:
        """Drop what waits for it; return the bound."""
        bound, self.bound = self.bound, None
        if bound is not None:
            self.drop_below(bound)
        return bound

    def drop_below(self, bound: int) -> None:
        self.numbers = {
            entry: number
            for entry, number in self.numbers.items()
            if self.segment_of(entry) >= bound
        }

    def reopen(self) -> None:
        """Go on from what is beside the data, or has been written through since."""
        written = [self.segment_of(entry) * INTERVAL_MS for entry in self.numbers]
        self.time = max(self.kept_time, *written, -1)
        self.bound = None

    def visible(self) -> list[tuple[Entry, Any]]:
        oldest = self.time - RETENTION_MS + 1
        found = [entry for entry in self.numbers if self.time_of(entry) >= oldest]
        found.sort(key=lambda entry: (self.segment_of(entry), self.key_of(entry)))
        return [(entry, self.numbers[entry]) for entry in found]


class Opened(NamedTuple):
    store: Any
    entries: Iterator[tuple[Any, Any]]


class SegmentedStoreMachine(MortalMachine):
    """`flushed` is what a crash falls back to; `log` is what is committed of the changelog."""

    current: Model
    committed: Model
    flushed: Model
    kind: StoreKind
    caching = False
    read_cache_bytes = 0
    transactional = True
    timestamped = False
    retain_duplicates = False
    iterators = Bundle("iterators")
    reads = Bundle("reads")

    # What a kind of store is

    def time_of(self, entry: Entry) -> int:
        raise NotImplementedError

    def key_of(self, entry: Entry) -> bytes:
        raise NotImplementedError

    def entry_of(self, key: bytes) -> Entry:
        """The entry of a key of the changelog."""
        raise NotImplementedError

    def plain(self, entries: Iterable[tuple[Any, Any]]) -> list[tuple[Entry, Any]]:
        """What the store yields, as entries of the model."""
        raise NotImplementedError

    def all_of(self, reader: Any, *, reverse: bool) -> Iterator[tuple[Any, Any]]:
        raise NotImplementedError

    def shown(self, entries: list[tuple[Entry, Any]]) -> list[tuple[Entry, Any]]:
        """Entries of the model as a reader can tell them apart."""
        return entries

    def value(self, number: int, time: int) -> Any:
        """A number written into a window or session of a time, as the store gives it back."""
        return ValueAndTimestamp(number, time + number) if self.timestamped else number

    def logged_value(self, value: bytes | None, timestamp: int) -> Any:
        """A value of the changelog as the store gives it back."""
        if value is None:
            return None
        return ValueAndTimestamp(value[-1], timestamp) if self.timestamped else value[-1]

    def stored_value(self, stored: bytes) -> Any:
        """A value of the engine as the store gives it back."""
        time = int.from_bytes(stored[:8], "big")
        return ValueAndTimestamp(stored[-1], time) if self.timestamped else stored[-1]

    # Life

    @initialize()
    def open_store(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.lives = 0
        self.log: list[Message] = []
        self.current = Model(self.time_of, self.key_of)
        self.committed, self.flushed = self.current.empty(), self.current.empty()
        self.offset = self.flushed_offset = None
        self.open_reads: list[OpenRead] = []
        self.start()

    def start(self) -> None:
        self.home = Home(
            self.directory / str(self.lives),
            cache_enabled=self.caching,
            read_cache_bytes=self.read_cache_bytes,
        )
        self.store: Any = build_store(
            StoreSpec(
                "s",
                self.kind,
                engine=self.engine,
                key_serde=STRING,
                value_serde=LONG,
                timestamped=self.timestamped,
                engine_timestamped=self.timestamped,
                caching=self.caching,
                transactional=self.transactional,
                retention=Retention(
                    RETENTION_MS,
                    INTERVAL_MS,
                    window_size_ms=10,
                    retain_duplicates=self.retain_duplicates,
                ),
            )
        )
        self.store.init(self.home.context())

    @rule()
    def flush_cache(self) -> None:
        """A thread whose caches are full flushes them between two commits."""
        self.store.flush_cache()

    def commit_to_kafka(self) -> None:
        self.store.flush_cache()
        records = self.home.changelog.records
        for key, value, timestamp, _ in records:
            self.log.append(Message(key, value, len(self.log), timestamp))
        records.clear()

    @rule()
    def commit(self) -> None:
        self.commit_to_kafka()
        self.offset = len(self.log) - 1 if self.log else self.offset
        self.store.commit({CHANGELOG: self.offset} if self.offset is not None else {})
        bound = self.current.drop_expired()
        if bound is not None:
            self.flushed.drop_below(bound)  # A family is dropped for good at once.
        self.current.kept_time = self.current.time
        self.committed = self.current.copy()

    @rule()
    def roll_back(self) -> None:
        self.store.rollback()
        self.home.changelog.records.clear()
        self.committed.bound = None
        self.current = self.committed.copy()

    @rule(target=iterators, reverse=st.booleans())
    def open_iterator(self, *, reverse: bool) -> Opened:
        return Opened(self.store, self.all_of(self.store, reverse=reverse))

    @rule(opened=iterators)
    def advance_iterator(self, opened: Opened) -> None:
        """What an iterator yields is what the store holds now."""
        try:
            entry = next(opened.entries, None)
        except StoreNotAvailableError:
            assert not opened.store.is_open
            return
        if entry is not None:
            assert self.plain([entry])[0] in self.shown(list(self.current.numbers.items()))

    def come_back(self) -> None:
        self.start()
        self.committed.reopen()
        self.current = self.committed.copy()
        found = self.plain(self.all_of(self.store, reverse=False))
        assert found == self.shown(self.current.visible())
        self.restore_rest()

    def restore_rest(self) -> None:
        """Restore what the changelog has beyond the store, in two batches."""
        rest = self.log[0 if self.offset is None else self.offset + 1 :]
        half = len(rest) // 2
        for batch in (rest[:half], rest[half:]):
            if batch:
                self.restore_model(batch)
                self.store.restore(batch)

    def restore_model(self, batch: list[Message]) -> None:
        model = self.committed
        waiting, model.bound = model.bound, None
        if waiting is not None:
            model.drop_below(waiting)
            self.flushed.drop_below(waiting)
        entries = [self.entry_of(message.message_key or b"") for message in batch]
        model.advance(max(map(self.time_of, entries)))
        for message, entry in zip(batch, entries, strict=True):
            value = self.logged_value(message.message_value, message.timestamp_ms)
            model.put(entry, value)
        model.kept_time = model.time
        self.offset = batch[-1].message_offset
        self.current = model.copy()

    # Readers of other threads

    def visible(self, level: IsolationLevel) -> list[tuple[Entry, Any]]:
        committed = level is IsolationLevel.READ_COMMITTED
        return (self.committed if committed else self.current).visible()

    def place(self, entry: Entry) -> tuple[int, bytes]:
        return self.current.segment_of(entry), self.key_of(entry)

    @precondition(lambda self: not self.retain_duplicates)
    @rule(target=reads, level=LEVELS, reverse=st.booleans())
    def open_read(self, level: IsolationLevel, *, reverse: bool) -> OpenRead:
        found = self.all_of(self.store.read_only(level), reverse=reverse)
        entries = (self.plain([entry])[0] for entry in found)
        states = [dict(self.visible(level))]
        read = OpenRead(self.store, level, entries, self.place, reverse, states)
        self.open_reads.append(read)
        return read

    def remember_for_reads(self) -> None:
        """To be called after each write of a step: an entry can come and expire within one."""
        for read in self.open_reads:
            read.remember(dict(self.visible(read.level)))

    @rule(read=reads)
    def advance_read(self, read: OpenRead) -> None:
        read.advance()

    @invariant()
    def views_counts_and_time_agree(self) -> None:
        self.count_step()
        assert self.store._segments.stream_time == self.current.time
        assert self.store.committed_offset(CHANGELOG) == self.offset
        self.check_what_waits(self.store._buffer.dirty)
        in_engine = {
            self.entry_of(stored_key[8:]): self.stored_value(value)
            for stored_key, value in self.store._buffer.engine_range(None, None)
        }
        assert in_engine == self.committed.numbers
        for level in IsolationLevel:
            view, expected = self.store.read_only(level), self.shown(self.visible(level))
            assert self.plain(self.all_of(view, reverse=False)) == expected
            assert self.plain(self.all_of(view, reverse=True)) == expected[::-1]
        self.remember_for_reads()

    def check_what_waits(self, dirty: Mapping[bytes, bytes | None]) -> None:
        counted = sum(len(key) + len(value or b"") for key, value in dirty.items())
        assert self.store.approximate_num_uncommitted_bytes() == counted

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.directory)
