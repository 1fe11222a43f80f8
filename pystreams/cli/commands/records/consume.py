"""`pystreams consume`: print the records of a topic of a topology, with its serdes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO

import click

from pystreams.cli.application.configuration import load_application
from pystreams.cli.display.logs import configure_logging
from pystreams.cli.display.own_output import own_output
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.exit_codes import ExitCode
from pystreams.cli.options.groups import (
    ApplicationOptions,
    application_options,
    grouped,
    topology_argument,
)
from pystreams.exception_texts import exception_text
from pystreams.ids import TopicPartition

if TYPE_CHECKING:
    from pystreams.cli.application.topic_serdes import TopologyTopic
    from pystreams.config import StreamsConfig
    from pystreams.record import ConsumedMessage, Headers


@dataclass(frozen=True, slots=True)
class WhatToRead:
    """Which records are printed.

    Attributes:
        from_end: Whether only those are that come from now on; it waits for them.
    """

    from_end: bool
    follow: bool
    limit: int | None


_what_to_read = grouped(
    "wanted",
    WhatToRead,
    click.option("--follow", "-f", is_flag=True, help="Wait for more at the end of the topic."),
    click.option(
        "--from-end", is_flag=True, help="Only records that come from now on; implies --follow."
    ),
    click.option("--limit", type=click.IntRange(1), metavar="N", help="End after N records."),
)


@click.command()
@topology_argument
@click.argument("topic")
@_what_to_read
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print each record as a JSON object, with partition, offset, timestamp (ms) and headers.",
)
@application_options
@click.pass_context
def consume(
    ctx: click.Context,
    topic: str,
    *,
    wanted: WhatToRead,
    as_json: bool,
    application: ApplicationOptions,
) -> None:
    """Print the records of TOPIC of a topology, with the serdes it reads or writes it with.

    It prints the committed records that the topic holds, from the first to the end it has now, and
    ends; --follow waits for more. Partitions come one beside the other, each in its order. A line
    is a record: its key, a tab, its value; only the value where the key is null; "null" for a
    tombstone. Bytes that are no text are {"base64": "..."}, and numbers that JSON has not "NaN" or
    "Infinity". It joins no group and commits nothing. With --json headers are pairs in their order;
    a "value_base64" tells a null of JSON from a tombstone.

    \b
    Exit codes:
      0    done; or stopped by Ctrl-C, with --follow
      1    failed; or records could not be read, each of which was told
      2    wrong usage, configuration or topology; the topology has no such topic
      3    no broker answers
      70   a bug in pystreams
      141  nobody reads standard output any more

    \b
    Examples:
      pystreams consume topology.py counts --dev
      pystreams consume topology.py counts --dev --follow
      pystreams consume orders.py orders --json --limit 10 --config production.toml
    """
    configure_logging("warning", "auto")
    with streams_errors_as_exit_codes(), own_output() as output:
        loaded, config = load_application(application)
        from pystreams.cli.application.topic_serdes import checked_topic
        from pystreams.topology.plan.topology_plan import TopologyPlan

        found = checked_topic(TopologyPlan(loaded.topology, config.application_id), config, topic)
        show = _Printer(found, output, as_json=as_json)
        try:
            for message in _messages(config, found, wanted):
                show(message)
        except KeyboardInterrupt:
            if not (wanted.follow or wanted.from_end):
                raise
    if show.unread:
        ctx.exit(ExitCode.FAILED)


class _Printer:
    """Prints records; tells of each that can't be read.

    Attributes:
        unread: How many could not be.
    """

    def __init__(self, topic: TopologyTopic, output: TextIO, *, as_json: bool) -> None:
        from pystreams.cli.application.json_lines import line_of
        from pystreams.serdes import seeing_deserializer

        self._line = line_of if as_json else _text_line
        self._key = seeing_deserializer(topic.serdes.key, topic.name)
        self._value = seeing_deserializer(topic.serdes.value, topic.name)
        self._serdes, self._output = topic.serdes, output
        self.unread = 0

    def __call__(self, message: ConsumedMessage) -> None:
        at = f"partition {message.partition()}, offset {message.offset()}"
        serde, headers = self._serdes.key, tuple(message.headers() or ())
        try:
            key = _read(self._key, message.key(), headers)
            serde = self._serdes.value
            value = _read(self._value, message.value(), headers)
        except Exception as error:  # noqa: BLE001 - the user's serde may raise anything
            self.unread += 1
            click.echo(f"{at}: can't be read by {serde!r}: {exception_text(error)}", err=True)
            return
        self._output.write(self._line(message, key, value) + "\n")
        self._output.flush()


def _read(
    deserialize: Callable[[bytes, Headers], Any], data: bytes | None, headers: Headers
) -> Any:
    return None if data is None else deserialize(data, headers)


def _text_line(message: ConsumedMessage, key: Any, value: Any) -> str:
    from pystreams.readable_values import text_of_value

    text = "null" if message.value() is None else text_of_value(value)
    return text if message.key() is None else f"{text_of_value(key)}\t{text}"


def _messages(
    config: StreamsConfig, topic: TopologyTopic, wanted: WhatToRead
) -> Iterator[ConsumedMessage]:
    """Give the records, until the end that was there at the beginning, or for ever."""
    from pystreams.runtime.adapters.client_factory import ConfluentClients
    from pystreams.runtime.maintenance.topic_records import records_of

    clients = ConfluentClients(config)
    partitions = [TopicPartition(topic.name, number) for number in range(topic.num_partitions)]
    ranges = clients.admin().offset_ranges(partitions)
    starts = {
        partition: held.end if wanted.from_end else held.beginning
        for partition, held in ranges.items()
    }
    follows = wanted.follow or wanted.from_end
    ends = None if follows else {partition: held.end for partition, held in ranges.items()}
    with closing(clients.history_consumer(f"{config.application_id}-consume")) as consumer:
        yield from islice(records_of(consumer, starts, ends), wanted.limit)
