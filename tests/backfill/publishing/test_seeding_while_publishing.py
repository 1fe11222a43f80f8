"""Seeding is a step of publishing: before the hand-over, at the ends the changelogs have then."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from pystreams import StreamsBuilder, TaskId, TimeWindows, TopicPartition, TopologyError
from pystreams.backfill import Published
from pystreams.backfill.plan.rows import Result
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.backfill.publishing.publisher import FencedPublisherError
from pystreams.backfill.publishing.store_seeder import StateSeeder
from pystreams.runtime.adapters.state_directory import StateDirectory
from pystreams.runtime.cluster.publishing_mark import published_by
from pystreams.runtime.maintenance.earlier_topology import FINGERPRINT_FILE, EarlierTopology
from pystreams.runtime.ports import ConsumerPort, ProducerPort
from pystreams.testing.simulation import FaultRates, SimulatedCrash
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.in_process import run
from tests.backfill.publishing.seeding_scene import ENVIRONMENT, Scene
from tests.backfill.publishing.test_publishing import (
    CONFIG,
    TYPES,
    Arena,
    arena_of,
    counting,
    history,
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    return run(counting(), CONFIG, history(), {"in": 2}, tmp_path_factory.mktemp("backfill"))


@pytest.fixture
def arena(results: list[Result]) -> Arena:
    return arena_of(results)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    directory = StateDirectory(tmp_path, "app")
    yield directory
    directory.close()


def scene_of(arena: Arena, state: StateDirectory) -> Scene:
    return Scene(arena.plan, arena.publication, arena.results, state.directory.parent)


def seeder_of(arena: Arena, state: StateDirectory) -> StateSeeder:
    return scene_of(arena, state).seeder(state)


def publish(arena: Arena, state: StateDirectory) -> Published:
    return arena.publisher()[0].run(seeder_of(arena, state))


def check(arena: Arena, state: StateDirectory) -> None:
    """All is published, and each store is at the end of its changelog, with what that holds."""
    arena.check(with_outputs=False)
    scene = scene_of(arena, state)
    seeded = scene.seeded()
    for task_id, store in scene.stores():
        changelog = scene.changelog(task_id, store)
        arena.broker.settle()
        logged = arena.broker.log(changelog).committed_records()
        if not logged:
            assert (task_id, store) not in seeded
            continue
        held = dict(seeded[task_id, store]["keyValueWithTimestamp"])
        assert held == {
            record.message_key: record.timestamp_ms.to_bytes(8, "big")
            + (record.message_value or b"")
            for record in logged
        }
        ((name, packed),) = seeded[task_id, store]["offsets"]
        assert name == str(changelog).encode()
        offset = int.from_bytes(packed, "big")
        held_range = arena.broker.offset_range(changelog)
        assert logged[-1].message_offset <= offset < held_range.high_watermark


def test_stores_are_built_at_the_ends_of_their_changelogs(
    arena: Arena, state: StateDirectory
) -> None:
    done = publish(arena, state)

    check(arena, state)
    assert done.seeded is not None
    assert done.seeded.stores == len(scene_of(arena, state).seeded())
    assert (done.seeded.directory, done.seeded.left_stores) == (state.directory, 0)
    for task_id, store in scene_of(arena, state).seeded():
        changelog = scene_of(arena, state).changelog(task_id, store)
        manager = scene_of(arena, state).manager(task_id, state.directory / str(task_id))
        position = manager.restore_positions()[changelog]
        manager.close()
        assert position == arena.broker.offset_range(changelog).high_watermark


def test_first_start_over_seeded_stores_is_compared_with_the_topology_of_the_backfill(
    arena: Arena, state: StateDirectory
) -> None:
    publish(arena, state)
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(1000)
    builder.stream("in", **TYPES).group_by_key().windowed_by(windows).count(name="keys")

    changed = EarlierTopology(state, TopologyPlan(builder.build(), "app"), ENVIRONMENT)
    with pytest.raises(TopologyError, match="store 'keys'"):
        changed.check()

    file = state.directory / FINGERPRINT_FILE
    seeded = file.read_text("utf-8")
    same = EarlierTopology(state, arena.plan, ENVIRONMENT)
    with capture_logs() as logs:
        same.check()
    same.learn(plan_partitions(arena.plan, arena.broker.partition_counts()))
    same.keep()
    assert (logs, file.read_text("utf-8")) == ([], seeded)


def test_published_before_seeds_nothing(arena: Arena, state: StateDirectory) -> None:
    """What has been handed over may have been written to by the application."""
    arena.publish()
    again = publish(arena, state)

    assert (again.was_done, again.seeded) == (True, None)
    assert scene_of(arena, state).seeded() == {}


@pytest.mark.property
@settings(max_examples=8)
@given(crashes=st.lists(st.integers(0, 130), max_size=4), seed=st.integers(0, 1000))
def test_killed_at_any_call_it_goes_on_and_seeds_the_same(
    results: list[Result],
    tmp_path_factory: pytest.TempPathFactory,
    crashes: list[int],
    seed: int,
) -> None:
    arena = arena_of(results, seed)
    state = StateDirectory(tmp_path_factory.mktemp("state"), "app")
    for calls in crashes:
        publisher, lifeline = arena.publisher()
        lifeline.crash_in(calls)
        # A hand-over may be committed all the same: then it has seeded before.
        with contextlib.suppress(SimulatedCrash):
            publisher.run(seeder_of(arena, state))
    publish(arena, state)
    state.close()

    check(arena, state)


def test_trouble_with_the_broker_is_waited_out(
    results: list[Result], state: StateDirectory
) -> None:
    arena = arena_of(results, 3)
    arena.broker.faults.rates = FaultRates(no_answer=0.02, abort=0.05)
    publish(arena, state)

    check(arena, state)


def test_publisher_that_was_overtaken_seeds_nothing(arena: Arena, state: StateDirectory) -> None:
    """The other has handed the group over, and the application may have written since."""
    first, _ = arena.publisher()
    ends = first._checks.changelogs

    def after_the_other() -> list[TopicPartition]:
        arena.publish()
        return ends()

    first._checks.changelogs = after_the_other  # type: ignore[method-assign]
    # Asked for the first time by the check of the claim.
    first._checks.check_changelogs = lambda: None  # type: ignore[method-assign]
    with pytest.raises(FencedPublisherError, match="another publisher"):
        first.run(seeder_of(arena, state))

    assert scene_of(arena, state).seeded() == {}
    arena.check(with_outputs=False)


def test_state_of_another_life_is_refused_before_anything_is_changed(
    arena: Arena, state: StateDirectory
) -> None:
    store = state.directory / str(TaskId(0, 0)) / "rocksdb" / "keys"
    store.mkdir(parents=True)
    before = arena.broker.partition_counts()
    with pytest.raises(PublishingRefusedError, match="state of another life"):
        publish(arena, state)

    assert (arena.broker.partition_counts(), arena.broker.group.offsets) == (before, {})


def test_group_is_handed_over_after_the_stores_are_there(
    arena: Arena, state: StateDirectory
) -> None:
    """An application that starts in between finds the group claimed, not half of its stores."""
    publisher, _ = arena.publisher()
    hand_over = publisher._hand_over
    seen: list[object] = []

    def look(consumer: ConsumerPort, producer: ProducerPort) -> None:
        arena.broker.settle()
        offsets = arena.broker.group.offsets.values()
        seen.append({published_by(offset.metadata) for offset in offsets})
        seen.append(len(scene_of(arena, state).seeded()))
        hand_over(consumer, producer)

    publisher._hand_over = look  # type: ignore[method-assign]
    done = publisher.run(seeder_of(arena, state))

    assert done.seeded is not None
    assert seen == [{None}, done.seeded.stores]
