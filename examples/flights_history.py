"""Three years of flights out of an archive, then January of the fourth, live.

    python -m examples.flights_history [--weeks N] [--keep DIRECTORY]

`scripts/flights-history` runs it, after making sure that everything it needs is installed, Spark
included. The flights of 2013 are taken four times: as they were, and one, two and three years
later. It

1. starts a Kafka of its own, which is gone at the end, and loads three years of flights,
2. writes what the topics hold as Parquet, as a connector would have done all the while, and lets
   Kafka forget these flights, as retention would,
3. runs `pystreams backfill examples/flights.py --from parquet:...`, which counts them on Spark,
   and publishes counts and state,
4. loads January of the fourth year, and runs `pystreams run examples/flights.py` until it is
   counted, on top of the three years,
5. reads the output topics, prints what they say, and compares every number with what pandas finds
   in the same flights.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import orjson
import pandas as pd
import pyarrow as pa
from confluent_kafka import KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from pyarrow import parquet
from rich.console import Console
from rich.table import Table

from examples.flights_loader import (
    Row,
    airline_rows,
    create_topics,
    flight_rows,
    produce,
    read_frame,
    scheduled_departure_ms,
)
from examples.flights_report import (
    APPLICATION,
    STALLED_AFTER_S,
    WATCH_INTERVAL_S,
    Progression,
    StalledError,
    fail,
    latest_values,
    partitions_of,
    read_to_end,
    reader,
    report,
)
from pystreams import StreamsError
from pystreams.broker import DevelopmentBroker

TOPOLOGY = str(Path(__file__).with_name("flights.py"))
YEARS = 3
"""Of history."""

WEEK_MS = 7 * 24 * 3600 * 1000
STOPPED_WITHIN_S = 60.0
ROW_GROUP = 50_000

ARCHIVE = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
"""The columns that a backfill asks for, but for `headers`, of which flights have none."""


# --- the flights ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Flights:
    """All flights of the story.

    Attributes:
        history: Those that the archive is to hold, a frame a year.
        live: Those that come afterwards.
    """

    history: list[pd.DataFrame]
    live: pd.DataFrame

    @classmethod
    def read(cls, weeks: int | None = None) -> Flights:
        """Return the flights; of the first weeks of each year only, if `weeks` says so."""
        year = read_frame("flights")
        if weeks is not None:
            times = scheduled_departure_ms(year)
            year = year[times < times.min() + weeks * WEEK_MS]
        january = year[year["month"] == 1]
        return cls([later(year, number) for number in range(YEARS)], later(january, YEARS))

    def together(self) -> pd.DataFrame:
        """Return all of them in one frame."""
        return pd.concat([*self.history, self.live], ignore_index=True)

    def history_rows(self) -> Iterator[Row]:
        """Yield the airlines, then the flights of each year, as records."""
        for number, year in enumerate(self.history):
            rows = flight_rows(year)
            if number == 0:
                yield from airline_rows(rows[0].timestamp_ms - 1)
            yield from rows


def later(flights: pd.DataFrame, years: int) -> pd.DataFrame:
    """Return flights as many years later, on the same days of the calendar at the same hours."""
    hour = flights["time_hour"]
    moved = (hour.str[:4].astype(int) + years).astype(str) + hour.str[4:]
    return flights.assign(year=flights["year"] + years, time_hour=moved)


# --- the archive ----------------------------------------------------------------------------------


def write_archive(bootstrap_servers: str, topic: str, file: Path) -> dict[int, int]:
    """Write what a topic holds as Parquet; return the offset behind the last record, by partition.

    Partitions, offsets and timestamps are Kafka's own: the live application goes on by them.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    ends: dict[int, int] = {}
    with reader(bootstrap_servers) as consumer, parquet.ParquetWriter(file, ARCHIVE) as writer:
        messages = read_to_end(consumer, partitions_of(consumer, topic))
        while rows := [archived(message) for message in islice(messages, ROW_GROUP)]:
            ends |= {partition: offset + 1 for _, partition, offset, *_ in rows}
            columns = zip(zip(*rows, strict=True), ARCHIVE, strict=True)
            arrays = [pa.array(column, field.type) for column, field in columns]
            writer.write_table(pa.Table.from_arrays(arrays, schema=ARCHIVE))
    return ends


def archived(message: Message) -> tuple[Any, ...]:
    """Return a record as a row of the archive."""
    return (
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
    )


