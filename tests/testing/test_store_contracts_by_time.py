"""The contracts for window, session and versioned stores: whole stores keep them, broken do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from pystreams import StoreEngine, ValueAndTimestamp, VersionedRecord, Window, Windowed, serdes
from pystreams.record import ConsumedMessage
from pystreams.stores.build import build_store
from pystreams.stores.contracts.spec import Retention, StoreSpec
from pystreams.stores.kinds.session.kind import SESSION
from pystreams.stores.kinds.versioned.kind import VERSIONED
from pystreams.stores.kinds.window.kind import WINDOW
from pystreams.testing import (
    SessionStoreContract,
    StateStoreContract,
    VersionedStoreContract,
    WindowStoreContract,
)
from tests.stores.custom_by_time import (
    RETENTION_MS,
    DictSessionStore,
    DictStore,
    DictVersionedStore,
    DictWindowStore,
    Entry,
)
from tests.testing.contract_failures import failures_of

SEGMENT_INTERVAL_MS = 30_000
TIMESTAMPED_VALUES = tuple(ValueAndTimestamp(text, 1_000) for text in "12345")

# Our stores


class OurWindowStore(WindowStoreContract):
    """Our window stores, by their spec."""

    retention_ms = RETENTION_MS
    changes: ClassVar[Mapping[str, Any]] = {}

    def make_store(self) -> Any:
        retention = Retention(RETENTION_MS, SEGMENT_INTERVAL_MS, window_size_ms=self.window_size_ms)
        return build_store(StoreSpec("ours", WINDOW, retention=retention, **self.changes))


class TestRocksDBWindowStore(OurWindowStore):
    pass


class TestMemoryWindowStore(OurWindowStore):
    changes: ClassVar = {"engine": StoreEngine.IN_MEMORY}


class TestTimestampedRocksDBWindowStore(OurWindowStore):
    changes: ClassVar = {"timestamped": True, "engine_timestamped": True}
    values: ClassVar = TIMESTAMPED_VALUES


class TestTimestampedMemoryWindowStore(TestTimestampedRocksDBWindowStore):
    changes: ClassVar = {
        "engine": StoreEngine.IN_MEMORY,
        "timestamped": True,
        "engine_timestamped": True,
    }


class TestRocksDBWindowStoreOfNumbers(OurWindowStore):
    changes: ClassVar = {"key_serde": serdes.LONG, "value_serde": serdes.DOUBLE}
    keys: ClassVar = (0, 1, 2, 255, 256)
    values: ClassVar = (0.0, 0.5, 1.5, -1.0, 2.0)


class TestRocksDBWindowStoreThatWritesThrough(OurWindowStore):
    changes: ClassVar = {"transactional": False}


class TestMemoryWindowStoreThatWritesThrough(OurWindowStore):
    changes: ClassVar = {"engine": StoreEngine.IN_MEMORY, "transactional": False}


class TestCachingRocksDBWindowStore(OurWindowStore):
    changes: ClassVar = {"caching": True}

    environment = replace(StateStoreContract.environment, cache_enabled=True)


class OurSessionStore(SessionStoreContract):
    """Our session stores, by their spec."""

    retention_ms = RETENTION_MS
    changes: ClassVar[Mapping[str, Any]] = {}

    def make_store(self) -> Any:
        retention = Retention(RETENTION_MS, SEGMENT_INTERVAL_MS)
        return build_store(StoreSpec("ours", SESSION, retention=retention, **self.changes))


class TestRocksDBSessionStore(OurSessionStore):
    pass


class TestMemorySessionStore(OurSessionStore):
    changes: ClassVar = {"engine": StoreEngine.IN_MEMORY}


class TestRocksDBSessionStoreThatWritesThrough(OurSessionStore):
    changes: ClassVar = {"transactional": False}


class TestMemorySessionStoreThatWritesThrough(OurSessionStore):
    changes: ClassVar = {"engine": StoreEngine.IN_MEMORY, "transactional": False}


class TestCachingRocksDBSessionStore(OurSessionStore):
    changes: ClassVar = {"caching": True}

    environment = replace(StateStoreContract.environment, cache_enabled=True)


class OurVersionedStore(VersionedStoreContract):
    """Our versioned stores, by their spec."""

    history_retention_ms = RETENTION_MS
    changes: ClassVar[Mapping[str, Any]] = {}

    def make_store(self) -> Any:
        retention = Retention(RETENTION_MS, SEGMENT_INTERVAL_MS)
        return build_store(StoreSpec("ours", VERSIONED, retention=retention, **self.changes))


class TestRocksDBVersionedStore(OurVersionedStore):
    pass


class TestMemoryVersionedStore(OurVersionedStore):
    changes: ClassVar = {"engine": StoreEngine.IN_MEMORY}


class TestRocksDBVersionedStoreThatWritesThrough(OurVersionedStore):
    changes: ClassVar = {"transactional": False}


class TestMemoryVersionedStoreThatWritesThrough(OurVersionedStore):
    changes: ClassVar = {"engine": StoreEngine.IN_MEMORY, "transactional": False}


# Stores of a user's own


class CustomWindowStore(WindowStoreContract):
    retention_ms = RETENTION_MS


class CustomSessionStore(SessionStoreContract):
    retention_ms = RETENTION_MS


class CustomVersionedStore(VersionedStoreContract):
    history_retention_ms = RETENTION_MS


class TestCustomWindowStore(CustomWindowStore):
    def make_store(self) -> DictWindowStore:
        return DictWindowStore("windows")


class TestCustomSessionStore(CustomSessionStore):
    def make_store(self) -> DictSessionStore:
        return DictSessionStore("sessions")


class TestCustomVersionedStore(CustomVersionedStore):
    def make_store(self) -> DictVersionedStore:
        return DictVersionedStore("versions")


# Broken window stores


class ExcludesTheLastStart(DictWindowStore):
    def fetch(self, key: str, time_from: int, time_to: int | None = None) -> Any:
        return super().fetch(key, time_from, None if time_to is None else time_to - 1)


class FindsKeysThatBeginWithTheKey(DictWindowStore):
    def _found(
        self, key_from: str | None, key_to: str | None, time_from: int, time_to: int
    ) -> list[Entry]:
        up_to = None if key_to is None else key_to + "\x7f"
        return super()._found(key_from, up_to, time_from, time_to)


class ShowsExpiredWindows(DictWindowStore):
    def oldest(self) -> int:
        return min(0, super().oldest())


class CountsNoDroppedWindow(DictWindowStore):
    def drop(self) -> None:
        pass


class LogsDroppedWindows(DictWindowStore):
    def drop(self) -> None:
        super().drop()
        self.log(b"dropped", "value")


class ForgetsTheSizeOfWindows(DictWindowStore):
    def _found(
        self, key_from: str | None, key_to: str | None, time_from: int, time_to: int
    ) -> list[Entry]:
        found = super()._found(key_from, key_to, time_from, time_to)
        return [(Windowed(at.key, Window(at.window.start, 0)), value) for at, value in found]


class GoesForwardOnly(DictWindowStore):
    def backward_all(self) -> Iterator[Entry]:
        return self.all()


class ForgetsTombstones(DictWindowStore):
    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        super().restore([message for message in messages if message.value() is not None])


# Broken session stores


class ExcludesTheLatestStart(DictSessionStore):
    def find_sessions_range(
        self, key_from: str | None, key_to: str | None, earliest_end: int, latest_start: int
    ) -> Iterator[Entry]:
        return super().find_sessions_range(key_from, key_to, earliest_end, latest_start - 1)


class OrdersByStart(DictSessionStore):
    def fetch(self, key: str) -> Iterator[Entry]:
        return iter(sorted(super().fetch(key)))


class TakesImpossibleSessions(DictSessionStore):
    def put(self, session: Windowed[str], aggregate: str | None) -> None:
        start, end = session.window
        possible = Window(max(0, min(start, end)), max(0, start, end))
        super().put(Windowed(session.key, possible), aggregate)


class RemovesNothing(DictSessionStore):
    def remove(self, session: Windowed[str]) -> None:
        pass


class ExcludesTheLatestEnd(DictSessionStore):
    def find_sessions_by_end(self, earliest_end: int, latest_end: int) -> Iterator[Entry]:
        return super().find_sessions_by_end(earliest_end, latest_end - 1)


class ShowsExpiredSessions(DictSessionStore):
    def oldest(self) -> int:
        return min(0, super().oldest())


class CountsNoDroppedSession(DictSessionStore):
    def drop(self) -> None:
        pass


# Broken versioned stores


class KnowsNoEnds(DictVersionedStore):
    def end_of(self, key: str, timestamp: int) -> int | None:
        return None


class ForgetsDeletions(DictVersionedStore):
    def keep(self, entry: Any, value: str | None, time: int) -> bool:
        kept = super().keep(entry, value, time)
        if value is None:
            self._entries = {
                version: kept_value
                for version, kept_value in self._entries.items()
                if version[0] != entry[0] or version[1] > time
            }
        return kept


class LogsTheTimeOfTheRecord(DictVersionedStore):
    def log(self, key: bytes, value: str | None, timestamp: int | None = None) -> None:
        super().log(key, value)


class ReadsRangesLate(DictVersionedStore):
    def get_range(
        self,
        key: str,
        from_time: int | None = None,
        to_time: int | None = None,
        *,
        descending: bool = False,
    ) -> Iterator[VersionedRecord[str]]:
        position = 0
        while True:
            found = list(super().get_range(key, from_time, to_time, descending=descending))
            if position == len(found):
                return
            yield found[position]
            position += 1


class RemembersForever(DictVersionedStore):
    def oldest(self) -> int:
        return min(0, super().oldest())


class TakesNegativeTimes(DictVersionedStore):
    def put(self, key: str, value: str | None, timestamp: int) -> int:
        return super().put(key, value, max(0, timestamp))


class CountsNoDroppedVersion(DictVersionedStore):
    def drop(self) -> None:
        pass


BROKEN: dict[type[DictStore], str] = {
    ExcludesTheLastStart: "test_windows_of_a_key_are_found_by_their_start",
    FindsKeysThatBeginWithTheKey: "test_windows_of_a_key_are_found_by_their_start",
    ShowsExpiredWindows: "test_windows_older_than_the_retention_are_not_found",
    CountsNoDroppedWindow: "test_a_window_that_is_long_over_is_dropped_and_counted",
    LogsDroppedWindows: "test_a_window_that_is_long_over_is_dropped_and_counted",
    ForgetsTheSizeOfWindows: "test_windows_of_several_keys_are_found",
    GoesForwardOnly: "test_backward_reads_give_the_same_the_other_way_round",
    ForgetsTombstones: "test_a_store_restored_from_its_changelog_is_equal",
    ExcludesTheLatestStart: "test_sessions_are_found_by_the_time_they_overlap",
    OrdersByStart: "test_sessions_of_a_key_come_in_order_of_their_end_then_start",
    TakesImpossibleSessions: "test_a_session_that_can_not_be_is_refused",
    RemovesNothing: "test_a_session_has_the_aggregate_put_last",
    ExcludesTheLatestEnd: "test_sessions_of_all_keys_are_found_by_their_end",
    ShowsExpiredSessions: "test_sessions_older_than_the_retention_are_not_found",
    CountsNoDroppedSession: "test_a_session_that_is_long_over_is_dropped_and_counted",
    KnowsNoEnds: "test_a_version_is_valid_until_the_next",
    ForgetsDeletions: "test_a_deletion_ends_a_version",
    LogsTheTimeOfTheRecord: "test_history_restored_from_the_changelog_is_equal",
    ReadsRangesLate: "test_a_range_is_of_the_moment_it_was_asked_for",
    RemembersForever: "test_history_goes_back_as_far_as_its_retention",
    TakesNegativeTimes: "test_a_negative_timestamp_is_refused",
    CountsNoDroppedVersion: "test_a_put_before_the_history_is_dropped_and_counted",
}
CONTRACTS: dict[type[DictStore], type[StateStoreContract]] = {
    DictWindowStore: CustomWindowStore,
    DictSessionStore: CustomSessionStore,
    DictVersionedStore: CustomVersionedStore,
}


def failures(kind: type[DictStore]) -> dict[str, str]:
    [contract] = [contract for whole, contract in CONTRACTS.items() if issubclass(kind, whole)]
    return failures_of(contract, lambda: kind("s"))


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_store_fails_by_the_promise_it_breaks(kind: type[DictStore]) -> None:
    found = failures(kind)

    assert BROKEN[kind] in found
    assert "and should be" in found[BROKEN[kind]]


@pytest.mark.parametrize("kind", CONTRACTS, ids=lambda kind: kind.__name__)
def test_the_whole_stores_fail_nothing(kind: type[DictStore]) -> None:
    assert failures(kind) == {}
