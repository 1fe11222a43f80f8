"""`pystreams dlq`: look into a dead letter queue, and write its records back."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pystreams.cli.application.configuration import configuration_of
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.exit_codes import ExitCode
from pystreams.cli.options.groups import ApplicationOptions, application_options, grouped
from pystreams.cli.options.letter_conditions import (
    NAMES,
    LetterCondition,
    condition_of,
    header_pairs,
    text_of_bytes,
)
from pystreams.cli.plain_text import in_one_line
from pystreams.kernel.clock import SystemClock
from pystreams.kernel.rate import counted

if TYPE_CHECKING:
    from pystreams.record import ConsumedMessage
    from pystreams.runtime.adapters.client_factory import ConfluentClients
    from pystreams.runtime.maintenance.redrive import QueueReader, Redriven

_NAME = "pystreams-dlq"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead letters are meant."""

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
    """Look into a dead letter queue, or redrive it: errors.dead.letter.queue.topic.name.

    Brokers are named as in `pystreams run`: -c bootstrap.servers=HOST:PORT, the environment
    (PYSTREAMS_BOOTSTRAP_SERVERS), a file (--config), or --dev. Queues that Kafka Streams has
    written are read, too. What is read is what is committed. Only redrive writes.

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

    Of these, how many were redriven.

    \b
    Examples:
      pystreams dlq list orders-dead --dev
      pystreams dlq list orders-dead --topic orders -c bootstrap.servers=kafka:9092
    """
    from pystreams.cli.display.tables import show_table

    counted: Counter[tuple[str, str]] = Counter()
    redriven: Counter[tuple[str, str]] = Counter()
    with streams_errors_as_exit_codes():
        reader = _reader(queue, _clients(application))
        done = reader.redriven()
        for message, headers in _letters(reader, wanted):
            cause = headers["topic"], headers["exception"]
            counted[cause] += 1
            redriven[cause] += message.offset() in done.get(message.partition() or 0, ())
    rows = [
        (*cause, f"{count:,}", f"{redriven[cause]:,}") for cause, count in counted.most_common()
    ]
    columns = ("topic", "exception", "records", "redriven")
    show_table(columns, rows, right=("records", "redriven"))
    _tell_unread(reader)


@dlq.command()
@click.argument("queue")
@_wanted
@click.option("--limit", type=click.IntRange(1), metavar="N", help="End after N records.")
@application_options
def show(queue: str, *, wanted: Wanted, limit: int | None, application: ApplicationOptions) -> None:
    """Print the dead letters of QUEUE with their causes, each as a JSON object.

    Headers are pairs in their order. Bytes of keys, values and headers that are not UTF-8 are
    written as \\xNN.

    \b
    Examples:
      pystreams dlq show orders-dead --limit 3 --dev
      pystreams dlq show orders-dead --exception ZeroDivisionError --dev
    """
    with streams_errors_as_exit_codes():
        reader = _reader(queue, _clients(application))
        letters = _letters(reader, wanted)
        for number, (message, headers) in enumerate(letters, 1):
            sys.stdout.write(_line(message, headers) + "\n")
            if number == limit:
                return
    _tell_unread(reader)


@dlq.command()
@click.argument("queue")
@_wanted
@click.option(
    "--where",
    metavar="EXPR",
    callback=condition_of,
    help=f"Only where this Python expression holds, of {NAMES}.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing; tell what would be written.")
