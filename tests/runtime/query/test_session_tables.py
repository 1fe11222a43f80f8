"""Sessions of the DSL are read by other threads, whenever their results are sent on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    EmitStrategy,
    IsolationLevel,
    StoreEngine,
    StreamsBuilder,
    Topology,
    Window,
    Windowed,
    WindowRangeQuery,
)
from pystreams import SessionWindows as Windows
from pystreams.runtime.queries.local_stores import local_store, views_of
from pystreams.serdes import STRING
from tests.runtime.query.filing import ask, specs_of
from tests.runtime.running_task import RunningTask

RECORDS = (("b", "x", 1), ("a", "x", 2), ("a", "x", 4), ("a", "x", 20))
SESSIONS = [(Windowed("a", Window(2, 4)), 2), (Windowed("a", Window(20, 20)), 1)]


def counts(emit: EmitStrategy, engine: StoreEngine) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    sessions = stream.group_by_key().windowed_by(Windows.of_inactivity_gap_and_grace(5, 1000))
    sessions.emit_strategy(emit).count(name="counts", store_type=engine)
    return builder.build()


@pytest.fixture(params=list(EmitStrategy), ids=lambda emit: emit.value)
def topology(request: pytest.FixtureRequest, engine: StoreEngine) -> Topology:
    return counts(request.param, engine)


@pytest.fixture(params=list(StoreEngine), ids=lambda engine: engine.value)
def engine(request: pytest.FixtureRequest) -> StoreEngine:
    return StoreEngine(request.param)


def test_a_query_for_a_key_gives_its_sessions(topology: Topology, tmp_path: Path) -> None:
    running = RunningTask(topology, directory=tmp_path)
    running.run(*RECORDS)

    def found(level: IsolationLevel) -> list[Any]:
        query = WindowRangeQuery(key="a")
        result = ask([running], query, "counts", specs=specs_of(topology), level=level)
        return list(result.only_value() or ())

    assert found(IsolationLevel.READ_UNCOMMITTED) == SESSIONS
    assert found(IsolationLevel.READ_COMMITTED) == []
    running.commit()
    assert found(IsolationLevel.READ_COMMITTED) == SESSIONS
    running.task.close()


def test_the_local_store_gives_sessions_of_keys_and_of_times(
    topology: Topology, tmp_path: Path
) -> None:
    running = RunningTask(topology, directory=tmp_path)
    running.run(*RECORDS)
    store = running.task.state_manager.stores()["counts"]
    level = IsolationLevel.READ_UNCOMMITTED
    local: Any = local_store(
        specs_of(topology)["counts"], lambda: views_of("counts", level, [store], ready=True)
    )

    assert local.fetch_session("a", 2, 4) == 2
    assert list(local.fetch("a")) == SESSIONS
    assert list(local.backward_find_sessions("a", 3, 30)) == SESSIONS[::-1]
    assert list(local.find_sessions_by_end(2, 30)) == SESSIONS
    assert dict(local.fetch_range(None, None)) == {Windowed("b", Window(1, 1)): 1, **dict(SESSIONS)}
    running.task.close()
