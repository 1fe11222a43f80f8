"""Ready aggregations give what a few lines of plain Python give, in whatever order records come.

Also over restarts in the middle, and when the states of two parts are merged, as sessions are.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams import StreamsBuilder, Topology, aggregations
from pystreams.serdes import JSON, STRING
from pystreams.testing import TopologyTestDriver
from pystreams.topology.aggregations import Aggregation

pytestmark = pytest.mark.property

Timed = tuple[int, Any]
"""(timestamp in ms, number)."""


class Case(NamedTuple):
    """One aggregation and what it must give.

    Attributes:
        make: Makes the aggregation.
        model: Called with the values as (timestamp, value) in the order they came.
        any_order: Whether the order in which they came makes no difference, to the bytes neither.
    """

    make: Callable[[], Aggregation[Any, Any, Any]]
    model: Callable[[list[Timed]], Any]
    any_order: bool = True


def numbers_of(timed: list[Timed]) -> list[Any]:
    return [number for _, number in timed]


def exact_sum(numbers: list[Any]) -> Any:
    if any(isinstance(number, float) for number in numbers):
        return float(sum(map(Fraction, numbers)))
    return sum(numbers)


def exact_mean(numbers: list[Any]) -> float:
    return float(sum(map(Fraction, numbers)) / len(numbers))


def spread(numbers: list[Any]) -> float:
    return float(statistics.pvariance([Fraction(number) for number in numbers]))


def by_time(timed: list[Timed]) -> list[Any]:
    return numbers_of(sorted(timed, key=lambda record: record[0]))


CASES = {
    "count": Case(aggregations.count, len),
    "sum": Case(aggregations.sum, lambda timed: exact_sum(numbers_of(timed))),
    "mean": Case(aggregations.mean, lambda timed: exact_mean(numbers_of(timed))),
    "variance": Case(
        lambda: aggregations.variance(sample=False), lambda timed: spread(numbers_of(timed))
    ),
    "min": Case(aggregations.min, lambda timed: min(numbers_of(timed)), any_order=False),
    "max": Case(aggregations.max, lambda timed: max(numbers_of(timed)), any_order=False),
    "first": Case(aggregations.first, lambda timed: by_time(timed)[0], any_order=False),
    "last": Case(aggregations.last, lambda timed: by_time(timed)[-1], any_order=False),
    "top_n": Case(
        lambda: aggregations.top_n(3, by=abs),
        lambda timed: sorted(numbers_of(timed), key=lambda number: -abs(number))[:3],
        any_order=False,
    ),
    "bottom_n": Case(
        lambda: aggregations.bottom_n(3),
        lambda timed: sorted(numbers_of(timed))[:3],
        any_order=False,
    ),
    "collect": Case(
        lambda: aggregations.collect(4), lambda timed: by_time(timed)[-4:], any_order=False
    ),
    "collect the first": Case(
        lambda: aggregations.collect(4, keep="first"),
        lambda timed: by_time(timed)[:4],
        any_order=False,
    ),
    "distinct_count": Case(
        aggregations.distinct_count, lambda timed: len(set(numbers_of(timed))), any_order=False
    ),
    "approx_distinct_count": Case(
        lambda: aggregations.approx_distinct_count(str),
        lambda timed: len({str(number) for number in numbers_of(timed)}),
        any_order=False,
    ),
}
untimed = settings(deadline=None)
by_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())

NUMBERS = st.one_of(
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100),
    st.integers(-3, 3),
)
RECORDS = st.lists(st.tuples(st.integers(0, 20), NUMBERS), min_size=1, max_size=20)


def state_of(aggregation: Aggregation[Any, Any, Any], timed: list[Timed]) -> Any:
    """The state after records, each of which has been written and read in between."""
    write = aggregation.serde.serializer("t")
    read = aggregation.serde.deserializer("t")
    state = aggregation.initializer()
    for timestamp, number in timed:
        at = (timestamp,) if aggregation.with_timestamp else ()
        state = read(write(aggregation.aggregator("k", number, state, *at)))
    return state


@by_case
@untimed
@given(timed=RECORDS)
def test_the_result_is_that_of_plain_python(case: Case, timed: list[Timed]) -> None:
    aggregation = case.make()

    result = aggregation.result(state_of(aggregation, timed))

    assert result == case.model(timed)
    assert type(result) is type(case.model(timed))


@pytest.mark.parametrize(
    "case",
    [case for case in CASES.values() if case.any_order],
    ids=[name for name, case in CASES.items() if case.any_order],
)
@untimed
@given(timed=RECORDS, chance=st.randoms(use_true_random=False))
def test_bytes_do_not_depend_on_the_order_of_records(
    case: Case, timed: list[Timed], chance: Any
) -> None:
    aggregation = case.make()
    shuffled = chance.sample(timed, len(timed))
    write = aggregation.serde.serializer("t")

    states = [state_of(aggregation, records) for records in (timed, shuffled)]

    assert write(states[0]) == write(states[1])


@by_case
@untimed
@given(timed=RECORDS, cuts=st.tuples(st.integers(0, 20), st.integers(0, 20)))
def test_merged_states_are_that_of_all_records(
    case: Case, timed: list[Timed], cuts: tuple[int, int]
) -> None:
    """In whatever order three parts are merged."""
    aggregation = case.make()
    merge = aggregation.merger
    timed.sort(key=lambda record: record[0])  # Sessions follow each other in time.
    first, second = sorted(cuts)
    a, b, c = (
        state_of(aggregation, part) for part in (timed[:first], timed[first:second], timed[second:])
    )

    left, right = merge("k", merge("k", a, b), c), merge("k", a, merge("k", b, c))

    assert aggregation.result(left) == aggregation.result(right) == case.model(timed)


@untimed
@given(timed=RECORDS, gone=st.sets(st.integers(0, 19)))
def test_what_is_taken_out_leaves_the_rest(timed: list[Timed], gone: set[int]) -> None:
    aggregation = aggregations.several(
        **{name: CASES[name].make() for name in ("count", "sum", "mean", "variance")}
    )
    state = state_of(aggregation, timed)
    left = [record for number, record in enumerate(timed) if number not in gone]

    for number in gone & set(range(len(timed))):
        state = aggregation.subtractor_or_raise()("k", timed[number][1], state)

    assert (None if state is None else aggregation.result(state)) == (
        {name: CASES[name].model(left) for name in ("count", "sum", "mean", "variance")}
        if left
        else None
    )


@untimed
@given(numbers=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=400))
def test_a_percentile_lies_near_its_rank(numbers: list[float]) -> None:
    ranks = (0.1, 0.5, 0.9)
    aggregation = aggregations.percentiles(ranks)
    ordered = sorted(numbers)

    found = aggregation.result(state_of(aggregation, [(0, number) for number in numbers]))

    for rank, value in zip(ranks, found, strict=True):
        near = math.ceil(0.02 * len(ordered)) + 1
        at = math.floor(rank * len(ordered))
        assert ordered[max(0, at - near)] <= value <= ordered[min(len(ordered) - 1, at + near)]


@untimed
@given(numbers=st.lists(st.floats(-1e6, 1e6), min_size=130, max_size=300))
def test_sketches_of_equal_input_are_equal_bytes(numbers: list[float]) -> None:
    for aggregation in (aggregations.percentile(0.5), aggregations.approx_distinct_count()):
        records = [(0, number) for number in numbers]

        assert state_of(aggregation, records) == state_of(aggregation, records)


# ---------------------------------------------------------------------- through a topology


def all_of_them() -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key_serde=STRING, value_serde=JSON).group_by_key()
    parts: Any = {name.replace(" ", "_"): case.make() for name, case in CASES.items()}
    parts["percentiles"] = aggregations.percentiles((0.1, 0.9))
    table = grouped.aggregate(aggregations.several(**parts), name="all")
    table.to_stream().to("out", value_serde=JSON)
    return builder.build()


def produced(directory: Path | None, runs: list[list[Timed]]) -> list[Any]:
    """What comes out, and what is logged; the driver is opened anew for each run."""
    found: dict[str, list[Any]] = {"out": [], "app-all-changelog": []}
    for records in runs:
        config = {"application.id": "app"}
        with TopologyTestDriver(all_of_them(), config, state_directory=directory) as driver:
            source = driver.create_input_topic("in", STRING, JSON)
            for number, (timestamp, value) in enumerate(records):
                source.pipe_input("ab"[number % 2], value, timestamp)
            for topic in found:
                found[topic] += driver.produced_raw(topic)
    return list(found.values())


@settings(deadline=None, max_examples=15)
@given(timed=RECORDS, chance=st.randoms(use_true_random=False))
def test_a_restart_in_the_middle_changes_nothing(
    timed: list[Timed], chance: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cut = 2 * chance.randint(0, len(timed) // 2)

    whole = produced(tmp_path_factory.mktemp("whole"), [timed])
    restarted = produced(tmp_path_factory.mktemp("cut"), [timed[:cut], timed[cut:]])

    assert restarted == whole
    assert len(whole[0]) == len(timed)
