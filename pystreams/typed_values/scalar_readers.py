"""Scalars of the user's types, from JSON's texts and from what Avro's logical types give."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Callable
from typing import Any

from pystreams.typed_values.misfit import Misfit, Read, misfit


def scalar_reader(annotation: Any) -> Read | None:
    """Return the function for a scalar type, or None where it is none.

    Raises:
        TypeError: It is an enumeration whose values can't be read.
    """
    if annotation in {None, type(None)}:
        return _read_null
    if not isinstance(annotation, type):
        return None
    if issubclass(annotation, enum.Enum):
        return _enum_reader(annotation)
    return _READERS.get(annotation)


def values_of(kind: Any) -> list[object]:
    """Return the values of the members of an enumeration; none of another type."""
    is_enum = isinstance(kind, type) and issubclass(kind, enum.Enum)
    return [member.value for member in kind] if is_enum else []


def as_it_is(value: object) -> object:
    """Return any value."""
    return value


def literal_reader(choices: tuple[object, ...]) -> Read:
    """Return the function for a `Literal`."""
    expected = "one of " + ", ".join(map(repr, choices))
    kinds = {(type(choice), choice) for choice in choices}

    def read(value: object) -> object:
        # 1 == True, but neither is the other.
        if isinstance(value, str | int) and (type(value), value) in kinds:
            return value
        raise misfit(expected, value) if not isinstance(value, str) else Misfit(expected, "another")

    return read


def _read_null(value: object) -> object:
    if value is not None:
        raise misfit("null", value)
    return None


def _exactly(kind: type, expected: str) -> Read:
    def read(value: object) -> object:
        if type(value) is not kind:
            raise misfit(expected, value)
        return value

    return read


def _read_float(value: object) -> object:
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    raise misfit("a number", value)


def _read_decimal(value: object) -> object:
    if isinstance(value, decimal.Decimal):
        return value
    if type(value) is int:
        return decimal.Decimal(value)
    if type(value) is not str:
        # A float has lost digits already.
        raise misfit("a decimal number as a string", value)
    try:
        return decimal.Decimal(value)
    except decimal.InvalidOperation:
        raise Misfit("a decimal number as a string", "another string") from None


def _from_text(kind: type, parse: Callable[[str], object], expected: str) -> Read:
    def read(value: object) -> object:
        if type(value) is str:
            try:
                return parse(value)
            except ValueError:
                raise Misfit(expected, "another string") from None
        if type(value) is kind:
            return value
        raise misfit(expected, value)

    return read


def _enum_reader(kind: type[enum.Enum]) -> Read:
    for value in values_of(kind):
        if not isinstance(value, str | int | float) or type(value) is bool:
            raise TypeError(
                f"{kind.__name__} can't be read: the value of a member is of "
                f"{type(value).__name__}; give all of them text or numbers"
            )
    if issubclass(kind, enum.Flag):
        return _flag_reader(kind)
    members = {member.value: member for member in kind}
    expected = f"one of {', '.join(map(repr, members))}"

    def read(value: object) -> object:
        if isinstance(value, str | int | float) and type(value) is not bool:
            member = members.get(value)
            if member is not None:
                return member
        found = "another string" if type(value) is str else None
        raise Misfit(expected, found) if found else misfit(expected, value)

    return read


def _flag_reader(kind: type[enum.Flag]) -> Read:
    expected = f"flags of {kind.__name__}"

    def read(value: object) -> object:
        if type(value) is not int or value < 0:
            raise misfit(expected, value)
        try:
            return kind(value)
        except ValueError:
            raise misfit(expected, value) from None

    return read


_READERS: dict[type, Read] = {
    bool: _exactly(bool, "a boolean"),
    bytes: _exactly(bytes, "bytes"),
    dt.date: _from_text(dt.date, dt.date.fromisoformat, "a date (ISO 8601)"),
    dt.datetime: _from_text(dt.datetime, dt.datetime.fromisoformat, "a date and time (ISO 8601)"),
    dt.time: _from_text(dt.time, dt.time.fromisoformat, "a time (ISO 8601)"),
    decimal.Decimal: _read_decimal,
    dict: _exactly(dict, "an object"),
    float: _read_float,
    int: _exactly(int, "an integer"),
    list: _exactly(list, "an array"),
    object: as_it_is,
    str: _exactly(str, "a string"),
    uuid.UUID: _from_text(uuid.UUID, uuid.UUID, "a UUID"),
}
