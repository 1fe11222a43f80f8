"""The whole story of `flights.py` in one program: load, count, print.

    python -m examples.flights_report [--fresh] [--bootstrap-servers ADDRESS]

`scripts/flights` runs it, after making sure that everything it needs is installed. It

1. starts the development broker when none runs,
2. loads the flights, unless they are loaded,
3. runs the topology in this process until every flight is counted: what `pystreams run` does, but
   that one goes on waiting for more,
4. reads the output topics and prints what they say.

Kill it at any moment, as rudely as you like, and start it again: it goes on where the last commit
left off, and the numbers come out the same.
"""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import click
import orjson
import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from rich.columns import Columns
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn
from rich.table import Table

from examples.flights import builder, config
from examples.flights_loader import TOPICS, development_broker, live, load
from pystreams import KafkaStreams, StreamsConfig, StreamsError

APPLICATION = str(config["application.id"])
STALLED_AFTER_S = 120.0
MEMBERS_GONE_WITHIN_S = 60.0
NEARLY_ALL = 0.99
WATCH_INTERVAL_S = 0.2


class StalledError(Exception):
    """Nothing has happened for a long time."""


# --- what the application has done, seen from outside ---------------------------------------------


@contextmanager
def reader(bootstrap_servers: str, group: str = "flights-report") -> Iterator[Consumer]:
    """Read what is committed; what a crash or an abort left behind does not exist for it."""
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    try:
        yield consumer
    finally:
        consumer.close()


