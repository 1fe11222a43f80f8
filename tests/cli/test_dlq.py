"""`pystreams dlq`: what is in a dead letter queue, by cause and one by one."""

from __future__ import annotations

import itertools
import json
import os
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams.cli.commands.dlq import dlq
from pystreams.runtime.core.dead_letters import (
    HEADER_EXCEPTION,
    HEADER_MESSAGE,
    HEADER_OFFSET,
    HEADER_TOPIC,
)

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker

_numbers = itertools.count(1)


class Queue:
    """A queue with three dead letters, in two partitions."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.name = f"dead-{os.getpid()}-{next(_numbers)}"
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic(self.name, 2)])[self.name].result(30)
        producer = Producer({"bootstrap.servers": servers})
        for number, (topic, exception) in enumerate(
            [("orders", "ValueError"), ("orders", "KeyError"), ("people", "ValueError")]
        ):
            headers = [
                ("own", b"1"),
                (HEADER_EXCEPTION, exception.encode()),
                (HEADER_MESSAGE, b"why"),
                (HEADER_TOPIC, topic.encode()),
                (HEADER_OFFSET, str(number).encode()),
            ]
            producer.produce(self.name, b"v\xff", b"k", number % 2, headers=list(headers))
        producer.flush(30)

    def invoke(self, command: str, *arguments: str) -> Result:
        words = [command, *arguments, "-c", f"bootstrap.servers={self.servers}"]
        return CliRunner().invoke(dlq, words)


@pytest.fixture
def queue(broker: DevelopmentBroker) -> Queue:
    return Queue(broker.bootstrap_servers)


def test_causes_are_counted(queue: Queue) -> None:
    answer = queue.invoke("list", queue.name, "--topic", "orders")

    assert answer.exit_code == 0, answer.output
    _, *rows = [line.split() for line in answer.stdout.splitlines()]
    assert sorted(rows) == [["orders", "KeyError", "1"], ["orders", "ValueError", "1"]]


def test_dead_letters_are_shown_with_their_cause(queue: Queue) -> None:
    answer = queue.invoke("show", queue.name, "--exception", "KeyError")

    [letter] = map(json.loads, answer.stdout.splitlines())
    assert (letter["key"], letter["value"], letter["partition"]) == ("k", "v\\xff", 1)
    assert letter["headers"] == {"own": "1"}
    assert letter["cause"] == {
        "topic": "orders",
        "exception": "KeyError",
        "message": "why",
        "offset": "1",
    }
    assert len(queue.invoke("show", queue.name, "--limit", "2").stdout.splitlines()) == 2


def test_queue_that_does_not_exist_is_named(queue: Queue) -> None:
    answer = queue.invoke("list", "none-such")

    assert answer.exit_code == 1
    assert "there is no topic 'none-such'" in answer.output
