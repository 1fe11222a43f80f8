"""`pystreams state`: what lies in a state directory."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from pystreams.cli.application.configuration import local_configuration
from pystreams.cli.application.topology_loader import load_topology
from pystreams.cli.display.logs import configure_logging
from pystreams.cli.display.own_output import own_output
from pystreams.cli.display.times import told_time
from pystreams.cli.errors import streams_errors_as_exit_codes
from pystreams.cli.exit_codes import ExitCode
from pystreams.cli.options.groups import ApplicationOptions, configuration_options, grouped
from pystreams.cli.options.negative_numbers import CommandOfKeys
from pystreams.cli.plain_text import in_one_line
from pystreams.errors import StateStoreCorruptedError, StateStoreError

if TYPE_CHECKING:
    from pystreams.ids import TopicPartition
    from pystreams.runtime.maintenance.state_reading import (
        StateReader,
        StoredEntry,
        StoreOnDisk,
        UnreadEntry,
    )

_directory = click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
_stores_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print each store as a JSON object."
)
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
      1    there are no stores, or something can't be read or is damaged
      2    wrong usage, configuration or topology
      4    get: the store has nothing of the key, or has it no more
      70   a bug in pystreams
    """


@state.command(name="list")
@_directory
@_stores_as_json
@click.pass_context
def list_stores(ctx: click.Context, *, directory: Path, as_json: bool) -> None:
    """List the stores: their tasks, size, and up to where they hold their changelogs.

    As JSON "state" is read, damaged or not read; "position" is the input that it reflects.

    \b
    Examples:
      pystreams state list /var/lib/pystreams
      pystreams state list /var/lib/pystreams/orders --json
    """
    from pystreams.cli.display.tables import show_table
    from pystreams.runtime.maintenance.state_reading import stores_in

    configure_logging("warning", "auto")
    unreadable = _Unreadable()
    rows = []
    with _errors_told():
        for store in stores_in(directory):
            size = f"{store.size_bytes / 1024:,.0f} KiB"
            plain: dict[str, Any] = {"state": "read", "size_bytes": store.size_bytes}
            try:
                offsets, position = store.changelog_offsets(), store.position().offsets
            except StateStoreError as error:
                held = (unreadable.add(store, error), "-")
                plain |= {"state": held[0], "error": str(error)}
            else:
                held = _told_offsets(offsets, position)
                reflected = {str(at): offset for at, offset in position.items()}
                plain |= {"changelog_offsets": offsets, "position": reflected}
            if as_json:
                click.echo(_json_of(store, plain))
            rows.append((store.application, store.name, store.task_id.logged, size, *held))
    if not as_json:
        columns = ("application", "store", "task", "size", "changelog offset", "input")
        show_table(columns, rows, right=("size", "changelog offset"))
    for line in unreadable.lines:
        click.echo(line, err=True)
    unreadable.end(ctx)


def _told_offsets(
    offsets: Mapping[str, int], position: Mapping[TopicPartition, int]
) -> tuple[str, str]:
    """Return up to where a store holds its changelogs, and its input."""
    held = ", ".join(f"{offset:,}" for offset in offsets.values())
    reflected = ", ".join(f"{at}: {offset:,}" for at, offset in position.items())
    return held or "-", reflected or "-"


def _json_of(store: StoreOnDisk, plain: Mapping[str, Any]) -> str:
    task = store.task_id.logged
    return json.dumps(
        {"application": store.application, "store": store.name, "task": task, **plain}
    )


@state.command()
@_directory
@_stores_as_json
@click.pass_context
def verify(ctx: click.Context, *, directory: Path, as_json: bool) -> None:
    """Read all files of all stores, and check their checksums.

    As JSON "state" is whole, damaged or not read.

    \b
    Examples:
      pystreams state verify /var/lib/pystreams/orders
      pystreams state verify /var/lib/pystreams/orders --json
    """
    from pystreams.runtime.maintenance.state_reading import stores_in
    from pystreams.stores.engines.rocksdb.inspection import verified

    configure_logging("warning", "auto")
    unreadable = _Unreadable()
    plain: dict[str, Any]
    with _errors_told():
        for store in stores_in(directory):
            try:
                counts = verified(store.name, store.directory)
            except StateStoreError as error:
                plain = {"state": unreadable.add(store, error), "error": str(error)}
                line = unreadable.lines[-1]
            else:
                entries = sum(count for family, count in counts.items() if family != "offsets")
                plain = {"state": "whole", "entries": entries}
                line = f"{_told(store)}: whole, {entries:,} stored entries"
            click.echo(_json_of(store, plain) if as_json else line)
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
class _Shown:
    """How entries are shown, and how many at most."""

    as_json: bool
    limit: int | None


_shown = grouped(
    "shown",
    _Shown,
    click.option("--json", "as_json", is_flag=True, help="Print each entry as a JSON object."),
    click.option("--limit", type=click.IntRange(1), metavar="N", help="End after N entries."),
)
_topology = click.option(
    "--topology",
    required=True,
    metavar="FILE|MODULE:ATTRIBUTE",
    help="The topology the store is of: it knows serdes and kind.",
)


