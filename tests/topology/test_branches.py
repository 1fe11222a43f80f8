"""Splitting a stream into branches."""

# ruff: noqa: ARG005 - a lambda takes what the DSL gives it.

from __future__ import annotations

from typing import Any

import pytest

from pystreams import KStream, StreamsBuilder, TopologyError
from pystreams.serdes import STRING


@pytest.fixture
def words(builder: StreamsBuilder) -> KStream[str, str]:
    return builder.stream("words", key_serde=STRING, value_serde=STRING)


def run(drive: Any, *values: str) -> dict[str, list[str]]:
    """Pipe values into "words" and return what came out, by topic."""
    driver = drive()
    for value in values:
        driver.create_input_topic("words", STRING, STRING).pipe_input("a", value)
    return {
        topic: driver.create_output_topic(topic, STRING, STRING).read_values()
        for topic in driver.produced_topic_names()
    }


def test_record_goes_to_the_first_branch_that_takes_it(
    words: KStream[str, str], drive: Any
) -> None:
    split = words.split(name="to-").branch(lambda key, value: value < "m", name="early")
    branches = split.branch(lambda key, value: value < "t", name="middle").default_branch(
        name="late"
    )
    for name, branch in branches.items():
        branch.to(name.removeprefix("to-"))

    assert run(drive, "ale", "pie", "tea") == {"early": ["ale"], "middle": ["pie"], "late": ["tea"]}


def test_record_that_no_branch_takes_is_dropped_without_a_default(
    words: KStream[str, str], drive: Any
) -> None:
    branches = words.split().branch(lambda key, value: value < "m", name="-early")
    for branch in branches.no_default_branch().values():
        branch.to("early")

    assert run(drive, "ale", "tea") == {"early": ["ale"]}


def test_chain_replaces_its_branch(words: KStream[str, str], drive: Any) -> None:
    split = words.split(name="to-").branch(
        lambda key, value: True, name="upper", chain=lambda branch: branch.map_values(str.upper)
    )
    split.no_default_branch()["to-upper"].to("upper")

    assert run(drive, "tea") == {"upper": ["TEA"]}


def test_chain_that_returns_nothing_takes_its_branch_away(
    words: KStream[str, str], drive: Any
) -> None:
    split = words.split(name="to-").branch(
        lambda key, value: True, name="sink", chain=lambda branch: branch.to("sink")
    )

    assert split.no_default_branch() == {}
    assert run(drive, "tea") == {"sink": ["tea"]}


def test_branch_after_the_end_is_refused(words: KStream[str, str]) -> None:
    split = words.split(name="to-").branch(lambda key, value: True)
    split.default_branch()

    with pytest.raises(TopologyError, match=r"branch\(\.\.\.\) after the end of split 'to-'"):
        split.branch(lambda key, value: True)


def test_second_end_is_refused(words: KStream[str, str]) -> None:
    split = words.split(name="to-").branch(lambda key, value: True)
    split.default_branch()

    with pytest.raises(TopologyError, match="once"):
        split.no_default_branch()


def test_two_branches_of_one_name_are_refused(words: KStream[str, str]) -> None:
    split = words.split(name="to-").branch(lambda key, value: True, name="a")

    with pytest.raises(TopologyError, match="two branches are named 'to-a'"):
        split.branch(lambda key, value: True, name="a")


def test_branches_keep_the_serdes_of_the_stream(words: KStream[str, str], drive: Any) -> None:
    branches = words.split(name="to-").branch(lambda key, value: True).no_default_branch()
    branches["to-1"].to("out")

    driver = drive(default_key_serde="json", default_value_serde="json")
    driver.create_input_topic("words", STRING, STRING).pipe_input("a", "tea")

    assert [record[:2] for record in driver.produced_raw("out")] == [(b"a", b"tea")]
