"""Ready aggregations: results, what the store shows, what is refused, what is selected."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

import math
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from pystreams import (
    KGroupedStream,
    KTable,
    Record,
    StreamsBuilder,
    TopologyError,
    ValueAndTimestamp,
    aggregations,
)
from pystreams.serdes import DOUBLE, JSON, LONG, STRING
from pystreams.testing import TopologyTestDriver
from pystreams.topology.aggregations import Aggregation, state_bytes

ANY: Any = None
MAKERS: dict[str, Any] = {
    "count": aggregations.count,
    "sum": aggregations.sum,
    "mean": aggregations.mean,
    "variance": aggregations.variance,
    "stddev": aggregations.stddev,
    "min": aggregations.min,
    "max": aggregations.max,
    "first": aggregations.first,
    "last": aggregations.last,
    "top_n": lambda *select: aggregations.top_n(3, *select),
    "bottom_n": lambda *select: aggregations.bottom_n(3, *select),
    "collect": lambda *select: aggregations.collect(3, *select),
    "distinct_count": aggregations.distinct_count,
    "approx_distinct_count": aggregations.approx_distinct_count,
    "percentile": lambda *select: aggregations.percentile(0.5, *select),
    "percentiles": lambda *select: aggregations.percentiles((0.5, 1.0), *select),
}
"""Each by its name; called with `select` or nothing."""


@pytest.fixture
def values(builder: StreamsBuilder) -> KGroupedStream[str, Any]:
    return builder.stream("in", key_serde=STRING, value_serde=JSON).group_by_key()


def to_out(table: KTable[str, Any]) -> None:
    table.to_stream().to("out", value_serde=JSON)


def run(drive: Any, *records: Any, key: str = "k", **config: Any) -> list[Any]:
    """Pipe values, or (value, timestamp), as records of one key; return the results."""
    driver = drive(**config)
    pipe(driver, *records, key=key)
    return [record.value for record in results(driver)]


def pipe(driver: Any, *records: Any, key: str = "k") -> None:
    source = driver.create_input_topic("in", STRING, JSON)
    for number, record in enumerate(records):
        value, timestamp = record if isinstance(record, tuple) else (record, number)
        source.pipe_input(key, value, timestamp)


def results(driver: Any) -> list[Record[str, Any]]:
    found: list[Record[str, Any]] = driver.create_output_topic("out", STRING, JSON).read_records()
    return found


# ---------------------------------------------------------------------- results


def test_count_counts_what_is_selected(values: KGroupedStream[str, Any], drive: Any) -> None:
    to_out(values.aggregate(aggregations.count(lambda value: value.get("price"))))

    assert run(drive, {"price": 1}, {}, {"price": 2}) == [1, 1, 2]


def test_sum_of_integers_is_an_integer_of_any_size(
    values: KGroupedStream[str, Any], drive: Any
) -> None:
    values.aggregate(aggregations.sum(), name="total")
    driver = drive()

    pipe(driver, *[2**63 - 1] * 4)

    total = driver.get_key_value_store("total").get("k")
    assert total == 4 * (2**63 - 1)
    assert type(total) is int


def test_sum_of_floats_is_the_float_next_to_the_true_sum(
    values: KGroupedStream[str, Any], drive: Any
) -> None:
    to_out(values.aggregate(aggregations.sum()))

    assert run(drive, 0.1, 0.2, 0.3, 1e16, 1.0, -1e16)[-1] == math.fsum((0.1, 0.2, 0.3, 1.0))
    assert math.fsum((0.1, 0.2, 0.3, 1.0)) != 0.1 + 0.2 + 0.3 + 1e16 + 1.0 - 1e16


def test_sum_of_integers_and_floats_is_a_float(
    values: KGroupedStream[str, Any], drive: Any
) -> None:
    to_out(values.aggregate(aggregations.sum()))

    found = run(drive, 1, 2.0, 3)

    assert found == [1, 3.0, 6.0]
    assert [type(total) for total in found] == [int, float, float]


def test_a_sum_beyond_all_floats_is_infinite_and_comes_back(
    values: KGroupedStream[str, Any], drive: Any
) -> None:
    values.aggregate(aggregations.sum(), name="total")
    driver = drive()
    greatest = sys.float_info.max

    pipe(driver, greatest, greatest)
    beyond = driver.get_key_value_store("total").get("k")
    pipe(driver, -greatest)

    assert beyond == math.inf
    assert driver.get_key_value_store("total").get("k") == greatest


def test_mean_and_spread_of_numbers(values: KGroupedStream[str, Any], drive: Any) -> None:
    spread = aggregations.several(
        mean=aggregations.mean(),
        sample=aggregations.variance(),
        all=aggregations.variance(sample=False),
        stddev=aggregations.stddev(sample=False),
    )
    to_out(values.aggregate(spread))

    found = run(drive, 2, 4, 4, 4, 5, 5, 7, 9)

    assert found[-1] == {"mean": 5.0, "sample": 32 / 7, "all": 4.0, "stddev": 2.0}


def test_sample_variance_of_one_number_is_nan(values: KGroupedStream[str, Any], drive: Any) -> None:
    values.aggregate(aggregations.variance(), name="spread")
    driver = drive()

    pipe(driver, 5)

    assert math.isnan(driver.get_key_value_store("spread").get("k"))


def test_min_and_max_compare_whatever_has_an_order(
    values: KGroupedStream[str, Any], drive: Any
) -> None:
    both = aggregations.several(least=aggregations.min(), most=aggregations.max())
    to_out(values.aggregate(both))

    found = run(drive, "m", "z", "a")

    assert found[-1] == {"least": "a", "most": "z"}


def test_first_and_last_go_by_event_time_and_ties_by_arrival(
    values: KGroupedStream[str, Any], drive: Any
) -> None:
    both = aggregations.several(first=aggregations.first(), last=aggregations.last())
    to_out(values.aggregate(both))

    found = run(drive, ("a", 20), ("b", 10), ("c", 10), ("d", 20), ("e", 15))

    assert [(result["first"], result["last"]) for result in found] == [
        ("a", "a"),
        ("b", "a"),
        ("b", "a"),
        ("b", "d"),
        ("b", "d"),
    ]


def test_top_n_keeps_the_greatest_and_of_equal_ones_the_first(
    values: KGroupedStream[str, Any], drive: Any
) -> None:
    to_out(values.aggregate(aggregations.top_n(2, by=lambda order: order["price"])))

    found = run(
        drive,
        {"id": 1, "price": 5},
        {"id": 2, "price": 9},
        {"id": 3, "price": 5},
        {"id": 4, "price": 7},
    )

    assert [[order["id"] for order in result] for result in found] == [[1], [2, 1], [2, 1], [2, 4]]


def test_bottom_n_keeps_the_least(values: KGroupedStream[str, Any], drive: Any) -> None:
    to_out(values.aggregate(aggregations.bottom_n(2)))

    assert run(drive, 5, 9, 3, 3, 1) == [[5], [5, 9], [3, 5], [3, 3], [1, 3]]


def test_collect_keeps_the_last_in_event_time(values: KGroupedStream[str, Any], drive: Any) -> None:
    to_out(values.aggregate(aggregations.collect(3)))

    found = run(drive, ("b", 20), ("c", 30), ("a", 10), ("d", 20), ("late", 5))

    assert found == [["b"], ["b", "c"], ["a", "b", "c"], ["b", "d", "c"], ["b", "d", "c"]]


def test_collect_keeps_the_first_in_event_time(
    values: KGroupedStream[str, Any], drive: Any
) -> None:
    to_out(values.aggregate(aggregations.collect(2, keep="first")))

    found = run(drive, ("b", 20), ("c", 30), ("a", 10), ("d", 40))

    assert found[-1] == ["a", "b"]


def test_distinct_values_are_counted(values: KGroupedStream[str, Any], drive: Any) -> None:
    both = aggregations.several(
        exact=aggregations.distinct_count(), about=aggregations.approx_distinct_count()
    )
    to_out(values.aggregate(both))

    found = run(drive, "a", "b", "a", "c", "b")

    assert found[-1] == {"exact": 3, "about": 3}


def test_an_approximate_distinct_count_is_near_in_two_kilobytes(
    values: KGroupedStream[str, Any], drive: Any
) -> None:
    values.aggregate(aggregations.approx_distinct_count(), name="visitors")
    driver = drive()

    pipe(driver, *[number % 5_000 for number in range(7_500)])

    assert driver.get_key_value_store("visitors").get("k") == pytest.approx(5_000, rel=0.05)
    assert max(state_sizes(driver)) < 2_200


def test_a_part_that_says_no_number_yet_has_none(
    values: KGroupedStream[str, Any], drive: Any
) -> None:
    spread = aggregations.several(
        n=aggregations.count(), var=aggregations.variance(), root=aggregations.stddev()
    )
    to_out(values.aggregate(spread))

    assert run(drive, 1, 3) == [
        {"n": 1, "var": None, "root": None},
        {"n": 2, "var": 2.0, "root": math.sqrt(2)},
    ]


def test_percentiles_are_near_in_five_kilobytes(
    values: KGroupedStream[str, Any], drive: Any
) -> None:
    values.aggregate(aggregations.percentiles((0.01, 0.5, 0.99)), name="delays")
    driver = drive()

    pipe(driver, *[(number * 7_919) % 10_007 for number in range(10_007)])

    low, median, high = driver.get_key_value_store("delays").get("k")
    assert low == pytest.approx(100, abs=20)
    assert median == pytest.approx(5_003, abs=100)
    assert high == pytest.approx(9_907, abs=20)
    assert max(state_sizes(driver)) < 5_200


def test_integers_beyond_64_bits_are_counted_apart(
    values: KGroupedStream[str, Any], drive: Any
) -> None:
    to_out(values.aggregate(aggregations.approx_distinct_count(lambda value: 2**64 + value)))

    assert run(drive, 1, 2, 3) == [1, 2, 3]


class Summary(NamedTuple):
    orders: int
    dearest: float | None


def test_several_make_a_class_of_the_users_own(
    values: KGroupedStream[str, Any], drive: Any
) -> None:
    summary: Aggregation[Any, Any, Summary] = aggregations.several(
        Summary,
        orders=aggregations.count(),
        dearest=aggregations.max(lambda order: order.get("price")),
    )
    values.aggregate(summary, name="summaries")
    driver = drive()
    store = driver.get_key_value_store("summaries")

    pipe(driver, {})
    before = store.get("k")
    pipe(driver, {"price": 3.5})

    assert before == Summary(1, None)
    assert store.get("k") == Summary(2, 3.5)


# ---------------------------------------------------------------------- nothing selected, refused


@pytest.mark.parametrize("name", MAKERS)
def test_a_key_for_which_nothing_was_selected_has_no_row(
    name: str, values: KGroupedStream[str, Any], drive: Any
) -> None:
    to_out(values.aggregate(MAKERS[name](lambda value: value["x"]), name="kept"))
    driver = drive()

    pipe(driver, {"x": None}, {"x": None})

    assert {record.value for record in results(driver)} <= {None}
    assert list(driver.get_key_value_store("kept").all()) == []


@pytest.mark.parametrize("name", MAKERS)
def test_a_value_of_which_nothing_is_selected_changes_nothing(
    name: str, values: KGroupedStream[str, Any], drive: Any
) -> None:
    values.aggregate(MAKERS[name](lambda value: value["x"]), name="kept")
    driver = drive()
    store = driver.get_key_value_store("kept")

    pipe(driver, {"x": 5})
    before = store.get("k")
    pipe(driver, {"x": None})

    assert before is not None
    assert repr(store.get("k")) == repr(before)  # A variance is nan.


NOT_ADDED_UP = [
    (name, number)
    for name in ("sum", "mean", "variance", "percentile")
    for number in ("nan", "inf", "-inf")
]
NO_ORDER = [(name, "nan") for name in ("min", "max", "top_n", "bottom_n")]


@pytest.mark.parametrize(("name", "number"), NOT_ADDED_UP + NO_ORDER)
def test_numbers_that_are_none_go_to_the_handler(
    name: str, number: str, values: KGroupedStream[str, Any], drive: Any
) -> None:
    to_out(values.aggregate(aggregations.several(n=aggregations.count(), of=MAKERS[name](float))))

    found = run(drive, "1", number, "1", processing_exception_handler="continue")

    assert [result["n"] for result in found] == [1, 2]


@pytest.mark.parametrize("name", ["max", "last", "top_n", "collect", "distinct_count"])
def test_numbers_that_json_would_lose_are_not_kept_as_json(
    name: str, values: KGroupedStream[str, Any], drive: Any
) -> None:
    values.aggregate(MAKERS[name](float), name="kept")

    with pytest.raises(Exception, match=r"inf has no form in JSON: .* with serdes\.DOUBLE"):
        run(drive, "inf")


def test_tuples_are_counted_and_go_on_after_a_restart(
    values: KGroupedStream[str, Any], builder: StreamsBuilder, tmp_path: Path
) -> None:
    pairs: Aggregation[Any, Any, int] = aggregations.distinct_count(
        lambda sale: (sale[0], (sale[1], None))
    )
    to_out(values.aggregate(pairs, name="pairs"))
    topology = builder.build()

    found = []
    for sales in ((["tea", 1], ["tea", 2], ["tea", 1]), (["tea", 2], ["ale", 1])):
        with TopologyTestDriver(topology, state_directory=tmp_path) as driver:
            pipe(driver, *sales)
            found += [record.value for record in results(driver)]
            assert driver.get_key_value_store("pairs").get("k") == found[-1]

    assert found == [1, 2, 2, 2, 3]


@pytest.mark.parametrize(
    ("name", "greatest"), [("min", [1, "b"]), ("max", [2, "a"]), ("top_n", [[2, "a"], [1, "b"]])]
)
def test_tuples_have_an_order_and_are_kept_as_lists(
    name: str, greatest: object, values: KGroupedStream[str, Any], drive: Any
) -> None:
    values.aggregate(MAKERS[name](tuple), name="kept")
    driver = drive()

    pipe(driver, [1, "b"], [2, "a"])

    assert driver.get_key_value_store("kept").get("k") == greatest


@pytest.mark.parametrize("make", [date.fromordinal, lambda number: (UUID(int=number),)])
@pytest.mark.parametrize("name", ["min", "max", "top_n", "bottom_n", "distinct_count"])
def test_what_json_does_not_give_back_is_an_error_of_the_record(
    name: str, make: Any, values: KGroupedStream[str, Any], drive: Any
) -> None:
    select = lambda value: make(value) if value > 1 else None  # noqa: E731
    both = aggregations.several(n=aggregations.count(), of=MAKERS[name](select))
    to_out(values.aggregate(both))

    found = run(drive, 1, 2, 3, 1, processing_exception_handler="continue")

    assert [result["n"] for result in found] == [1, 2]
    with pytest.raises(Exception, match=r"does not come back from JSON as it was: .* serde="):
        run(drive, 2)


def test_infinite_numbers_have_their_place_in_an_order(
    values: KGroupedStream[str, Any], drive: Any
) -> None:
    values.aggregate(aggregations.max(float, serde=DOUBLE), name="highest")
    driver = drive()

    pipe(driver, "1", "inf", "2")

    assert driver.get_key_value_store("highest").get("k") == math.inf


def test_a_kind_of_number_that_would_lose_digits_is_refused(
    values: KGroupedStream[str, Any], drive: Any
) -> None:
    to_out(values.aggregate(aggregations.sum(lambda value: ANY or Decimal(value))))

    with pytest.raises(Exception, match="int and float can be added up here, not Decimal"):
        run(drive, "1.5")


def test_a_state_of_another_aggregation_is_refused(builder: StreamsBuilder) -> None:
    mean, total = aggregations.mean().serde, aggregations.sum().serde
    state = mean.serializer("t")((1, 0, 5, 0))

    with pytest.raises(ValueError, match=r"aggregations\.sum can't read a state that begins with"):
        total.deserializer("t")(state)


def test_a_state_of_fewer_parts_is_refused() -> None:
    n: Any = aggregations.count()
    fewer, more = aggregations.several(a=n), aggregations.several(a=n, b=n)
    state = fewer.serde.serializer("t")((1,))

    with pytest.raises(ValueError, match="has 2 parts and can't read a state of 1"):
        more.serde.deserializer("t")(state)


def test_a_state_of_parts_with_other_names_is_refused() -> None:
    n: Any = aggregations.count()
    state = aggregations.several(orders=n, returns=n).serde.serializer("t")((1, 2))
    renamed = aggregations.several(orders=n, sent_back=n)

    with pytest.raises(ValueError, match="of orders, sent_back can't read a state of parts with"):
        renamed.serde.deserializer("t")(state)


def test_a_state_that_was_written_before_parts_went_by_name_is_read_as_declared() -> None:
    n: Any = aggregations.count()
    serde = aggregations.several(orders=n, b=n, a=n).serde
    one, two = (b"\x01" + number.to_bytes(8, "big") for number in (1, 2))
    earlier = bytes.fromhex("10 03 00000009 ffffffff 00000009") + one + two

    assert serde.deserializer("t")(earlier) == (1, None, 2)


def test_marks_of_states_are_different() -> None:
    marks = [mark for mark in vars(state_bytes).values() if isinstance(mark, int)]

    assert len(marks) == len(set(marks)) == 17


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: aggregations.top_n(0), "n must be a whole number of 1 or more, not 0"),
        (lambda: aggregations.collect(ANY), "limit must be a whole number"),
        (lambda: aggregations.collect(1, keep=ANY), "keep is 'first' or 'last'"),
        (lambda: aggregations.percentiles(()), r"ranks are from 0 to 1"),
        (lambda: aggregations.percentile(99), r"ranks are from 0 to 1, such as 0\.99, not \(99,\)"),
        (lambda: aggregations.percentile(0.5, compression=1), "compression must be 10 to 65535"),
        (lambda: aggregations.approx_distinct_count(log2_registers=3), "log2_registers must be 7"),
        (lambda: aggregations.sum(lambda: 1), "sum calls its function with"),  # type: ignore[arg-type, misc]
        (aggregations.several, "takes 1 to 255 aggregations by name"),
        (lambda: aggregations.several(n=ANY), "n must be an aggregation"),
        (lambda: aggregations.several(Summary, orders=aggregations.count()), "dearest"),
    ],
)
def test_wrong_arguments_are_refused_when_it_is_made(make: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        make()


@pytest.mark.parametrize("name", ["approx_distinct_count", "percentile", "percentiles"])
def test_a_missing_package_is_told_with_the_command_that_installs_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)

    told = rf"{name} needs .*pip install 'pystreams-kafka\[sketches\]'"
    with pytest.raises(TopologyError, match=told):
        MAKERS[name]()


def test_functions_beside_a_ready_aggregation_are_refused(
    values: KGroupedStream[str, Any],
) -> None:
    with pytest.raises(TopologyError, match="brings its own functions"):
        values.aggregate(aggregations.count(), lambda key, value, so_far: so_far)  # type: ignore[call-overload]


# ---------------------------------------------------------------------- store and table


def test_a_query_of_the_store_sees_results(values: KGroupedStream[str, Any], drive: Any) -> None:
    table = values.aggregate(aggregations.mean(), name="means")
    driver = drive()

    pipe(driver, 1, 2)

    assert table.queryable_store_name == "means"
    assert driver.get_key_value_store("means").get("k") == 1.5
    assert list(driver.get_key_value_store("means").all()) == [("k", 1.5)]
    assert driver.get_timestamped_key_value_store("means").get("k") == ValueAndTimestamp(1.5, 1)


def test_the_changelog_has_states(values: KGroupedStream[str, Any], drive: Any) -> None:
    values.aggregate(aggregations.mean(), name="means")
    driver = drive()

    pipe(driver, 1, 2)

    states = [value for _, value, _, _ in driver.produced_raw("app-means-changelog")]
    assert [state.hex() for state in states] == ["0300000000000000000101", "0300000000000000000203"]


def test_joins_and_filters_of_the_table_see_results(
    values: KGroupedStream[str, Any], builder: StreamsBuilder, drive: Any
) -> None:
    means = values.aggregate(aggregations.mean(), name="means")
    high = means.filter(lambda key, mean: mean > 1.6)
    asked = builder.stream("asked", key_serde=STRING, value_serde=STRING)
    asked.join(high, lambda question, mean: [question, mean]).to("out", value_serde=JSON)
    driver = drive()
    asked_in = driver.create_input_topic("asked", STRING, STRING)

    pipe(driver, 1, 2)
    asked_in.pipe_input("k", "too low")
    pipe(driver, 3)
    asked_in.pipe_input("k", "now?")

    assert [record.value for record in results(driver)] == [["now?", 2.0]]


def test_old_values_downstream_are_results(values: KGroupedStream[str, Any], drive: Any) -> None:
    means = values.aggregate(aggregations.mean(), name="means")
    by_whole = means.group_by(
        lambda key, mean: (str(int(mean)), mean), key_serde=STRING, value_serde=DOUBLE
    )
    to_out(by_whole.count())
    driver = drive()

    pipe(driver, 1, 2, 3, key="a")
    pipe(driver, 2, key="b")

    assert [(record.key, record.value) for record in results(driver)] == [
        ("1", 1),
        ("1", 1),
        ("1", 0),
        ("2", 1),
        ("2", 2),
    ]


def test_a_history_of_results_is_looked_up_by_time(
    values: KGroupedStream[str, Any], builder: StreamsBuilder, drive: Any
) -> None:
    sums = values.aggregate(aggregations.sum(), name="sums", history_retention_ms=1_000)
    asked = builder.stream("asked", key_serde=STRING, value_serde=STRING)
    asked.join(sums, lambda _, total: total).to("out", value_serde=JSON)
    driver = drive()

    pipe(driver, (1, 10), (2, 20), (3, 30))
    for timestamp in (25, 10):
        driver.create_input_topic("asked", STRING, STRING).pipe_input("k", "?", timestamp)

    assert [record.value for record in results(driver)] == [3, 1]
    assert driver.get_versioned_key_value_store("sums").get("k", 20).value == 3


def test_results_carry_their_serde_on(values: KGroupedStream[str, Any], drive: Any) -> None:
    values.aggregate(aggregations.mean()).to_stream().to("means")
    values.aggregate(aggregations.sum(), value_serde=LONG).to_stream().to("sums")
    driver = drive()

    pipe(driver, 3)

    assert driver.create_output_topic("means", STRING, DOUBLE).read_values() == [3.0]
    assert driver.create_output_topic("sums", STRING, LONG).read_values() == [3]


def test_a_record_cache_hands_on_results(values: KGroupedStream[str, Any], drive: Any) -> None:
    to_out(values.aggregate(aggregations.several(n=aggregations.count(), last=aggregations.last())))
    driver = drive(statestore_cache_max_bytes=1_000_000)

    pipe(driver, "a", "b")
    driver.advance_wall_clock_ms(60_000)

    assert [record.value for record in results(driver)][-1] == {"n": 2, "last": "b"}


# ---------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    "name", ["min", "first", "top_n", "collect", "distinct_count", "percentile"]
)
def test_what_cannot_be_undone_does_not_aggregate_a_table(
    name: str, builder: StreamsBuilder
) -> None:
    rows = builder.table("in", key_serde=STRING, value_serde=JSON)
    groups = rows.group_by(lambda key, value: (key, value), key_serde=STRING, value_serde=JSON)

    with pytest.raises(TopologyError, match=rf"aggregations\.{name} can't aggregate a table"):
        groups.aggregate(MAKERS[name]())
    with pytest.raises(TopologyError, match=r"aggregations\.several can't aggregate a table"):
        groups.aggregate(aggregations.several(n=aggregations.count(), other=MAKERS[name]()))


def test_a_table_is_aggregated_by_what_can_be_undone(builder: StreamsBuilder, drive: Any) -> None:
    rows = builder.table("in", key_serde=STRING, value_serde=JSON)
    groups = rows.group_by(lambda key, value: ("all", value), key_serde=STRING, value_serde=JSON)
    parts: Any = {name: MAKERS[name]() for name in ("count", "sum", "mean", "variance", "stddev")}
    to_out(groups.aggregate(aggregations.several(**parts)))
    driver = drive()

    pipe(driver, 0.1, key="a")
    pipe(driver, 3, key="b")
    pipe(driver, 5, key="a")
    pipe(driver, None, key="b")
    pipe(driver, None, key="a")

    found = [record.value for record in results(driver)]
    assert [result and result["sum"] for result in found] == [0.1, 3.1, 8, 5, None]
    assert found[2] == {"count": 2, "sum": 8, "mean": 4.0, "variance": 2.0, "stddev": math.sqrt(2)}


def test_a_late_result_of_a_history_is_not_the_latest(builder: StreamsBuilder, drive: Any) -> None:
    """A row of 50 comes after the group's last one has gone, at 200."""
    rows = builder.table("in", key_serde=STRING, value_serde=JSON)
    groups = rows.group_by(lambda key, value: ("all", value), key_serde=STRING, value_serde=JSON)
    totals = groups.aggregate(aggregations.sum(), name="totals", history_retention_ms=1_000)
    groups_of_totals = totals.group_by(
        lambda key, total: ("of totals", total), key_serde=STRING, value_serde=JSON
    )
    groups_of_totals.count(name="groups")
    driver = drive()

    pipe(driver, (1, 100), (None, 200), key="a")
    pipe(driver, (2, 50), key="b")

    assert driver.get_versioned_key_value_store("totals").get("all", 60).value == 2
    assert driver.get_key_value_store("groups").get("of totals") == 0


# ---------------------------------------------------------------------- one of the user's own


def test_an_aggregation_of_the_users_own(values: KGroupedStream[str, Any], drive: Any) -> None:
    longest = Aggregation[str, str, int](
        "longest",
        initializer=str,
        aggregator=lambda key, value, so_far: max(so_far, value, key=len),
        merger=lambda key, so_far, other: max(so_far, other, key=len),
        serde=STRING,
        result=len,
        result_serde=LONG,
    )
    to_out(values.aggregate(aggregations.several(longest=longest, n=aggregations.count())))

    assert run(drive, "a", "abc", "ab")[-1] == {"longest": 3, "n": 3}


def test_its_functions_are_checked() -> None:
    with pytest.raises(TopologyError, match="longest calls its function with"):
        Aggregation("longest", str, lambda value: value, lambda *_: "", STRING, len)


def state_sizes(driver: Any) -> list[int]:
    """The sizes of all states that were logged."""
    return [
        len(value)
        for topic in ("app-visitors-changelog", "app-delays-changelog")
        for _, value, _, _ in driver.produced_raw(topic)
    ]
