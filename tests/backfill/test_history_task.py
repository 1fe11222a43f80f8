"""Tasks over their history give what a live run over the same records gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams import (
    BufferConfig,
    EmitStrategy,
    Retry,
    StreamsBuilder,
    StreamsConfig,
    Suppressed,
    TaskId,
    TimeWindows,
    TopicPartition,
    Topology,
    serdes,
)
from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.plan.stages import stages_of
from pystreams.backfill.tasks.history_task import (
    RESULTS_PER_BATCH,
    HistoryTask,
    HistoryTaskSettings,
)
from pystreams.runtime.settings import task_settings
from pystreams.stores.kinds.suppress import store as suppression_buffer
from pystreams.testing.simulation.calls import InlineCalls
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.in_process import Row, in_order, rows_of, run
from tests.backfill.live import by_key, databases_in, live_run, outcome_of
from tests.parity.golden import Observations, decoded, read
from tests.parity.topologies import TOPOLOGIES

CONFIG = {
    "application.id": "app",
    "default.key.serde": "string",
    "default.value.serde": "string",
    "statestore.cache.max.bytes": 0,
}

RACES = {("repartition_to_table", "left-joined")}
"""A stream that is repartitioned once more meets a table of itself: which of a record and its own
update comes first depends, in a live run, on when the two topics are fetched."""

MERGED = {("named_nodes", "app-swapped-repartition")}
"""Written by a task that reads a topic and, repartitioned, what it made of it: no live run promises
an order between the two."""

WITH_ITSELF = {("inner_stream_joins", "cities-out")}
"""Joins a stream with its own records, both repartitioned: which of a record and its copy comes
first depends, in a live run, on when the two topics are fetched. The pairs are the same."""


def history_of(name: str) -> list[Row]:
    """What a golden file pipes in, as history."""
    rows: list[Row] = []
    offsets: dict[str, int] = {}
    for step in read(name)["steps"]:
        pipe = step.get("pipe")
        if pipe is None:
            continue
        topic = pipe["topic"]
        offset = offsets.setdefault(topic, 0)
        offsets[topic] += 1
        headers = tuple((key, decoded(value)) for key, value in pipe["headers"])
        key, value = decoded(pipe["key"]), decoded(pipe["value"])
        rows.append(Row(topic, 0, offset, pipe["timestamp"], key, value, headers))
    return rows


@pytest.mark.parity
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_outputs_and_stores_equal_those_of_a_live_run(name: str, tmp_path: Path) -> None:
    rows = history_of(name)
    topics = {row.topic for row in rows}

    topology = TOPOLOGIES[name](Observations())
    results = run(topology, CONFIG, rows, dict.fromkeys(topics, 1), tmp_path / "backfill")
    live = live_run(TOPOLOGIES[name](Observations()), CONFIG, rows, tmp_path / "live")

    found = outcome_of(results)
    of_several_tasks = {result.name for result in results if result.task > 0}
    assert found.outputs.keys() == live.outputs.keys()
    for topic, records in live.outputs.items():
        if (name, topic) in RACES:
            assert len(found.outputs[topic]) == len(records)
        elif (name, topic) in WITH_ITSELF:
            assert sorted(found.outputs[topic]) == sorted(records), topic
        elif (name, topic) in MERGED or topic in of_several_tasks:
            assert by_key(found.outputs[topic]) == by_key(records), topic
        else:
            assert found.outputs[topic] == records, topic
    assert found.states.keys() == live.states.keys()
    for store, records in live.states.items():
        if store in of_several_tasks:
            assert sorted(found.states[store], key=repr) == sorted(records, key=repr), store
        else:
            assert found.states[store] == records, store
    assert databases_in(tmp_path / "backfill") == databases_in(tmp_path / "live")


def test_end_says_how_far_each_partition_was_read(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream(["a", "b"], key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.to("out")
    rows = [
        Row("a", 0, 4, 50, b"k", b"v"),
        Row("a", 0, 7, 20, b"k", b"v"),
        Row("b", 0, 0, 30, b"k", b"v"),
    ]
    results = run(builder.build(), CONFIG, rows, {"a": 1, "b": 1}, tmp_path)

    ends = {
        TopicPartition(result.name, result.partition): (result.sequence, result.timestamp)
        for result in results
        if result.kind is ResultKind.END
    }
    assert ends == {TopicPartition("a", 0): (8, 50), TopicPartition("b", 0): (1, 30)}


def test_what_one_record_lets_go_in_portions_is_all_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suppression_buffer, "PORTION_BYTES", 2048)
    rows = [Row("in", 0, offset, offset, b"k%d" % offset, b"v") for offset in range(9)]
    rows.append(Row("in", 0, 9, 1000, b"closing", b"v"))

    results = run(suppressing(), CONFIG, rows, {"in": 1}, tmp_path / "backfill")
    live = live_run(suppressing(), CONFIG, rows, tmp_path / "live")

    assert len(live.outputs["out"]) == 9
    assert outcome_of(results) == live


def suppressing() -> Topology:
    builder = StreamsBuilder()
    waiting = Suppressed.until_time_limit(900, BufferConfig.unbounded())
    builder.table("in").suppress(waiting).to_stream().to("out")
    return builder.build()


def test_a_function_that_failed_is_called_again_in_the_order_of_the_records(tmp_path: Path) -> None:
    rows = [Row("in", 0, offset, offset, b"k", b"v%d" % offset) for offset in range(5)]
    calls: list[str] = []

    results = run(retrying(calls), CONFIG, rows, {"in": 1}, tmp_path / "backfill")
    live = live_run(retrying(calls), CONFIG, rows, tmp_path / "live")  # All were asked before.

    assert calls[:15] == [f"v{offset}" for offset in range(5) for _ in range(3)]
    assert outcome_of(results) == live
    assert len(live.outputs["out"]) == 5


def retrying(calls: list[str]) -> Topology:
    """Ask what answers each question the third time."""

    def ask(value: str) -> str:
        calls.append(value)
        if calls.count(value) < 3:
            raise TimeoutError("no answer")
        return value.upper()

    builder = StreamsBuilder()
    answered = builder.stream("in").map_values(ask, retry=Retry(on=TimeoutError, backoff_ms=1))
    answered.group_by_key().reduce(lambda so_far, value: so_far + value, name="all")
    answered.to("out")
    return builder.build()


def test_windows_that_close_after_a_function_was_called_again_are_sent_all_the_same(
    tmp_path: Path,
) -> None:
    rows = [Row("in", 0, offset, 10 * offset, b"k", b"v%d" % offset) for offset in range(5)]

    results = run(finally_counting(), CONFIG, rows, {"in": 1}, tmp_path / "backfill")

    assert [record[2] for record in outcome_of(results).outputs["out"]] == [0, 10, 20, 30]


def finally_counting() -> Topology:
    """Ask what answers all but the first question, and count in windows."""
    calls: list[str] = []

    def ask(value: str) -> str:
        calls.append(value)
        if value == "v1" and calls.count(value) < 2:
            raise TimeoutError("no answer")
        return value

    builder = StreamsBuilder()
    answered = builder.stream("in").map_values(ask, retry=Retry(on=TimeoutError, backoff_ms=1))
    windowed = answered.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10))
    counts = windowed.emit_strategy(EmitStrategy.on_window_close()).count(name="counts")
    counts.to_stream().map(lambda window, count: (window.key, str(count))).to("out")
    return builder.build()


def test_order_is_that_of_a_partition_group() -> None:
    rows = [
        *(Row("a", 0, offset, time, None, None) for offset, time in enumerate([5, 3, 9])),
        *(Row("b", 0, offset, time, None, None) for offset, time in enumerate([4, 6])),
    ]
    taken = [f"{row.topic}{row.timestamp}" for row in in_order(rows)]

    assert taken == ["b4", "a5", "a3", "b6", "a9"]


def counting_task(directory: Path, config: dict[str, object]) -> HistoryTask:
    """A task that counts values by key, and copies each record many times."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.group_by_key().count(name="counts")
    stream.flat_map_values(lambda value: [value] * COPIES).to("out")
    settings = StreamsConfig.of({"bootstrap.servers": "none:9092", **CONFIG, **config})
    plan = TopologyPlan(builder.build(), "app")
    shared = HistoryTaskSettings(
        task_settings(settings, async_calls=InlineCalls, num_partitions=lambda _: 1),
        lambda _topic, keys, _task: [0] * len(keys),
        settings.statestore_uncommitted_max_bytes,
        settings.statestore_cache_max_bytes,
        now_ms=0,
    )
    stage = stages_of(plan, {"in": 1})[0]
    return HistoryTask(TaskId(0, 0), plan, stage, [TopicPartition("in", 0)], directory, shared, {})