def forget_flights(bootstrap_servers: str, ends: Mapping[int, int]) -> None:
    """Delete the flights that are archived, as retention by time would have done.

    The airlines stay: they are a table, whose topic is compacted.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 3})
    archived_up_to = [TopicPartition("flights", *end) for end in ends.items()]
    for deleted in admin.delete_records(archived_up_to).values():
        deleted.result(timeout=30)


# --- counting -------------------------------------------------------------------------------------


def backfill_arguments(
    bootstrap_servers: str, directory: Path, topology: str = TOPOLOGY
) -> list[str]:
    """Return what `pystreams` is told to count the archive."""
    return [
        *("backfill", topology),
        *("--from", f"parquet:{directory / 'archive'}"),
        *("--output", str(directory / "staged")),
        "--publish-outputs",
        *("-c", f"bootstrap.servers={bootstrap_servers}"),
    ]


def run_arguments(bootstrap_servers: str, directory: Path, topology: str = TOPOLOGY) -> list[str]:
    """Return what `pystreams` is told to go on from there."""
    return [
        *("run", topology),
        *("-c", f"bootstrap.servers={bootstrap_servers}"),
        *("-c", f"state.dir={directory / 'state'}"),
    ]


def backfill(bootstrap_servers: str, directory: Path) -> None:
    """Run the backfill to its end.

    Raises:
        StalledError: It failed; its own words are above.
    """
    command = [sys.executable, "-m", "pystreams", *backfill_arguments(bootstrap_servers, directory)]
    code = subprocess.run(command, check=False).returncode
    if code != 0:
        raise StalledError(f"pystreams backfill ended with exit code {code}")


def run_live(
    bootstrap_servers: str,
    directory: Path,
    topology: str = TOPOLOGY,
    application: str = APPLICATION,
) -> None:
    """Run an application until all that is in its topics is counted, then stop it.

    Raises:
        StalledError: It ended before, did nothing for two minutes, or did not stop in order.
    """
    log = directory / "run.log"
    arguments = run_arguments(bootstrap_servers, directory, topology)
    command = [sys.executable, "-m", "pystreams", *arguments]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        with reader(bootstrap_servers, application) as consumer:
            wait_until_counted(process, Progression(consumer, application), log)
        process.terminate()
        if process.wait(timeout=STOPPED_WITHIN_S) != 0:
            raise StalledError(f"the application did not stop in order:\n{log.read_text()}")
    finally:
        process.kill()
        process.wait()


def wait_until_counted(
    process: subprocess.Popen[bytes], progression: Progression, log: Path
) -> None:
    """Wait for the moment when all is committed."""
    records, moved_s = -1, time.monotonic()
    while not (progress := progression.now()).is_complete:
        if process.poll() is not None:
            raise StalledError(f"the application ended by itself:\n{log.read_text()}")
        if progress.records != records:
            records, moved_s = progress.records, time.monotonic()
        elif time.monotonic() - moved_s > STALLED_AFTER_S:
            raise StalledError(f"nothing was counted for {STALLED_AFTER_S:.0f} s")
        time.sleep(WATCH_INTERVAL_S)


# --- comparing ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of some flights.

    Attributes:
        carriers: Airline, departures and mean delay (minutes) of each carrier.
        routes: Departures of each route.
        aircraft: Departures of each aircraft.
    """

    carriers: dict[str, dict[str, Any]]
    routes: dict[str, int]
    aircraft: dict[str, int]

    @classmethod
    def of_pandas(cls, flights: pd.DataFrame) -> Figures:
        """Return what pandas finds."""
        departures = flights[flights["dep_time"].notna()]
        names = read_frame("airlines").set_index("carrier")["name"]
        delays = departures.groupby("carrier")["dep_delay"].agg(["size", "sum"])
        carriers = {
            carrier: {
                "airline": names[carrier],
                "departures": size,
                "mean_delay": int(delay) / size,
            }
            for carrier, size, delay in delays.itertuples()
        }
        routes = (departures["origin"] + "-" + departures["dest"]).value_counts().to_dict()
        return cls(carriers, routes, departures["tailnum"].value_counts().to_dict())

    @classmethod
    def of_topics(cls, bootstrap_servers: str) -> Figures:
        """Return what the output topics say."""
        return cls(
            latest_values(bootstrap_servers, "flights-by-carrier"),
            latest_values(bootstrap_servers, "flights-by-route"),
            {key: counts[-1] for key, counts in running_counts(bootstrap_servers).items()},
        )


