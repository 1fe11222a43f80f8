"""`pystreams backfill` where it must not run: told before Spark starts, and nothing is changed."""

from __future__ import annotations

from dataclasses import replace

from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from pystreams import StreamsBuilder, TopicPartition, Topology
from pystreams.backfill import PublishingSettings
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.staging.directory import Manifest, StagingDirectory, begun_identity
from pystreams.cli.commands.history.backfill import backfill
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.broker.backfill.test_publishing import SHORT_SESSION, Scene, make_scene, scene
from tests.broker.exactly_once import counting
from tests.broker.exactly_once.arena import PARTITIONS, Arena
from tests.broker.reading import group_members, produce, raise_partitions
from tests.broker.waiting import wait_until

__all__ = ["make_scene", "scene"]


def refused(arena: Arena, *more: str) -> str:
    """Start a backfill that must end with 1; return what it says."""
    staging = arena.directory / "staged"
    is_begun = (staging / "begun.json").exists()
    result = CliRunner().invoke(
        backfill,
        [
            str(counting.__file__),
            *("-c", f"bootstrap.servers={arena.servers}", "-c", f"application.id={arena.name}"),
            *("--output", str(staging), "--publish-outputs", "--log-level", "error"),
            *more,
        ],
    )
    assert result.exit_code == 1, result.output
    assert staging.exists() == is_begun
    return str(result.output)


def begin(arena: Arena, topology: Topology, partitions: int = PARTITIONS) -> None:
    """Leave a staging directory as a killed backfill does."""
    topic = f"{arena.name}-in"
    plan = TopologyPlan(topology, arena.name)
    bounds = {TopicPartition(topic, n): PartitionBounds(0, 0, 0) for n in range(partitions)}
    identity = BackfillIdentity.of(plan, {topic: partitions}, {0: partitions}, bounds)
    StagingDirectory(arena.directory / "staged").begin(identity, 1)


def test_running_application_is_refused_before_spark(arena: Arena, admin: AdminClient) -> None:
    with arena.application("exactly_once_v2").running() as running:
        running.wait_for_tasks(2 * PARTITIONS)
        told = refused(arena)

    assert f"group '{arena.name}' has members" in told
    assert "Stop it" in told


def test_group_with_offsets_is_refused_before_spark(arena: Arena, admin: AdminClient) -> None:
    produce(arena.servers, f"{arena.name}-in", [(b"key 01", (1).to_bytes(8, "big"))])
    with arena.application("exactly_once", **SHORT_SESSION).running() as running:
        running.wait_until(lambda: arena.written() > 0, "output")
        running.stop()
    wait_until(lambda: group_members(admin, arena.name) == 0, "the end of the member's session")

    told = refused(arena)

    assert "the group has committed offsets of its own" in told
    assert "run the backfill again; or run it for another application.id" in told


def test_second_operator_in_another_directory_is_refused_and_the_first_goes_on(
    scene: Scene, admin: AdminClient
) -> None:
    """The second is refused before it fences the first, which then comes to its end."""
    settings = PublishingSettings(with_outputs=True, transaction_records=200)
    scene = replace(scene, job=replace(scene.job, settings=settings))
    first = scene.publisher()
    first.wait_for("transaction", count=2)

    told = refused(scene.arena)

    assert "published to this group already" in told
    assert first.ended() == 0, first.tail()


def test_group_that_was_handed_over_is_refused_with_what_is_left_to_do(
    scene: Scene, admin: AdminClient
) -> None:
    scene.publish()

    told = refused(scene.arena)

    assert "has been published to this group already" in told
    assert "start it" in told


def test_second_operator_in_the_same_directory_is_refused_by_name(
    arena: Arena, admin: AdminClient
) -> None:
    begin(arena, counting.topology())
    with StagingDirectory(arena.directory / "staged").held():
        told = refused(arena)

    assert "another backfill or rescale runs in" in told
    assert "let it finish" in told


def test_changed_topology_is_refused_when_a_killed_backfill_is_to_go_on(
    arena: Arena, admin: AdminClient
) -> None:
    other = StreamsBuilder()
    other.stream(f"{arena.name}-other").to(f"{arena.name}-echo")
    begin(arena, other.build())

    assert "the topology is not the one that" in refused(arena)


def test_changed_partition_count_is_refused_when_a_killed_backfill_is_to_go_on(
    arena: Arena, admin: AdminClient
) -> None:
    topic = f"{arena.name}-in"
    begin(arena, counting.topology())
    raise_partitions(admin, topic, PARTITIONS + 1)

    told = refused(arena)

    assert f"topic '{topic}' has {PARTITIONS + 1} partitions, and had {PARTITIONS}" in told
    assert "Delete the directory, and run the backfill again" in told


def test_other_bounds_than_those_of_complete_results_are_refused(
    arena: Arena, admin: AdminClient
) -> None:
    begin(arena, counting.topology())
    staging = StagingDirectory(arena.directory / "staged")
    identity = begun_identity(staging.path)
    assert identity is not None
    staging.finish(Manifest(identity, (), 1, 0.0))

    told = refused(arena, "--end", f"{arena.name}-in=7")

    assert "is to end at offset 7, and the backfill was begun with 0" in told
