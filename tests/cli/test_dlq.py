"""`pystreams dlq`: what is in a dead letter queue, by cause and one by one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams.cli.commands.records.dlq import dlq
from pystreams.runtime.core.failures.dead_letters import (
    HEADER_EXCEPTION,
    HEADER_MESSAGE,
    HEADER_OFFSET,
    HEADER_OUTPUT_TOPIC,
    HEADER_PARTITION,
    HEADER_REDRIVEN,
    HEADER_TOPIC,
)
from pystreams.runtime.maintenance.redrive import HEADER_REDRIVE_ATTEMPT, HEADER_REDRIVE_ID
from tests import names
from tests.broker.reading import create_topics, read_all
from tests.broker.waiting import wait_until
from tests.broker.writing import writer_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pystreams.broker import DevelopmentBroker

FIRST_MS = int(time.time() * 1000) - 60_000
"""Late enough for no topic to delete the records."""


class Queue:
    """A queue with three dead letters, in two partitions."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.name = names.unique_name("dead")
        admin = AdminClient({"bootstrap.servers": servers})
        create_topics(admin, [NewTopic(self.name, 2)])
        writer = writer_of(servers, self.name)
        for number, (topic, exception) in enumerate(
            [("orders", "ValueError"), ("orders", "KeyError"), ("people", "ValueError")]
        ):
            headers = [
                ("own", b"1"),
                ("own", b"2"),
                ("none", None),
                (HEADER_EXCEPTION, exception.encode()),
                (HEADER_MESSAGE, b"why"),
                (HEADER_TOPIC, topic.encode()),
                (HEADER_OFFSET, str(number).encode()),
            ]
            writer.write(self.name, b"v\xff", b"k", number % 2, headers=headers)
        writer.flush()

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
    assert sorted(rows) == [["orders", "KeyError", "1", "0"], ["orders", "ValueError", "1", "0"]]


def test_dead_letters_are_shown_with_their_cause(queue: Queue) -> None:
    answer = queue.invoke("show", queue.name, "--exception", "KeyError")

    [letter] = map(json.loads, answer.stdout.splitlines())
    assert (letter["key"], letter["value"], letter["partition"]) == ("k", "v\\xff", 1)
    assert letter["headers"] == [["own", "1"], ["own", "2"], ["none", None]]
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


class Source:
    """A topic of two partitions, and a queue with letters of it: `total` 0, 1, 2, ..."""

    def __init__(self, servers: str, letters: int) -> None:
        self.servers = servers
        self.topic = names.unique_name("orders")
        self.queue = f"{self.topic}-dead"
        admin = AdminClient({"bootstrap.servers": servers})
        create_topics(admin, [NewTopic(self.topic, 2), NewTopic(self.queue, 2)])
        self.fail(range(letters))

    def fail(
        self, totals: Iterable[int], of_record: tuple[str, bytes] | None = None, /, **more: str
    ) -> None:
        """Write a letter for each record.

        Args:
            of_record: A header of the record, which its letter has taken over.
            more: Other headers of the letter.
        """
        writer = writer_of(self.servers, self.queue)
        for total in totals:
            told = {
                "own": "1",
                HEADER_EXCEPTION: "TimeoutError" if total % 2 else "ValueError",
                HEADER_TOPIC: self.topic,
                HEADER_PARTITION: str(total % 2),
                HEADER_OFFSET: str(total),
            } | more
            headers = [(name, text.encode()) for name, text in told.items()]
            headers = headers if of_record is None else [of_record, *headers]
            value = json.dumps({"total": total}).encode()
            writer.write(
                self.queue,
                value,
                b"k%d" % total,
                total % 2,
                timestamp=FIRST_MS + total,
                headers=headers,
            )
        writer.flush()

    def redrive(self, *arguments: str, code: int = 0) -> str:
        return self.invoke("redrive", *arguments, code=code)

    def invoke(self, command: str, *arguments: str, code: int = 0) -> str:
        words = [command, self.queue, *arguments, "-c", f"bootstrap.servers={self.servers}"]
        answer = CliRunner().invoke(dlq, words)
        assert answer.exit_code == code, answer.output
        return answer.stdout

    def records(self) -> list[Message]:
        return sorted(read_all(self.servers, self.topic), key=lambda record: record.timestamp()[1])

    def totals(self) -> list[int]:
        return [json.loads(record.value() or b"")["total"] for record in self.records()]


