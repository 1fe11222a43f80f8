"""A topology that reads what it writes: told where it is built to run, and never refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from pystreams import KafkaStreams, KStream, StreamsBuilder, Topology, serdes
from pystreams.testing import TopologyTestDriver
from pystreams.topology.plan.own_output import circles_of

CONFIG = {
    "application.id": "app",
    "bootstrap.servers": "none:1",
    "default.key.serde": "string",
    "default.value.serde": "string",
}
Declare = Callable[[StreamsBuilder], object]


def built(declare: Declare) -> Topology:
    builder = StreamsBuilder()
    declare(builder)
    return builder.build()


def own_topic(builder: StreamsBuilder) -> None:
    builder.stream("orders").map_values(str.upper).to("orders")


def two_topics(builder: StreamsBuilder) -> None:
    builder.stream("orders").to("late")
    builder.stream("late").to("orders")


def own_pattern(builder: StreamsBuilder) -> None:
    builder.stream(pattern="orders-.*").to("orders-late")


def by_way_of_a_repartition(builder: StreamsBuilder) -> None:
    orders = builder.stream("orders").select_key(lambda _, value: value)
    orders.group_by_key().count().to_stream().map_values(str).to("orders")


def joined_with_its_result(builder: StreamsBuilder) -> None:
    prices = builder.table("prices")
    builder.stream("orders").join(prices, lambda a, b: a + b).to("orders")


def one_after_the_other(builder: StreamsBuilder) -> None:
    builder.stream("orders").to("late")
    builder.stream("late").to("done")


def another_branch(builder: StreamsBuilder) -> None:
    builder.stream("orders").to("late")
    builder.stream("late").foreach(lambda *_: None)
    builder.stream("others").to("orders")


def into_a_table_it_looks_into(builder: StreamsBuilder) -> None:
    prices = builder.global_table("prices")
    seen = builder.stream("orders").join(prices, lambda key, _: key, lambda a, b: a + b)
    seen.to("prices")


def repartitioned(builder: StreamsBuilder) -> None:
    orders: KStream[str, str] = builder.stream("orders")
    orders.select_key(lambda _, value: value).repartition(name="by-value").to("done")


def chosen_by_a_function(builder: StreamsBuilder) -> None:
    builder.stream("orders").to(lambda *_: "orders")


@pytest.mark.parametrize(
    ("declare", "topics"),
    [
        (own_topic, ["orders"]),
        (two_topics, ["late", "orders"]),
        (own_pattern, ["orders-late"]),
        (by_way_of_a_repartition, ["orders"]),
        (joined_with_its_result, ["orders"]),
        (one_after_the_other, []),
        (another_branch, []),
        (into_a_table_it_looks_into, []),
        (repartitioned, []),
        (chosen_by_a_function, []),
    ],
)
def test_sinks_whose_records_come_back_are_told_with_the_users_line(
    declare: Declare, topics: list[str]
) -> None:
    told = circles_of(built(declare))

    assert [sentence.split("writes to topic ")[1].split(",")[0] for sentence in told] == [
        repr(topic) for topic in topics
    ]
    assert all("(to at" in sentence and "test_own_output.py:" in sentence for sentence in told)


def warnings_of(make: Callable[[Topology], object], declare: Declare) -> list[str]:
    with capture_logs() as logs:
        make(built(declare))
    return [line["why"] for line in logs if line["event"] == "the topology reads what it writes"]


@pytest.mark.parametrize(
    "make",
    [lambda topology: KafkaStreams(topology, CONFIG), lambda it: TopologyTestDriver(it, CONFIG)],
    ids=["application", "test driver"],
)
def test_who_is_given_such_a_topology_warns_and_goes_on(
    make: Callable[[Topology], object],
) -> None:
    (warning,) = warnings_of(make, own_topic)

    assert "a record goes round for ever. Write to another topic" in warning
    assert warnings_of(make, one_after_the_other) == []


def test_what_ends_a_circle_is_the_users_own() -> None:
    def shorter(builder: StreamsBuilder) -> None:
        again = builder.stream("orders").map_values(lambda text: text[1:])
        again.filter(lambda _, text: bool(text)).to("orders")

    with TopologyTestDriver(built(shorter), CONFIG) as driver:
        orders = driver.create_input_topic("orders", serdes.STRING, serdes.STRING)
        written = driver.create_output_topic("orders", serdes.STRING, serdes.STRING)
        orders.pipe_input("a", "abc")
        assert written.read_key_values() == [("a", "bc"), ("a", "c")]
