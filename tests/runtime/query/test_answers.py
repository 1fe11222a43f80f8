"""What each query answers of each kind of store, and what it says of the kinds it can't ask."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    FailureReason,
    IsolationLevel,
    KeyQuery,
    MultiVersionedKeyQuery,
    Query,
    RangeQuery,
    StoreKind,
    StreamsBuilder,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    ValueAndTimestamp,
    VersionedKeyQuery,
    VersionedRecord,
    Window,
    Windowed,
    WindowKeyQuery,
    WindowRangeQuery,
    aggregations,
    serdes,
)
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.kinds.buffer.kind import BUFFER
from pystreams.stores.kinds.list.kind import LIST
from tests.every_store import ALL_KINDS
from tests.runtime.query.filing import BUILDERS, ask, filing, joining, specs_of
from tests.runtime.running_task import RunningTask


@pytest.fixture
def running() -> RunningTask:
    running = RunningTask(filing())
    running.run(("a", "a1", 1), ("b", "b5", 5), ("a", "a12", 12), ("c", "c20", 20))
    return running


def answer(running: RunningTask, query: Query[Any], store: str) -> Any:
    return ask([running], query, store).only_value()


def test_key_query_gives_the_plain_value(running: RunningTask) -> None:
    assert answer(running, KeyQuery("a"), "plain") == "a12"
    assert answer(running, KeyQuery("a"), "timed") == "a12"
    assert answer(running, KeyQuery("nobody"), "timed") is None


def test_timestamped_key_query_gives_the_timestamp_as_well(running: RunningTask) -> None:
    assert answer(running, TimestampedKeyQuery("a"), "timed") == ValueAndTimestamp("a12", 12)
    assert answer(running, TimestampedKeyQuery("nobody"), "timed") is None


def test_queries_of_a_ready_aggregation_give_its_results(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    letters = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    by_key = letters.group_by_key()
    by_key.aggregate(aggregations.mean(len), name="means")
    by_key.aggregate(aggregations.mean(len), name="history", history_retention_ms=100)
    topology = builder.build()
    running = RunningTask(topology, directory=tmp_path)
    running.run(("a", "x", 1), ("a", "xx", 12), ("b", "xxx", 20))

    def answered(query: Query[Any], store: str = "means") -> Any:
        return ask([running], query, store, specs=specs_of(topology)).only_value()

    assert answered(KeyQuery("a")) == 1.5
    assert answered(TimestampedKeyQuery("a")) == ValueAndTimestamp(1.5, 12)
    assert list(answered(RangeQuery())) == [("a", 1.5), ("b", 3.0)]
    assert answered(VersionedKeyQuery("a", as_of=5), "history").value == 1.0


@pytest.mark.parametrize("store", ["plain", "timed", "recent"])
@pytest.mark.parametrize(
    ("query", "keys"),
    [
        (RangeQuery(), "abc"),
        (RangeQuery(lower="b"), "bc"),
        (RangeQuery(upper="b"), "ab"),
        (RangeQuery("b", "b"), "b"),
        (RangeQuery(descending=True), "cba"),
        (RangeQuery("a", "b", descending=True), "ba"),
        (RangeQuery("x", "z"), ""),
    ],
    ids=str,
)
def test_range_query_gives_plain_values_in_order(
    running: RunningTask, store: str, query: RangeQuery, keys: str
) -> None:
    values = {"a": "a12", "b": "b5", "c": "c20"}

    assert list(answer(running, query, store)) == [(key, values[key]) for key in keys]


def test_timestamped_range_query_gives_timestamps(running: RunningTask) -> None:
    found = answer(running, TimestampedRangeQuery(upper="b", descending=True), "timed")

    assert list(found) == [("b", ValueAndTimestamp("b5", 5)), ("a", ValueAndTimestamp("a12", 12))]


def test_an_lru_map_answers_for_the_keys_it_keeps_and_no_query_counts_as_their_use(
    running: RunningTask,
) -> None:
    assert answer(running, KeyQuery("b"), "recent") == "b5"

    running.run(("d", "d30", 30))

    assert answer(running, KeyQuery("b"), "recent") is None
    assert answer(running, KeyQuery("d"), "recent") == "d30"
    assert list(answer(running, RangeQuery(), "recent")) == [
        ("a", "a12"),
        ("c", "c20"),
        ("d", "d30"),
    ]


def test_window_key_query_gives_the_windows_of_a_key_by_their_start(running: RunningTask) -> None:
    def found(time_from: int, time_to: int) -> list[Any]:
        return list(answer(running, WindowKeyQuery("a", time_from, time_to), "windows"))

    first, second = (0, ValueAndTimestamp("a1", 1)), (10, ValueAndTimestamp("a12", 12))
    assert found(0, 10) == [first, second]
    assert found(0, 9) == [first]
    assert found(1, 10) == [second]
    assert found(11, 100) == []


def test_window_range_query_gives_the_windows_of_all_keys(running: RunningTask) -> None:
    found = answer(running, WindowRangeQuery(time_from=0, time_to=10), "windows")

    assert {str(windowed): value.value for windowed, value in found} == {
        "[a@0/10]": "a1",
        "[b@0/10]": "b5",
        "[a@10/20]": "a12",
    }


def test_window_range_query_gives_the_sessions_of_a_key(running: RunningTask) -> None:
    found = answer(running, WindowRangeQuery(key="a"), "sessions")

    assert list(found) == [
        (Windowed("a", Window(1, 1)), "a1"),
        (Windowed("a", Window(12, 12)), "a12"),
    ]


def test_versioned_key_query_gives_the_latest_version_or_one_of_a_time(
    running: RunningTask,
) -> None:
    assert answer(running, VersionedKeyQuery("a"), "versions") == VersionedRecord("a12", 12)
    assert answer(running, VersionedKeyQuery("a", as_of=11), "versions") == VersionedRecord(
        "a1", 1, 12
    )
    assert answer(running, VersionedKeyQuery("a", as_of=0), "versions") is None


def test_multi_versioned_key_query_gives_versions_in_either_order(running: RunningTask) -> None:
    old, new = VersionedRecord("a1", 1, 12), VersionedRecord("a12", 12)

    def found(**times: Any) -> list[Any]:
        return list(answer(running, MultiVersionedKeyQuery("a", **times), "versions"))

    assert found() == [old, new]
    assert found(descending=True) == [new, old]
    assert found(from_time=12) == [new]
    assert found(to_time=11) == [old]


QUERIES: dict[Query[Any], list[str]] = {
    KeyQuery("a"): ["plain", "timed", "recent"],
    RangeQuery(): ["plain", "timed", "recent"],
    TimestampedKeyQuery("a"): ["timed"],
    TimestampedRangeQuery(): ["timed"],
    WindowKeyQuery("a", 0, 10): ["windows"],
    WindowRangeQuery(time_from=0, time_to=10): ["windows"],
    WindowRangeQuery(key="a"): ["sessions"],
    VersionedKeyQuery("a"): ["versions"],
    MultiVersionedKeyQuery("a"): ["versions"],
}


CURES = {
    "plain": "ask it with KeyQuery or RangeQuery",
    "recent": "ask it with KeyQuery or RangeQuery",
    "timed": (
        "ask it with KeyQuery or RangeQuery, or with TimestampedKeyQuery or TimestampedRangeQuery"
    ),
    "windows": "ask it with WindowKeyQuery, or WindowRangeQuery with time_from and time_to",
    "sessions": "ask it with WindowRangeQuery with key",
    "versions": "ask it with VersionedKeyQuery or MultiVersionedKeyQuery",
}


@pytest.mark.parametrize("store", BUILDERS)
@pytest.mark.parametrize(("query", "stores"), QUERIES.items(), ids=str)
def test_a_query_a_store_can_not_answer_fails_and_names_those_it_can(
    running: RunningTask, query: Query[Any], stores: list[str], store: str
) -> None:
    result = ask([running], query, store).partition_results[0]

    if store in stores:
        assert result.is_success
    else:
        assert result.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
        assert result.failure_message.startswith(f"state store {store!r} is a ")
        assert result.failure_message.endswith(f" and can't answer {query}: {CURES[store]}")


@pytest.mark.parametrize("store", BUILDERS)
def test_the_queries_that_a_message_names_are_all_that_the_store_answers(store: str) -> None:
    answered = {type(query).__name__ for query, stores in QUERIES.items() if store in stores}

    assert set(re.findall(r"\w+Query\b", CURES[store])) == answered


def test_the_message_says_which_store_has_no_timestamps(running: RunningTask) -> None:
    def told(store: str) -> str:
        query = TimestampedKeyQuery("a") if store != "timed" else VersionedKeyQuery("a")
        message = ask([running], query, store).partition_results[0].failure_message
        return message.partition(" is a ")[2].partition(" and can't ")[0]

    assert {store: told(store) for store in BUILDERS} == {
        "plain": "key-value store without timestamps",
        "recent": "key-value store without timestamps",
        "timed": "key-value store",
        "windows": "window store",
        "sessions": "session store",
        "versions": "versioned store",
    }


@pytest.mark.parametrize(("kind", "whose"), [(BUFFER, "an operation"), (LIST, "a join")])
def test_what_joins_keep_for_themselves_answers_nothing(
    kind: StoreKind, whose: str, tmp_path: Path
) -> None:
    """Records that wait for their grace period, and those that an outer join holds back."""
    topology = joining()
    specs = specs_of(topology)
    (store,) = [name for name, spec in specs.items() if spec.kind == kind]
    running = RunningTask(topology, directory=tmp_path)
    running.run(("a", "left", 1))
    running.commit()
    assert len(list(running.task.state_manager.stores()[store].changelog_records())) == 1

    for query in QUERIES:
        result = ask([running], query, store, specs=specs).partition_results[0]

        assert result.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
        assert result.failure_message == (
            f"state store {store!r} is a {kind.name} store and can't answer {query}: "
            f"it is what {whose} keeps for itself, ask a table made of its output"
        )
    running.task.close()


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_the_message_of_an_unknown_query_has_a_cure_for_each_kind(kind: StoreKind) -> None:
    class Other(Query[int]):
        pass

    assert re.search(r": .*\bask ", kind.unknown_query(Other(), StoreSpec("s", kind)))


@pytest.mark.parametrize(("query", "stores"), QUERIES.items(), ids=str)
def test_committed_queries_see_nothing_before_the_commit_and_all_after_it(
    running: RunningTask, query: Query[Any], stores: list[str]
) -> None:
    def seen(level: IsolationLevel) -> dict[str, Any]:
        found = {}
        for store in stores:
            value: Any = ask([running], query, store, level=level).only_value()
            found[store] = list(value) if hasattr(value, "__next__") else value
        return found

    uncommitted = seen(IsolationLevel.READ_UNCOMMITTED)
    assert all(uncommitted.values())
    assert not any(seen(IsolationLevel.READ_COMMITTED).values())

    running.commit()

    assert seen(IsolationLevel.READ_COMMITTED) == uncommitted
    assert seen(IsolationLevel.READ_UNCOMMITTED) == uncommitted


@pytest.mark.parametrize(
    "fields",
    [{}, {"time_from": 0}, {"time_to": 0}, {"key": "a", "time_from": 0, "time_to": 1}],
    ids=str,
)
def test_a_window_range_query_asks_one_thing(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="either key="):
        WindowRangeQuery(**fields)