@state.command(cls=CommandOfKeys)
@_directory
@click.argument("store")
@click.argument("key")
@_shown
@_topology
@configuration_options
@click.pass_context
def get(
    ctx: click.Context,
    *,
    directory: Path,
    store: str,
    key: str,
    shown: _Shown,
    application: ApplicationOptions,
) -> None:
    """Print what STORE has of KEY: its value, windows, sessions or versions.

    KEY is written as `pystreams produce` takes it; bytes that are no text as they are shown:
    {"base64": "..."}. One that begins with - and is no number comes last, behind --. It reads the
    whole store.

    A line has the key, the times of its window or version (ms), the value. A version is valid from
    the first of its times until the second, which is null of the latest. The exit code is 4 where
    there is nothing; of a versioned store also where the key was deleted: what it was before that
    is printed, and when it was deleted told. Entries that can't be read are told of, too: 1.

    \b
    Examples:
      pystreams state get /var/lib/pystreams word-counts sea --topology topology.py
      pystreams state get ./state prices 4711 --topology shop.py -c default.key.serde=long
    """
    from pystreams.readable_keys import bytes_of_key

    configure_logging("warning", "auto")
    with _errors_told(), own_output() as output:
        reader = _reader(directory, store, application)
        if reader.key_serde is None:
            raise click.UsageError(
                f"store {store!r} has no key serde: set default.key.serde (-c, --config), or "
                "use `state scan` where its keys are none of yours"
            )
        try:
            wanted = bytes_of_key(key, reader.key_serde, store)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        entries = list(reader.entries(wanted))
        are_read = _show(entries[: shown.limit], shown, application, output)
    if not entries:
        asked = f"{key!r}, as {reader.key_serde!r} writes it"
        click.echo(f"store {store!r} has nothing of {asked}", err=True)
        ctx.exit(ExitCode.NO_SUCH_KEY)
    ends = [entry.times.get("valid_to") for entry in entries]
    if None not in ends:
        deleted_ms = max(end for end in ends if end is not None)
        at = f"{deleted_ms} ({told_time(deleted_ms)})"
        click.echo(f"{key!r} was deleted at {at}: store {store!r} has it no more", err=True)
        ctx.exit(ExitCode.NO_SUCH_KEY if are_read else ExitCode.FAILED)
    if not are_read:
        ctx.exit(ExitCode.FAILED)


@state.command()
@_directory
@click.argument("store")
@_shown
@_topology
@configuration_options
@click.pass_context
def scan(
    ctx: click.Context,
    *,
    directory: Path,
    store: str,
    shown: _Shown,
    application: ApplicationOptions,
) -> None:
    """Print all entries of STORE, task by task: key, times of its window or version, value.

    Times are in ms. A version is valid from the first until the second, which is null of the latest
    of a key; a key that was deleted has no such version. Bytes that are no text are {"base64":
    "..."}. Entries that can't be read are told of on standard error, and the exit code is 1.

    \b
    Examples:
      pystreams state scan /var/lib/pystreams word-counts --topology topology.py
      pystreams state scan ./state/shop/0_1 totals --topology shop.py --json --limit 100
    """
    configure_logging("warning", "auto")
    with _errors_told(), own_output() as output:
        entries = _reader(directory, store, application).entries()
        if not _show(itertools.islice(entries, shown.limit), shown, application, output):
            ctx.exit(ExitCode.FAILED)


def _reader(directory: Path, store: str, options: ApplicationOptions) -> StateReader:
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
    loaded = load_topology(options.topology)
    config = local_configuration(options, loaded, applications[0])
    return StateReader(TopologyPlan(loaded.topology, applications[0]), config, stores, store)


def _show(
    entries: Iterable[StoredEntry | UnreadEntry],
    shown: _Shown,
    application: ApplicationOptions,
    output: TextIO,
) -> bool:
    """Print entries, and tell of those that can't be read; return whether all could be."""
    from pystreams.runtime.maintenance.state_reading import StoredEntry

    unread = 0
    for entry in entries:
        if isinstance(entry, StoredEntry):
            click.echo(_json_line(entry) if shown.as_json else _text_line(entry), output)
        else:
            unread += 1
            click.echo(_told_unread(entry), err=True)
    if unread:
        click.echo(
            f"{unread:,} could not be read. Read them with the serdes that wrote them: are they "
            f"those of {application.topology}, and default serdes those of -c and --config?",
            err=True,
        )
    return not unread


def _json_line(entry: StoredEntry) -> bytes:
    from pystreams.readable_keys import shown_key
    from pystreams.readable_values import json_of_value, plain_of_value

    told = {"task": entry.task_id.logged, "key": shown_key(entry.key), **entry.times}
    return json_of_value(
        told | {"value": plain_of_value(entry.value), "timestamp": entry.timestamp}
    )


def _text_line(entry: StoredEntry) -> str:
    from pystreams.readable_keys import shown_key
    from pystreams.readable_values import text_of_value

    return "\t".join(map(text_of_value, (shown_key(entry.key), *entry.times.values(), entry.value)))


def _told_unread(entry: UnreadEntry) -> str:
    from pystreams.readable_keys import shown_key
    from pystreams.readable_values import json_of_value

    key = json_of_value(shown_key(entry.key)).decode()
    times = "".join(f", {name} {time}" for name, time in entry.times.items() if time is not None)
    by = "" if entry.serde is None else f" by {entry.serde!r}"
    return (
        f"{entry.task_id.logged}, key {key}{times}: its {entry.part} can't be read{by}: "
        f"{in_one_line(entry.reason)}"
    )
