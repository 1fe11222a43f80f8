"""Plain functions that return what an async one gave them: told, whatever they are called for.

Those of one record by one (`filter`, `map`, ...) are in `test_wrong_results.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pystreams import (
    KGroupedStream,
    KStream,
    KTable,
    Processor,
    PunctuationType,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    StreamsError,
    TimeWindows,
    aggregations,
)
from pystreams.serdes import STRING
from pystreams.testing import TopologyTestDriver
from pystreams.topology.aggregations import Aggregation

Stream = KStream[Any, Any]
Table = KTable[Any, Any]
Declare = Callable[[StreamsBuilder], object]

TEXT: Any = {"key_serde": STRING, "value_serde": STRING}
WINDOWS = TimeWindows.of_size_with_no_grace(10)


async def answer_of(*_: Any) -> str:
    return "answer"


def asking(*given: Any) -> Any:
    return answer_of(*given)


def nothing() -> str:
    return ""


def latest(*given: Any) -> Any:
    return given[-1]


class Punctuates(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        context.schedule(1, PunctuationType.STREAM_TIME, asking)

    def process(self, record: Any) -> None:
        """Take it."""


def words(builder: StreamsBuilder) -> Stream:
    return builder.stream("words", **TEXT)


def on_stream(use: Callable[[Stream], object]) -> Declare:
    return lambda builder: use(words(builder))


def on_groups(use: Callable[[KGroupedStream[Any, Any]], object]) -> Declare:
    return lambda builder: use(words(builder).group_by_key())


def with_global(use: Callable[[Stream, Any], object]) -> Declare:
    return lambda builder: use(words(builder), builder.global_table("others", **TEXT))


def tables(use: Callable[[Table, Table], object]) -> Declare:
    return lambda builder: use(builder.table("words", **TEXT), builder.table("others", **TEXT))


def regrouped(use: Callable[[Any], object]) -> Declare:
    return lambda builder: use(
        builder.table("words", **TEXT).group_by(lambda key, value: (key, value), **TEXT)
    )


def selecting(chosen: Aggregation[Any, Any, Any]) -> Declare:
    return on_groups(lambda groups: groups.aggregate(chosen))


SESSIONS = SessionWindows.of_inactivity_gap_with_no_grace(10)
SLIDING = SlidingWindows.of_time_difference_with_no_grace(10)

USES: dict[str, Declare] = {
    "group_by": on_stream(lambda stream: stream.group_by(asking).count()),
    "topic": on_stream(lambda stream: stream.to(asking)),
    "partitioner": on_stream(lambda stream: stream.to("out", partitioner=asking)),
    "punctuator": on_stream(lambda stream: stream.process(Punctuates)),
    "timestamp extractor": lambda builder: builder.stream("words", timestamp_extractor=asking),
    "reducer": on_groups(lambda groups: groups.reduce(asking)),
    "aggregator": on_groups(lambda groups: groups.aggregate(nothing, asking)),
    "reducer of windows": on_groups(lambda groups: groups.windowed_by(WINDOWS).reduce(asking)),
    "aggregator of windows": on_groups(
        lambda groups: groups.windowed_by(WINDOWS).aggregate(nothing, asking)
    ),
    "late": on_groups(lambda groups: groups.windowed_by(WINDOWS, late=asking).count()),
    "reducer of sliding windows": on_groups(
        lambda groups: groups.windowed_by(SLIDING).reduce(asking)
    ),
    "reducer of sessions": on_groups(lambda groups: groups.windowed_by(SESSIONS).reduce(asking)),
    "cogroup": on_groups(lambda groups: groups.cogroup(asking).aggregate(nothing)),
    "aggregations.count": selecting(aggregations.count(asking)),
    "aggregations.sum": selecting(aggregations.sum(asking)),
    "aggregations.last": selecting(aggregations.last(asking)),
    "aggregations.top_n": selecting(aggregations.top_n(2, asking)),
    "adder": regrouped(lambda groups: groups.reduce(asking, latest)),
    "key of a global table": with_global(lambda stream, table: stream.join(table, asking, latest)),
    "foreign key": tables(lambda table, other: table.join(other, latest, foreign_key=asking)),
}


def pipe_records(driver: TopologyTestDriver, *, others: bool) -> None:
    if others:
        for key in ("a", "xyz"):
            driver.create_input_topic("others", STRING, STRING).pipe_input(key, "o", 1000)
    inputs = driver.create_input_topic("words", STRING, STRING)
    for time in (1000, 1001, 1020, 1000):
        inputs.pipe_input("a", "xyz", time)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("use", USES)
def test_a_coroutine_that_nobody_would_await_is_told_with_the_operation(
    builder: StreamsBuilder, drive: Any, use: str
) -> None:
    USES[use](builder)
    others = "others" in str(builder.build().describe())

    with pytest.raises(StreamsError) as told:
        pipe_records(drive(), others=others)

    assert " a coroutine of answer_of, which nobody would await" in str(told.value)
    assert " at tests/topology/processors/test_returned_coroutines.py:" in str(told.value)
