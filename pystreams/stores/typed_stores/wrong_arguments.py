"""What is said of arguments that no store takes: asked once a read or a write has failed on them.

Sound arguments are never looked at. Each function raises its own error where an argument explains
the one that there was, and that one again where none does.
"""

from __future__ import annotations

from operator import index
from typing import Any, NoReturn

from pystreams.record import MAX_TIME
from pystreams.stores.contracts.key_value import ValueAndTimestamp


def refuse_times(store: str, error: Exception, **times: Any) -> NoReturn:
    """Say which of some times (ms), by the names of their arguments, is none.

    Raises:
        TypeError: One is no whole number.
        ValueError: One is a number that Kafka has no room for.
    """
    for name, time in times.items():
        try:
            number = index(time)
        except TypeError:
            raise TypeError(
                f"state store {store!r}: {name} is a time in ms, a whole number, not {time!r}; "
                "int(moment.timestamp() * 1000) is that of a datetime"
            ) from error
        if not -MAX_TIME <= number <= MAX_TIME:
            raise ValueError(
                f"state store {store!r}: {name} is a time in ms, {MAX_TIME} at most, not {number}"
            ) from error
    raise error


def refuse_row(store: str, error: Exception, row: object) -> NoReturn:
    """Say of what is put into a timestamped store that it is no value with its timestamp.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(row, ValueAndTimestamp):
        raise error
    raise TypeError(
        f"state store {store!r} keeps each value with its timestamp: put "
        f"ValueAndTimestamp(value, timestamp in ms), not an object of class {type(row).__name__}"
    ) from error


def refuse_session(store: str, error: Exception, session: Any) -> NoReturn:
    """Say of what is put into a session store that it is no session.

    Raises:
        TypeError: It is something else, or its times are.
        ValueError: One of its times is a number that Kafka has no room for.
    """
    try:
        _, (start, end) = session
    except (TypeError, ValueError):
        raise TypeError(
            f"state store {store!r} keeps sessions: Windowed(key, Window(start, end)), times in "
            f"ms, not {session!r}"
        ) from error
    refuse_times(store, error, start=start, end=end)


def refuse_prefix(store: str, error: Exception, prefix: object) -> NoReturn:
    """Say of the prefix of a scan that it is no bytes.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(prefix, bytes):
        raise error
    raise TypeError(
        f"state store {store!r}: prefix is bytes that keys begin with as they are stored, not "
        f"{prefix!r}; 'text'.encode() for keys of the string serde"
    ) from error


def refuse_entry(store: str, error: Exception, entry: object) -> NoReturn:
    """Say of an entry of `put_all` that it is no pair.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(entry, tuple) and len(entry) == 2:
        raise error
    raise TypeError(
        f"state store {store!r}: put_all takes pairs of key and value, not {entry!r}; "
        "mapping.items() has those of a mapping"
    ) from error
