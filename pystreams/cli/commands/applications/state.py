"""`pystreams state`: what lies in a state directory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pystreams.cli.application.configuration import local_configuration
from pystreams.cli.application.topology_loader import load_topology
from pystreams.cli.display.logs import configure_logging
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.exit_codes import ExitCode
from pystreams.cli.options.groups import ApplicationOptions, config_file_option, grouped
from pystreams.errors import StateStoreCorruptedError, StateStoreError

if TYPE_CHECKING:
    from pystreams.runtime.maintenance.state_reading import StateReader, StoredEntry, StoreOnDisk

_directory = click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
_DAMAGE_CURE = (
    "The application rebuilds a damaged store from its changelog when it meets the damage; at one "
    "without a changelog it stops: delete that one's directory, it is then empty. A global store "
    "is read anew from its topic"
)


@click.group()
def state() -> None:
    """Look into a state directory: no broker, no Spark, and nothing in it is changed.

    DIRECTORY is a state.dir, the directory of one application in it, or that of one task. The
    application may run: what is shown is then as of the last flush of each store, which may be some
    time ago. What lies in its memory until then is asked for with `KafkaStreams.store`.

    \b
    Exit codes:
      0    done
      1    there are no stores, or one can't be read or is damaged
      2    wrong usage, configuration or topology
      70   a bug in pystreams
    """


@state.command(name="list")
@_directory
@click.pass_context
def list_stores(ctx: click.Context, *, directory: Path) -> None:
    """List the stores: their tasks, size, and up to where they hold their changelogs.

    \b
    Example:
      pystreams state list /var/lib/pystreams
    """
    from pystreams.cli.display.tables import show_table
    from pystreams.runtime.maintenance.state_reading import stores_in

    configure_logging("warning", "auto")
    unreadable = _Unreadable()
    rows = []
    with _errors_told():
        for store in stores_in(directory):
            size = f"{store.size_bytes / 1024:,.0f} KiB"
            try:
                held = _held_by(store)
            except StateStoreError as error:
                held = (unreadable.add(store, error), "-")
            rows.append((store.application, store.name, store.task_id.logged, size, *held))
    columns = ("application", "store", "task", "size", "changelog offset", "input")
    show_table(columns, rows, right=("size", "changelog offset"))
    for line in unreadable.lines:
        click.echo(line, err=True)
    unreadable.end(ctx)


def _held_by(store: StoreOnDisk) -> tuple[str, str]:
    """Return up to where a store holds its changelogs, and its input."""
    offsets = ", ".join(f"{offset:,}" for offset in store.changelog_offsets().values())
    position = store.position().offsets.items()
    return offsets or "-", ", ".join(f"{at}: {offset:,}" for at, offset in position) or "-"


@state.command()
@_directory
@click.pass_context
def verify(ctx: click.Context, *, directory: Path) -> None:
    """Read all files of all stores, and check their checksums.

    \b
    Example:
      pystreams state verify /var/lib/pystreams/orders
    """
    from pystreams.runtime.maintenance.state_reading import stores_in
    from pystreams.stores.engines.rocksdb.inspection import verified

    configure_logging("warning", "auto")
    unreadable = _Unreadable()
    with _errors_told():
        for store in stores_in(directory):
            try:
                counts = verified(store.name, store.directory)
            except StateStoreError as error:
                unreadable.add(store, error)
                click.echo(unreadable.lines[-1])
                continue
            entries = sum(count for family, count in counts.items() if family != "offsets")
            click.echo(f"{_told(store)}: whole, {entries:,} stored entries")
    unreadable.end(ctx)


class _Unreadable:
    """The stores of a directory that are damaged, or can't be read.

    Attributes:
        lines: What is to be told of each.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._damaged = 0

    def add(self, store: StoreOnDisk, error: StateStoreError) -> str:
        """Add a store; return what it is in a word."""
        if isinstance(error, StateStoreCorruptedError):
            self._damaged += 1
            self.lines.append(f"{_told(store)}: DAMAGED: {error}")
            return "damaged"
        self.lines.append(f"{_told(store)}: NOT READ: {error}")
        return "not read"

    def end(self, ctx: click.Context) -> None:
        """End the command if there are any, with what becomes of them."""
        unread = len(self.lines) - self._damaged
        if self._damaged:
            click.echo(f"{self._damaged} damaged. {_DAMAGE_CURE}", err=True)
        if unread:
            click.echo(f"{unread} could not be read: whether they are whole is not known", err=True)
        if self.lines:
            ctx.exit(ExitCode.FAILED)


