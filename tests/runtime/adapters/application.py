"""One application's clients for a test: topics with records in them, members of its group."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pystreams import StreamsConfig, TopicPartition
from pystreams.config import clients
from pystreams.errors import RetriableClientError
from pystreams.kernel.clock import SystemClock
from pystreams.record import ConsumedMessage, OutputBuffer
from pystreams.runtime.adapters.client_factory import ConfluentClients
from pystreams.runtime.adapters.connection.connections import BrokerOutage
from pystreams.runtime.adapters.consuming.confluent_consumer import ConfluentConsumer
from pystreams.runtime.cluster.new_topic import NewTopic
from pystreams.runtime.tasks.stop_order import StopOrder
from tests import names
from tests.broker.flushing import flush
from tests.broker.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pystreams.kernel.clock import Clock
    from pystreams.runtime.adapters.administering.confluent_admin import ConfluentAdmin
    from pystreams.runtime.adapters.consuming.confluent_restore_consumer import (
        ConfluentRestoreConsumer,
    )
    from pystreams.runtime.adapters.producing.confluent_producer import ConfluentProducer

T = TypeVar("T")


def until(condition: Callable[[], object], what: str = "the condition") -> None:
    """Call until it returns something true; the calls themselves wait for the broker.

    A call that had no answer may be repeated, as the runtime does.
    """

    def holds() -> bool:
        with suppress(RetriableClientError):
            return bool(condition())
        return False

    wait_until(holds, what)


def answer_of(ask: Callable[[], T]) -> T:
    """Return what a client answers, asked again where it had no answer."""
    answers: list[T] = []

    def answered() -> bool:
        answers.append(ask())
        return True

    until(answered, "an answer")
    return answers[0]


class Listener:
    """Writes down what it is told; may be given something to do in each callback."""

    def __init__(self) -> None:
        self.assigned: list[TopicPartition] = []
        self.events: list[tuple[str, list[TopicPartition]]] = []
        self.on_assigned: Callable[[list[TopicPartition]], None] | None = None
        self.on_revoked: Callable[[list[TopicPartition]], None] | None = None

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.assigned = sorted({*self.assigned, *partitions})
        self.events.append(("assigned", sorted(partitions)))
        if self.on_assigned is not None:
            self.on_assigned(partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.assigned = sorted(set(self.assigned) - set(partitions))
        self.events.append(("revoked", sorted(partitions)))
        if self.on_revoked is not None:
            self.on_revoked(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.assigned = sorted(set(self.assigned) - set(partitions))
        self.events.append(("lost", sorted(partitions)))


class Application:
    """The clients of one application, closed at the end of the test.

    Attributes:
        name: Its application id, which no other test has.
    """

    def __init__(
        self, bootstrap_servers: str, settings: dict[str, Any], clock: Clock | None = None
    ) -> None:
        self.name = names.unique_name("adapters")
        common: dict[str, Any] = {
            "application.id": self.name,
            "bootstrap.servers": bootstrap_servers,
            # On a slow machine tests hold transactions open for longer than the default.
            "producer.transaction.timeout.ms": 120_000,
        }
        self.config = StreamsConfig.of(common | settings)
        self.clients = ConfluentClients(self.config, clock)
        self.admin: ConfluentAdmin = self.clients.admin()
        self._closing: list[Any] = []

    def topic(self, partitions: int = 1, **config: str) -> str:
        """Create a topic; underscores in the names of settings stand for dots."""
        name = names.unique_name(f"{self.name}-topic")
        settings = {key.replace("_", "."): value for key, value in config.items()}
        answer_of(lambda: self.admin.create_topics([NewTopic(name, partitions, settings)]))
        return name

    def consumer(self, instance: str = "", **options: Any) -> ConfluentConsumer:
        """Return a consumer; with options, one that the factory would not make."""
        name = f"{self.name}-consumer"
        if options:
            outage = BrokerOutage(self.config.bootstrap_servers)
            consumer = ConfluentConsumer(
                clients.consumer_config(self.config, client_id=name), outage, **options
            )
        else:
            consumer = self.clients.consumer(name, instance)
        self._closing.append(consumer)
        return consumer

    def member(
        self, *topics: str, instance: str = "", **options: Any
    ) -> tuple[ConfluentConsumer, Listener]:
        """Return a consumer that has joined the group, and its listener."""
        consumer, listener = self.consumer(instance, **options), Listener()
        consumer.subscribe(topics, [], listener)

        def joined() -> bool:
            assert not consumer.poll(100, 0.05), "nothing is read before it has a position"
            return bool(listener.events)

        until(joined, "the assignment")
        return consumer, listener

    def restore_consumer(self) -> ConfluentRestoreConsumer:
        consumer = self.clients.restore_consumer(f"{self.name}-restore")
        self._closing.append(consumer)
        return consumer

    def producer(
        self, transactional_id: str | None = None, topics: Collection[str] = ()
    ) -> ConfluentProducer:
        producer = self.clients.producer(f"{self.name}-producer", transactional_id, topics)
        self._closing.append(producer)
        return producer

    def transactional(
        self, transactional_id: str = "task", topics: Collection[str] = ()
    ) -> ConfluentProducer:
        """Return a producer that may begin a transaction."""
        producer = self.producer(f"{self.name}-{transactional_id}", topics)

        answer_of(producer.init_transactions)
        return producer

    def fill(self, topic: str, count: int, partition: int = 0, start: int = 0) -> None:
        """Write records whose values are numbers."""
        producer = self.clients.producer(f"{self.name}-filler", None)
        producer.send(numbered(topic, count, partition, start))
        flush(producer)
        producer.close()

    def close(self) -> None:
        for client in self._closing:
            client.close()


def never_stopped() -> StopOrder:
    """Return the order to stop of a thread that is not given one."""
    return StopOrder(threading.Event(), SystemClock())


class MakeApplication(Protocol):
    """Makes applications with settings of one's own."""

    def __call__(self, settings: dict[str, Any], clock: Clock | None = None) -> Application: ...


