"""What the page on aggregations promises of results: which are exact, and what counts as one."""

from __future__ import annotations

import math
import random
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams import StreamsBuilder, Topology, aggregations
from pystreams.serdes import JSON, STRING
from pystreams.testing import TopologyTestDriver
from pystreams.topology.aggregations import Aggregation

Numbers = list[float]


def topology_of(aggregation: Aggregation[Any, Any, Any]) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key_serde=STRING, value_serde=JSON).group_by_key()
    table = grouped.aggregate(aggregation, name="t")
    if aggregation.name != "aggregations.stddev":  # Which is nan at first.
        table.to_stream().to("out", value_serde=JSON)
    return builder.build()


def result_of(
    aggregation: Aggregation[Any, Any, Any], values: list[Any], directory: Path | None = None
) -> Any:
    """Return the result in the store after values of one key, with ascending timestamps."""
    config = {"default.key.serde": "string"}
    with TopologyTestDriver(topology_of(aggregation), config, state_directory=directory) as driver:
        source = driver.create_input_topic("in", STRING, JSON)
        for timestamp, value in enumerate(values):
            source.pipe_input("k", value, 100 + timestamp)
        return driver.get_key_value_store("t").get("k")


def folded(aggregation: Aggregation[Any, Any, Any], values: list[Any]) -> Any:
    state = None
    for value in values:
        state = aggregation.aggregator("k", value, state)
    return aggregation.result(state)


# ---------------------------------------------------------------------- spreads


@pytest.mark.parametrize(
    ("values", "deviation"),
    [
        ([1e200, -1e200], 1.414213562373095e200),
        ([1e160, 3e160, 5e160], 2e160),
        ([1e-200, 3e-200], 1.414213562373095e-200),
        ([5e-324, 1.5e-323], 5e-324),
        ([1e308, -1e308], 1.4142135623730951e308),
        ([1.7e308, -1.7e308], math.inf),
        ([3, 3, 3], 0.0),
        ([1, 3], math.sqrt(2)),
    ],
    ids=str,
)
def test_a_standard_deviation_is_right_for_numbers_of_any_size(
    values: Numbers, deviation: float
) -> None:
    assert result_of(aggregations.stddev(), values) == deviation


@settings(max_examples=300, deadline=None)
@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=9))
def test_a_standard_deviation_is_the_float_next_to_the_true_one(values: Numbers) -> None:
    try:
        sample, whole = statistics.stdev(values), statistics.pstdev(values)
    except OverflowError:
        return

    assert folded(aggregations.stddev(), values) == sample
    assert folded(aggregations.stddev(sample=False), values) == whole


# ---------------------------------------------------------------------- sketches


@pytest.mark.parametrize("compression", [10, 13, 64, 200, 1_000])
def test_percentiles_are_exact_for_three_quarters_of_the_compression(compression: int) -> None:
    count = 3 * compression // 4
    values = random.Random(compression).choices(range(10**6), k=count)
    ranks = [(place + 0.5) / count for place in range(count)]

    found = folded(aggregations.percentiles(ranks, compression=compression), values)

    assert list(found) == sorted(values)


@pytest.mark.parametrize(
    ("values", "count"),
    [([""], 1), (["", "a", "b", ""], 3), ([1, 1.0], 2), ([0, 0.0], 1), (["0", 0], 2)],
    ids=str,
)
def test_what_an_approximate_distinct_count_takes_for_one(values: list[Any], count: int) -> None:
    assert result_of(aggregations.approx_distinct_count(), values) == count


def test_empty_bytes_count_as_a_value() -> None:
    in_bytes = aggregations.approx_distinct_count(str.encode)

    assert result_of(in_bytes, ["", "a", ""]) == 2


# ---------------------------------------------------------------------- over earlier state


@pytest.mark.parametrize(
    ("earlier", "later", "shown", "more", "then"),
    [
        (aggregations.top_n(5), aggregations.top_n(2), [5, 4], 0, [5, 4]),
        (aggregations.top_n(5), aggregations.top_n(2), [5, 4], 9, [9, 5]),
        (aggregations.bottom_n(5), aggregations.bottom_n(2), [1, 2], 9, [1, 2]),
        (aggregations.collect(5), aggregations.collect(2), [2, 1], 9, [1, 9]),
        (
            aggregations.collect(5, keep="first"),
            aggregations.collect(2, keep="first"),
            [5, 4],
            9,
            [5, 4],
        ),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_smaller_number_counts_at_once_for_what_an_earlier_version_has_kept(
    tmp_path: Path, earlier: Any, later: Any, shown: Any, more: Any, then: Any
) -> None:
    assert result_of(earlier, [5, 4, 3, 2, 1], tmp_path) == [*result_of(earlier, [5, 4, 3, 2, 1])]

    assert result_of(later, [], tmp_path) == shown
    with TopologyTestDriver(topology_of(later), state_directory=tmp_path) as driver:
        source = driver.create_input_topic("in", STRING, JSON)
        source.pipe_input("k", more, 500)
        assert driver.get_key_value_store("t").get("k") == then
        assert driver.create_output_topic("out", STRING, JSON).read_values() == [then]
