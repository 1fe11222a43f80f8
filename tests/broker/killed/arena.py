"""Where an application runs and dies: topics and a directory of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import ClassVar, Self

from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.application import Application
from tests.broker.reading import create_topics, high_watermarks, reader_of


@dataclass(frozen=True)
class Arena:
    """One application with topics and a directory of its own.

    Attributes:
        app: Its module, which takes the name from KILLED_NAME.
        topics: The partitions of its topics.
        output: The topic whose records count as written.
        name: Its id, and the start of its topics' names.
        servers: The broker.
        directory: For logs and state.
    """

    app: ClassVar[ModuleType]
    topics: ClassVar[Mapping[str, int]]
    output: ClassVar[str]

    name: str
    servers: str
    directory: Path

    @classmethod
    def made(cls, admin: AdminClient, servers: str, name: str, directory: Path) -> Self:
        """Create its topics; their names begin with its own."""
        topics = cls.topics.items()
        create_topics(admin, [NewTopic(f"{name}-{topic}", count) for topic, count in topics])
        return cls(name, servers, directory)

    def application(
        self, guarantee: str, settings: Mapping[str, object] | None = None, **environment: str
    ) -> Application:
        fixed = {
            "bootstrap.servers": self.servers,
            "commit.interval.ms": 100,
            "processing.guarantee": guarantee,
        }
        named = {"KILLED_NAME": self.name, **environment}
        file = Path(f"{self.app.__file__}")
        return Application(self.name, self.directory, file, fixed | dict(settings or {}), named)

    def written(self) -> int:
        """Return how many records its output has, committed or not."""
        with reader_of(self.servers) as consumer:
            return sum(high_watermarks(consumer, f"{self.name}-{self.output}").values())