def running_counts(bootstrap_servers: str) -> dict[str, list[int]]:
    """Return all that was told of each aircraft, in order; 1, 2, 3 and so on if all is well."""
    counts: dict[str, list[int]] = {}
    with reader(bootstrap_servers) as consumer:
        for message in read_to_end(consumer, partitions_of(consumer, "flights-by-aircraft")):
            key, value = message.key() or b"", message.value() or b"null"
            counts.setdefault(key.decode(), []).append(orjson.loads(value))
    return counts


def differences(bootstrap_servers: str, flights: pd.DataFrame) -> list[str]:
    """Return a sentence for each kind of figure that is not what pandas finds."""
    found, expected = Figures.of_topics(bootstrap_servers), Figures.of_pandas(flights)
    wrong = [
        f"{kind}: {len(wrong_keys)} of {len(there)}, such as {min(wrong_keys)!r}"
        for kind, here, there in (
            ("carriers", found.carriers, expected.carriers),
            ("routes", found.routes, expected.routes),
            ("aircraft", found.aircraft, expected.aircraft),
        )
        if (wrong_keys := {key for key in here | there if here.get(key) != there.get(key)})
    ]
    wrong += [
        f"the counts of aircraft {key!r} have a gap or a repeat"
        for key, counts in running_counts(bootstrap_servers).items()
        if counts != list(range(1, len(counts) + 1))
    ]
    return wrong


# --- the whole story ------------------------------------------------------------------------------


class Phases:
    """What takes how long.

    Args:
        console: Where it is told.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the block."""
        self._console.print(f"[bold]{name}[/bold]")
        begun_s = time.monotonic()
        yield
        self._seconds[name] = time.monotonic() - begun_s

    def table(self) -> Table:
        """Return how long each took."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("phase")
        table.add_column("seconds", justify="right")
        for name, seconds in self._seconds.items():
            table.add_row(name, f"{seconds:.1f}")
        return table


def play(flights: Flights, directory: Path, console: Console) -> list[str]:
    """Do all of it with a Kafka of its own; return what differs from pandas."""
    phases = Phases(console)
    with phases.phase("Kafka starts"):
        broker = DevelopmentBroker.start(directory / "broker")
    servers = broker.bootstrap_servers
    try:
        with phases.phase("Three years of flights are loaded"):
            create_topics(servers)
            load(servers, flights.history_rows())
        with phases.phase("They are archived, and Kafka forgets them"):
            write_archive(servers, "airlines", directory / "archive" / "airlines.parquet")
            ends = write_archive(servers, "flights", directory / "archive" / "flights.parquet")
            forget_flights(servers, ends)
        with phases.phase("pystreams backfill counts the archive"):
            backfill(servers, directory)
        with phases.phase("January of the fourth year is loaded"):
            load(servers, flight_rows(flights.live))
        with phases.phase("pystreams run counts it"):
            run_live(servers, directory)
        report(servers, console, "in three years and a month")
        with phases.phase("pandas counts the same flights"):
            wrong = differences(servers, flights.together())
    finally:
        broker.stop()
    console.print(phases.table())
    return wrong


def load(bootstrap_servers: str, rows: Iterator[Row] | list[Row]) -> int:
    """Write records in one transaction; return how many they are."""
    number = 0
    for number in produce(bootstrap_servers, rows):  # noqa: B007
        pass
    return number


@click.command()
@click.option(
    "--weeks",
    type=click.IntRange(1, 53),
    help="Take the first weeks of each year only, for a quick look.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    help="Keep archive, results, state and logs in a new directory.",
)
def main(weeks: int | None, keep: Path | None) -> None:
    """Backfill three years of flights from an archive, go on live, and compare with pandas."""
    if keep is not None and keep.exists():
        raise click.UsageError(f"{keep} is there already: name a directory that is not")
    # Kafka runs in a process of its own, which is to end with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    console = Console(highlight=False)
    kept: AbstractContextManager[str] = (
        nullcontext(str(keep))
        if keep is not None
        else TemporaryDirectory(prefix="flights-history-", ignore_cleanup_errors=True)
    )
    with kept as directory:
        try:
            wrong = play(Flights.read(weeks), Path(directory).absolute(), console)
        except KafkaException as error:
            fail(f"Kafka: {error.args[0].str()}")
        except (StreamsError, StalledError, OSError) as error:
            fail(str(error) or type(error).__name__)
    if wrong:
        fail("pandas finds other figures:\n" + "\n".join(wrong))
    console.print("Every figure is what pandas finds in the same flights")


if __name__ == "__main__":
    main()
