"""Which input the stores of a task reflect: per isolation level, behind caches, after restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    IsolationLevel,
    Materialized,
    Position,
    Processor,
    ProcessorContext,
    StoreEngine,
    Stores,
    StreamsBuilder,
    Topology,
    serdes,
)
from tests.runtime.query.filing import BUILDERS, filing
from tests.runtime.running_task import RunningTask

COMMITTED = IsolationLevel.READ_COMMITTED
UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED
ENGINE = StoreEngine.IN_MEMORY


def counting(*, caching: bool = False) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.group_by_key().count(name="counts", store_type=ENGINE, caching=caching)
    return builder.build()


def counting_twice() -> Topology:
    """A count whose changes are counted, and one beside it."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    counts = stream.group_by_key().count(name="counts", store_type=ENGINE, caching=True)
    counts.to_stream().map_values(str).group_by_key(value_serde=serdes.STRING).count(
        name="changes", store_type=ENGINE
    )
    stream.group_by_key().count(name="beside", store_type=ENGINE)
    return builder.build()


def keeping(*, logged: bool) -> Topology:
    """A processor that puts each value into a persistent store."""

    class Keeping(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            self._store: Any = context.get_state_store("kept")

        def process(self, record: Any) -> None:
            self._store.put(record.key, record.value)

    supplier = Stores.persistent_key_value_store("kept")
    store = Stores.key_value_store_builder(supplier, serdes.STRING, serdes.STRING)
    builder = StreamsBuilder()
    builder.add_state_store(store if logged else store.with_logging_disabled())
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.process(Keeping, stores=["kept"])
    return builder.build()


def of(running: RunningTask, store: str, level: IsolationLevel) -> int | None:
    """Return the offset a store's position has of the input partition."""
    return running.task.state_manager.positions.of(store, level).offsets.get(running.input)


def test_uncommitted_position_moves_with_a_run_and_the_committed_one_with_the_commit() -> None:
    running = RunningTask(counting())
    assert running.task.state_manager.positions.of("counts", UNCOMMITTED) == Position()

    running.run(("a", "x", 0), ("b", "x", 0), ("a", "x", 0), limit=2)

    assert of(running, "counts", UNCOMMITTED) == 1
    assert of(running, "counts", COMMITTED) is None
    running.commit()
    assert of(running, "counts", COMMITTED) == 1
    running.run()
    assert (of(running, "counts", UNCOMMITTED), of(running, "counts", COMMITTED)) == (2, 1)


def test_position_covers_records_that_wrote_nothing() -> None:
    """Differs from Kafka, whose position names only records that wrote."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    kept = stream.filter(lambda key, _value: key == "a")
    kept.group_by_key().count(name="counts", store_type=ENGINE)
    running = RunningTask(builder.build())

    running.run(("a", "x", 0), ("b", "x", 0))
    running.commit()

    assert of(running, "counts", COMMITTED) == 1


def test_position_covers_records_that_were_skipped_because_they_can_not_be_read() -> None:
    running = RunningTask(counting())

    running.run(("a", "\xff", 0))
    assert of(running, "counts", UNCOMMITTED) == 0
    running.commit()

    assert of(running, "counts", COMMITTED) == 0


def test_a_store_without_news_has_the_position_of_its_task() -> None:
    running = RunningTask(counting_twice())
    running.run(("a", None, 0))
    running.commit()

    assert {of(running, name, COMMITTED) for name in ("counts", "changes", "beside")} == {0}


def test_a_caching_store_reflects_what_is_still_in_its_cache() -> None:
    running = RunningTask(counting(caching=True), cache_enabled=True)
    running.run(("a", "x", 0))

    view = running.task.state_manager.stores()["counts"].read_only(UNCOMMITTED)

    assert view.get("a").value == 1
    assert of(running, "counts", UNCOMMITTED) == 0


def test_a_store_fed_by_a_caching_one_moves_when_the_cache_is_flushed() -> None:
    running = RunningTask(counting_twice(), cache_enabled=True)
    running.run(("a", "x", 0))
    assert of(running, "changes", UNCOMMITTED) is None
    assert of(running, "beside", UNCOMMITTED) == 0

    running.task.flush_caches()

    assert of(running, "changes", UNCOMMITTED) == 0
    assert of(running, "changes", COMMITTED) is None


def test_a_store_fed_by_another_one_moves_at_once_without_caches() -> None:
    running = RunningTask(counting_twice())

    running.run(("a", "x", 0))

    assert of(running, "changes", UNCOMMITTED) == 0


def test_a_restored_store_starts_at_the_committed_offset() -> None:
    running = RunningTask(counting(), committed=42)

    assert of(running, "counts", UNCOMMITTED) == 41
    assert of(running, "counts", COMMITTED) == 41


def test_a_partition_committed_at_its_beginning_is_not_covered() -> None:
    running = RunningTask(counting(), committed=0)

    assert running.task.state_manager.positions.of("counts", UNCOMMITTED) == Position()


def test_a_rollback_takes_the_position_back_to_the_commit() -> None:
    running = RunningTask(counting())
    running.run(("a", "x", 0))
    running.commit()
    running.run(("a", "x", 0))

    running.task.revive()

    assert of(running, "counts", UNCOMMITTED) == 0
    assert of(running, "counts", COMMITTED) == 0


@pytest.mark.parametrize("logged", [True, False])
def test_position_on_disk_is_that_of_the_last_commit_that_wrote(
    tmp_path: Path, *, logged: bool
) -> None:
    topology = keeping(logged=logged)
    running = RunningTask(topology, directory=tmp_path)
    running.run(("a", "x", 0), ("a", "y", 0))
    running.commit()
    running.run(("a", "z", 0))
    running.task.close()

    again = RunningTask(topology, directory=tmp_path)

    store: Any = again.task.state_manager.store("kept")
    assert store.get("a") == "y"
    assert store.position == Position({running.input: 1})
    again.task.close()


def test_a_store_without_a_changelog_starts_where_its_own_data_ends(tmp_path: Path) -> None:
    """Nobody can restore what it lost, so the group's offsets say nothing about it."""
    topology = keeping(logged=False)
    running = RunningTask(topology, directory=tmp_path)
    running.run(("a", "x", 0))
    running.commit()
    running.task.close()

    again = RunningTask(topology, directory=tmp_path, committed=10)

    assert of(again, "kept", COMMITTED) == 0
    again.run(("a", "y", 0))
    again.commit()
    assert of(again, "kept", COMMITTED) == 10
    again.restart(committed=11)
    assert of(again, "kept", COMMITTED) == 10
    again.task.close()


def test_materialized_as_the_dsl_has_it_commits_positions_too(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.table(
        "in",
        key_serde=serdes.STRING,
        value_serde=serdes.STRING,
        materialized=Materialized(name="table"),
    )
    running = RunningTask(builder.build(), directory=tmp_path)
    running.run(("a", "x", 0))
    running.commit()

    assert running.task.state_manager.store("table").position == Position({running.input: 0})
    running.task.close()


@pytest.mark.parametrize("store", BUILDERS)
def test_stores_of_every_kind_keep_the_position_of_their_commit(store: str) -> None:
    running = RunningTask(filing())
    running.run(("a", "x", 1), ("b", "y", 2))
    kept = running.task.state_manager.stores()[store]
    assert kept.position == Position()

    running.commit()

    assert kept.position == Position({running.input: 1})
    assert of(running, store, COMMITTED) == 1