def _told(store: StoreOnDisk) -> str:
    return f"{store.application} {store.name} {store.task_id.logged}"


@contextmanager
def _errors_told() -> Iterator[None]:
    """End the command when an error comes by; of damage it says what becomes of it."""
    with streams_errors_as_exit_codes():
        try:
            yield
        except StateStoreCorruptedError as error:
            raise error.with_cure(_DAMAGE_CURE) from error


@dataclass(frozen=True, slots=True)
class _Reading:
    """With which topology a store is read, and how it is shown."""

    topology: str
    config_file: Path | None
    as_json: bool
    limit: int | None


_reading = grouped(
    "reading",
    _Reading,
    click.option(
        "--topology",
        required=True,
        metavar="FILE|MODULE:ATTRIBUTE",
        help="The topology the store is of: it knows serdes and kind.",
    ),
    config_file_option,
    click.option("--json", "as_json", is_flag=True, help="Print each entry as a JSON object."),
    click.option("--limit", type=click.IntRange(1), metavar="N", help="End after N entries."),
)


@state.command()
@_directory
@click.argument("store")
@click.argument("key")
@_reading
@click.pass_context
def get(ctx: click.Context, *, directory: Path, store: str, key: str, reading: _Reading) -> None:
    """Print what STORE has of KEY: its value, windows, sessions or versions.

    KEY is written as `pystreams produce` takes it. The exit code is 1 where there is nothing. It
    reads the whole store.

    \b
    Example:
      pystreams state get /var/lib/pystreams word-counts sea --topology topology.py
    """
    from pystreams.readable_values import bytes_of_text

    configure_logging("warning", "auto")
    with _errors_told():
        reader = _reader(directory, store, reading)
        if reader.key_serde is None:
            raise click.UsageError(f"store {store!r} has no keys of yours: use `state scan`")
        try:
            wanted = bytes_of_text(key, reader.key_serde, store)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        if not _show(reader.entries(wanted), reading):
            click.echo(f"store {store!r} has nothing of {key!r}", err=True)
            ctx.exit(ExitCode.FAILED)


@state.command()
@_directory
@click.argument("store")
@_reading
def scan(*, directory: Path, store: str, reading: _Reading) -> None:
    """Print all entries of STORE, task by task: key, times of its window, value.

    \b
    Examples:
      pystreams state scan /var/lib/pystreams word-counts --topology topology.py
      pystreams state scan ./state/shop/0_1 totals --topology shop.py --json --limit 100
    """
    configure_logging("warning", "auto")
    with _errors_told():
        _show(_reader(directory, store, reading).entries(), reading)


def _reader(directory: Path, store: str, reading: _Reading) -> StateReader:
    """Return what reads a store.

    Raises:
        UsageError: The directory has several applications.
    """
    from pystreams.runtime.maintenance.state_reading import StateReader, stores_in
    from pystreams.topology.plan.topology_plan import TopologyPlan

    stores = stores_in(directory)
    applications = sorted({found.application for found in stores})
    if len(applications) > 1:
        raise click.UsageError(
            f"{directory} has several applications ({', '.join(applications)}): name the directory "
            f"of one, as {directory / applications[0]}"
        )
    options = ApplicationOptions(topology=reading.topology, config_file=reading.config_file)
    loaded = load_topology(reading.topology)
    config = local_configuration(options, loaded, applications[0])
    return StateReader(TopologyPlan(loaded.topology, applications[0]), config, stores, store)


def _show(entries: Iterable[StoredEntry], reading: _Reading) -> int:
    """Print entries; return how many."""
    from pystreams.readable_values import json_of_value, text_of_value

    count = 0
    for entry in itertools.islice(entries, reading.limit):
        count += 1
        if reading.as_json:
            told = {"task": entry.task_id.logged, "key": entry.key, **entry.times}
            told |= {"value": entry.value, "timestamp": entry.timestamp}
            click.echo(json_of_value(told))
        else:
            click.echo(
                "\t".join(map(text_of_value, (entry.key, *entry.times.values(), entry.value)))
            )
    return count
