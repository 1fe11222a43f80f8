"""What a dry run shows: the stages, and how much history each would read."""

from __future__ import annotations

from typing import Any

import pytest

from pystreams import serdes
from pystreams.backfill.describing import PlannedStage, planned_stages
from pystreams.backfill.history import PartitionBounds
from pystreams.cli.backfill_display import show_plan
from pystreams.ids import TopicPartition
from pystreams.topology.builder import StreamsBuilder
from pystreams.topology.plan import TopologyPlan

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
COUNTS = {"left": 2, "right": 2}
BOUNDS = {
    TopicPartition("left", 0): PartitionBounds(0, 10, 10),
    TopicPartition("left", 1): PartitionBounds(0, 5, 5),
    TopicPartition("right", 0): PartitionBounds(3, 4, 1),
}


def planned(file_sizes: dict[str, dict[str, int]] | None = None) -> list[PlannedStage]:
    """A join of two topics, then a count by something else."""
    builder = StreamsBuilder()
    joined = builder.stream("left", **TEXT).left_join(
        builder.table("right", **TEXT), lambda value, row: f"{value}{row}"
    )
    joined.group_by(lambda _, value: value, name="again", **TEXT).count(name="counts")
    return planned_stages(TopologyPlan(builder.build(), "app"), COUNTS, BOUNDS, file_sizes)


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


def test_what_is_known_is_shown_and_what_is_not_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show_plan(planned({"left": {"l": 1_234_500_000}, "right": {}}), "app")
    known = capsys.readouterr().out
    show_plan(planned(), "app")
    unknown = capsys.readouterr().out

    assert "1,234,500,000" in known
    assert "?" not in known
    assert "bytes ?: known of files only" in unknown
