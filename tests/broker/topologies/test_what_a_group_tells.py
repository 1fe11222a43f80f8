"""`pystreams check --group` says with nothing but the broker what it says of two topologies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pystreams import KafkaStreams
from pystreams.broker import DevelopmentBroker
from pystreams.cli.commands.applications.reset import reset
from pystreams.cli.commands.development.check import check
from pystreams.cli.commands.development.describe import describe
from pystreams.config import StreamsConfig
from pystreams.ids import TopicPartition
from pystreams.runtime.adapters.client_factory import ConfluentClients
from pystreams.runtime.cluster.committed_offsets import (
    CommittedOffset,
    decode_partition_time,
    entries_of,
)
from tests.broker.conftest import CreateTopic
from tests.broker.waiting import wait_until
from tests.broker.writing import writer_of
from tests.deploy.pairs import COUNT, HEAD, PAIRS, topology_of

OWN_STORES = """
class Keeps(Processor):
    def process(self, record): ...
import hashlib
names = [hashlib.sha256(bytes([number % 256, number // 256])).hexdigest() for number in range(300)]
for name in names:
    supplier = Stores.in_memory_key_value_store(name)
    builder.add_state_store(
        Stores.key_value_store_builder(supplier, serdes.STRING, serdes.LONG).with_logging_disabled()
    )
words.process(Keeps, stores=names)
"""
RENAMED = PAIRS["a named store renamed"]


class Deploys:
    """One application, in several versions; each starts in a directory that is new."""

    def __init__(
        self, broker: DevelopmentBroker, name: str, directory: Path, topics: Mapping[str, str]
    ) -> None:
        self.name, self._directory, self.topics = name, directory, topics
        self._settings: dict[str, Any] = {
            "application.id": name,
            "bootstrap.servers": broker.bootstrap_servers,
            "commit.interval.ms": 100,
        }
        self._servers = broker.bootstrap_servers
        self._starts = self._files = 0
        self._admin = ConfluentClients(StreamsConfig.of(self._settings)).admin()

    def run(self, code: str, *, partition: int = 0, guarantee: str = "exactly_once_v2") -> None:
        """Run a version until it has committed what it was given."""
        self._starts += 1
        more = {
            "processing.guarantee": guarantee,
            "state.dir": str(self._directory / f"state-{self._starts}"),
        }
        topology = topology_of(self._named(code), self.topics["in"])
        with KafkaStreams(topology, {**self._settings, **more}) as streams:
            before = self._next_offset(partition)
            writer = writer_of(self._servers, self.topics["in"])
            writer.write(self.topics["in"], "k", "k", partition, 1)
            writer.flush()
            wait_until(
                lambda: self._next_offset(partition) > before,
                "committed",
                told=lambda: str(streams.error),
            )
        wait_until(lambda: not self._admin.group_members(self.name), "nobody is in the group")

    def file(self, code: str) -> str:
        # Python tells files by size and second: one of its own for each text.
        self._files += 1
        file = self._directory / f"version-{self._files}" / "orders.py"
        file.parent.mkdir()
        head = HEAD.replace('"in"', repr(self.topics["in"]))
        file.write_text(head + self._named(code))
        return str(file)

    def described(self, code: str) -> str:
        file = self._directory / "deployed.json"
        file.write_text(CliRunner().invoke(describe, [self.file(code), "--json"]).stdout)
        return str(file)

    def check(self, *options: str) -> Result:
        servers = f"bootstrap.servers={self._servers}"
        return CliRunner().invoke(check, [*options, "--group", self.name, "-c", servers])

    def reset(self, file: str, *options: str) -> Result:
        settings = {**self._settings, "state.dir": str(self._directory / "state-1")}
        words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        return CliRunner().invoke(reset, [file, "--execute", *options, *words])

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        self._admin.alter_offsets(self.name, offsets)

    def offsets(self) -> dict[TopicPartition, CommittedOffset]:
        return self._admin.committed_offsets(self.name)

    def _named(self, code: str) -> str:
        for topic, real in self.topics.items():
            code = code.replace(f'"{topic}"', f'"{real}"')
        return code

    def _next_offset(self, partition: int) -> int:
        at = TopicPartition(self.topics["in"], partition)
        found = self.offsets().get(at)
        return -1 if found is None else found.next_offset


@pytest.fixture
def deploys(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> Deploys:
    topics = {topic: create_topic(topic, partitions=2) for topic in ("in", "out")}
    return Deploys(broker, unique_name, tmp_path, topics)


def judged(answer: Result) -> list[tuple[str, str, str]]:
    """Return the verdicts of an answer in JSON."""
    found = json.loads(answer.stdout)["judgements"]
    return [(each["kind"], each["name"], each["verdict"]) for each in found]


@pytest.mark.parametrize(
    ("name", "guarantee"),
    [
        ("a named store renamed", "exactly_once_v2"),
        ("a tumbling window of another size", "at_least_once"),
        ("another serde of keys", "exactly_once_v2"),
        ("an operation before a named store", "at_least_once"),
    ],
)
def test_the_verdicts_are_those_of_the_old_topology(
    deploys: Deploys, name: str, guarantee: str
) -> None:
    pair = PAIRS[name]
    deploys.run(pair.old, guarantee=guarantee)
    old = deploys.described(pair.old)
    new = deploys.file(pair.new)

    told, as_json = deploys.check(new), deploys.check(new, "--json")
    wanted = CliRunner().invoke(check, [old, new, "--json"])

    assert judged(as_json) == judged(wanted)
    assert told.exit_code == as_json.exit_code == wanted.exit_code == int(pair.loses)
    assert told.stdout.startswith(f"group '{deploys.name}' has run 4-")


def test_the_next_deploy_takes_the_place_of_the_one_before(deploys: Deploys) -> None:
    deploys.run(RENAMED.old)
    deploys.run(RENAMED.new)

    again, back = (deploys.check(deploys.file(code)) for code in (RENAMED.new, RENAMED.old))

    assert (again.exit_code, "KEPT: store totals" in again.stdout) == (0, True)
    assert (back.exit_code, "STARTS EMPTY, OLD DATA ORPHANED: store totals" in back.stdout) == (
        1,
        True,
    )


def test_a_store_that_comes_back_is_known_although_no_directory_has_seen_it(
    deploys: Deploys,
) -> None:
    deploys.run(RENAMED.old)
    deploys.run(RENAMED.new)
    deploys.run(RENAMED.new)

    back = deploys.check(deploys.file(RENAMED.old))

    assert back.exit_code == 1
    assert "KEPT, AND MAY BE WRONG: store counts" in back.stdout
    assert "an earlier version had it" in back.stdout


def test_a_version_that_keeps_nothing_is_told_with_the_stores_of_those_before(
    deploys: Deploys,
) -> None:
    nothing = 'words.to("out")'
    deploys.run(nothing)
    first = deploys.check(deploys.file(COUNT))
    deploys.run(COUNT)
    deploys.run(nothing)
    back = deploys.check(deploys.file(COUNT))

    assert (first.exit_code, first.stderr) == (0, "")
    assert "NEW, STARTS EMPTY: store counts" in first.stdout
    assert back.exit_code == 1
    assert "an earlier version had it" in back.stdout


def test_one_offset_of_each_first_task_tells_it_and_no_other(deploys: Deploys) -> None:
    code = COUNT.replace("group_by_key()", 'group_by(lambda key, word: word, name="by", **text)')
    deploys.run(code, partition=1)
    deploys.run(code, partition=0)

    telling = {
        at.partition: entries_of(offset.metadata, "pystreams-fingerprint ")
        for at, offset in deploys.offsets().items()
        if "-repartition" not in at.topic
    }

    assert [len(telling[number]) for number in (0, 1)] == [1, 0]
    assert all(len(each.metadata) < 4096 for each in deploys.offsets().values())
    assert {decode_partition_time(each.metadata) for each in deploys.offsets().values()} == {1}


def test_a_deploy_whose_first_task_has_had_no_record_is_known_by_its_digest_alone(
    deploys: Deploys,
) -> None:
    deploys.run(RENAMED.old)
    deploys.run(RENAMED.new, partition=1)

    same, other = (deploys.check(deploys.file(code)) for code in (RENAMED.new, COUNT))

    assert (same.exit_code, "nothing is lost" in same.stdout) == (0, True), same.output
    assert (other.exit_code, other.stdout) == (1, "")
    assert "What it keeps the group does not tell: none of its tasks 0_0" in other.stderr
    assert "Name what it runs as OLD" in other.stderr


def test_what_is_too_large_for_a_group_is_known_by_its_digest_alone_and_told(
    deploys: Deploys,
) -> None:
    deploys.run(OWN_STORES)

    same, other = (deploys.check(deploys.file(code)) for code in (OWN_STORES, COUNT))

    assert (same.exit_code, "nothing is lost" in same.stdout) == (0, True), same.output
    assert other.exit_code == 1
    assert "is not what group" in other.stderr
    assert "characters of an offset, and there is room for 4032" in other.stderr


def test_after_a_reset_to_an_offset_no_topic_that_is_read_no_more_tells_the_former_topology(
    deploys: Deploys,
) -> None:
    deploys.run(RENAMED.old)
    (first,) = deploys.offsets()
    dropped = TopicPartition(deploys.topics["out"], 0)
    deploys.commit({dropped: deploys.offsets()[first]})
    wait_until(lambda: dropped in deploys.offsets(), "noted there, too")
    new = deploys.file(RENAMED.new)

    answer = deploys.reset(new, "--to-earliest")

    assert answer.exit_code == 0, answer.output
    wait_until(
        lambda: "does not say which topology it runs" in deploys.check(new).stderr,
        "forgotten",
        told=lambda: str(deploys.offsets()),
    )
    assert deploys.offsets()[dropped].next_offset == 1
