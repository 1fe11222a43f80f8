"""Stores as a user would write them, over SQLite: one with the least, one that keeps its offsets.

SQLite's own transactions survive a killed process, which is all that these tests ask.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pystreams import StateStore, StateStoreContext, StoreBuilder, TopicPartition
from pystreams.record import ConsumedMessage

Entry = tuple[str, str]


class SqliteStore(StateStore):
    """The least: text by text, written through, without offsets."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._database: sqlite3.Connection | None = None

    def __del__(self) -> None:
        # Of one that a crash has left open Python 3.13 would warn, in whichever test comes next.
        if self._database is not None:
            self._database.close()

    # What the runtime needs

    @property
    def name(self) -> str:
        return self._name

    @property
    def persistent(self) -> bool:
        return True

    @property
    def is_open(self) -> bool:
        return self._database is not None

    def init(self, context: StateStoreContext) -> None:
        self._context = context
        self._directory = context.task_directory / "sqlite" / self._name
        self._directory.mkdir(parents=True, exist_ok=True)
        # Autocommit: each statement is durable at once.
        self._database = sqlite3.connect(
            self._directory / "store.db", isolation_level=None, check_same_thread=False
        )
        self._database.execute("pragma synchronous=off")
        self._database.execute("create table if not exists entries (k blob primary key, v blob)")
        self._database.execute("create table if not exists offsets (p text primary key, o int)")

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        for message in messages:
            self._write(message.key() or b"", message.value())

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def destroy(self) -> None:
        self.close()
        shutil.rmtree(self._directory)

    # What a processor needs

    def get(self, key: str) -> str | None:
        found = self._sql("select v from entries where k = ?", key.encode()).fetchone()
        return None if found is None else bytes(found[0]).decode()

    def put(self, key: str, value: str | None) -> None:
        raw = None if value is None else value.encode()
        self._write(key.encode(), raw)
        if self._context.changelog is not None:
            timestamp = self._context.record.timestamp
            self._context.changelog.records.append((key.encode(), raw, timestamp, ()))

    def put_if_absent(self, key: str, value: str) -> str | None:
        existing = self.get(key)
        if existing is None:
            self.put(key, value)
        return existing

    def put_all(self, entries: Iterable[tuple[str, str | None]]) -> None:
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: str) -> str | None:
        existing = self.get(key)
        self.put(key, None)
        return existing

    def range(self, start: str | None, end: str | None) -> Iterator[Entry]:
        return iter(self._between(start, end))

    def reverse_range(self, start: str | None, end: str | None) -> Iterator[Entry]:
        return reversed(self._between(start, end))

    def all(self) -> Iterator[Entry]:
        return self.range(None, None)

    def reverse_all(self) -> Iterator[Entry]:
        return self.reverse_range(None, None)

    def _between(self, start: str | None, end: str | None) -> list[Entry]:
        low = b"" if start is None else start.encode()
        high = b"\xff" if end is None else end.encode()
        rows = self._sql("select k, v from entries where k between ? and ? order by k", low, high)
        return [(bytes(key).decode(), bytes(value).decode()) for key, value in rows.fetchall()]

    def _write(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._sql("delete from entries where k = ?", key)
        else:
            self._sql("insert or replace into entries values (?, ?)", key, value)

    def _sql(self, statement: str, *values: object) -> sqlite3.Cursor:
        assert self._database is not None, f"store {self._name} is not open"
        return self._database.execute(statement, values)


class TellingStore(SqliteStore):
    """Says whether there is anything in it."""

    def holds_data(self) -> bool:
        return bool(self._sql("select exists (select 1 from entries)").fetchone()[0])


class OffsetKeepingStore(SqliteStore):
    """The most: writes wait in a transaction, which is committed together with the offsets."""

    @property
    def transactional(self) -> bool:
        return True

    def init(self, context: StateStoreContext) -> None:
        super().init(context)
        self._uncommitted_bytes = 0
        self._sql("begin")

    def manages_offsets(self) -> bool:
        return True

    def committed_offset(self, partition: TopicPartition) -> int | None:
        found = self._sql("select o from offsets where p = ?", str(partition)).fetchone()
        return None if found is None else int(found[0])

    def commit(self, changelog_offsets: Mapping[TopicPartition, int]) -> None:
        if not changelog_offsets:
            self._sql("delete from offsets")
        for partition, offset in changelog_offsets.items():
            self._sql("insert or replace into offsets values (?, ?)", str(partition), offset)
        self._end("commit")

    def rollback(self) -> None:
        self._end("rollback")

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        super().restore(messages)
        last = messages[-1]
        self.commit({TopicPartition(last.topic() or "", last.partition() or 0): last.offset() or 0})

    def approximate_num_uncommitted_bytes(self) -> int:
        return self._uncommitted_bytes

    def _write(self, key: bytes, value: bytes | None) -> None:
        super()._write(key, value)
        self._uncommitted_bytes += len(key) + len(value or b"")

    def _end(self, how: str) -> None:
        self._sql(how)
        self._uncommitted_bytes = 0
        self._sql("begin")


@dataclass(frozen=True)
class CustomStore(StoreBuilder):
    """A builder of a user's own, with the least."""

    store_name: str
    kind: type[SqliteStore] = SqliteStore

    @property
    def name(self) -> str:
        return self.store_name

    def build(self) -> SqliteStore:
        return self.kind(self.store_name)


def files_of(task_directory: Path, store: str) -> Path:
    """Where a store keeps its files."""
    return task_directory / "sqlite" / store
