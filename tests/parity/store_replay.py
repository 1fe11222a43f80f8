"""The store oracle's operations, done on our stores, and what they answer, log and keep.

The lines are those of `java/.../parity/stores`: the answers, the changelog's records and the
database's entries of two languages are compared as text.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pystreams.stores.api import ValueAndTimestamp
from tests.parity.store_operations import Operation, Script, VersionedScript, hex_of
from tests.stores.support import CHANGELOG

if TYPE_CHECKING:
    from pystreams.stores.versioned_api import VersionedRecord
    from tests.stores.support import Home

STORES = Path(__file__).parent / "golden" / "stores"
OPERATIONS_A_MARK = 1_000
OPERATIONS_A_COMMIT = 250
CONTEXT_STEP_MS = 10
_KEPT_LINES = 2_000
_LONGEST_LINE = 1_000

Apply = Callable[[Any, Operation], str]


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
    """

    operations: Lines = field(default_factory=Lines)
    answers: Lines = field(default_factory=Lines)
    changelog: Lines = field(default_factory=Lines)
    marks: list[list[Any]] = field(default_factory=list)

    def mark(self, number: int) -> None:
        """Note the hashes of all lines so far."""
        self.marks.append(
            [
                number,
                self.operations.hash(),
                self.answers.hash(),
                len(self.changelog.all),
                self.changelog.hash(),
            ]
        )


def replay(store: Any, home: Home, script: Script, apply: Apply, count: int) -> Transcript:
    """Do the first `count` operations of a script, and its last ones, with a commit every 250."""
    transcript = Transcript()
    for number in range(count):
        _do(store, home, script.next(number), apply, (number, transcript))
        if (number + 1) % OPERATIONS_A_COMMIT == 0:
            store.commit({CHANGELOG: number})
        if (number + 1) % OPERATIONS_A_MARK == 0:
            transcript.mark(number + 1)
    for number, operation in enumerate(script.last(), count):
        _do(store, home, operation, apply, (number, transcript))
    store.commit({CHANGELOG: count})
    return transcript


def _do(
    store: Any, home: Home, operation: Operation, apply: Apply, at: tuple[int, Transcript]
) -> None:
    number, transcript = at
    context = home.record
    context.timestamp = number * CONTEXT_STEP_MS
    dropped = context.expired_records
    answer = apply(store, operation)
    transcript.operations.add(operation.line())
    transcript.answers.add(answer)
    logged = home.changelog.records
    for value, key, timestamp, _ in logged:
        transcript.changelog.add(f"{hex_of(key)} {hex_of(value)} {timestamp}")
    if context.expired_records > dropped and not logged:
        transcript.changelog.add(logged_by_kafka(operation))
    logged.clear()


def logged_by_kafka(operation: Operation) -> str:
    """Return what Kafka logs of a put or delete in a versioned store that came too late.

    Ours logs nothing: what a store dropped must not come back from its changelog.
    """
    arguments: tuple[Any, ...] = operation.arguments
    value = arguments[1] if operation.name == "put" else None
    return f"{hex_of(arguments[0])} {hex_of(value)} {arguments[-1]!r}"


# Doing an operation


def entries(found: Iterable[Any], line: Callable[[Any], str]) -> str:
    """Return all that an iterator gives, with a space between."""
    return " ".join(map(line, found))


def apply_key_value(store: Any, operation: Operation) -> str:
    """Do an operation on a plain key-value store; return the answer as a line."""
    return _apply_key_value(store, operation, _plain, hex_of)


def apply_timestamped_key_value(store: Any, operation: Operation) -> str:
    """Do an operation on a timestamped key-value store; return the answer as a line."""
    return _apply_key_value(store, operation, _timestamped, _timestamped_line)


def _apply_key_value(
    store: Any,
    operation: Operation,
    make: Callable[[Any, Any], Any],
    text: Callable[[Any], str],
) -> str:
    name, arguments = operation
    if name == "put":
        store.put(arguments[0], make(*arguments[1:]))
        return "-"
    if name == "put_all":
        store.put_all(
            (arguments[at], make(*arguments[at + 1 : at + 3])) for at in range(0, len(arguments), 3)
        )
        return "-"
    if name == "put_if_absent":
        return text(store.put_if_absent(arguments[0], make(*arguments[1:])))
    found = getattr(store, name)(*arguments)
    if name in {"get", "delete"}:
        return text(found)
    return entries(found, lambda entry: f"{hex_of(entry[0])}={text(entry[1])}")


def apply_versioned(store: Any, operation: Operation) -> str:
    """Do an operation on a versioned store; return the answer as a line."""
    name, arguments = operation
    if name == "put":
        return str(store.put(*arguments))
    if name == "delete":
        found = store.delete(*arguments)
        # Java's typed store knows the end of what was deleted, and leaves it out.
        return _version_line(found and found._replace(valid_to=None))
    if name in {"get", "get_as_of"}:
        return _version_line(store.get(*arguments))
    found = store.get_range(*arguments, descending=name == "versions")
    return entries(_found_by_kafka(found, arguments[2]), _version_line)


def _found_by_kafka(
    found: Iterable[VersionedRecord[bytes]], to_time: Any
) -> Iterator[VersionedRecord[bytes]]:
    """Leave out what Kafka misses: a version that ended in a segment after that of `to_time`."""
    interval = VersionedScript.SEGMENT_INTERVAL_MS
    for record in found:
        if record.valid_to is None or record.valid_to // interval <= to_time // interval:
            yield record


def _plain(value: Any, timestamp: Any) -> Any:
    return value


def _timestamped(value: Any, timestamp: Any) -> Any:
    return None if value is None else ValueAndTimestamp(value, timestamp)


def _timestamped_line(found: ValueAndTimestamp[bytes] | None) -> str:
    return "-" if found is None else f"{hex_of(found.value)}@{found.timestamp}"


def _version_line(found: VersionedRecord[bytes] | None) -> str:
    if found is None:
        return "-"
    end = "" if found.valid_to is None else found.valid_to
    return f"{hex_of(found.value)}@{found.timestamp}..{end}"
