"""Standby tasks on a real broker: who keeps what, and a takeover after a kill."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pystreams import KafkaStreams, StreamsBuilder, serdes
from pystreams.cli.commands.applications.status import status
from pystreams.config import StreamsConfig
from pystreams.errors import RetriableClientError
from pystreams.runtime.adapters.client_factory import ConfluentClients
from tests.broker.application import Application, Running
from tests.broker.programs import write_counts
from tests.broker.reading import long, produce, read_all
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.range_shares import range_shares
from tests.variants import first_of

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.broker import DevelopmentBroker
    from pystreams.runtime.cluster.group_description import GroupDescription
    from tests.broker.conftest import CreateTopic

each_protocol = pytest.mark.parametrize("protocol", ["classic", "consumer"])
PARTITIONS = 4
KEYS = 400


@each_protocol
def test_members_are_given_what_the_placement_says_that_range_gives(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    protocol: str,
) -> None:
    partitions = {create_topic("in", partitions=7): 7, create_topic("beside", partitions=5): 5}
    builder = StreamsBuilder()
    for topic in partitions:
        builder.stream(topic, key_serde=serdes.BYTES, value_serde=serdes.BYTES).foreach(
            lambda _, __: None
        )
    config = StreamsConfig.of(
        {
            "application.id": unique_name,
            "bootstrap.servers": broker.bootstrap_servers,
            "group.protocol": protocol,
            "num.stream.threads": 4,
            "state.dir": str(tmp_path),
        }
    )
    admin = ConfluentClients(config).admin()
    with KafkaStreams(builder.build(), config) as streams:
        found: list[GroupDescription] = []

        def settled() -> bool:
            with contextlib.suppress(RetriableClientError):  # Its coordinator begins.
                found.append(admin.describe_group(unique_name).result(DEADLINE_S))
            group = found[-1] if found else None
            return (
                group is not None
                and group.settled
                and len(group.members) == 4
                and sum(len(member.partitions) for member in group.members) == 12
            )

        wait_until(settled, "a settled group of four", told=lambda: f"{streams.error} {found[-1:]}")
        group = found[-1]

    assert {member.member_id: set(member.partitions) for member in group.members} == range_shares(
        group.members, partitions
    )
    named = [member.group_instance_id is not None for member in group.members]
    assert all(named) if protocol == "classic" else not any(named)


def warm_standbys(running: Running) -> set[str]:
    return {line["task"] for line in running.lines("standby is warm")}


@pytest.mark.parametrize(
    ("guarantee", "protocol"),
    first_of(
        ("exactly_once_v2", "classic"),
        ("at_least_once", "consumer"),
        ("exactly_once_v2", "consumer"),
        ("at_least_once", "classic"),
    ),
)
def test_a_process_takes_over_what_it_kept_warm_when_another_one_is_killed(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
    protocol: str,
) -> None:
    """All but the records that came last are there: the changelog is not read again."""
    source, output = create_topic("in", partitions=PARTITIONS), create_topic("out")
    program = write_counts(tmp_path, source, output)
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "processing.guarantee": guarantee,
        "group.protocol": protocol,
        "commit.interval.ms": 100,
        "num.standby.replicas": 1,
        **({"consumer.session.timeout.ms": 10_000} if protocol == "classic" else {}),
    }
    applications = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        applications.append(Application(unique_name, tmp_path / name, program, settings))
    records = [(f"key-{number}".encode(), bytes(8)) for number in range(KEYS)]

    def counted() -> Counter[bytes]:
        found = read_all(broker.bootstrap_servers, output)
        return Counter({message.key() or b"": long(message.value()) for message in found})

    with applications[0], applications[1]:
        first = applications[0].start()
        for _ in range(2):
            produce(broker.bootstrap_servers, source, records)
        first.wait_until(lambda: sorted(counted().values()) == [2] * KEYS, "two of each")
        # Who is warm has read all that, and not an empty changelog.
        second = applications[1].start()
        second.wait_for("task running")
        second.wait_until(lambda: len(warm_standbys(second)) >= 2, "two warm standbys")
        words = [unique_name, "--topology", str(program), "-c", "num.standby.replicas=1"]
        words += ["-c", f"bootstrap.servers={broker.bootstrap_servers}"]
        kept: list[set[str]] = []

        def told() -> bool:
            done = CliRunner().invoke(status, [*words, "--json"])
            members = json.loads(done.stdout)["members"] if done.exit_code == 0 else []
            kept[:] = [set(member["standby_tasks"]) for member in members]
            return sorted(map(len, kept)) == [2, 2]

        wait_until(told, "two standbys each", told=lambda: str(kept))
        shown = CliRunner().invoke(status, words).stdout
        first.kill()
        taken = second.wait_for("standby takes over", count=2)
        second.wait_for_tasks(PARTITIONS)
        produce(broker.bootstrap_servers, source, records)
        wait_until(lambda: min(counted().values(), default=0) >= 3, "all counts", told=second.tail)
        second.stop()
        counts = counted()
        restored = sum(
            line["records"]
            for line in second.lines("restored")
            if line["task"] in {taken_over["task"] for taken_over in taken}
        )

    assert {line["task"] for line in taken} <= warm_standbys(second)
    assert any(tasks <= warm_standbys(second) for tasks in kept)
    assert "standbys" in shown
    assert len(counts) == KEYS
    if guarantee != "at_least_once":
        assert set(counts.values()) == {3}
    assert restored < KEYS // 4
