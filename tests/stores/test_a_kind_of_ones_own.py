"""A kind of store from outside the package has all that ours have; see `tests.stores.scores`.

What a backfill, an export and a move do with it is in `tests.backfill.test_a_kind_of_ones_own`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pystreams import (
    FailureReason,
    IsolationLevel,
    KeyQuery,
    PositionBound,
    Query,
    QueryResult,
    StoreEngine,
    StreamsBuilder,
    TopologyError,
    serdes,
)
from pystreams.runtime.queries.local_stores import local_store, views_of
from pystreams.runtime.queries.query_execution import StateQueryRequest, query_tasks
from pystreams.stores.build import build_bulk_loaded_store
from pystreams.stores.contracts.spec import StoreSupplier
from pystreams.testing import StateStoreContract, TopologyTestDriver
from tests.runtime.running_task import RunningTask
from tests.stores.scores import (
    DAY_MS,
    SCORES,
    BestOf,
    LocalScores,
    Scores,
    noting_scores,
    scores_builder,
)
from tests.stores.support import Home, Message

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


class TestScores(StateStoreContract):
    """It keeps what every store must keep to."""

    engine = StoreEngine.ROCKSDB
    transactional = True
    values: ClassVar = (1, 2, 3, 4, 5)
    environment = replace(StateStoreContract.environment, default_value_serde=serdes.LONG)

    def make_store(self) -> Any:
        builder = scores_builder(self.engine)
        return (builder if self.transactional else builder.with_transactional_disabled()).build()

    def put_entry(self, store: Scores, key: str, value: int) -> None:
        store.put(key, 0, None)
        store.put(key, 0, value)

    def delete_entry(self, store: Scores, key: str) -> None:
        store.put(key, 0, None)

    def entries(self, store: Scores) -> list[tuple[str, int]]:
        return [(player, score) for player, _, score in store.all()]


class TestScoresInMemory(TestScores):
    engine = StoreEngine.IN_MEMORY


class TestScoresThatWriteThrough(TestScores):
    transactional = False


def number(value: int) -> str:
    """A value as `RunningTask` takes it."""
    return serdes.LONG.serializer("in")(value).decode("latin-1")


@pytest.fixture
def running(tmp_path: Path) -> Any:
    task = RunningTask(noting_scores(), directory=tmp_path)
    task.run(("ann", number(3), 0), ("ann", number(7), DAY_MS), ("bob", number(5), 0))
    task.commit()
    task.run(("ann", number(9), 2 * DAY_MS))
    yield task
    task.task.close()


def ask(running: RunningTask, query: Query[Any], level: IsolationLevel) -> QueryResult[Any]:
    spec = scores_builder().spec
    request = StateQueryRequest(query, spec, None, level, PositionBound.unbounded())
    return query_tasks(request, [running.task], 1).partition_results[0]


def test_a_processor_uses_it_in_the_test_driver() -> None:
    with TopologyTestDriver(noting_scores()) as driver:
        played = driver.create_input_topic("in", serdes.STRING, serdes.LONG)
        best = driver.create_output_topic("best", serdes.STRING, serdes.LONG)
        for score, time in ((3, 5), (2, 6), (8, DAY_MS)):
            played.pipe_input("ann", score, timestamp=time)

        assert best.read_values() == [3, 3, 8]
        assert list(driver.get_state_store("scores").of("ann")) == [(0, 3), (DAY_MS, 8)]


def test_its_changelog_restores_it_and_is_a_compacted_topic(tmp_path: Path) -> None:
    home = Home(tmp_path / "old")
    home.directory.mkdir()
    store: Any = home.open_builder(scores_builder())
    for score, time in ((3, 5), (2, 6), (8, DAY_MS)):
        store.put("ann", time, score)
    logged = [Message(key, value, at) for at, (key, value, _) in enumerate(home.logged())]
    store.close()

    other = Home(tmp_path / "new")
    other.directory.mkdir()
    restored: Any = other.open_builder(scores_builder())
    restored.restore(logged)

    assert list(restored.of("ann")) == [(0, 3), (DAY_MS, 8)]
    assert scores_builder().changelog_defaults(1) == {"cleanup.policy": "compact"}
    assert scores_builder().metrics_scope == "rocksdb"


def test_it_is_loaded_in_bulk(tmp_path: Path) -> None:
    store, engine = build_bulk_loaded_store(scores_builder().spec)
    home = Home(tmp_path)
    store.init(home.context())
    key = b"ann" + (DAY_MS).to_bytes(8, "big")
    store.restore([Message(key, serdes.LONG.serializer("s")(4), 0)])
    store.close()
    engine.abandon()

    opened: Any = home.open_builder(scores_builder())
    assert list(opened.of("ann")) == [(DAY_MS, 4)]


def test_other_threads_read_it_by_its_own_reads(running: RunningTask) -> None:
    stores = [running.task.state_manager.stores()["scores"]]

    def local(level: IsolationLevel) -> LocalScores:
        found = local_store(
            scores_builder().spec, lambda: views_of("scores", level, stores, ready=True)
        )
        assert isinstance(found, LocalScores)
        return found

    assert list(local(COMMITTED).of("ann")) == [(0, 3), (DAY_MS, 7)]
    assert list(local(UNCOMMITTED).of("ann")) == [(0, 3), (DAY_MS, 7), (2 * DAY_MS, 9)]


def test_it_answers_a_query_of_its_own_and_says_which_when_it_can_not(
    running: RunningTask,
) -> None:
    assert ask(running, BestOf("ann"), COMMITTED).value == 7
    assert ask(running, BestOf("ann"), UNCOMMITTED).value == 9

    refused = ask(running, KeyQuery("ann"), COMMITTED)

    assert refused.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
    assert refused.failure_message == (
        "state store 'scores' is a scores store and can't answer KeyQuery(key='ann'): ask it with "
        "BestOf"
    )


def test_what_it_can_not_do_is_refused_when_the_topology_is_made() -> None:
    with pytest.raises(TopologyError, match="scores stores can't be cached"):
        scores_builder().with_caching_enabled()
    grouped = StreamsBuilder().stream("in").group_by_key()
    with pytest.raises(TopologyError, match="count: store 'scores' is a scores store, which can't"):
        grouped.count(supplier=StoreSupplier("scores", SCORES))
