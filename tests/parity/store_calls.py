"""How the store oracle's operations are done on our stores, and where Kafka does otherwise.

`apply` functions do one operation and return the answer as a line, in the form of
`java/.../parity/stores`. Where ours differ from Kafka's on purpose, what Kafka would have answered
or logged is worked out here, so that everything else is still compared:

- A write that comes too late is not logged. Kafka logs it: the `dropped` functions.
- A range of keys finds all windows there are. Kafka's misses some: `_within_kafkas_bound`.
- A range of versions finds all there are. Kafka's misses some: `_found_by_kafka`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pystreams import ValueAndTimestamp, Window, Windowed
from tests.parity.store_operations import Operation, VersionedScript, hex_of

if TYPE_CHECKING:
    from pystreams import VersionedRecord

Apply = Callable[[Any, Operation], str]
Dropped = Callable[[Operation, int, int], str]
"""What Kafka logs of a late write: (operation, the record's timestamp, puts so far) -> line."""

_PACK_WINDOW = struct.Struct(">qi").pack
_PACK_TIMES = struct.Struct(">qq").pack
_MAX_SEQUENCE = 2**31 - 1

_Entry = tuple[Windowed[bytes], Any]


def logged(key: bytes | None, value: bytes | None, timestamp: int) -> str:
    """Return a changelog record as a line."""
    return f"{hex_of(key)} {hex_of(value)} {timestamp}"


def logged_later(operation: Operation, timestamp: int, puts: int) -> str:
    """Return nothing: a store with a record cache logs at a commit."""
    return ""


# Key-value stores


def apply_key_value(store: Any, operation: Operation) -> str:
    """Do an operation on a plain key-value store."""
    return _apply_key_value(store, operation, _plain, hex_of)


def apply_timestamped_key_value(store: Any, operation: Operation) -> str:
    """Do an operation on a timestamped key-value store."""
    return _apply_key_value(store, operation, _timestamped, _timestamped_line)


def dropped_nothing(operation: Operation, timestamp: int, puts: int) -> str:
    """Refuse: a key-value store drops no write."""
    raise AssertionError((operation, timestamp, puts))


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
    return _list(found, lambda entry: f"{hex_of(entry[0])}={text(entry[1])}")


def _plain(value: Any, timestamp: Any) -> Any:
    return value


def _timestamped(value: Any, timestamp: Any) -> Any:
    return None if value is None else ValueAndTimestamp(value, timestamp)


def _timestamped_line(found: ValueAndTimestamp[bytes] | None) -> str:
    return "-" if found is None else f"{hex_of(found.value)}@{found.timestamp}"


def _list(found: Iterable[Any], line: Callable[[Any], str]) -> str:
    """Return all that an iterator gives, with a space between."""
    return " ".join(map(line, found))


# Versioned stores


def apply_versioned(store: Any, operation: Operation) -> str:
    """Do an operation on a versioned store."""
    name, arguments = operation
    if name == "put":
        return str(store.put(*arguments))
    if name == "delete":
        found = store.delete(*arguments)
        # Java's typed store knows the end of what was deleted, and leaves it out.
        return _version_line(found and found._replace(valid_to=None))
    if name in {"get", "get_as_of"}:
        return _version_line(store.get(*arguments))
    versions = store.get_range(*arguments, descending=name == "versions")
    return _list(_found_by_kafka(versions, arguments[2]), _version_line)


def dropped_version(operation: Operation, timestamp: int, puts: int) -> str:
    """Return what Kafka logs: the version, at its own time."""
    arguments: tuple[Any, ...] = operation.arguments
    return logged(arguments[0], arguments[1] if operation.name == "put" else None, arguments[-1])


def _found_by_kafka(
    found: Iterable[VersionedRecord[bytes]], to_time: Any
) -> Iterator[VersionedRecord[bytes]]:
    """Leave out what Kafka misses: a version that ended in a segment after that of `to_time`."""
    interval = VersionedScript.SEGMENT_INTERVAL_MS
    for record in found:
        if record.valid_to is None or record.valid_to // interval <= to_time // interval:
            yield record


def _version_line(found: VersionedRecord[bytes] | None) -> str:
    if found is None:
        return "-"
    end = "" if found.valid_to is None else found.valid_to
    return f"{hex_of(found.value)}@{found.timestamp}..{end}"


# Window stores


def apply_window(store: Any, operation: Operation) -> str:
    """Do an operation on a plain window store."""
    return _apply_window(store, operation, _plain, hex_of)


def apply_timestamped_window(store: Any, operation: Operation) -> str:
    """Do an operation on a timestamped window store."""
    return _apply_window(store, operation, _timestamped, _timestamped_line)


def dropped_window(operation: Operation, timestamp: int, puts: int) -> str:
    """Return what Kafka logs: the window's key, at the record's time."""
    key, value, start, _ = _arguments(operation)
    return logged(key + _PACK_WINDOW(start, 0), value, timestamp)


def dropped_timestamped_window(operation: Operation, timestamp: int, puts: int) -> str:
    """Return what Kafka logs: the window's key, at the value's time."""
    key, value, start, time = _arguments(operation)
    return logged(key + _PACK_WINDOW(start, 0), value, timestamp if value is None else time)


def dropped_duplicate(operation: Operation, timestamp: int, puts: int) -> str:
    """Return what Kafka logs: the window's key and number, at the record's time."""
    key, value, start, _ = _arguments(operation)
    return logged(key + _PACK_WINDOW(start, puts), value, timestamp)


def _apply_window(
    store: Any,
    operation: Operation,
    make: Callable[[Any, Any], Any],
    text: Callable[[Any], str],
) -> str:
    name, arguments = operation
    if name == "put":
        key, value, start, time = arguments
        store.put(key, make(value, time), start)
        return "-"
    found = getattr(store, name)(*arguments)
    if name == "fetch" and len(arguments) == 2:
        return text(found)
    if name in {"fetch", "backward_fetch"}:
        return _list(found, lambda entry: f"{entry[0]}={text(entry[1])}")
    if name in {"fetch_range", "backward_fetch_range"}:
        _, key_to, _, time_to = _arguments(operation)
        found = _within_kafkas_bound(found, key_to, time_to)
    return _list(found, lambda entry: f"{_windowed_line(entry[0])}={text(entry[1])}")


def _windowed_line(found: Windowed[bytes]) -> str:
    key, (start, end) = found
    return f"{hex_of(key)}[{start},{end}]"


def _within_kafkas_bound(
    found: Iterable[_Entry], key_to: bytes | None, time_to: int
) -> Iterator[_Entry]:
    """Leave out what lies above the bound that Kafka reads up to (OrderedBytes.upperRange)."""
    if key_to is None:
        yield from found
        return
    suffix = _PACK_WINDOW(time_to, _MAX_SEQUENCE)
    kept = len(key_to)
    if suffix[0] > 0:
        kept = 1
        while kept < len(key_to) and key_to[kept] >= suffix[0]:
            kept += 1
    bound = key_to[:kept] + suffix
    for entry in found:
        key, (start, _) = entry[0]
        if key + _PACK_WINDOW(start, 0) <= bound:
            yield entry


def _arguments(operation: Operation) -> tuple[Any, ...]:
    return operation.arguments


# Session stores


def apply_session(store: Any, operation: Operation) -> str:
    """Do an operation on a session store."""
    name, arguments = operation[0], _arguments(operation)
    if name in {"put", "remove"}:
        key, start, end, *aggregate = arguments
        getattr(store, name)(Windowed(key, Window(start, end)), *aggregate)
        return "-"
    found = getattr(store, name)(*arguments)
    if name == "fetch_session":
        return hex_of(found)
    return _list(found, lambda entry: f"{_windowed_line(entry[0])}={hex_of(entry[1])}")


def dropped_session(operation: Operation, timestamp: int, puts: int) -> str:
    """Return what Kafka logs: the session's key, at the record's time; of a removal as well."""
    key, start, end, *aggregate = _arguments(operation)
    return logged(key + _PACK_TIMES(end, start), aggregate[0] if aggregate else None, timestamp)
