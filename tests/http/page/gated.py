"""An application that stands still in a record for as long as a test looks at its page."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pystreams import KafkaStreams, StreamsBuilder, Topology, serdes
from pystreams.http.server import HttpOptions, HttpServer
from tests.broker.reading import produce
from tests.broker.waiting import DEADLINE_S

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker
    from pystreams.runtime.loop.reports.thread_metadata import TaskMetadata

WORDS = 60
AGE_MS = 60_000


class Gated:
    """An application that counts words, each of which must be let through.

    Attributes:
        words: The topic that it reads.
        counts: The topic that it writes.
        settings: Of its configuration.
    """

    settings: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, broker: DevelopmentBroker, name: str, topics: tuple[str, str], state: Path
    ) -> None:
        self._servers = broker.bootstrap_servers
        self.words, self.counts = topics
        self._gate = threading.Semaphore(0)
        self._is_open = False
        config = {
            "application.id": name,
            "bootstrap.servers": self._servers,
            "state.dir": str(state),
            "commit.interval.ms": 600_000,
            "max.poll.records": 2,
            **self.settings,
        }
        self.streams = KafkaStreams(self.topology(), config)

    def topology(self) -> Topology:
        builder = StreamsBuilder()
        words = builder.stream(self.words, key_serde=serdes.STRING, value_serde=serdes.STRING)
        table = words.map_values(self.let_through).group_by_key().count(name="counts")
        table.to_stream().to(self.counts, key_serde=serdes.STRING, value_serde=serdes.LONG)
        return builder.build()

    def let_through(self, word: str) -> str:
        assert self._is_open or self._gate.acquire(timeout=DEADLINE_S)
        return word

    @contextlib.contextmanager
    def served(self) -> Iterator[str]:
        with HttpServer(self.streams, HttpOptions(port=0)) as server:
            self.streams.start()
            try:
                yield server.url
            finally:
                self.open()
                self.streams.close()

    def write(self) -> None:
        words = [(b"k%d" % (number % 7), b"w") for number in range(WORDS)]
        written_ms = round(time.time() * 1000) - AGE_MS
        produce(self._servers, self.words, words, timestamps_ms=[written_ms] * WORDS)

    def open(self) -> None:
        """Let through whatever comes."""
        self._is_open = True
        self._gate.release()

    def some_wait(self) -> bool:
        """Let one word through; return whether the loop has told that, and that others wait."""
        told = self.streams.statistics()
        if told.lag_records and told.processed_records:
            return True
        self.let_one_through()
        return False

    def let_one_through(self) -> None:
        self._gate.release()

    def task(self) -> TaskMetadata:
        (thread,) = self.streams.metadata_for_local_threads()
        (task,) = thread.active_tasks
        return task

    def value(self, name: str) -> float:
        values = [value for key, value in self.streams.metrics().items() if key.name == name]
        return sum(value for value in values if not isinstance(value, str))