def numbered(topic: str, count: int, partition: int | None = 0, start: int = 0) -> OutputBuffer:
    """Return a buffer of records whose values are numbers: with a partition, a changelog's."""
    output = OutputBuffer(topic, partition, is_changelog=partition is not None)
    output.records.extend(
        (b"key", str(number).encode(), 1000 + number, ()) for number in range(start, start + count)
    )
    return output


def numbers(messages: Sequence[ConsumedMessage]) -> list[int]:
    return [int(message.value() or b"-1") for message in messages]


def delete_before(application: Application, partition: TopicPartition, offset: int) -> None:
    """Delete records; asked again while they are there, since nobody waits for the answer."""

    def deleted() -> bool:
        application.admin.delete_records({partition: offset})
        return application.admin.offset_ranges([partition])[partition].beginning == offset

    until(deleted, f"the end of what is before offset {offset}")


def read(consumer: ConfluentConsumer, count: int, at_once: int = 1000) -> list[int]:
    """Return the numbers of at least so many records, of any partition, in order of arrival."""
    found: list[int] = []

    def enough() -> bool:
        for batch in consumer.poll(at_once, 0.1):
            found.extend(numbers(batch.messages))
        return len(found) >= count

    until(enough, f"{count} records (there are {len(found)})")
    return found


def stable(application: Application, topic: str) -> list[int]:
    """Return what a reader of committed records finds in a topic's first partition."""
    reader = application.restore_consumer()
    partition = TopicPartition(topic, 0)
    reader.assign({partition: 0})
    found: list[int] = []
    ends: list[int] = []

    def at_the_end() -> bool:
        for batch in reader.poll(1000, 0.1):
            found.extend(numbers(batch.messages))
            if batch.end_reached_at is not None:
                ends.append(batch.end_reached_at)
        return bool(ends)

    until(at_the_end, "the end of the topic")
    return found