@application_options
@click.pass_context
def redrive(
    ctx: click.Context,
    queue: str,
    *,
    wanted: Wanted,
    where: LetterCondition | None,
    dry_run: bool,
    application: ApplicationOptions,
) -> None:
    """Write the records of QUEUE's dead letters back to the topics they came from, once.

    To the partition they were in, with their key, value, timestamp and headers. Each letter is
    written back once, whoever runs this and however often: killed in the middle, it is run again.
    A record that fails again is a new letter. While somebody's transaction is open in QUEUE, this
    waits, up to a minute. Where a topic is not there, or may not be seen, its letters are left,
    and this ends with 1: --topic and --where say which are meant.

    In EXPR, `data` is the value as JSON, None if it is none; `attempt` how often the record was
    redriven before; `headers` has the last of each name, `all_headers` all, as pairs.

    \b
    Examples:
      pystreams dlq redrive orders-dead --exception TimeoutError --dry-run --dev
      pystreams dlq redrive orders-dead --where "data and data['total'] > 3" --dev
      pystreams dlq redrive orders-dead --where "('tag', 'a') in all_headers" --dry-run --dev
      pystreams dlq redrive orders-dead --where "attempt < 3" -c bootstrap.servers=kafka:9092
    """
    from pystreams.runtime.maintenance import redrive as redriving

    def is_meant(message: ConsumedMessage) -> bool:
        cause = _cause(message)
        return wanted.has(cause) and (where is None or where.holds(message, cause))

    with streams_errors_as_exit_codes():
        clients = _clients(application)
        producer = None if dry_run else clients.producer(_NAME, f"pystreams-redrive-{queue}")
        try:
            done = redriving.redrive(
                queue,
                clients.admin(),
                lambda: clients.history_consumer(_NAME),
                producer,
                is_meant,
                SystemClock(),
                _Waiting().wait,
            )
        finally:
            if producer is not None:
                producer.close()
    _tell(done, "Would redrive" if dry_run else "Redrove")
    if done.unseen:
        ctx.exit(ExitCode.FAILED)


class _Waiting:
    """Waits, and says once what for."""

    _is_told = False

    def wait(self, what: str, pause_s: float) -> None:
        if not self._is_told:
            click.echo(f"Waiting for {what}", err=True)
        self._is_told = True
        time.sleep(pause_s)


def _tell_unread(reader: QueueReader) -> None:
    """Say what is not among the letters, and whose marks are not known."""
    unread = reader.unread()
    if unread is not None:
        click.echo(f"Not looked at, behind {unread}", err=True)


def _tell(done: Redriven, did: str) -> None:
    for topic, count in done.written.most_common():
        click.echo(f"{did} {counted(count, 'record')} to {topic}")
    if not done.written:
        click.echo(f"{did} nothing")
    if done.before:
        click.echo(f"Left alone {counted(done.before, 'record')}: redriven before")
    for reason, count in done.left.most_common():
        click.echo(f"Left alone {counted(count, 'record')}: {reason}")
    for topic, count in done.unseen.most_common():
        click.echo(
            f"Left alone {counted(count, 'record')}: its topic {in_one_line(topic)} does not "
            "exist, or may not be seen: then grant WRITE on it"
        )


def _line(message: ConsumedMessage, cause: dict[str, str]) -> str:
    from pystreams.readable_values import json_of_value
    from pystreams.runtime.core.failures.dead_letters import ERROR_HEADERS

    own = [pair for pair in header_pairs(message) if pair[0] not in ERROR_HEADERS]
    record: dict[str, Any] = {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "key": text_of_bytes(message.key()),
        "value": text_of_bytes(message.value()),
        "headers": own,
        "cause": cause,
    }
    return json_of_value(record).decode()


def _cause(message: ConsumedMessage) -> dict[str, str]:
    """Return what the headers tell, by the last part of their names."""
    from pystreams.runtime.core.failures.dead_letters import error_headers

    told = {"topic": "-", "exception": "-"}
    for name, data in error_headers(message.headers() or ()).items():
        if data is not None:
            told[name.split(".errors.")[1].replace(".", "_")] = text_of_bytes(data) or ""
    return told


def _letters(
    reader: QueueReader, wanted: Wanted
) -> Iterator[tuple[ConsumedMessage, dict[str, str]]]:
    """Give the dead letters that a queue holds now, with their causes."""
    for message in reader.letters():
        cause = _cause(message)
        if wanted.has(cause):
            yield message, cause


def _clients(options: ApplicationOptions) -> ConfluentClients:
    from pystreams.runtime.adapters.client_factory import ConfluentClients

    # Names the client alone: no application is at work.
    return ConfluentClients(configuration_of(options, _NAME, {"application.id": _NAME}))


def _reader(queue: str, clients: ConfluentClients) -> QueueReader:
    from pystreams.runtime.maintenance.redrive import QueueReader

    return QueueReader(queue, clients.admin(), lambda: clients.history_consumer(_NAME))
