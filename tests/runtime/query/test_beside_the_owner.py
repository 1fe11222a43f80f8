"""Queries of another thread beside a task that processes and commits: what a position promises."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pystreams import IsolationLevel, KeyQuery, PositionBound, StoreEngine, StreamsBuilder, serdes
from pystreams.runtime.queries.query_execution import StateQueryRequest, query_tasks
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.runtime.running_task import RunningTask

RUNS = 1500


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("engine", list(StoreEngine))
@pytest.mark.parametrize("level", list(IsolationLevel))
def test_an_answer_holds_at_least_what_its_position_says(
    tmp_path: Path, level: IsolationLevel, engine: StoreEngine, *, caching: bool
) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.group_by_key().count(name="counts", store_type=engine, caching=caching)
    topology = builder.build()
    running = RunningTask(topology, directory=tmp_path, cache_enabled=caching)
    store = topology.stores["counts"]
    assert isinstance(store, StoreSpecBuilder)
    request = StateQueryRequest(KeyQuery("a"), store.spec, None, level, PositionBound.unbounded())
    done = threading.Event()
    seen: list[tuple[int, int]] = []

    def ask() -> None:
        while not done.is_set():
            result = query_tasks(request, [running.task], 1).partition_results[0]
            promised = result.position.offsets.get(running.input, -1) + 1
            seen.append((promised, result.value or 0))

    reader = threading.Thread(target=ask)
    reader.start()
    try:
        for number in range(RUNS):
            running.run(("a", "x", 0), ("a", "x", 0))
            if number % 10 == 9:
                running.commit()
    finally:
        done.set()
        reader.join()
    running.task.close()

    assert seen
    assert all(promised <= counted for promised, counted in seen)
    assert sorted(seen) == seen, "neither positions nor counts ever go back"
