"""Optimized topologies are Kafka Streams': the same descriptions, and the same joined records."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pystreams import StreamsBuilder
from pystreams.serdes import STRING
from pystreams.testing import TopologyTestDriver
from tests.parity.golden import GOLDEN
from tests.parity.optimized_topologies import TOPOLOGIES, self_join

FILE: dict[str, Any] = json.loads((GOLDEN / "optimized.json").read_text())
DESCRIPTIONS = {case["name"]: case["descriptions"] for case in FILE["topologies"]}
OPTIMIZATIONS = list(next(iter(DESCRIPTIONS.values())))


@pytest.mark.parametrize("optimization", OPTIMIZATIONS)
@pytest.mark.parametrize("declare", TOPOLOGIES)
def test_an_optimized_topology_is_described_as_by_kafka_streams(
    declare: Callable[[StreamsBuilder], None], optimization: str
) -> None:
    builder = StreamsBuilder()
    declare(builder)
    topology = builder.build({"topology.optimization": optimization})
    expected = DESCRIPTIONS[declare.__name__][optimization]
    assert str(topology.describe()) == expected


@pytest.mark.parametrize("optimization", ["none", "single.store.self.join"])
def test_a_self_join_gives_the_records_of_kafka_streams(optimization: str) -> None:
    cases = FILE["self_joins"]
    builder = StreamsBuilder()
    self_join(builder)
    topology = builder.build({"topology.optimization": optimization})
    serdes = {"default.key.serde": "string", "default.value.serde": "string"}
    config = {**serdes, "topology.optimization": optimization}
    with TopologyTestDriver(topology, config) as driver:
        pipe = driver.create_input_topic("in", STRING, STRING).pipe_input
        for key, value, timestamp in cases["input"]:
            pipe(key, value, timestamp)
        records = driver.create_output_topic("a", STRING, STRING).read_records()
    joined = [[record.key, record.value, record.timestamp] for record in records]
    assert joined == cases[optimization]
    assert len(joined) > len(cases["input"])
