"""Keys and values as people write and read them: lines of text, and JSON.

A serde tells how its type is written. Text is text for STRING, BYTES and UUID, and a number for
INT, LONG and DOUBLE; a windowed key is an object of its key and its window. Of all others text is
the bytes themselves, where the serde reads them (as those of `JSON` and `json_of`), else JSON that
makes the plain value the serde takes (as an Avro serde); and JSON is what their values are shown
as.
"""

from __future__ import annotations

import base64
import datetime as dt
import enum
import json
import math
import re
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

import orjson

from pystreams import serdes
from pystreams.exception_texts import exception_text
from pystreams.serdes import Serde

_FROM_TEXT: tuple[tuple[Serde[Any], Callable[[str], Any]], ...] = (
    (serdes.STRING, str),
    (serdes.BYTES, str.encode),
    (serdes.UUID, uuid.UUID),
    (serdes.INT, int),
    (serdes.LONG, int),
    (serdes.DOUBLE, float),
)
_TEXTUAL = (serdes.STRING, serdes.BYTES, serdes.UUID)
_OPTIONS = orjson.OPT_NON_STR_KEYS
BASE64 = "base64"
"""How JSON has bytes that are no text: {"base64": "..."}."""
_AS_THEY_ARE = frozenset({str, int, bool, dict, list, type(None)})
_NOT_IN_JSON = ("NaN", "Infinity", "-Infinity")
_WINDOWED = ("key", "window")
_NULL = b"null"
_DEEPEST = 200
"""So many levels of a value are written; what is below them is told as Python does."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_LONG_NUMBER = re.compile(r"\d{19}")
_SCALARS = (str, int, type(None), uuid.UUID, dt.date, dt.time, enum.Enum)
"""What orjson writes and nothing is in, beside numbers with a fraction."""


def bytes_of_text(text: str, serde: Serde[Any], topic: str) -> bytes:
    """Return what a line of text is in a serde's bytes.

    Raises:
        ValueError: The serde can't take it.
    """
    for known, parse in _FROM_TEXT:
        if serde is known:
            try:
                return serde.serializer(topic)(parse(text))
            except Exception as error:
                raise _refused(text, serde, exception_text(error)) from error
    if _is_windowed(serde):
        try:
            return _windowed_bytes(orjson.loads(text), serde, topic)
        except orjson.JSONDecodeError as error:
            raise _refused(text, serde, f"it is written as JSON: {error}") from error
    if _LONG_NUMBER.search(text):
        value = None
        with suppress(ValueError):
            value = value_of_json(text)
        if json_of_plain(value) is None:
            return _bytes_of_unusual(value, serde, topic)
    return _checked_bytes(text.encode(), serde, topic)


def bytes_of_json(value: Any, serde: Serde[Any], topic: str) -> bytes:
    """Return what a JSON value (never null) is in a serde's bytes.

    Raises:
        ValueError: The serde can't take it.
    """
    if _is_windowed(serde):
        return _windowed_bytes(value, serde, topic)
    if serde is serdes.BYTES and isinstance(value, dict) and value.keys() == {BASE64}:
        return _bytes_of_base64(value, serde)
    if serde is serdes.DOUBLE and value in _NOT_IN_JSON:
        value = float(value)
    if any(serde is known for known in _TEXTUAL):
        if not isinstance(value, str):
            raise _refused(json_of_value(value).decode(), serde, "it is written as a JSON string")
        return bytes_of_text(value, serde, topic)
    if any(serde is known for known, _ in _FROM_TEXT):
        try:
            return serde.serializer(topic)(value)
        except Exception as error:
            raise _refused(json_of_value(value).decode(), serde, exception_text(error)) from error
    shown = json_of_plain(value)
    if shown is None:
        return _bytes_of_unusual(value, serde, topic)
    return _bytes_shown_as(value, shown, serde, topic)


def json_of_value(value: Any) -> bytes:
    """Return a value as JSON, whatever it is: classes as objects, bytes as text or else base64.

    Numbers that JSON has not are "NaN", "Infinity" and "-Infinity", wherever they are; integers
    have all their digits. What is too deep, or in itself, is a text as Python has it.
    """
    data = json_of_plain(value)
    return _text_of_any(value, 0, frozenset()).encode() if data is None else data


def json_of_plain(value: Any) -> bytes | None:
    """Return a value as JSON; None of one that JSON's usual readers would not give back.

    Such are integers over 64 bits, halves of letters, keys that are no scalars, deep nesting.
    """
    try:
        data = orjson.dumps(value, default=_plain, option=_OPTIONS)
        # Null is what orjson makes of numbers that JSON has not.
        if _NULL not in data or _is_all_in_json(value):
            return data
        return orjson.dumps(_with_names(value), default=_plain, option=_OPTIONS)
    except Exception:  # noqa: BLE001 - a class of the user may raise anything when it is asked
        return None


def value_of_json(text: str) -> Any:
    """Return what JSON says, integers of any size with all their digits.

    Raises:
        ValueError: It is no JSON.
    """
    if _LONG_NUMBER.search(text) is None and _SURROGATE_ESCAPE.search(text) is None:
        return orjson.loads(text)
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def plain_of_value(value: Any) -> Any:
    """Return a value for JSON of which `bytes_of_json` makes the same bytes again.

    That is {"base64": "..."} of bytes that are no text, and the name of a number that JSON has not.
    """
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return {BASE64: base64.b64encode(data).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        nan, infinity, minus_infinity = _NOT_IN_JSON
        return nan if math.isnan(value) else infinity if value > 0 else minus_infinity
    if getattr(value, "_fields", None) == _WINDOWED:
        return {"key": plain_of_value(value.key), "window": value.window}
    return value


def text_of_value(value: Any) -> str:
    """Return a value on one line: a text as it is, all others as JSON."""
    if isinstance(value, uuid.UUID):
        return str(value)
    value = plain_of_value(value)
    if not isinstance(value, str):
        return json_of_value(value).decode()
    return value if value.isascii() else _with_escapes(value)


def _is_windowed(serde: Serde[Any]) -> bool:
    return hasattr(serde, "bytes_of_plain")


def _windowed_bytes(value: Any, serde: Any, topic: str) -> bytes:
    """Return the bytes of a windowed key, given as an object of its key and its window."""
    try:
        data: bytes = serde.bytes_of_plain(value, topic, bytes_of_json)
    except Exception as error:
        raise _refused(json_of_value(value).decode(), serde, exception_text(error)) from error
    return data


def _bytes_of_base64(value: dict[str, Any], serde: Serde[Any]) -> bytes:
    try:
        return base64.b64decode(value[BASE64], validate=True)
    except (TypeError, ValueError) as error:
        raise _refused(json_of_value(value).decode(), serde, exception_text(error)) from error


def _bytes_shown_as(value: Any, data: bytes, serde: Serde[Any], topic: str) -> bytes:
    """Return bytes that are shown as this JSON value, or else what the serde makes of it."""
    serialize, deserialize = serde.serializer(topic), serde.deserializer(topic)
    makes: tuple[Callable[[], bytes], ...] = (
        lambda: serialize(value),
        lambda: serialize(deserialize(data)),
    )
    for make in makes:
        with suppress(Exception):
            made = make()
            if orjson.loads(json_of_value(plain_of_value(deserialize(made)))) == value:
                return made
    return _checked_bytes(data, serde, topic)


def _bytes_of_unusual(value: Any, serde: Serde[Any], topic: str) -> bytes:
    """Return bytes that are read as a value of which `json_of_plain` makes nothing.

    Most readers of JSON make something else of it without a word.
    """
    try:
        data = serde.serializer(topic)(value)
        read = json_of_value(plain_of_value(serde.deserializer(topic)(data)))
        is_same = _in_one_order(read) == _in_one_order(json_of_value(value))
    except Exception as error:
        raise _refused(json_of_value(value).decode(), serde, exception_text(error)) from error
    if not is_same:
        raise _refused(json_of_value(value).decode(), serde, f"it is read as {read.decode()}")
    return data


def _in_one_order(data: bytes) -> str:
    return json.dumps(value_of_json(data.decode()), sort_keys=True)


def _checked_bytes(data: bytes, serde: Serde[Any], topic: str) -> bytes:
    """Return bytes that the serde has read and written, or what it makes of them as JSON."""
    try:
        return serde.serializer(topic)(serde.deserializer(topic)(data))
    except Exception as unread:
        for plain in (orjson.loads, lambda shown: _with_numbers(orjson.loads(shown))):
            with suppress(Exception):
                return serde.serializer(topic)(plain(data))
        raise _refused(data.decode(), serde, exception_text(unread)) from unread


def _refused(text: str, serde: Serde[Any], why: str) -> ValueError:
    return ValueError(f"{text!r} does not fit {serde!r}: {why}")


def _is_all_in_json(value: Any) -> bool:
    """Return whether JSON has all numbers of a value; False where that can't be told soon."""
    try:
        _FINITE.encode(value)
    except (ValueError, TypeError):  # TypeError: a key of a type that it does not know.
        return False
    return True


