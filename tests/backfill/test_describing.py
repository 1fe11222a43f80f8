"""What a dry run shows: the stages, and how much history each would read."""

from __future__ import annotations

from typing import Any

import pytest

from pystreams import StreamsBuilder, TopicPartition, serdes
from pystreams.backfill.execution.planned_stages import PlannedStage, planned_stages
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.sources.size_estimates import EstimatedSizes
from pystreams.cli.display.backfill_results import show_plan
from pystreams.topology.plan.topology_plan import TopologyPlan

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
COUNTS = {"left": 2, "right": 2}
BOUNDS = {
    TopicPartition("left", 0): PartitionBounds(0, 10, 10),
    TopicPartition("left", 1): PartitionBounds(0, 5, 5),
    TopicPartition("right", 0): PartitionBounds(3, 4, 1),
}


def planned(
    sizes: dict[str, dict[str, int]] | EstimatedSizes | None = None,
) -> list[PlannedStage]:
    """A join of two topics, then a count by something else."""
    builder = StreamsBuilder()
    joined = builder.stream("left", **TEXT).left_join(
        builder.table("right", **TEXT), lambda value, row: f"{value}{row}"
    )
    joined.group_by(lambda _, value: value, name="again", **TEXT).count(name="counts")
    return planned_stages(TopologyPlan(builder.build(), "app"), COUNTS, BOUNDS, sizes)


def test_records_of_a_stage_are_those_of_all_topics_it_reads() -> None:
    assert [(stage.topics, stage.num_tasks, stage.records) for stage in planned()] == [
        (("left", "right"), 2, 16),
        (("app-again-repartition",), 2, 0),
    ]


def test_size_of_a_stage_is_that_of_its_files_each_once() -> None:
    sizes = {
        "left": {"both": 7_000_000, "l": 1_500_000},
        "right": {"both": 7_000_000},
        "unread": {"u": 9},
    }

    assert [stage.size_bytes for stage in planned(sizes)] == [8_500_000, 0]


@pytest.mark.parametrize("sizes", [None, {}])
def test_size_of_what_is_in_no_files_is_not_known(sizes: dict[str, Any] | None) -> None:
    assert [stage.size_bytes for stage in planned(sizes)] == [None, 0]


def test_size_that_is_known_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    stages = planned({"left": {"l": 1_234_500_000}, "right": {}})
    show_plan(stages, "app")
    told = capsys.readouterr().out

    assert "1,234,500,000" in told
    assert "~" not in told
    assert "?" not in told
    assert not any(stage.is_estimate for stage in stages)


def test_size_that_is_not_known_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show_plan(planned(), "app")

    assert capsys.readouterr().out.splitlines()[-1] == "bytes ?: known of files only"


def test_estimate_is_shown_as_one_with_its_ground(capsys: pytest.CaptureFixture[str]) -> None:
    estimate = EstimatedSizes({"left": 1_000_000, "right": 234_567}, 300)
    stages = planned(estimate)
    show_plan(stages, "app", estimate)
    first, _, second, ground = capsys.readouterr().out.splitlines()[-4:]

    assert [stage.is_estimate for stage in stages] == [True, False]
    assert first.endswith(" 16  ~1,234,567")
    assert second.endswith("         0"), "it reads nothing of the history"
    assert ground == ("bytes ~: estimated from 300 records; keys, values and headers, uncompressed")


def test_stage_with_a_topic_that_could_not_be_read_has_no_size_and_it_is_said_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    estimate = EstimatedSizes({"left": 1_000_000}, 150, "no record of right could be read (why)")
    show_plan(planned(estimate), "app", estimate)
    first, _, _, ground, trouble = capsys.readouterr().out.splitlines()[-5:]

    assert first.endswith("?")
    assert ground.startswith("bytes ~: estimated from 150 records")
    assert trouble == "bytes ?: no record of right could be read (why)"
