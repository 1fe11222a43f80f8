"""Where applications with a store of every kind run, are exported, and move to more partitions."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams.broker import DevelopmentBroker
from pystreams.cli.main import pystreams
from pystreams.kernel.partitioner import partition_of
from tests.backfill.logged_stores import KEYS, content
from tests.broker.application import Application, Running
from tests.broker.backfill import every_store_app
from tests.broker.backfill.spark_processes import OPTIONS_FOR_FEW_ROWS
from tests.broker.reading import (
    create_topics,
    group_members,
    produce,
    raise_partitions,
    read_all,
    values_by_key,
)
from tests.broker.waiting import wait_until
from tests.stores.support import Message

SPARK_DEADLINE_S = 300.0
_ROUND_MS = 3000


@dataclass
class EveryStoreArena:
    """Topics of one input, and applications that read it.

    Attributes:
        name: Start of the topics' names.
        servers: The broker.
        directory: For logs and state.
        first_ms: The time of the first record; changelogs lose what is older than their retention.
    """

    name: str
    servers: str
    admin: AdminClient
    directory: Path
    first_ms: int = field(default_factory=lambda: int(time.time()) * 1000)
    _commands: list[Running] = field(default_factory=list)

    @classmethod
    def make(
        cls, broker: DevelopmentBroker, admin: AdminClient, name: str, home: Path, partitions: int
    ) -> EveryStoreArena:
        topics = [NewTopic(f"{name}-in", partitions), NewTopic(f"{name}-out", partitions)]
        create_topics(admin, topics)
        return cls(name, broker.bootstrap_servers, admin, home)

    def application(self, application_id: str) -> Application:
        """An application that reads the input; its members leave at once."""
        settings = {
            "bootstrap.servers": self.servers,
            "processing.guarantee": "exactly_once_v2",
            "group.protocol": "consumer",
            "commit.interval.ms": 100,
        }
        file = Path(f"{every_store_app.__file__}")
        environment = {"EVERY_NAME": self.name}
        return Application(application_id, self.directory, file, settings, environment)

    def feed(self, first: int, last: int, partitions: int) -> None:
        """Write rounds, each key once in each, as a Java producer would spread them."""
        rounds = [(number, key.encode()) for number in range(first, last + 1) for key in KEYS]
        produce(
            self.servers,
            f"{self.name}-in",
            [(key, b"x") for _, key in rounds],
            partition_of=lambda index: partition_of(rounds[index][1], partitions),
            timestamps_ms=[
                self.first_ms + number * _ROUND_MS + int(key[4:]) for number, key in rounds
            ],
        )

    def raise_partitions(self, partitions: int) -> None:
        """Give the input more partitions."""
        raise_partitions(self.admin, f"{self.name}-in", partitions)

    def counts(self) -> dict[bytes, list[int]]:
        """The counts that were written for each key, in order."""
        return values_by_key(read_all(self.servers, f"{self.name}-out"))

    def wait_for_rounds(self, rounds: int, running: Running) -> None:
        def complete() -> bool:
            found = self.counts()
            return len(found) == len(KEYS) and all(max(has) >= rounds for has in found.values())

        wait_until(
            lambda: complete() or not running.alive(),
            f"{rounds} rounds in the output",
            deadline_s=SPARK_DEADLINE_S,
            told=running.tail,
        )
        assert running.alive(), running.tail()

    def stop(self, application_id: str, running: Running) -> None:
        """Stop it, and wait until its group knows."""
        running.stop()
        wait_until(lambda: group_members(self.admin, application_id) == 0, "an empty group")

    def command(self, name: str, application_id: str, *options: str) -> Running:
        """Start a command of pystreams, with a Spark of its own, over the application."""
        words = [sys.executable, "-m", "pystreams", *self._words(name, application_id)]
        words += ["--master", "local[2]", *OPTIONS_FOR_FEW_ROWS]
        environment = os.environ | {"EVERY_NAME": self.name}
        log = self.directory / f"{name}-{len(self._commands)}.log"
        self._commands.append(Running([*words, *options], environment, log))
        return self._commands[-1]

    def told_by(self, name: str, application_id: str, *options: str, code: int = 0) -> str:
        """Run a command to its end, in the session of this process; return what it printed."""
        words = [*self._words(name, application_id), *options]
        done = CliRunner().invoke(
            pystreams, words, env={"EVERY_NAME": self.name}, catch_exceptions=False
        )
        assert done.exit_code == code, done.output
        return str(done.output)

    def _words(self, name: str, application_id: str) -> list[str]:
        words = [name, str(every_store_app.__file__)]
        for setting in (
            f"bootstrap.servers={self.servers}",
            f"application.id={application_id}",
            "processing.guarantee=exactly_once_v2",
        ):
            words += ["-c", setting]
        return words

    def kill_commands(self) -> None:
        for running in self._commands:
            running.kill()

    def content(self, application_id: str, store: str) -> dict[int, dict[bytes, Any]]:
        """What a restore gives of each partition of a store."""
        found: dict[int, list[Message]] = {}
        for message in read_all(self.servers, f"{application_id}-{store}-changelog"):
            own = found.setdefault(message.partition() or 0, [])
            offset, time_ms = message.offset() or 0, message.timestamp()[1]
            own.append(Message(message.key(), message.value(), offset, time_ms))
        directory = self.directory / "restored" / application_id / store
        return {
            number: content(store, own, directory / str(number)) for number, own in found.items()
        }


def one_to(rounds: int) -> dict[bytes, Sequence[int]]:
    """What the output holds: 1, 2, ..., n for each key."""
    return {key.encode(): list(range(1, rounds + 1)) for key in KEYS}