def _with_names(value: Any) -> Any:
    """Return a value for JSON in which numbers that JSON has not are their names."""
    if isinstance(value, float):
        return plain_of_value(value)
    if isinstance(value, dict):
        return {_with_names(key): _with_names(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_names(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _with_names(item) for name, item in _items_of(value)}
    return value if isinstance(value, _SCALARS) else _with_names(_plain(value))


def _items_of(value: Any) -> list[tuple[str, Any]]:
    """Return what orjson writes of a dataclass."""
    names = getattr(value, "__dict__", None) or [field.name for field in fields(value)]
    return [
        (name, getattr(value, name))
        for name in names
        if not name.startswith("_") and hasattr(value, name)
    ]


def _with_numbers(plain: Any) -> Any:
    """Return a value as JSON has it, in which the names of numbers are the numbers."""
    if isinstance(plain, dict):
        return {key: _with_numbers(item) for key, item in plain.items()}
    if isinstance(plain, list):
        return [_with_numbers(item) for item in plain]
    return float(plain) if plain in _NOT_IN_JSON else plain


def _plain(value: Any) -> Any:
    """Return what orjson can write of a value that it does not know."""
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    for method in ("model_dump", "to_dict"):  # pydantic's, and what many classes have.
        if callable(made := getattr(value, method, None)):
            return made()
    if names := getattr(type(value), "__struct_fields__", None):  # msgspec's.
        return {name: getattr(value, name) for name in names}
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


def _numbers_in(value: Any) -> Any:
    """Return what is in a value that Python's JSON does not know."""
    if is_dataclass(value) and not isinstance(value, type):
        return dict(_items_of(value))
    return None if isinstance(value, _SCALARS) else _plain(value)


_FINITE = json.JSONEncoder(allow_nan=False, check_circular=False, default=_numbers_in)
"""Fails with numbers that JSON has not, which orjson makes null in silence."""


def _no_constant(name: str) -> Any:
    raise ValueError(f"JSON has no {name}")


def _text_of_any(value: Any, depth: int, above: frozenset[int]) -> str:
    """Return a value as JSON where orjson refuses it.

    Args:
        above: What it is in, by `id`.
    """
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, bool | str | int | float):
        return _text_of_scalar(value)
    if depth >= _DEEPEST or id(value) in above:
        return _quoted(_as_python_has_it(value))
    inside = (depth + 1, above | {id(value)})
    if isinstance(value, dict):
        return _text_of_items(value.items(), *inside)
    if isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "_asdict"):
        return f"[{','.join(_text_of_any(item, *inside) for item in value)}]"
    try:
        if is_dataclass(value) and not isinstance(value, type):
            return _text_of_items(_items_of(value), *inside)
        if isinstance(value, _SCALARS):
            return orjson.dumps(value).decode()
        plain = _plain(value)
    except Exception:  # noqa: BLE001 - a class of the user may raise anything when it is asked
        return _quoted(_as_python_has_it(value))
    return _text_of_any(plain, *inside)


def _text_of_items(items: Iterable[tuple[Any, Any]], depth: int, above: frozenset[int]) -> str:
    """Return an object; keys that are no texts are what they are as JSON."""
    texts = []
    for key, item in items:
        name = _text_of_any(key, depth, above)
        name = name if name.startswith('"') else _quoted(name)
        texts.append(f"{name}:{_text_of_any(item, depth, above)}")
    return f"{{{','.join(texts)}}}"


def _text_of_scalar(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        value = plain_of_value(value)
        return float.__repr__(value) if isinstance(value, float) else _quoted(str(value))
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    try:
        return int.__repr__(value)
    except ValueError:  # Python does not write so many digits.
        return _quoted(hex(value))


def _quoted(text: str) -> str:
    return _with_escapes(json.dumps(text, ensure_ascii=False))


def _with_escapes(text: str) -> str:
    """Return a text that has a form in UTF-8: halves of letters are escaped."""
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _as_python_has_it(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a class of the user may raise anything when it is asked
        return f"<{type(value).__qualname__}>"
