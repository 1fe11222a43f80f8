"""Staged rows on their way to topics: what each buffer is for."""

from __future__ import annotations

from pystreams import StreamsBuilder, serdes
from pystreams.backfill.plan.rows import Result, ResultKind
from pystreams.backfill.publishing.row_batches import RowBatches
from pystreams.topology.plan.topology_plan import TopologyPlan


def row(kind: ResultKind, name: str) -> Result:
    return Result(kind, 2, name, 2, 0, 1000, b"key", b"value", ())


def test_state_goes_to_changelogs_of_which_no_handler_may_drop_a_record() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.group_by_key().count(name="counts").to_stream().to("out", value_serde=serdes.LONG)
    batches = RowBatches(TopologyPlan(builder.build(), "app"), True, 10, 1000)

    batch = batches.take(iter([row(ResultKind.OUTPUT, "out"), row(ResultKind.STATE, "counts")]))

    assert batch is not None
    places = {(output.topic, output.partition): output.is_changelog for output in batch.outputs}
    assert places == {("out", 2): False, ("app-counts-changelog", 2): True}
