"""Records for topics, written by a client that says what became of each."""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, Message, Producer

from tests.broker.waiting import DEADLINE_S, wait_until

_ROOM_S = 0.1
_FLUSH_S = 1.0

Delivered = Callable[[Message], None]


class Writer:
    """Writes each record once and in order, however often its connection is lost.

    Args:
        servers: The brokers.
        settings: More of the client's configuration.
        delivered: Told of each record that the brokers have taken.
    """

    def __init__(
        self,
        servers: str,
        settings: Mapping[str, Any] | None = None,
        *,
        delivered: Delivered | None = None,
    ) -> None:
        self._refused: list[str] = []
        self._delivered = delivered
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                # With more, a batch may be lost in silence: `implicit_acknowledgements`.
                "max.in.flight.requests.per.connection": 1,
                "message.timeout.ms": 0,
                "topic.metadata.refresh.interval.ms": 5_000,
                "log_level": 4,  # That a topic is deleted is no news here.
                **(settings or {}),
            }
        )

    def write(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        partition: int = -1,
        timestamp: int = 0,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Write one record; while a broker is away for long, there may be no room to wait in."""
        while True:
            try:
                return self._producer.produce(
                    topic,
                    value,
                    key,
                    partition,
                    on_delivery=self._reported,
                    timestamp=timestamp,
                    headers=list(headers),
                )
            except BufferError:
                self._producer.poll(_ROOM_S)

    def know(self, topic: str) -> None:
        """Look how many partitions a topic has now."""
        self._producer.list_topics(topic, DEADLINE_S)

    def hear(self) -> None:
        """Hear what became of records; fail when one was refused."""
        self._producer.poll(0)
        refused, self._refused = self._refused, []
        assert not refused, refused[:3]

    def flush(self, deadline_s: float = DEADLINE_S) -> None:
        """Wait until the brokers have all."""
        wait_until(lambda: not self._producer.flush(_FLUSH_S), "all written", deadline_s=deadline_s)
        self.hear()

    def _reported(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused.append(f"{message.topic()} {message.key()!r}: {error}")
        elif self._delivered is not None:
            self._delivered(message)


_kept: dict[str, dict[tuple[tuple[str, Any], ...], Writer]] = {}
"""Brokers that outlive the tests -> the writers that are kept, by their settings."""


@contextlib.contextmanager
def writers_kept(servers: str) -> Iterator[None]:
    """Keep writers for a broker until the block ends: a new one waits half a second for its id."""
    _kept[servers] = {}
    try:
        yield
    finally:
        del _kept[servers]


def forget_writers() -> None:
    """Let go of the writers that are kept."""
    for writers in _kept.values():
        writers.clear()


def writer_of(servers: str, *topics: str, **settings: Any) -> Writer:
    """Return a writer for topics, kept or new; underscores in settings stand for dots."""
    own = {name.replace("_", "."): value for name, value in settings.items()}
    kept = _kept.get(servers)
    if kept is None:
        return Writer(servers, own)
    key = tuple(sorted(own.items()))
    if key not in kept:
        kept[key] = Writer(servers, own)
    for topic in topics:
        kept[key].know(topic)
    return kept[key]


class Feed(ABC):
    """Writes batch after batch in a thread of its own, until the block ends.

    What goes wrong in it is raised at the block's end.

    Args:
        writer: Writes the records.
        batch_every_s: How long from one batch to the next (s).
        deadline_s: How long brokers may take to have all that was written.
    """

    def __init__(
        self, writer: Writer, *, batch_every_s: float = 0.02, deadline_s: float = DEADLINE_S
    ) -> None:
        self._writer = writer
        self._batch_every_s = batch_every_s
        self._deadline_s = deadline_s
        self._failures: list[BaseException] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        if error is None:
            for failure in self._failures:
                raise failure
            self.flush()

    def flush(self) -> None:
        """Wait until the brokers have all."""
        self._writer.flush(self._deadline_s)

    @property
    def failed(self) -> bool:
        """Whether it has ended because something went wrong."""
        return bool(self._failures)

    @abstractmethod
    def write_batch(self) -> None:
        """Write the next records."""

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._batch_every_s):
                self.write_batch()
                self._writer.hear()
        except BaseException as error:  # noqa: BLE001 - Raised where the block ends.
            self._failures.append(error)
