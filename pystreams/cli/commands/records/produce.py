"""`pystreams produce`: write records into a topic of a topology, with its serdes."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

import click

from pystreams.cli.application.configuration import load_application
from pystreams.cli.display.logs import configure_logging
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.options.groups import ApplicationOptions, application_options, topology_argument
from pystreams.errors import StreamsError
from pystreams.kernel.clock import SystemClock
from pystreams.kernel.rate import counted

if TYPE_CHECKING:
    from pystreams.cli.application.record_partitions import RecordPartitions
    from pystreams.cli.application.topic_serdes import TopicSerdes, TopologyTopic
    from pystreams.config import StreamsConfig
    from pystreams.record import OutputBuffer, ProducedRecord
    from pystreams.runtime.ports import ProducerPort
    from pystreams.topology.graph.topology import Topology
    from pystreams.topology.plan.topology_plan import TopologyPlan

    _Numbered = tuple[int, ProducedRecord]
    _Placed = tuple[ProducedRecord, Sequence[int | None]]

_BATCH_RECORDS = 10_000
_IN_FLIGHT = "producer.max.in.flight.requests.per.connection"
"""With more than one, a batch may be lost that nobody could send again: the topic may be new.

Source: `pystreams.runtime.adapters.producing.implicit_acknowledgements`.
"""


@click.command()
@topology_argument
@click.argument("topic")
@click.option(
    "--from-file",
    "file",
    type=click.File("rb"),
    default="-",
    metavar="PATH",
    help="A file of lines; standard input if not given.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help='Each line is {"key": ..., "value": ...}, with "timestamp" (ms) and "headers" if wanted: '
    "what `pystreams consume --json` prints.",
)
@application_options
def produce(topic: str, *, file: BinaryIO, as_json: bool, application: ApplicationOptions) -> None:
    """Write records into TOPIC of a topology, with the serdes that it reads or writes it with.

    A line is a record: its key, a tab, its value; or only its value, and the key is null. Values of
    classes and of JSON are JSON, numbers are numbers. With --json each line is a whole record, and
    a "value" of null is a tombstone, but with "value_base64", which has bytes that are read as null
    or as what JSON can't say (so has "key_base64"). Empty lines are passed over, and so is a byte
    order mark at the beginning. Headers are [["name", "text"]] or {"name": "text"}; bytes that are
    no text are {"base64": "..."}, the key of a window is
    {"key": ..., "window": {"start": ms, "end": ms}}. The partition is that which the topology's
    sink chooses: by its partitioner, or the key's, of a windowed key that of the key inside.

    With --dev topics that are missing are created, as `pystreams run --dev` does.

    \b
    Exit codes:
      0    all records are written
      1    a line does not fit, or failed; the message says which. Those before it are written
      2    wrong usage, configuration or topology; the topology has no such topic
      3    no broker answers
      70   a bug in pystreams
      130  stopped by Ctrl-C

    \b
    Examples:
      pystreams produce topology.py lines --dev --from-file lines.txt
      printf 'alice\\t{"total": 3}\\n' | pystreams produce orders.py orders --dev
      pystreams consume a.py orders --json | pystreams produce b.py orders --json
    """
    configure_logging("warning", "auto")
    with streams_errors_as_exit_codes():
        from pystreams.cli.application.record_partitions import partitions_of_records

        loaded, config = load_application(application)
        plan, found = _checked(loaded.topology, config, topic, dev=application.dev)
        choose = partitions_of_records(plan, config, found)
        lines = _typed_lines(file) if file.isatty() else file
        placed = _placed(_records(lines, topic, found.serdes, as_json=as_json), choose)
        count, dropped = _write(config, topic, placed, file)
    click.echo(f"Wrote {counted(count, 'record')} to {topic}", err=True)
    if dropped:
        what = f"Dropped {counted(dropped, 'record')}, for which the sink's partitioner chose"
        click.echo(f"{what} no partition", err=True)


def _checked(
    topology: Topology, config: StreamsConfig, topic: str, *, dev: bool
) -> tuple[TopologyPlan, TopologyTopic]:
    """Return what is known of a topic that exists; with `--dev` it is made to."""
    from pystreams.cli.application.development_broker import create_missing_topics
    from pystreams.cli.application.topic_serdes import checked_topic
    from pystreams.topology.plan.topology_plan import TopologyPlan

    plan = TopologyPlan(topology, config.application_id)
    if dev:
        for created in create_missing_topics(topology, config):
            count = created.num_partitions
            click.echo(f"Created topic {created.name} (partitions: {count})", err=True)
    return plan, checked_topic(plan, config, topic)


def _typed_lines(file: BinaryIO) -> Iterator[bytes]:
    click.echo("One record a line: KEY<tab>VALUE, or VALUE. Ctrl-D ends it.", err=True)
    yield from file


def _records(
    lines: Iterable[bytes], topic: str, serdes: TopicSerdes, *, as_json: bool
) -> Iterator[_Numbered]:
    """Give each line as a record, with its number.

    Raises:
        StreamsError: A line does not fit; names it.
    """
    from pystreams.cli.application.json_lines import record_of

    clock = SystemClock()
    made = record_of if as_json else _record_of_text
    for number, line in enumerate(lines, 1):
        with _naming(number):
            marked = number == 1 and line.startswith(codecs.BOM_UTF8)
            text = _text_of(line, len(codecs.BOM_UTF8) if marked else 0).rstrip("\r\n")
            record = made(text, topic, serdes, clock.now_ms()) if text else None
        if record is not None:
            yield number, record


def _placed(records: Iterator[_Numbered], choose: RecordPartitions) -> Iterator[_Placed]:
    """Give each record with its partitions; raises as `_records`."""
    for number, record in records:
        with _naming(number):
            partitions = choose(record)
        yield record, partitions


@contextmanager
def _naming(number: int) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise StreamsError(f"line {number} of the input: {error}") from None


def _text_of(line: bytes, begin: int) -> str:
    try:
        return line[begin:].decode()
    except UnicodeDecodeError as error:
        position = begin + error.start + 1
        byte = line[position - 1]
        what = f"it is not UTF-8 text (byte 0x{byte:02x} at position {position})"
        raise ValueError(what) from None


def _record_of_text(text: str, topic: str, serdes: TopicSerdes, time_ms: int) -> ProducedRecord:
    from pystreams.readable_values import bytes_of_text

    key, tab, value = text.partition("\t")
    if not tab:
        return None, bytes_of_text(key, serdes.value, topic), time_ms, ()
    return (
        bytes_of_text(key, serdes.key, topic),
        bytes_of_text(value, serdes.value, topic),
        time_ms,
        (),
    )


def _write(
    config: StreamsConfig, topic: str, placed: Iterator[_Placed], source: BinaryIO
) -> tuple[int, int]:
    """Write the records; return how many, and how many go to no partition.

    Those before one that fails are written, too.
    """
    from pystreams.record import OutputBuffer
    from pystreams.runtime.adapters.client_factory import ConfluentClients

    clients = ConfluentClients(replace(config, overrides={_IN_FLIGHT: 1, **config.overrides}))
    client_id = f"{config.application_id}-produce"
    buffers: dict[int | None, OutputBuffer] = {}
    # What somebody types is written line by line.
    most = 1 if source.isatty() else _BATCH_RECORDS
    count = dropped = 0
    with closing(clients.producer(client_id, None, [topic])) as producer:
        try:
            for record, partitions in placed:
                for partition in partitions:
                    if partition not in buffers:
                        buffers[partition] = OutputBuffer(topic, partition)
                    buffers[partition].records.append(record)
                count += bool(partitions)
                dropped += not partitions
                if (count + dropped) % most == 0:
                    _send(producer, buffers)
                    if most == 1:
                        producer.flush()
        finally:
            _send(producer, buffers)
            producer.flush()
    return count, dropped


def _send(producer: ProducerPort, buffers: Mapping[int | None, OutputBuffer]) -> None:
    for buffer in buffers.values():
        producer.send(buffer)
