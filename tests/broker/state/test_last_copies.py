"""A changelog that was deleted, cut off or given a retention while the application was down."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.programs import write_counts
from tests.broker.reading import (
    answer_of,
    delete_named,
    produce,
    read_all,
    topics_of,
    values_by_key,
)
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.variants import first_of


@dataclass
class Counting:
    """An application that has counted `k` three times, and was stopped."""

    application: Application
    admin: AdminClient
    servers: str
    source: str
    output: str
    changelog: str

    def count(self, records: int) -> None:
        """Run until so many more records are counted."""
        before = self.counted()
        produce(self.servers, self.source, [(b"k", bytes(8))] * records)
        running = self.application.start()
        running.wait_until(lambda: self.numbers() >= before + records, "counts")
        running.stop()

    def numbers(self) -> int:
        return len(values_by_key(read_all(self.servers, self.output)).get(b"k", []))

    counted = numbers

    def counts(self) -> list[int]:
        return values_by_key(read_all(self.servers, self.output))[b"k"]

    def refused(self) -> str:
        """Start it; return the error that it stops with."""
        running = self.application.start()
        assert running.ended() == 1, running.tail()
        return str(running.lines("stopped by an error")[0]["error"])

    def recover(self, *options: str, code: int = 0) -> str:
        """Run `pystreams recover`; return what it says."""
        words = self.application.command(*options)
        words[words.index("run")] = "recover"
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def set_policy(self, policy: str) -> None:
        entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.changelog, incremental_configs=[entry])
        answer_of(
            lambda: self.admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)
        )
        asked = ConfigResource(ResourceType.TOPIC, self.changelog)

        def shown() -> bool:
            settings = answer_of(
                lambda: self.admin.describe_configs([asked])[asked].result(DEADLINE_S)
            )
            return bool(settings["cleanup.policy"].value == policy)

        wait_until(shown, "the new policy")

    def delete_records(self) -> None:
        partition = TopicPartition(self.changelog, 0, -1)

        def ask() -> object:
            return self.admin.delete_records([partition])[partition].result(DEADLINE_S)

        # A log takes its topic's new policy a moment after the change is answered.
        answer_of(ask, passing={KafkaError.POLICY_VIOLATION})

    def delete_changelog(self) -> None:
        delete_named(self.admin, self.changelog)
        wait_until(
            lambda: self.changelog not in topics_of(self.admin),
            "the changelog to go",
        )


@pytest.fixture
def counting(
    broker: DevelopmentBroker,
    admin: AdminClient,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
) -> Iterator[Counting]:
    servers = broker.bootstrap_servers
    source, output = create_topic(), create_topic()
    file = write_counts(tmp_path, source, output)
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": "exactly_once",
        "statestore.cache.max.bytes": 0,
    }
    with Application(unique_name, tmp_path, file, settings) as application:
        changelog = f"{unique_name}-counts-changelog"
        counting = Counting(application, admin, servers, source, output, changelog)
        counting.count(3)
        yield counting


def test_a_deleted_changelog_stops_the_application_and_the_command_of_the_message_cures_it(
    counting: Counting,
) -> None:
    counting.delete_changelog()
    errors = {counting.refused() for _ in range(2)}

    assert len(errors) == 1, "the same at each start"
    (error,) = errors
    options = "--task 0_0 --store counts --choose keep --execute"
    assert f"pystreams recover TOPOLOGY {options}" in error
    assert "LAST COPY" in counting.recover()
    assert "Nothing was written" in counting.recover("--choose", "keep")
    elsewhere = counting.recover(*options.replace("0_0", "0_7").split(), code=2)
    assert "--task 0_7: it has no state in" in elsewhere
    assert "those that have: 0_0" in elsewhere
    counting.recover(*options.split())
    counting.count(2)
    assert counting.counts() == [1, 2, 3, 4, 5]
    assert "LAST COPY" not in counting.recover()
    last = values_by_key(read_all(counting.servers, counting.changelog))[b"k"][-1]
    assert last == 5


@pytest.mark.parametrize(
    ("policy", "expected"), first_of(("keep", 4), ("restore", 1), ("empty", 1))
)
def test_the_configuration_decides_for_all_stores(
    counting: Counting, policy: str, expected: int
) -> None:
    counting.delete_changelog()
    produce(counting.servers, counting.source, [(b"k", bytes(8))])
    running = counting.application.start(changelog_loss_policy=policy)
    running.wait_until(lambda: counting.numbers() == 4, "the count")
    running.stop()

    assert counting.counts() == [1, 2, 3, expected]


def test_a_changelog_with_a_retention_is_refused_and_told_what_was_lost_when_corrected(
    counting: Counting,
) -> None:
    counting.set_policy("delete")
    counting.delete_records()

    error = counting.refused()
    assert "has cleanup.policy=delete" in error
    assert f"--entity-name {counting.changelog} --add-config 'cleanup.policy=[compact]'" in error

    counting.set_policy("compact")
    counting.count(1)
    assert counting.counts() == [1, 2, 3, 4]
    counting.recover("--store", "counts", "--choose", "keep", "--execute")
    running = counting.application.start()
    (told,) = running.wait_for("state store was logged anew")
    running.stop()
    assert told["decision"] == "keep"
