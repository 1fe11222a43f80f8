"""Chaos on a real Kafka: a run that no clock decides, a minute of all troubles, and long ones.

`pytest -m sweep tests/chaos` runs minutes of all troubles in each mode, and sees that planted bugs
are found; `python -m tests.chaos` does so as long as one likes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker
from tests.broker.reading import answer_of, delete_topics, group_members
from tests.broker.waiting import wait_until
from tests.chaos.feed import ChaosFeed
from tests.chaos.nemesis import closing
from tests.chaos.plan import drawn, drawn_settings
from tests.chaos.planted import SENT_TWICE
from tests.chaos.run import Setting, settle

PARTITIONS = 3
RECORDS_PER_S = 200
BETWEEN_RECORDS = 300
"""How much output comes between two troubles."""
SEED = 11
PATIENCE_S = 240.0


@pytest.mark.timeout(1200)
def test_outputs_and_stores_are_a_models_whatever_happens_to_three_members(
    broker: DevelopmentBroker, tmp_path: Path
) -> None:
    """One is killed, one stands still past its session, one comes and goes; no clock decides."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    name = f"chaos-{tmp_path.name}"
    setting = Setting(
        name,
        broker.bootstrap_servers,
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 100,
            "statestore.cache.max.bytes": 0,
            "consumer.session.timeout.ms": 6_000,
        },
        PARTITIONS,
    )
    setting.create_topics()
    members = [setting.member(number, tmp_path) for number in range(4)]
    killed, held, _, guest = members

    def tend() -> None:
        for member in members:
            member.tend()

    def come_forward() -> None:
        wanted = setting.written() + BETWEEN_RECORDS

        def forward() -> bool:
            tend()
            return setting.written() >= wanted

        wait_until(forward, "output", deadline_s=PATIENCE_S, told=members[2].running.tail)

    def wait_for_a_group(fits: Callable[[int], bool]) -> None:
        def is_there() -> bool:
            tend()
            return fits(answer_of(lambda: group_members(admin, name)))

        wait_until(is_there, "a group", deadline_s=PATIENCE_S, told=members[2].running.tail)

    with closing(members):
        feed = ChaosFeed(broker.bootstrap_servers, name, SEED, RECORDS_PER_S)
        feed.rows_that_stay()
        for member in members[:3]:
            member.start()
        with feed:
            come_forward()
            wait_for_a_group(lambda count: count == 3)
            killed.kill()
            held.hold()
            killed.start()
            wait_for_a_group(lambda count: count <= 2)
            guest.start()
            come_forward()
            held.let_go()
            come_forward()
            guest.leave()
        outcome = settle(setting, members[:3], tend, feed.acknowledged)
    delete_topics(admin, name)

    assert outcome.differences == []


MINUTES = {"exactly_once_v2": 315, "exactly_once": 11512}
"""Seeds whose minute is run with all tests."""
ALL = ["exactly_once_v2", "exactly_once", "at_least_once"]


def chaos(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.chaos", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )


def test_the_minutes_have_both_protocols_and_the_worst_of_troubles() -> None:
    settings = [drawn_settings(seed) for seed in MINUTES.values()]
    assert {setting["group.protocol"] for setting in settings} == {"classic", "consumer"}
    assert {setting["num.standby.replicas"] for setting in settings} == {0, 1}
    for seed in MINUTES.values():
        kinds = {fault.kind for fault in drawn(seed, 60)}
        assert kinds >= {"kill", "move", "hold", "cut", "broker kill"}


@pytest.mark.broker
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("guarantee", "seed"), MINUTES.items())
def test_a_minute_of_all_troubles_leaves_outputs_and_stores_as_the_model_has_them(
    guarantee: str, seed: int
) -> None:
    """Of three members and three brokers; each seed has some ten troubles, most of another kind."""
    answer = chaos("--minutes", "1", "--seed", f"{seed}", "--guarantee", guarantee)

    assert answer.returncode == 0, answer.stdout


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("guarantee", ALL)
def test_minutes_of_all_troubles_leave_outputs_and_stores_as_the_model_has_them(
    guarantee: str, brokers: int
) -> None:
    options = ("--minutes", "3", "--seed", "1", "--brokers", f"{brokers}")
    answer = chaos(*options, "--guarantee", guarantee)

    assert answer.returncode == 0, answer.stdout


@pytest.mark.sweep
@pytest.mark.broker
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("plant", [SENT_TWICE, "offsets_committed_before_the_data"])
def test_planted_bug_is_found(plant: str) -> None:
    answer = chaos("--minutes", "2", "--seed", "1", "--faults", "kill,hold", "--plant", plant)

    assert answer.returncode == 1, answer.stdout
    assert "DIFFERENT" in answer.stdout
