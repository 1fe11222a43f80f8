"""Stores that are built from staged state are those that a restore would have made."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    Materialized,
    StateDirectoryError,
    StoreEngine,
    Stores,
    StreamsBuilder,
    Topology,
    serdes,
)
from pystreams.backfill.plan.rows import ResultKind
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.runtime.adapters.state_directory import StateDirectory
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.in_process import run
from tests.backfill.publishing import killed_seeding
from tests.backfill.publishing.publications import publication_of
from tests.backfill.publishing.seeding_scene import Scene, next_offsets
from tests.backfill.sources.covered import CASES, CONFIG, Case, made_up
from tests.every_store import BUILDERS, everywhere
from tests.stores.managed import ROOT, commit

TASK = killed_seeding.TASK
TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}


def table_without_timestamps() -> Topology:
    """A table over a plain store, which keeps no timestamps."""
    builder = StreamsBuilder()
    supplier = Stores.persistent_key_value_store("rows")
    builder.table("left", materialized=Materialized(supplier=supplier), **TEXT)
    return builder.build()


LEFT = made_up("left", 1, 300, num_partitions=1)
ONE = {"left": 1}
SEEDED_CASES: dict[str, Case] = {
    "every_store": Case(lambda: everywhere("left", "counts"), LEFT, ONE),
    "every_store_written_through": Case(
        lambda: everywhere("left", "counts", transactional=False), LEFT, ONE
    ),
    "temporal_join": CASES["temporal_join"],
    "table_without_timestamps": Case(table_without_timestamps, LEFT, ONE),
}
OTHER_CASES = {name: case for name, case in CASES.items() if name not in SEEDED_CASES}


def scene_of(case: Case, directory: Path) -> Scene:
    """Run a backfill in this process."""
    topology = case.build()
    rows = case.in_event_time or case.rows
    results = run(
        topology, {**CONFIG, **case.config}, rows, case.num_partitions, directory / "backfill"
    )
    plan = TopologyPlan(topology, "app")
    state = [row for row in results if row.kind is not ResultKind.OUTPUT]
    publication = publication_of(plan, state, case.num_partitions)
    return Scene(plan, publication, results, directory)


@pytest.fixture
def few_rows(tmp_path: Path) -> Scene:
    return killed_seeding.scene(tmp_path)


@pytest.mark.parametrize("name", list(SEEDED_CASES))
def test_seeded_store_is_the_restored_one_in_every_family(name: str, tmp_path: Path) -> None:
    several = 70  # Runs, of which some overlap.
    scene = replace(scene_of(SEEDED_CASES[name], tmp_path), run_entries=several)
    done = scene.seed()
    restored = scene.restored()

    assert scene.seeded() == restored
    assert done.stores == len(restored) > 0
    assert (done.left_stores, done.size_bytes > 0) == (0, True)


@pytest.mark.sweep
@pytest.mark.parametrize("name", list(OTHER_CASES))
def test_seeded_stores_of_all_topologies_are_the_restored_ones(name: str, tmp_path: Path) -> None:
    scene = scene_of(OTHER_CASES[name], tmp_path)
    done = scene.seed()
    restored = scene.restored()

    assert scene.seeded() == restored
    assert done.stores == len(restored)


def test_live_task_restores_nothing_and_goes_on(tmp_path: Path) -> None:
    scene = scene_of(SEEDED_CASES["every_store"], tmp_path)
    scene.seed()
    ends = scene.ends()
    for task in scene.publication.tasks:
        manager = scene.manager(task.task_id, scene.home(task.task_id))
        mine = {key: end for key, end in ends.items() if key.partition == task.task_id.partition}
        assert manager.restore_positions() == next_offsets(mine)
        manager.store("plain").put("new", 77)
        commit(manager, **{store: ends[scene.changelog(task.task_id, store)] for store in BUILDERS})
        manager.close()
        manager = scene.manager(task.task_id, scene.home(task.task_id))
        plain = scene.changelog(task.task_id, "plain")
        assert manager.restore_positions() == next_offsets({**mine, plain: mine[plain] + 1})
        assert manager.store("plain").get("new") == 77
        manager.close()


def test_store_written_through_is_trusted_under_exactly_once(tmp_path: Path) -> None:
    scene = scene_of(SEEDED_CASES["every_store_written_through"], tmp_path)
    scene = replace(scene, environment=replace(scene.environment, exactly_once=True))
    scene.seed()
    with capture_logs() as logs:
        for task in scene.publication.tasks:
            manager = scene.manager(task.task_id, scene.home(task.task_id))
            assert None not in manager.restore_positions().values()
            manager.close()

    assert logs == []


def test_time_of_zero_is_what_the_changelog_has_for_it(few_rows: Scene) -> None:
    results = [row._replace(timestamp=0) for row in few_rows.results]
    scene = replace(few_rows, results=results)
    scene.seed()
    held = scene.seeded()

    assert {value[:8] for _, value in held[TASK, "timestamped"]["keyValueWithTimestamp"]} == {
        b"\0\0\0\0\0\0\0\1"
    }
    assert held == scene.restored()


def test_seeded_twice_nothing_changes(few_rows: Scene) -> None:
    once = few_rows.seed()
    files = {
        path: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in few_rows.home(TASK).glob("rocksdb/*/*")
    }
    again = few_rows.seed()

    assert again == once
    assert {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files} == files


def test_store_without_records_is_left_alone(few_rows: Scene) -> None:
    rows = [row for row in few_rows.results if row.name != "window"]
    done = replace(few_rows, results=rows).seed()

    assert (done.stores, done.left_stores) == (1, 0)
    assert not (few_rows.home(TASK) / "rocksdb" / "window").exists()


def test_store_in_memory_is_left_to_a_restore(few_rows: Scene) -> None:
    topology = few_rows.plan.topology
    in_memory = StoreSpecBuilder(replace(BUILDERS["window"].spec, engine=StoreEngine.IN_MEMORY))
    topology.stores["window"] = in_memory
    done = few_rows.seed()

    assert (done.stores, done.left_stores) == (1, 1)
    assert few_rows.seeded().keys() == {(TASK, "timestamped")}


def test_task_whose_directory_is_in_use_is_left_to_a_restore(few_rows: Scene) -> None:
    live = StateDirectory(few_rows.directory, "app")
    live.lock_task(TASK)
    with capture_logs() as logs:
        done = few_rows.seed()
    live.close()

    assert (done.stores, done.left_stores) == (0, 2)
    assert "task is not seeded: its directory is in use" in [line["event"] for line in logs]
    assert few_rows.seed().stores == 2


def put_store(scene: Scene) -> Path:
    """State of another life of the application."""
    store = scene.home(TASK) / "rocksdb" / "timestamped"
    store.mkdir(parents=True)
    (store / "CURRENT").write_text("MANIFEST-000001\n")
    return store


def put_checkpoint(scene: Scene) -> Path:
    """State of a life of Kafka Streams."""
    scene.home(TASK).mkdir(parents=True)
    file = scene.home(TASK) / ".checkpoint"
    file.write_text("0\n0\n")
    return file


def put_other_publication(scene: Scene) -> Path:
    """State of another backfill."""
    replace(scene, publication=replace(scene.publication, id="other")).seed()
    return scene.home(TASK) / "rocksdb" / "timestamped"


@pytest.mark.parametrize("put", [put_store, put_checkpoint, put_other_publication])
@pytest.mark.parametrize("is_begun", [False, True])
def test_state_of_another_life_is_refused_and_not_touched(
    few_rows: Scene, put: Callable[[Scene], Path], is_begun: bool
) -> None:
    found = put(few_rows)
    before = sorted(few_rows.directory.rglob("*"))
    directory = StateDirectory(few_rows.directory, "app")
    seeder = few_rows.seeder(directory)
    with pytest.raises(PublishingRefusedError, match="state of another life") as refused:
        seeder.check(is_begun=is_begun)
    with pytest.raises(PublishingRefusedError, match="state of another life"):
        seeder.seed(few_rows.ends())
    directory.close()

    assert str(found) in str(refused.value)
    made = {few_rows.home(TASK) / ".lock", *few_rows.directory.glob("app/kafka-streams-*")}
    assert set(few_rows.directory.rglob("*")) - made == set(before) - made


def test_own_stores_are_refused_when_the_group_has_forgotten_them(few_rows: Scene) -> None:
    """The group's offsets and topics were deleted: the next changelogs may have other offsets."""
    few_rows.seed()
    directory = StateDirectory(few_rows.directory, "app")
    with pytest.raises(PublishingRefusedError, match="state of another life"):
        few_rows.seeder(directory).check(is_begun=False)
    directory.close()


