"""What was declared stays as it is, whatever is declared after it and however often it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from itertools import permutations

import pytest

from pystreams import JoinWindows, Processor, StreamsBuilder, Topology, TopologyError
from pystreams.backfill.plan.fingerprint import topology_fingerprint
from pystreams.serdes import STRING
from pystreams.testing import TopologyTestDriver
from pystreams.topology.graph.nodes import ProcessorNode

CONFIG = {
    "application.id": "app",
    "default.key.serde": "string",
    "default.value.serde": "string",
}


def paired(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def is_long(key: str, value: str) -> bool:
    return len(value) > 3


def of_everything(builder: StreamsBuilder) -> None:
    """Tables that get a store from below, old values that are wanted from above, and the rest."""
    orders, again = builder.stream("orders"), builder.stream("orders")
    prices = builder.table("prices")
    long_prices = prices.filter(is_long)
    orders.join(long_prices, paired).to("priced")
    again.select_key(paired).left_join(prices, paired).to("priced-again")
    texts = long_prices.map_values(str)
    texts.group_by(lambda key, value: (value, key)).count(name="by-value")
    orders.to_table().filter_not(is_long).to_stream().to("short")
    windows = JoinWindows.of_time_difference_with_no_grace(10)
    orders.outer_join(again.map_values(str), paired, windows, name="both").to("both")
    split = orders.split(name="size-").branch(is_long, name="long")
    split.default_branch(name="short")["size-long"].process(Processor).foreach(print)


@pytest.fixture
def topology(builder: StreamsBuilder) -> Topology:
    of_everything(builder)
    return builder.build()


def describe(topology: Topology) -> None:
    topology.describe()


def fingerprint(topology: Topology) -> None:
    topology_fingerprint(topology)


def compile_it(topology: Topology) -> None:
    TopologyTestDriver(topology, CONFIG).close()


@pytest.mark.parametrize("in_turn", list(permutations((describe, fingerprint, compile_it))))
def test_a_topology_is_the_same_after_it_was_described_and_compiled(
    topology: Topology, in_turn: tuple[Callable[[Topology], None], ...]
) -> None:
    before = str(topology.describe()), topology_fingerprint(topology)

    for use in (*in_turn, *in_turn):
        use(topology)

    assert (str(topology.describe()), topology_fingerprint(topology)) == before


def test_a_builder_builds_the_same_topology_however_often(builder: StreamsBuilder) -> None:
    of_everything(builder)

    first, second = builder.build(), builder.build()
    compile_it(first)
    third = builder.build()

    assert len({topology_fingerprint(built) for built in (first, second, third)}) == 1


def test_a_topology_that_was_built_in_between_is_as_one_that_was_not(
    builder: StreamsBuilder,
) -> None:
    prices = builder.table("prices")
    alone = builder.build()
    builder.stream("orders").join(prices, paired).to("priced")

    fresh = StreamsBuilder()
    prices_of_fresh = fresh.table("prices")
    fresh.stream("orders").join(prices_of_fresh, paired).to("priced")

    assert not alone.stores
    assert topology_fingerprint(builder.build()) == topology_fingerprint(fresh.build())


def test_what_is_declared_after_a_build_on_a_source_that_is_shared_is_in_the_next(
    builder: StreamsBuilder,
) -> None:
    builder.stream("orders").to("copies")
    again = builder.stream("orders")
    builder.build()

    again.to("more-copies")

    assert str(builder.build().describe()).count("Sink:") == 2


def test_no_node_and_no_operator_of_a_topology_can_be_changed(topology: Topology) -> None:
    operators = [
        node.operator for node in topology.nodes.values() if isinstance(node, ProcessorNode)
    ]

    for declared in (*topology.nodes.values(), *operators):
        for name in (*(field.name for field in fields(declared)), "anything_else"):  # type: ignore[arg-type]
            with pytest.raises((FrozenInstanceError, TypeError)):
                setattr(declared, name, None)


def test_a_join_that_was_refused_gives_its_table_no_store(builder: StreamsBuilder) -> None:
    prices = builder.table("prices")
    prices.to_stream().to("changes")

    with pytest.raises(TopologyError, match="not a versioned table"):
        builder.stream("orders").join(prices, paired, grace_period_ms=5)

    assert not builder.build().stores


def test_a_filter_takes_old_values_only_where_they_cost_no_store_that_is_not_there_yet(
    builder: StreamsBuilder,
) -> None:
    """As in Kafka: the first filter deletes rows that were never there, the second does not."""
    prices, orders = builder.table("prices"), builder.stream("orders")
    prices.filter(is_long, node_name="before").to_stream().to("before")
    orders.join(prices, paired).to("priced")
    prices.filter(is_long, node_name="after").to_stream().to("after")

    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        driver.create_input_topic("prices", STRING, STRING).pipe_input("a", "1")

        assert driver.create_output_topic("before", STRING, STRING).read_key_values() == [
            ("a", None)
        ]
        assert driver.create_output_topic("after", STRING, STRING).is_empty()