COPIES = 7


def test_results_come_while_a_batch_is_processed_numbered_without_a_gap(tmp_path: Path) -> None:
    task = counting_task(tmp_path, {})
    rows = [Row("in", 0, offset, offset, b"k", b"v") for offset in range(3_500)]

    batches = list(task.feed({TopicPartition("in", 0): [row.message() for row in rows]}))
    copies = [batch for batch in (*batches, *task.finish()) if batch.name == "out"]

    assert max(len(batch.records) for batch in batches) == RESULTS_PER_BATCH
    sequences = [row.sequence for batch in copies for row in rows_of(batch)]
    assert sequences == list(range(COPIES * len(rows)))


def test_what_is_logged_does_not_pile_up_until_a_commit(tmp_path: Path) -> None:
    task = counting_task(tmp_path, {})
    rows = [Row("in", 0, offset, offset, b"k", b"v") for offset in range(5_000)]

    logged = [
        sum(len(output.records) for output in task._task.state_manager.outputs())
        for _ in task.feed({TopicPartition("in", 0): [row.message() for row in rows]})
    ]
    state = [row for batch in task.finish() for row in rows_of(batch) if row.name == "counts"]

    assert max(logged) == 0
    assert [(row.key, row.value) for row in state] == [(b"k", (5_000).to_bytes(8, "big"))]
