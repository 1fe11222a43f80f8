"""Integers of more than 64 bits in JSON, which orjson makes floats of, and does not write.

JSON has them, and Python too. Bytes that may hold one cost a second look; those of most records
cost a search.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable
from typing import Any

import orjson

_DIGITS = bytes(ord("0") if byte in b"0123456789-" else byte for byte in range(256))
_LARGE = b"0" * 20
"""What such an integer looks like: 2**64 has 20 digits, -2**63 a sign and 19 of them."""
_ORJSON_MIN, _ORJSON_MAX = -(1 << 63), (1 << 64) - 1
_REFUSED = "Integer exceeds 64-bit range"


def loads(data: bytes) -> Any:
    """Return what JSON's bytes hold: integers as they are, whatever their size."""
    value = orjson.loads(data)
    if data.translate(_DIGITS).find(_LARGE) < 0:
        return value
    return json.loads(data)


def dumps(
    value: Any, default: Callable[[Any], Any] | None = None, option: int | None = None
) -> bytes:
    """Return what orjson writes of a value, in which integers may be of any size."""
    try:
        return orjson.dumps(value, default, option)
    except TypeError as error:
        return dumps_refused(value, error, default, option)


def dumps_refused(
    value: Any,
    error: TypeError,
    default: Callable[[Any], Any] | None = None,
    option: int | None = None,
) -> bytes:
    """Return the same of a value that orjson has refused.

    Raises:
        TypeError: What it refused was not the size of an integer.
    """
    if str(error) != _REFUSED:
        raise error
    writing = _Writing(default, option or 0)
    return orjson.dumps(writing.written(value), writing.default, option)


class _Writing:
    """Copies of what values are made of, in which larger integers are JSON already."""

    def __init__(self, default: Callable[[Any], Any] | None, option: int) -> None:
        self._default = default
        self._dataclasses = not option & orjson.OPT_PASSTHROUGH_DATACLASS

    def written(self, value: Any) -> Any:
        if isinstance(value, enum.Enum):
            return self.written(value.value)
        if isinstance(value, int) and not isinstance(value, bool):
            known = _ORJSON_MIN <= value <= _ORJSON_MAX
            return value if known else orjson.Fragment(str(int(value)))
        if isinstance(value, dict):
            return {key: self.written(item) for key, item in value.items()}
        if type(value) in {list, tuple}:
            return [self.written(item) for item in value]
        if self._dataclasses and dataclasses.is_dataclass(value):
            return {name: self.written(item) for name, item in items_of(value)}
        return value

    def default(self, value: Any) -> Any:
        if self._default is None:
            raise TypeError(f"Type is not JSON serializable: {type(value).__name__}")
        return self.written(self._default(value))


def items_of(value: Any) -> list[tuple[str, Any]]:
    """Return what orjson writes of a dataclass."""
    fields = getattr(value, "__dict__", None) or [field.name for field in dataclasses.fields(value)]
    return [
        (name, getattr(value, name))
        for name in fields
        if not name.startswith("_") and hasattr(value, name)
    ]
