"""`pystreams dlq`: look into a dead letter queue."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pystreams.cli.application.configuration import configuration_of
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.options.groups import ApplicationOptions, application_options, grouped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pystreams.config import StreamsConfig
    from pystreams.record import ConsumedMessage


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead letters are meant.

    Attributes:
        topic: Only those of this topic; None for all.
        exception: Only those of this exception; None for all.
    """

    topic: str | None
    exception: str | None

    def has(self, headers: dict[str, str]) -> bool:
        """Return whether a dead letter with these headers is one of them."""
        return self.topic in {None, headers["topic"]} and self.exception in {
            None,
            headers["exception"],
        }


_wanted = grouped(
    "wanted",
    Wanted,
    click.option("--topic", metavar="TOPIC", help="Only of records that came from TOPIC."),
    click.option("--exception", metavar="NAME", help="Only those of one exception's class."),
)


@click.group()
def dlq() -> None:
    """Look into a dead letter queue: errors.dead.letter.queue.topic.name.

    Brokers are named as in `pystreams run`: -c bootstrap.servers=HOST:PORT, the environment
    (PYSTREAMS_BOOTSTRAP_SERVERS), a file (--config), or --dev. Queues that Kafka Streams has
    written are read, too. What is read is what is committed; nothing is changed.

    \b
    Exit codes:
      0    done
      1    failed; the message says why
      2    wrong usage or configuration
      3    no broker answers
      70   a bug in pystreams
      130  stopped by Ctrl-C
    """


@dlq.command(name="list")
@click.argument("queue")
@_wanted
@application_options
def list_causes(queue: str, *, wanted: Wanted, application: ApplicationOptions) -> None:
    """Count the dead letters of QUEUE by the topic they came from and by exception.

    \b
    Examples:
      pystreams dlq list orders-dead --dev
      pystreams dlq list orders-dead --topic orders -c bootstrap.servers=kafka:9092
    """
    from pystreams.cli.display.tables import show_table

    counted: Counter[tuple[str, str]] = Counter()
    with streams_errors_as_exit_codes():
        for _, headers in _letters(application, queue, wanted):
            counted[headers["topic"], headers["exception"]] += 1
    rows = [(topic, exception, f"{count:,}") for (topic, exception), count in counted.most_common()]
    show_table(("topic", "exception", "records"), rows, right=("records",))


@dlq.command()
@click.argument("queue")
@_wanted
@click.option("--limit", type=click.IntRange(1), metavar="N", help="End after N records.")
@application_options
def show(queue: str, *, wanted: Wanted, limit: int | None, application: ApplicationOptions) -> None:
    """Print the dead letters of QUEUE with their causes, each as a JSON object.

    Bytes of keys, values and headers that are not UTF-8 are written as \\xNN.

    \b
    Examples:
      pystreams dlq show orders-dead --limit 3 --dev
      pystreams dlq show orders-dead --exception ZeroDivisionError --dev
    """
    with streams_errors_as_exit_codes():
        for number, (message, headers) in enumerate(_letters(application, queue, wanted), 1):
            sys.stdout.write(_line(message, headers) + "\n")
            if number == limit:
                return


def _line(message: ConsumedMessage, cause: dict[str, str]) -> str:
    from pystreams.readable_values import json_of_value
    from pystreams.runtime.core.dead_letters import ERROR_HEADERS

    own = {name: _text(data) for name, data in message.headers() or () if name not in ERROR_HEADERS}
    record: dict[str, Any] = {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "key": _text(message.key()),
        "value": _text(message.value()),
        "headers": own,
        "cause": cause,
    }
    return json_of_value(record).decode()


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


def _cause(message: ConsumedMessage) -> dict[str, str]:
    """Return what the headers tell, by the last part of their names."""
    from pystreams.runtime.core.dead_letters import ERROR_HEADERS

    told = {"topic": "-", "exception": "-"}
    for name, data in message.headers() or ():
        if name in ERROR_HEADERS and data is not None:
            told[name.split(".errors.")[1].replace(".", "_")] = _text(data) or ""
    return told


def _letters(
    options: ApplicationOptions, queue: str, wanted: Wanted
) -> Iterator[tuple[ConsumedMessage, dict[str, str]]]:
    """Give the dead letters that a queue holds now, with their causes."""
    from pystreams.config import Source

    # Names the client alone: no application is at work.
    name = "pystreams-dlq"
    config = configuration_of(options, name, Source("", {"application.id": name}))
    for message in _messages(config, queue):
        cause = _cause(message)
        if wanted.has(cause):
            yield message, cause


def _messages(config: StreamsConfig, topic: str) -> Iterator[ConsumedMessage]:
    from pystreams.errors import StreamsError
    from pystreams.ids import TopicPartition
    from pystreams.runtime.adapters.client_factory import ConfluentClients
    from pystreams.runtime.maintenance.topic_records import records_of

    clients = ConfluentClients(config)
    admin = clients.admin()
    count = admin.partition_counts().get(topic)
    if count is None:
        raise StreamsError(
            f"there is no topic {topic!r}: `pystreams topics list` names all, and the queue of an "
            "application is its errors.dead.letter.queue.topic.name"
        )
    ranges = admin.offset_ranges([TopicPartition(topic, number) for number in range(count)])
    starts = {partition: held.beginning for partition, held in ranges.items()}
    ends = {partition: held.end for partition, held in ranges.items()}
    consumer = clients.history_consumer("pystreams-dlq")
    try:
        yield from records_of(consumer, starts, ends)
    finally:
        consumer.close()