def test_letters_go_back_as_the_records_they_were(broker: DevelopmentBroker) -> None:
    source = Source(broker.bootstrap_servers, 3)

    told = source.redrive()

    assert told == f"Redrove 3 records to {source.topic}\n"
    for number, record in enumerate(source.records()):
        headers = dict(record.headers() or [])
        assert (record.key(), record.partition()) == (b"k%d" % number, number % 2)
        assert record.timestamp()[1] == FIRST_MS + number
        assert headers == {
            "own": b"1",
            HEADER_REDRIVE_ID: f"{source.topic}-{number % 2}-{number}".encode(),
            HEADER_REDRIVE_ATTEMPT: b"1",
        }


def test_each_letter_goes_back_once_whatever_was_meant_before(broker: DevelopmentBroker) -> None:
    source = Source(broker.bootstrap_servers, 6)

    assert "Would redrive 2 records" in source.redrive("--where", "data['total'] > 3", "--dry-run")
    assert source.totals() == []
    source.redrive("--where", "data['total'] > 3")
    assert source.totals() == [4, 5]
    assert "1 record: redriven before" in source.redrive("--exception", "TimeoutError")
    assert source.totals() == [1, 3, 4, 5]
    source.redrive()
    assert source.totals() == [0, 1, 2, 3, 4, 5]
    assert source.redrive() == "Redrove nothing\nLeft alone 6 records: redriven before\n"


def test_a_condition_sees_the_last_header_of_a_name_and_all_of_them(queue: Queue) -> None:
    conditions = {
        "headers['own'] == '2'": 3,
        "headers['own'] == '1'": 0,
        "('own', '1') in all_headers": 3,
        "('own', '3') in all_headers": 0,
    }

    for condition, letters in conditions.items():
        answer = queue.invoke("redrive", queue.name, "--dry-run", "--where", condition)
        left = re.findall(r"Left alone (\d+) record", answer.stdout)
        assert (answer.exit_code, sum(map(int, left))) == (int(letters > 0), letters), answer.output


def test_a_record_that_fails_again_keeps_its_id_and_is_counted(broker: DevelopmentBroker) -> None:
    source = Source(broker.bootstrap_servers, 0)
    again = {HEADER_REDRIVE_ID: "orders-0-7", HEADER_REDRIVE_ATTEMPT: "1"}
    source.fail([4], **again)
    source.fail([6], **(again | {HEADER_REDRIVE_ATTEMPT: "2"}))

    source.redrive("--where", "attempt < 2")

    [record] = source.records()
    headers = dict(record.headers() or [])
    assert headers[HEADER_REDRIVE_ID] == b"orders-0-7"
    assert headers[HEADER_REDRIVE_ATTEMPT] == b"2"


def test_what_has_no_record_to_go_back_is_told_and_left(broker: DevelopmentBroker) -> None:
    source = Source(broker.bootstrap_servers, 0)
    source.fail([0], **{HEADER_OUTPUT_TOPIC: "out"})
    source.fail([2], **{HEADER_OFFSET: "-1"})

    told = source.redrive()

    assert "Redrove nothing" in told
    assert "1 record: a result that its topic refused" in told
    assert "1 record: no source record" in told
    assert source.totals() == []


def test_letters_of_a_topic_that_is_not_to_be_seen_fail_a_redrive_that_asked_for_them(
    broker: DevelopmentBroker,
) -> None:
    source = Source(broker.bootstrap_servers, 2)
    source.fail([4, 6], **{HEADER_TOPIC: "no-such-topic"})

    told = source.redrive("--dry-run", code=1)
    assert "Would redrive 2 records" in told
    told = source.redrive(code=1)
    assert "Redrove 2 records" in told
    assert "Left alone 2 records: its topic no-such-topic does not exist" in told
    assert "grant WRITE" in told
    assert source.totals() == [0, 1]
    assert "no-such-topic" not in source.redrive("--topic", source.topic)
    assert "Redrove nothing" in source.redrive("--topic", "no-such-topic", code=1)


