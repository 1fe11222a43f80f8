"""The store oracle's operations, done on our stores, and what they answer, log and keep.

The lines are those of `java/.../parity/stores`: the answers, the changelog's records and the
database's entries of two languages are compared as text.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.parity.store_calls import Apply, Dropped, logged
from tests.parity.store_operations import Operation, Script
from tests.stores.support import CHANGELOG

if TYPE_CHECKING:
    from tests.stores.support import Home

STORES = Path(__file__).parent / "golden" / "stores"
OPERATIONS_A_MARK = 1_000
OPERATIONS_A_COMMIT = 250
CONTEXT_STEP_MS = 10
_KEPT_LINES = 2_000
_LONGEST_LINE = 1_000

_WRITES = frozenset(("put", "delete", "remove"))


def read_golden(name: str) -> dict[str, Any]:
    """Return what a Java store did."""
    content: dict[str, Any] = json.loads(gzip.decompress((STORES / name).read_bytes()))
    return content


def short_hash(lines: Iterable[str]) -> str:
    """Return the first 16 digits of the hash of lines."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()[:16]


def short_sum(line: str) -> str:
    """Return the last 4 digits of a line's CRC-32."""
    return f"{zlib.crc32(line.encode()) & 0xFFFF:04x}"


def shown(line: str) -> str:
    """Return a line as the golden file shows it: a long one by its hash."""
    return line if len(line) <= _LONGEST_LINE else short_hash([line])


@dataclass
class Lines:
    """Lines one after the other, and the hash of all of them."""

    all: list[str] = field(default_factory=list)
    _digest: Any = field(default_factory=hashlib.sha256)

    def add(self, line: str) -> None:
        """Add a line."""
        self.all.append(line)
        self._digest.update(f"{line}\n".encode())

    def hash(self) -> str:
        """Return the first 16 digits of the hash of all lines so far."""
        digits: str = self._digest.hexdigest()
        return digits[:16]


@dataclass
class Transcript:
    """What a store was told, answered and logged.

    Attributes:
        marks: After each 1,000 operations: their number, the hashes of operations and answers so
            far, the number of records logged so far, and their hash.
        dropped: After each 1,000 operations: how many writes came too late, so far.
    """

    operations: Lines = field(default_factory=Lines)
    answers: Lines = field(default_factory=Lines)
    changelog: Lines = field(default_factory=Lines)
    marks: list[list[Any]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)

    def mark(self, number: int, dropped: int) -> None:
        """Note the hashes of all lines so far, and how many writes the store has dropped."""
        self.dropped.append(dropped)
        self.marks.append(
            [
                number,
                self.operations.hash(),
                self.answers.hash(),
                len(self.changelog.all),
                self.changelog.hash(),
            ]
        )


@dataclass(frozen=True)
class Doing:
    """How operations are done on a store.

    Attributes:
        apply: Does an operation and returns the answer as a line.
        dropped: Returns what Kafka logs of a write that our store dropped and did not log.
    """

    apply: Apply
    dropped: Dropped


class Replay:
    """Does the operations of a script on a store, with a commit every 250.

    Args:
        store: Open.
        home: What it was opened with.
        doing: How.

    Attributes:
        transcript: What was done so far.
    """

    def __init__(self, store: Any, home: Home, doing: Doing) -> None:
        self.transcript = Transcript()
        self._store = store
        self._home = home
        self._doing = doing
        self._puts = 0

    def run(self, script: Script, count: int) -> None:
        """Do the first `count` operations, and the last ones."""
        for number in range(count):
            self._do(number, script.next(number))
            if (number + 1) % OPERATIONS_A_COMMIT == 0:
                self._commit(number)
            if (number + 1) % OPERATIONS_A_MARK == 0:
                self.transcript.mark(number + 1, self._home.dropped.count)
        for number, operation in enumerate(script.last(), count):
            self._do(number, operation)
        self._commit(count)

    def _commit(self, offset: int) -> None:
        self._store.flush_cache()
        self._store.commit({CHANGELOG: offset})

    def _do(self, number: int, operation: Operation) -> None:
        transcript, records = self.transcript, self._home.changelog.records
        self._home.record.timestamp = timestamp = number * CONTEXT_STEP_MS
        self._puts += operation.name == "put"
        transcript.operations.add(operation.line())
        transcript.answers.add(self._doing.apply(self._store, operation))
        if not records and operation.name in _WRITES:
            transcript.changelog.add(self._doing.dropped(operation, timestamp, self._puts))
        for record in records:
            key, value, record_timestamp, _ = record
            transcript.changelog.add(logged(key, value, record_timestamp))
        records.clear()
