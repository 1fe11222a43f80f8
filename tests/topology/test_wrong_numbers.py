"""Durations and counts that are none: refused by their names, where they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pystreams import (
    BufferConfig,
    Joined,
    JoinWindows,
    KStream,
    Materialized,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Repartitioned,
    Retry,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    TopologyError,
    UnlimitedWindows,
    aggregations,
    serdes,
    time_windowed_serde,
)
from pystreams.testing import TopologyTestDriver


def stream() -> KStream[str, int]:
    return StreamsBuilder().stream("in", key_serde=serdes.STRING, value_serde=serdes.LONG)


class Calls(Processor[str, int, str, int]):
    """Does something with its context when it is made ready."""

    def __init__(self, call: Callable[[ProcessorContext[str, int]], object]) -> None:
        self.call = call

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.call(context)

    def process(self, record: Record[str, int]) -> None:
        raise AssertionError(record)


def started(call: Callable[[Any], object]) -> None:
    builder = StreamsBuilder()
    numbers = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.LONG)
    numbers.process(lambda: Calls(call))
    TopologyTestDriver(builder.build()).close()


def scheduled(**arguments: Any) -> None:
    given = {"interval_ms": 5, "punctuation_type": PunctuationType.STREAM_TIME} | arguments
    started(lambda context: context.schedule(**({"punctuator": print} | given)))


NUMBERS: dict[str, Callable[[Any], object]] = {
    "TimeWindows: size_ms": TimeWindows.of_size_with_no_grace,
    "TimeWindows: grace_period_ms": lambda n: TimeWindows.of_size_and_grace(10, n),
    "TimeWindows: advance_ms": lambda n: TimeWindows.of_size_with_no_grace(10).advance_by(n),
    "SlidingWindows: time_difference_ms": SlidingWindows.of_time_difference_with_no_grace,
    "SlidingWindows: grace_period_ms": lambda n: SlidingWindows.of_time_difference_and_grace(10, n),
    "SessionWindows: inactivity_gap_ms": SessionWindows.of_inactivity_gap_with_no_grace,
    "SessionWindows: grace_period_ms": lambda n: SessionWindows.of_inactivity_gap_and_grace(10, n),
    "UnlimitedWindows: start_ms": lambda n: UnlimitedWindows.of().start_on(n),
    "JoinWindows: time_difference_ms": JoinWindows.of_time_difference_with_no_grace,
    "JoinWindows: grace_period_ms": lambda n: JoinWindows.of_time_difference_and_grace(10, n),
    "JoinWindows: before_ms": lambda n: JoinWindows.of_time_difference_with_no_grace(10).before(n),
    "JoinWindows: after_ms": lambda n: JoinWindows.of_time_difference_with_no_grace(10).after(n),
    "time_windowed_serde: window_size_ms": lambda n: time_windowed_serde(serdes.STRING, n),
    "Joined: grace_period_ms": lambda n: Joined(grace_period_ms=n),
    "Joined: idle_timeout_ms": lambda n: Joined(idle_timeout_ms=n),
    "StreamJoined: idle_timeout_ms": lambda n: StreamJoined(idle_timeout_ms=n),
    "Repartitioned: num_partitions": lambda n: Repartitioned(num_partitions=n),
    "'(unnamed)': retention_ms": lambda n: Materialized(retention_ms=n),
    "'kept': history_retention_ms": lambda n: Materialized(name="kept", history_retention_ms=n),
    "'(unnamed)': ttl_ms": lambda n: Materialized(ttl_ms=n),
    "Suppressed.until_time_limit: time_to_wait_ms": lambda n: Suppressed.until_time_limit(
        n, BufferConfig.unbounded()
    ),
    "BufferConfig: max_records": BufferConfig.max_records,
    "BufferConfig: max_bytes": BufferConfig.max_bytes,
    "Retry: max": lambda n: Retry(on=ValueError, max=n),
    "Retry: backoff_ms": lambda n: Retry(on=ValueError, backoff_ms=n),
    "distinct: within_ms": lambda n: stream().distinct(within_ms=n),
    "distinct: grace_period_ms": lambda n: stream().distinct(within_ms=5, grace_period_ms=n),
    "map_values_batch: max_batch": lambda n: stream().map_values_batch(list, max_batch=n),
    "map_values_async: max_in_flight": lambda n: stream().map_values_async(later, max_in_flight=n),
    "map_values_async: timeout_ms": lambda n: stream().map_values_async(later, timeout_ms=n),
    "map_values_async: retries": lambda n: stream().map_values_async(later, retries=n),
    "aggregations.top_n: n": aggregations.top_n,
    "'rows': history_retention_ms": lambda n: Stores.persistent_versioned_key_value_store(
        "rows", n
    ),
    "'rows': retention_ms": lambda n: Stores.persistent_window_store("rows", n, 10),
    "'rows': window_size_ms": lambda n: Stores.in_memory_window_store("rows", 100, n),
    "'rows': max_entries": lambda n: Stores.lru_map("rows", n),
    "processor 'KSTREAM-PROCESSOR-0000000001': interval_ms": lambda n: scheduled(interval_ms=n),
    "processor 'KSTREAM-PROCESSOR-0000000001': start_time_ms": lambda n: scheduled(start_time_ms=n),
}


async def later(value: int) -> int:
    return value


@pytest.mark.parametrize("wrong", ["1", 1.5, True])
@pytest.mark.parametrize("named", NUMBERS)
def test_what_is_no_whole_number_is_refused_by_name(named: str, wrong: object) -> None:
    where, _, argument = named.rpartition(": ")

    with pytest.raises(TopologyError) as refused:
        NUMBERS[named](wrong)

    message = str(refused.value)
    assert where in message
    assert argument in message
    assert repr(wrong) in message
    assert "whole number" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"punctuation_type": "wall"}, "punctuation_type is PunctuationType.STREAM_TIME or"),
        ({"punctuator": None}, r"punctuator takes a function of \(timestamp\), not None"),
        ({"punctuator": lambda: None}, r"calls its function with \(timestamp\)"),
    ],
)
def test_what_no_punctuation_can_be_made_of_is_refused_by_name(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(TopologyError, match=f"'KSTREAM-PROCESSOR-0000000001': .*{message}"):
        scheduled(**arguments)


@pytest.mark.parametrize("ranks", ["0.5", [None], ("0.5",)])
def test_ranks_are_numbers_in_a_sequence(ranks: Any) -> None:
    with pytest.raises(TopologyError, match=r"percentiles: ranks are from 0 to 1, such as"):
        aggregations.percentiles(ranks)


def test_one_rank_alone_is_told_where_to_go() -> None:
    several: Any = aggregations.percentiles

    with pytest.raises(TopologyError, match=r"ranks are several, .*percentile\(0\.5\) takes one"):
        several(0.5)


def test_an_order_is_true_or_false() -> None:
    with pytest.raises(TopologyError, match="map_values_async: ordered is True or False, not 'no'"):
        stream().map_values_async(later, ordered="no")  # type: ignore[call-overload]
