"""Stores seeded while results are published to a real broker; then the application, killed at once.

Its first life restores nothing. In the end each output holds 1, 2, ..., n a key, and each store
what its changelog says.
"""

from __future__ import annotations

from pystreams import StreamsConfig
from pystreams.backfill import Published, PublishingSettings
from pystreams.backfill.plan.rows import Result
from pystreams.backfill.publishing.publisher import Publisher, publishing_config
from pystreams.backfill.publishing.store_seeder import StateSeeder
from pystreams.runtime.adapters.client_factory import ConfluentClients
from pystreams.runtime.adapters.state_directory import StateDirectory
from pystreams.runtime.settings import task_settings
from pystreams.runtime.topics.application_topics import TopicManager
from pystreams.testing.simulation.calls import InlineCalls
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.in_process import Row, run
from tests.backfill.publishing.publications import publication_of
from tests.backfill.publishing.seeding_scene import state_of
from tests.broker.exactly_once import counting
from tests.broker.exactly_once.arena import (
    GROUPS,
    PARTITIONS,
    SUBTOPOLOGY_OF_STORE,
    Arena,
    one_to,
)
from tests.broker.exactly_once.feed import KEYS
from tests.broker.reading import produce, read_all

ROUNDS = 10
ALL_KEYS = {f"key {number:02}".encode() for number in range(KEYS)}
ALL_GROUPS = {f"group {number}".encode() for number in range(GROUPS)}
NO_CACHE: dict[str, object] = {"statestore_cache_max_bytes": 0}


def write_rounds(arena: Arena, first: int, last: int) -> None:
    rounds = range(first, last + 1)
    records = [(key, number.to_bytes(8, "big")) for number in rounds for key in sorted(ALL_KEYS)]
    produce(arena.servers, f"{arena.name}-in", records)


def backfilled(arena: Arena) -> list[Result]:
    """Run the backfill of what the input holds, in this process."""
    topic = f"{arena.name}-in"
    history = [
        Row(
            topic,
            message.partition() or 0,
            message.offset() or 0,
            message.timestamp()[1],
            message.key(),
            message.value(),
        )
        for message in read_all(arena.servers, topic)
    ]
    config = {"application.id": arena.name, "statestore.cache.max.bytes": 0}
    return run(counting.topology(), config, history, counts(arena), arena.directory / "backfill")


def counts(arena: Arena) -> dict[str, int]:
    """The partitions of the topics that the topology reads and writes."""
    return {f"{arena.name}-{end}": PARTITIONS for end in ("in", "echo", "by-key", "by-group")}


def publish(arena: Arena, results: list[Result], state: StateDirectory) -> Published:
    """Publish and seed."""
    config = publishing_config(
        StreamsConfig.of({"application.id": arena.name, "bootstrap.servers": arena.servers})
    )
    plan = TopologyPlan(counting.topology(), arena.name)
    clients = ConfluentClients(config)
    topics = TopicManager(plan, clients.admin(), config.topic_config(), 86_400_000)
    publication = publication_of(plan, results, counts(arena))
    opened_with = task_settings(
        config, async_calls=InlineCalls, num_partitions=topics.num_partitions
    ).stores.environment
    settings = PublishingSettings(with_outputs=True, transaction_records=30)
    publisher = Publisher(publication, plan, topics, clients, settings)
    return publisher.run(StateSeeder(publication, plan, state_of(results), opened_with, state))


def test_seeded_application_restores_nothing_and_loses_nothing_when_killed(arena: Arena) -> None:
    write_rounds(arena, 1, ROUNDS)
    results = backfilled(arena)
    state = StateDirectory(arena.directory / "state", arena.name)
    done = publish(arena, results, state)
    state.close()
    assert done.seeded is not None
    assert (done.seeded.stores, done.seeded.left_stores) == (2 * PARTITIONS, 0)
    seeded = {store: arena.stored(store) for store in SUBTOPOLOGY_OF_STORE}
    assert seeded == {store: arena.changelog(store) for store in SUBTOPOLOGY_OF_STORE}

    with arena.application("exactly_once", **NO_CACHE) as application:
        first = application.start()
        first.wait_for_tasks(2 * PARTITIONS)
        first.kill()
        assert first.lines("restoring") == []
        assert {store: arena.stored(store) for store in SUBTOPOLOGY_OF_STORE} == seeded
        write_rounds(arena, ROUNDS + 1, 2 * ROUNDS)
        second = application.start()
        arena.wait_for_outputs(2 * ROUNDS, second)
        second.wait_for_tasks(2 * PARTITIONS)
        second.stop()

    outputs = arena.outputs()
    assert outputs.echo == one_to(2 * ROUNDS, ALL_KEYS)
    assert outputs.by_key == one_to(2 * ROUNDS, ALL_KEYS)
    assert outputs.by_group == one_to(2 * ROUNDS * KEYS // GROUPS, ALL_GROUPS)
    for store in SUBTOPOLOGY_OF_STORE:
        assert arena.stored(store) == arena.changelog(store)
