"""16 topologies through pystreams and through Kafka Streams: the same names, records and stores."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from typing import Any

import pytest

from tests.parity import golden
from tests.parity.golden import Observations, Outcome, Produced
from tests.parity.join_changelogs import as_logged_here, changelogs_with_duplicates
from tests.parity.topologies import TOPOLOGIES as OF_ALL_RUNS
from tests.parity.transformed_topologies import transformed_tables

pytestmark = pytest.mark.parity

# Backfills run the others too; this one asks for the number of its output's partitions.
TOPOLOGIES = {**OF_ALL_RUNS, "transformed_tables": transformed_tables}

each_topology = pytest.mark.parametrize("name", TOPOLOGIES)
Outcomes = Callable[[str], tuple[Outcome, Outcome]]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """What Kafka Streams did and what pystreams does, of a topology by name; run once."""

    @functools.cache
    def both(name: str) -> tuple[Outcome, Outcome]:
        file = golden.read(name)
        directory = tmp_path_factory.mktemp(name)
        java = golden.expected(file)
        topology = TOPOLOGIES[name](Observations())
        for topic in changelogs_with_duplicates(topology, file["application_id"]):
            java.produced[topic] = as_logged_here(java.produced[topic])
        return java, golden.run(file, TOPOLOGIES[name], directory)

    return both


@each_topology
def test_description_is_the_same_text(name: str, outcomes: Outcomes) -> None:
    java, ours = outcomes(name)

    assert ours.description == java.description


@each_topology
def test_every_topic_has_the_same_records(name: str, outcomes: Outcomes) -> None:
    java, ours = outcomes(name)

    assert sorted(ours.produced) == sorted(java.produced)
    for topic, records in java.produced.items():
        assert ours.produced[topic] == records, difference(topic, records, ours.produced[topic])


@each_topology
def test_every_store_holds_the_same_bytes(name: str, outcomes: Outcomes) -> None:
    java, ours = outcomes(name)

    assert sorted(ours.stores) == sorted(java.stores)
    for store, content in java.stores.items():
        assert ours.stores[store] == content, store


@each_topology
def test_side_effects_and_given_names_are_the_same(name: str, outcomes: Outcomes) -> None:
    java, ours = outcomes(name)

    assert ours.seen == java.seen
    assert ours.printed == java.printed
    assert ours.facts == java.facts


def test_each_golden_topology_is_built_here() -> None:
    files = {file.stem for file in golden.GOLDEN.glob("*.json")}

    assert files == {*TOPOLOGIES, "api", "optimized", "partitioner", "random_topologies", "serdes"}


def difference(topic: str, java: list[Produced], ours: list[Produced]) -> str:
    """Return the records that differ, a line each: "-" is Kafka Streams', "+" ours."""
    lines = difflib.unified_diff(
        [_line(record) for record in java],
        [_line(record) for record in ours],
        "Kafka Streams",
        "pystreams",
        lineterm="",
        n=1,
    )
    return "\n".join((f"topic {topic}:", *lines))


def _line(record: Produced) -> str:
    fields: tuple[Any, ...] = record
    return " ".join(repr(value) for value in fields)