def test_directory_that_can_not_be_written_is_told_and_nothing_is_left(few_rows: Scene) -> None:
    few_rows.home(TASK).mkdir(parents=True)
    (few_rows.home(TASK) / "rocksdb").write_text("in the way")
    with pytest.raises(StateDirectoryError, match="publish without seeding"):
        few_rows.seed()
    assert not (few_rows.home(TASK) / ".seeding").exists()
    (few_rows.home(TASK) / "rocksdb").unlink()

    assert few_rows.seed().stores == 2


# ---------------------------------------------------------------------- killed


def kill_at(steps: list[tuple[Path, int]], job: Path) -> list[bool]:
    job.write_bytes(pickle.dumps(steps))
    done = subprocess.run(
        [sys.executable, "-m", "tests.backfill.publishing.killed_seeding", str(job)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found: list[bool] = json.loads(done.stdout.splitlines()[-1])
    return found


def moments_of(directory: Path) -> range:
    """Seed; return the moments at which a process that does can die."""
    return range(killed_seeding.seed_and_die(directory, -1))


@pytest.mark.parametrize(
    "deaths", [9, pytest.param(None, marks=[pytest.mark.sweep, pytest.mark.timeout(900)])]
)
def test_killed_at_any_moment_each_store_is_complete_or_not_there(
    deaths: int | None, tmp_path: Path
) -> None:
    moments = moments_of(tmp_path / "reference")
    reference = killed_seeding.scene(tmp_path / "reference").seeded()
    every = 1 if deaths is None else len(moments) // deaths
    chosen = sorted({*moments[::every], moments[-1]})
    steps = [(tmp_path / str(number), number) for number in chosen]
    assert kill_at(steps, tmp_path / "steps.pickle") == [True] * len(steps)

    found = set[int]()
    for directory, _ in steps:
        scene = killed_seeding.scene(directory)
        held = scene.seeded()
        found.add(len(held))
        assert held == {key: reference[key] for key in held}
        manager = scene.manager(TASK, scene.home(TASK))  # It starts, and restores what is missing.
        ends = next_offsets(scene.ends())
        positions = manager.restore_positions()
        assert positions == {
            changelog: ends[changelog] if (TASK, store) in held else None
            for (_, store), changelog in zip(scene.stores(), ends, strict=True)
        }
        manager.close()
    assert found == {0, 1, 2}


def test_killed_at_any_moment_the_next_run_builds_what_is_missing(tmp_path: Path) -> None:
    moments = moments_of(tmp_path / "reference")
    reference = killed_seeding.scene(tmp_path / "reference").seeded()
    steps = [(tmp_path / str(number), number) for number in moments[:: len(moments) // 4]]
    assert kill_at(steps, tmp_path / "steps.pickle") == [True] * len(steps)

    for directory, _ in steps:
        scene = killed_seeding.scene(directory)
        assert scene.seed().stores == 2
        assert scene.seeded() == reference
        assert {path.name for path in scene.home(TASK).iterdir()} == {".lock", "rocksdb"}
