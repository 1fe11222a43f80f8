"""Threads and instances share the partitions of a group; nothing is lost when one leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application, Running
from tests.broker.exactly_once.arena import PARTITIONS, SUBTOPOLOGY_OF_STORE, Arena
from tests.broker.exactly_once.test_kill import check_exactly_once, check_stores
from tests.variants import first_of

RECORDS_PER_S = 500
TASKS = PARTITIONS * len(SUBTOPOLOGY_OF_STORE)

each_protocol = pytest.mark.parametrize("protocol", first_of("classic", "consumer"))
each_guarantee_and_protocol = pytest.mark.parametrize(
    ("guarantee", "protocol"),
    first_of(
        ("exactly_once_v2", "consumer"),
        ("exactly_once_v2", "classic"),
        ("exactly_once", "consumer"),
        ("exactly_once", "classic"),
    ),
)


@pytest.fixture
def arena(broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path) -> Arena:
    return Arena.make(broker, admin, unique_name, tmp_path)


def work_on(arena: Arena, running: Running, records: int = 700) -> None:
    """Wait until so many more records have been counted."""
    enough = arena.written() + records
    running.wait_until(lambda: arena.written() >= enough, f"{records} more records of output")


def protocol_settings(protocol: str) -> dict[str, object]:
    """Return settings; the broker's own session timeout counts under the consumer protocol."""
    if protocol == "consumer":
        return {"group_protocol": protocol}
    return {"group_protocol": protocol, "consumer_session_timeout_ms": 3000}


def working_threads(running: Running) -> set[str]:
    """Return the threads that have been assigned partitions."""
    return {line["thread"] for line in running.lines("partitions assigned") if line["partitions"]}


def finish(arena: Arena, application: Application, running: Running, rounds: int) -> None:
    arena.wait_for_outputs(rounds, running)
    running.wait_for_tasks(TASKS)  # All may have come out before.
    running.stop()
    application.wait_until_all_gone()
    check_exactly_once(arena.outputs(), rounds)
    check_stores(arena)


@each_guarantee_and_protocol
def test_second_instance_comes_and_leaves_without_loss_or_repeat(
    arena: Arena, guarantee: str, protocol: str
) -> None:
    """Its identity is of this run, so it leaves the group also under the classic protocol."""
    with arena.application(
        guarantee, statestore_cache_max_bytes=0, **protocol_settings(protocol)
    ) as application:
        first = application.start()
        with arena.feed(RECORDS_PER_S) as feed:
            work_on(arena, first)
            second = application.start()
            second.wait_for("task running")
            work_on(arena, second)
            second.stop()
            work_on(arena, first)
        finish(arena, application, first, feed.rounds)


@each_protocol
def test_first_instance_is_killed_and_the_second_takes_its_partitions(
    arena: Arena, protocol: str
) -> None:
    """The killed one's membership ends with its session; then the other has all tasks."""
    with arena.application(
        "exactly_once",
        statestore_cache_max_bytes=0,
        **protocol_settings(protocol),
    ) as application:
        first = application.start()
        with arena.feed(RECORDS_PER_S) as feed:
            work_on(arena, first)
            second = application.start()
            second.wait_for("task running")
            first.kill()
            second.wait_for_tasks(TASKS)
        finish(arena, application, second, feed.rounds)


@each_protocol
def test_what_a_killed_instance_left_open_does_not_last_until_its_time_limit(
    arena: Arena, protocol: str
) -> None:
    """Nobody has its transactional id, which is that of its directory."""
    with arena.application(
        "exactly_once_v2",
        statestore_cache_max_bytes=0,
        producer_transaction_timeout_ms=600_000,
        **protocol_settings(protocol),
    ) as application:
        first = application.start()
        with arena.feed(RECORDS_PER_S) as feed:
            work_on(arena, first)
            second = application.start()
            second.wait_for("task running")
            first.kill()
            second.wait_for("a member has died: what it left open is aborted")
            second.wait_for_tasks(TASKS)
        finish(arena, application, second, feed.rounds)


@each_guarantee_and_protocol
def test_several_threads_share_the_partitions(arena: Arena, guarantee: str, protocol: str) -> None:
    with arena.application(
        guarantee, statestore_cache_max_bytes=0, group_protocol=protocol
    ) as application:
        running = application.start("--threads", "2")
        with arena.feed(RECORDS_PER_S) as feed:
            work_on(arena, running)
            running.wait_until(lambda: len(working_threads(running)) == 2, "work for two threads")
        finish(arena, application, running, feed.rounds)


def test_processes_share_the_partitions_under_the_consumer_protocol(arena: Arena) -> None:
    with arena.application(
        "exactly_once_v2", statestore_cache_max_bytes=0, group_protocol="consumer"
    ) as application:
        running = application.start("--processes", "2")
        with arena.feed(RECORDS_PER_S) as feed:
            running.wait_for("task running", process=1)
            running.wait_for("task running", process=2)
            work_on(arena, running)
        finish(arena, application, running, feed.rounds)
