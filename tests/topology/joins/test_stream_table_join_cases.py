"""Joins of a stream with a table, record by record: plain, versioned, and with a grace period.

Source: Kafka's `StreamTableJoinIntegrationTest`, `StreamTableJoinWithGraceIntegrationTest`.
"""

from __future__ import annotations

import pytest

from pystreams import KTable, Materialized, StreamsBuilder
from pystreams.serdes import LONG, STRING
from pystreams.testing import TopologyTestDriver

STREAM, TABLE = "stream", "table"
INPUT: list[tuple[str, str | None, int]] = [
    (STREAM, None, 1),
    (TABLE, None, 2),
    (STREAM, "A", 3),
    (TABLE, "a", 4),
    (STREAM, "B", 5),
    (TABLE, "b", 6),
    (STREAM, None, 7),
    (TABLE, None, 8),
    (STREAM, "C", 9),
    (TABLE, "c", 10),
    (TABLE, None, 11),
    (STREAM, None, 12),
    (TABLE, None, 13),
    (TABLE, "d", 7),
    (STREAM, "D", 6),
    (STREAM, None, 2),
    (TABLE, None, 3),
    (TABLE, "e", 14),
    (STREAM, "E", 15),
    (STREAM, None, 10),
    (TABLE, None, 9),
    (STREAM, "F", 4),
    (TABLE, "f", 3),
]
# What each record makes, by its place in the input.
PLAIN = {4: ("B-a", 5), 14: ("D-d", 6), 18: ("E-e", 15)}
VERSIONED = {4: ("B-a", 5), 14: ("D-b", 6), 18: ("E-e", 15), 21: ("F-a", 4)}
WITH_GRACE = {8: ("B-a", 5), 14: ("D-b", 6), 21: ("F-a", 4)}
CASES = [
    ("join", None, None, PLAIN),
    ("left_join", None, None, PLAIN | {2: ("A-", 3), 8: ("C-", 9), 21: ("F-", 4)}),
    ("join", 300_000, None, VERSIONED),
    ("left_join", 300_000, None, VERSIONED | {2: ("A-", 3), 8: ("C-", 9)}),
    ("join", 300_000, 2, WITH_GRACE),
    ("left_join", 300_000, 2, WITH_GRACE | {4: ("A-", 3), 18: ("C-", 9)}),
]


@pytest.mark.parametrize("cache_bytes", [0, 10_000_000], ids=["", "cached"])
@pytest.mark.parametrize(("method", "history_ms", "grace_ms", "expected"), CASES)
def test_each_record_makes_what_it_makes_in_kafka_streams(
    method: str,
    history_ms: int | None,
    grace_ms: int | None,
    expected: dict[int, tuple[str, int]],
    cache_bytes: int,
) -> None:
    builder = StreamsBuilder()
    stream = builder.stream(STREAM, key_serde=LONG, value_serde=STRING)
    kept = Materialized[int, str](name="rows", history_retention_ms=history_ms)
    table: KTable[int, str] = builder.table(
        TABLE, key_serde=LONG, value_serde=STRING, materialized=kept
    )
    join = getattr(stream, method)
    join(table, lambda left, right: f"{left}-{right or ''}", grace_period_ms=grace_ms).to(
        "out", value_serde=STRING
    )

    made: dict[int, tuple[str | None, int]] = {}
    with TopologyTestDriver(builder.build(), {"statestore.cache.max.bytes": cache_bytes}) as driver:
        out = driver.create_output_topic("out", LONG, STRING)
        for place, (topic, value, timestamp) in enumerate(INPUT):
            driver.create_input_topic(topic, LONG, STRING).pipe_input(0, value, timestamp=timestamp)
            for each in out.read_records():
                made[place] = (each.value, each.timestamp)

    assert made == expected
