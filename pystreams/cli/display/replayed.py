"""What a replay tells: each hop of a record as an indented line, or all of it as JSON lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, TextIO

import click

from pystreams.cli.display.tables import show_table
from pystreams.ids import TopicPartition
from pystreams.readable_values import json_of_value, plain_of_value, text_of_value
from pystreams.testing.trace import Hop, StateChange, TraceEvent, Written

_INDENT = "  "
_TEXT_MAX = 160


class SourceRecord(NamedTuple):
    """A record that is replayed.

    Attributes:
        key: Its key, as the source reads it.
        value: Its value, likewise.
        timestamp: Its timestamp (ms).
    """

    partition: TopicPartition
    offset: int
    key: Any
    value: Any
    timestamp: int


Show = Callable[[SourceRecord, TraceEvent], None]
"""Shows one event, and the record that led to it."""


class HopLines:
    """Shows every event as a line below that of the record that led to it."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._record: SourceRecord | None = None

    def __call__(self, record: SourceRecord, event: TraceEvent) -> None:
        """Show an event."""
        if record is not self._record:
            self._record = record
            at = click.style(f"{record.partition} offset {record.offset:,}", bold=True)
            time = click.style(_iso(record.timestamp), dim=True)
            click.echo(f"\n{at}  {time}  {_pair(record.key, record.value)}", self._output)
        click.echo(_line(event, record.timestamp), self._output)


class FirstWritten:
    """Keeps the first results of each topic, to be shown at the end."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._first: dict[str, list[Written]] = defaultdict(list)

    def __call__(self, record: SourceRecord, event: TraceEvent) -> None:
        """Keep a result, if there is room."""
        if isinstance(event, Written) and len(self._first[event.topic]) < self._limit:
            self._first[event.topic].append(event)

    def show(self) -> None:
        """Show what was kept."""
        for topic, written in sorted(self._first.items()):
            for result in written:
                time = click.style(_iso(result.timestamp), dim=True)
                click.echo(f"{topic}  {time}  {_pair(result.key, result.value)}")


class JsonLines:
    """Shows every event as a JSON object, after that of the record that led to it.

    Args:
        limit: Only the first results of each topic, so many; None shows all events.
    """

    def __init__(self, output: TextIO, limit: int | None) -> None:
        self._output = output
        self._limit = limit
        self._written: dict[str, int] = defaultdict(int)
        self._record: SourceRecord | None = None

    def __call__(self, record: SourceRecord, event: TraceEvent) -> None:
        """Show an event."""
        if self._limit is not None:
            if not isinstance(event, Written) or self._written[event.topic] >= self._limit:
                return
            self._written[event.topic] += 1
        elif record is not self._record:
            self._record = record
            at = {"topic": record.partition.topic, "partition": record.partition.partition}
            told = {"offset": record.offset, "key": record.key, "value": record.value}
            json_line("record", {**at, **told, "timestamp": record.timestamp}, self._output)
        json_line(*_as_json(event), self._output)


def json_line(kind: str, told: Mapping[str, Any], output: TextIO) -> None:
    """Write a JSON object with what is told under its kind."""
    shown = {name: plain_of_value(part) for name, part in told.items()}
    click.echo(json_of_value({kind: shown}), output)


def show_counts(written: Mapping[str, int]) -> None:
    """Show how many records would be written to each topic."""
    rows = [(topic, f"{count:,}") for topic, count in sorted(written.items())]
    show_table(("would write to", "records"), rows, right=("records",))


def _as_json(event: TraceEvent) -> tuple[str, dict[str, Any]]:
    if isinstance(event, Hop):
        return "hop", event._asdict()
    if isinstance(event, StateChange):
        told = event._asdict()
        return "change", {**told, **told.pop("times")}
    told = event._asdict()
    told["headers"] = [[name, plain_of_value(data)] for name, data in event.headers]
    return "write", told


def _line(event: TraceEvent, timestamp: int) -> str:
    """Return an event as a line; its time only where it is another one than its record's."""
    time = "" if event.timestamp == timestamp else f"  at {_iso(event.timestamp)}"
    if isinstance(event, Hop):
        node = click.style(event.node, fg="cyan")
        return f"{_INDENT * (event.depth + 1)}{node}  {_pair(event.key, event.value)}{time}"
    if isinstance(event, StateChange):
        store = click.style(f"store {event.store}", fg="yellow")
        times = "".join(f" {name}={_iso(at)}" for name, at in event.times.items())
        changed = f"{_cut(event.old)} -> {_cut(event.new)}"
        return f"{_INDENT}{store}  {_cut(event.key)}{times}: {changed}{time}"
    topic = click.style(f"topic {event.topic}", fg="green")
    return f"{_INDENT}{topic}  {_pair(event.key, event.value)}{time}"


def _pair(key: Any, value: Any) -> str:
    return f"{_cut(key)}  {_cut(value)}"


def _cut(value: Any) -> str:
    text = text_of_value(value)
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 3]}..."


def _iso(milliseconds: int) -> str:
    """Return a time as ISO 8601 in UTC; the number where there is no such date."""
    try:
        time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
