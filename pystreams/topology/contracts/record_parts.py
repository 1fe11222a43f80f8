"""Timestamps and headers that come from a user: refused where a broker or a client would."""

from __future__ import annotations

from operator import index
from typing import Any

from pystreams.record import MAX_TIME, Headers


def checked_time(where: str, time: Any) -> int:
    """Return a time (ms).

    Args:
        where: What it is; begins an error's message.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is a number that Kafka has no room for.
    """
    try:
        number = index(time)
    except TypeError:
        raise TypeError(
            f"{where} is a number of ms, a whole one, not {time!r}; "
            "int(moment.timestamp() * 1000) is the time of a datetime"
        ) from None
    if not -MAX_TIME <= number <= MAX_TIME:
        raise ValueError(f"{where} is a number of ms, {MAX_TIME} at most, not {number}")
    return number


def checked_headers(where: str, headers: Any) -> Headers:
    """Return headers, those of a list as a tuple.

    Raises:
        TypeError: They are none.
    """
    if isinstance(headers, list | tuple) and all(map(_is_header, headers)):
        return tuple((name, value) for name, value in headers)
    raise TypeError(
        f"{where} are pairs of a name and bytes, or None, as in (('source', b'test'),), not "
        f"{headers!r}"
    )


def _is_header(pair: Any) -> bool:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        return False
    name, value = pair
    return isinstance(name, str) and (value is None or isinstance(value, bytes))