def test_a_topic_that_a_letter_names_is_told_without_what_a_terminal_obeys(
    broker: DevelopmentBroker,
) -> None:
    source = Source(broker.bootstrap_servers, 0)
    source.fail([0], **{HEADER_TOPIC: "a\x1b[2J\nRedrove 9 records to b"})

    told = source.redrive(code=1)

    assert r"topic a\x1b[2J\nRedrove 9 records to b does not" in told
    assert len(told.splitlines()) == 2


def test_marks_of_a_redrive_are_no_letters(broker: DevelopmentBroker) -> None:
    source = Source(broker.bootstrap_servers, 2)
    source.redrive("--exception", "ValueError")
    listed, shown = (source.invoke(command) for command in ("list", "show"))

    rows = sorted(line.split()[1:] for line in listed.splitlines()[1:])
    assert rows == [["TimeoutError", "1", "0"], ["ValueError", "1", "1"]]
    assert len(shown.splitlines()) == 2


@pytest.mark.parametrize(
    "header",
    [
        (HEADER_REDRIVEN, b"oops"),
        (HEADER_REDRIVEN, b"0,1"),
        (HEADER_REDRIVE_ATTEMPT, b"many"),
        (HEADER_REDRIVE_ATTEMPT, b"9" * 5000),
        (HEADER_OUTPUT_TOPIC, b"elsewhere"),
    ],
)
def test_headers_that_a_letter_has_taken_over_from_its_record_hide_no_letter(
    broker: DevelopmentBroker, header: tuple[str, bytes]
) -> None:
    """As Kafka Streams does, which takes over all of them."""
    source = Source(broker.bootstrap_servers, 4)
    source.fail([4], header)

    listed, shown = (source.invoke(command) for command in ("list", "show"))
    source.redrive("--where", "attempt == 0 and partition >= 0 and offset >= 0")

    assert sum(int(line.split()[2]) for line in listed.splitlines()[1:]) == 5
    assert len(shown.splitlines()) == 5
    assert source.totals() == [0, 1, 2, 3, 4]
    assert source.redrive() == "Redrove nothing\nLeft alone 5 records: redriven before\n"


def test_a_partition_or_offset_that_is_no_number_is_none(broker: DevelopmentBroker) -> None:
    source = Source(broker.bootstrap_servers, 0)
    source.fail([0], **{HEADER_PARTITION: "none", HEADER_OFFSET: "some"})

    source.redrive("--where", "(partition, offset) == (-1, -1)")

    assert source.totals() == [0]


@pytest.mark.parametrize(
    ("condition", "told"),
    [("total >", "no Python expression"), ("total > 3", "there is no 'total'")],
)
def test_a_condition_that_can_not_hold_is_wrong_usage(condition: str, told: str) -> None:
    answer = CliRunner().invoke(dlq, ["redrive", "dead", "--where", condition])

    assert answer.exit_code == 2
    assert told in answer.output


@pytest.mark.parametrize(
    ("condition", "told"),
    [("data['sum'] > 3", "raised KeyError: 'sum'"), ("exit()", "raised SystemExit")],
)
def test_a_condition_that_raises_says_with_which_letter(
    broker: DevelopmentBroker, condition: str, told: str
) -> None:
    source = Source(broker.bootstrap_servers, 1)
    words = ["redrive", source.queue, "--where", condition]
    answer = CliRunner().invoke(dlq, [*words, "-c", f"bootstrap.servers={source.servers}"])

    assert answer.exit_code == 1
    assert f"--where {condition!r} {told}" in answer.output
    assert "partition 0 offset 0" in answer.output


def test_a_redrive_that_is_killed_and_run_again_writes_each_letter_back_once(
    broker: DevelopmentBroker,
) -> None:
    """Wherever the kill meets it; `simulation/troubles/test_redrive.py` kills at each step."""
    source = Source(broker.bootstrap_servers, 4000)
    words = [sys.executable, "-m", "pystreams", "dlq", "redrive", source.queue]
    servers = f"bootstrap.servers={source.servers}"
    with subprocess.Popen([*words, "-c", servers]) as killed:
        wait_until(
            lambda: killed.poll() is not None or bool(source.records()), "the first transaction"
        )
        killed.kill()

    source.redrive()

    assert source.totals() == list(range(4000))