def partitions_of(consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Return a topic's partitions, from their beginning."""
    numbers = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    return [TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers]


def read_to_end(consumer: Consumer, partitions: list[TopicPartition]) -> Iterator[Message]:
    """Yield the records from these positions up to the present end of each partition."""
    consumer.assign(partitions)
    ended: set[tuple[str | None, int | None]] = set()
    while len(ended) < len(partitions):
        for message in consumer.consume(10_000, timeout=0.2):
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add((message.topic(), message.partition()))
            else:
                raise KafkaException(error)


def latest_values(bootstrap_servers: str, topic: str) -> dict[str, Any]:
    """Return a topic as a table: the last value of each key."""
    table = {}
    with reader(bootstrap_servers) as consumer:
        for message in read_to_end(consumer, partitions_of(consumer, topic)):
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            table[key.decode()] = orjson.loads(value)
    return table


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an application had come at one moment.

    Attributes:
        records: Records it has committed, in the input and in what travels between its tasks.
        share: Roughly how much of all the work that is, 0 to 1.
        is_complete: Whether it is all of it, and exactly so.
    """

    records: int = 0
    share: float = 0.0
    is_complete: bool = False


class Progression:
    """How far an application has come, by the offsets its consumer group has committed.

    Args:
        consumer: A reader that names the application's group.
        application: The application's id.
    """

    def __init__(self, consumer: Consumer, application: str) -> None:
        self._consumer = consumer
        self._prefix = f"{application}-"
        self._last = Progress()

    def now(self) -> Progress:
        """Return how far it is; how far it was before, while the broker can't tell."""
        # Topics that were just created are not known everywhere at once. Should the trouble last,
        # the application has it too, and says so.
        with suppress(KafkaException):
            self._last = self._look()
        return self._last

    def _look(self) -> Progress:
        flights, share_of_flights = self._of_topic("flights")
        records, shares = flights, [share_of_flights]
        for topic in self._internal_topics():
            done, share_of_topic = self._of_topic(topic)
            records += done
            # What travels between the tasks grows with the flights that were read.
            shares.append(share_of_flights * share_of_topic)
        share = sum(shares) / len(shares)
        return Progress(records, share, share > NEARLY_ALL and self.is_complete())

    def is_complete(self) -> bool:
        """Return whether no committed record is left, in the input and between the tasks.

        Offsets can't tell: behind the last record there may be marks of transactions. So it looks
        for records behind what is committed.
        """
        topics = ["flights", *self._internal_topics()]
        positions = [position for topic in topics for position in self._committed(topic)]
        return next(read_to_end(self._consumer, positions), None) is None

    def _internal_topics(self) -> list[str]:
        names = self._consumer.list_topics(timeout=30).topics
        return [
            name
            for name in names
            if name.startswith(self._prefix) and name.endswith(("-repartition", "-topic"))
        ]

    def _of_topic(self, topic: str) -> tuple[int, float]:
        done = end = 0
        for position in self._committed(topic):
            done += max(position.offset, 0)
            end += self._consumer.get_watermark_offsets(position, timeout=30)[1]
        return done, done / end if end else 0.0

    def _committed(self, topic: str) -> list[TopicPartition]:
        committed = self._consumer.committed(partitions_of(self._consumer, topic), timeout=30)
        for position in committed:
            if position.offset < 0:  # Nothing is committed yet.
                position.offset = OFFSET_BEGINNING
        return committed


# --- counting -------------------------------------------------------------------------------------


def count(bootstrap_servers: str, console: Console) -> str:
    """Run the topology until everything is counted; return a sentence about it.

    Raises:
        StreamsError: The application failed.
        StalledError: It did nothing for two minutes.
    """
    begun_s = time.monotonic()
    with reader(bootstrap_servers, APPLICATION) as consumer:
        progression = Progression(consumer, APPLICATION)
        if progression.is_complete():
            return "Every flight was counted before: nothing is left to do"
        streams = KafkaStreams(builder.build(), {**config, "bootstrap.servers": bootstrap_servers})
        streams.start()
        try:
            watch(streams, progression, console)
        finally:
            # Commits, and leaves the group.
            closed = streams.close(timeout_s=30)
    if streams.error is not None:
        raise streams.error
    if not closed:
        raise StalledError("everything is counted, but the application does not stop")
    records, transactions = streams.statistics().processed_records, streams.statistics().commits
    seconds = time.monotonic() - begun_s
    return (
        f"Counted exactly once, in {seconds:.1f} s: {records:,} records in {transactions:,} "
        "transactions\n(each flight also travels to where its carrier is, and its route)"
    )


def watch(streams: KafkaStreams, progression: Progression, console: Console) -> None:
    """Show a live line until everything is counted, or the application has stopped by itself."""
    told = TextColumn("{task.fields[told]}")
    columns = TextColumn("Counting"), BarColumn(24), TaskProgressColumn(), told
    begun_s = moved_s = time.monotonic()
    records_before, records = None, 0
    with live(console, *columns) as shown:
        bar = shown.add_task("", total=1.0, told="getting ready")
        while not streams.wait(WATCH_INTERVAL_S):
            now_s = time.monotonic()
            if now_s - moved_s > STALLED_AFTER_S:
                raise StalledError(f"nothing was counted for {STALLED_AFTER_S:.0f} s")
            progress = progression.now()
            if progress.is_complete:
                return
            if records_before is None:
                records_before = progress.records
            if progress.records - records_before == records:
                continue
            moved_s, records = now_s, progress.records - records_before
            rate = f"{records:,} records, {records / (now_s - begun_s):,.0f}/s"
            shown.update(bar, completed=progress.share, told=rate)


def forget(bootstrap_servers: str) -> None:
    """Delete the example's group, topics and state, as if it had never run.

    Raises:
        KafkaException: Somebody still runs the application.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    delete_group(admin, time.monotonic() + MEMBERS_GONE_WITHIN_S)
    mine = [
        name
        for name in admin.list_topics(timeout=30).topics
        if name in TOPICS or name.startswith(f"{APPLICATION}-")
    ]
    for deleted in admin.delete_topics(mine).values() if mine else ():
        deleted.result(timeout=30)
    settings = StreamsConfig.of({**config, "bootstrap.servers": bootstrap_servers})
    shutil.rmtree(settings.state_dir / APPLICATION, ignore_errors=True)


# A group whose member was killed has that as a member for some seconds more, and a broker that has
# just started does not know its groups yet.
NOT_YET = {
    KafkaError.NON_EMPTY_GROUP,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
}


def delete_group(admin: AdminClient, deadline_s: float) -> None:
    """Delete the group, as soon as the broker lets us."""
    while True:
        error = admin.delete_consumer_groups([APPLICATION])[APPLICATION].exception(timeout=30)
        if error is None or error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return
        if error.args[0].code() not in NOT_YET or time.monotonic() > deadline_s:
            raise error
        time.sleep(0.5)


# --- telling --------------------------------------------------------------------------------------


def carriers_table(carriers: dict[str, Any], period: str) -> Table:
    table = Table(title=f"Departures from New York {period}", title_justify="left")
    table.add_column("Carrier")
    table.add_column("Airline")
    table.add_column("Departures", justify="right")
    table.add_column("Mean delay (min)", justify="right")
    for code, told in sorted(carriers.items(), key=lambda row: -row[1]["departures"]):
        delay = f"{told['mean_delay']:.2f}"
        table.add_row(code, told["airline"], f"{told['departures']:,}", delay)
    table.add_section()
    departures = sum(told["departures"] for told in carriers.values())
    delay = sum(told["departures"] * told["mean_delay"] for told in carriers.values())
    table.add_row("", "All", f"{departures:,}", f"{delay / departures:.2f}")
    return table


def top_table(title: str, column: str, counts: dict[str, int]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(column)
    table.add_column("Departures", justify="right")
    # Those with equal counts by name, so that two runs print the same.
    for name, number in sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:10]:
        table.add_row(name, f"{number:,}")
    return table


def report(bootstrap_servers: str, console: Console, period: str = "in 2013") -> None:
    """Print what the output topics say."""
    routes = latest_values(bootstrap_servers, "flights-by-route")
    aircraft = latest_values(bootstrap_servers, "flights-by-aircraft")
    console.print()
    carriers = latest_values(bootstrap_servers, "flights-by-carrier")
    console.print(carriers_table(carriers, period))
    tables = (
        top_table(f"Top 10 of {len(routes):,} routes", "Route", routes),
        top_table(f"Top 10 of {len(aircraft):,} aircraft", "Tail number", aircraft),
    )
    console.print(Columns(tables, padding=(0, 4)))


NEXT = """
What now? (pystreams is .venv/bin/pystreams)
  less examples/flights.py                 the topology that did this
  pystreams describe examples/flights.py   what the runtime makes of it
  scripts/flights                          again: nothing is counted twice
  scripts/flights --fresh                  from zero: kill -9 it, start it again
  less docs/getting-started.md             write your own, in ten minutes
  pystreams broker stop                    Kafka runs on until then
"""


@click.command()
@click.option("--bootstrap-servers", metavar="ADDRESS", help="Kafka; else the development broker.")
@click.option("--fresh", is_flag=True, help="Forget what was loaded and counted, and begin anew.")
def main(bootstrap_servers: str | None, fresh: bool) -> None:
    """Load the flights of 2013 into Kafka, count them exactly once, print the result."""
    # The runtime tells in its log what it does; here the live line is enough, but for warnings.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    console = Console(highlight=False)
    try:
        with console.status("Looking for a broker"):
            broker = bootstrap_servers or development_broker()
            require_broker(broker)
        console.print(f"Kafka is at {broker}")
        if fresh:
            with console.status("Forgetting what was loaded and counted"):
                forget(broker)
        console.print(str(load(broker, console)))
        console.print(count(broker, console))
        report(broker, console)
        console.print(NEXT)
    except KafkaException as error:
        fail(f"Kafka: {error.args[0].str()}")
    except (StreamsError, StalledError, OSError) as error:
        fail(str(error) or type(error).__name__)


def require_broker(bootstrap_servers: str) -> None:
    """Find out early whether there is a broker.

    Raises:
        StalledError: Nobody answers.
    """
    try:
        # The client would tell each attempt that fails.
        AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0}).list_topics(
            timeout=10
        )
    except KafkaException as error:
        raise StalledError(f"no broker answers at {bootstrap_servers}") from error


def fail(reason: str) -> NoReturn:
    """Say why, and end the program."""
    click.echo(f"flights: {reason}", err=True)
    sys.exit(1)


if __name__ == "__main__":
    main()
