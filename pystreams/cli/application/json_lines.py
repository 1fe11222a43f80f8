"""A record as a line of JSON: what `pystreams consume --json` prints and `produce --json` takes.

What is printed becomes the same record again: its key's and its value's bytes, its headers in their
order, and its timestamp. Partition and offset are told alone. A key or value of bytes that are read
as nothing, such as the null of JSON, has its bytes beside it: a tombstone has none. So has one that
JSON can't say, such as a dict whose keys are tuples: what is told of it is for people.
"""

from __future__ import annotations

import base64
from typing import Any

from pystreams.cli.application.topic_serdes import TopicSerdes
from pystreams.record import MAX_TIME, ConsumedMessage, Headers, ProducedRecord
from pystreams.serdes import Serde

_FIELDS = (
    "key",
    "value",
    "timestamp",
    "headers",
    "key_base64",
    "value_base64",
    "partition",
    "offset",
)
"""Nothing follows of the last two."""


def line_of(message: ConsumedMessage, key: Any, value: Any) -> str:
    """Return the line of a record.

    Args:
        key: Its key as its serde reads it, None if it has none.
        value: Likewise.
    """
    from pystreams.readable_values import json_of_plain, json_of_value, plain_of_value

    record: dict[str, Any] = {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "key": plain_of_value(key),
        "value": plain_of_value(value),
    }
    for part, read, data in (("key", key, message.key()), ("value", value, message.value())):
        if read is None and data is not None:
            record[f"{part}_base64"] = base64.b64encode(data).decode()
    if headers := message.headers():
        record["headers"] = [[name, plain_of_value(data)] for name, data in headers]
    line = json_of_plain(record)
    if line is None:
        for part, data in (("key", message.key()), ("value", message.value())):
            if data is not None and json_of_plain(record[part]) is None:
                record[f"{part}_base64"] = base64.b64encode(data).decode()
        line = json_of_value(record)
    return line.decode()


def record_of(line: str, topic: str, serdes: TopicSerdes, time_ms: int) -> ProducedRecord:
    """Return the record of a line.

    Args:
        serdes: Of the topic.
        time_ms: Its timestamp if the line has none (ms).

    Raises:
        ValueError: The line is no record, or its key or value does not fit the serde.
    """
    from pystreams.readable_values import json_of_value, value_of_json

    record: Any = value_of_json(line)
    if not isinstance(record, dict) or "value" not in record:
        raise ValueError('with --json a line is an object with "value", and "key" if it has one')
    if unknown := sorted(record.keys() - _FIELDS):
        raise ValueError(f"{unknown[0]!r} is no field of a record: there are {', '.join(_FIELDS)}")
    timestamp = record.get("timestamp", time_ms)
    if type(timestamp) is not int or not 0 <= timestamp <= MAX_TIME:
        raise ValueError(
            '"timestamp" is a whole number, 0 or more: milliseconds since the epoch, not '
            f"{json_of_value(timestamp).decode()}"
        )
    return (
        _bytes_of(record, "key", serdes.key, topic),
        _bytes_of(record, "value", serdes.value, topic),
        timestamp,
        _headers_of(record.get("headers") or ()),
    )


def _bytes_of(record: dict[str, Any], part: str, serde: Serde[Any], topic: str) -> bytes | None:
    """Return the bytes of a key or value; None if the record has none."""
    from pystreams.readable_values import bytes_of_json

    value, data = record.get(part), record.get(f"{part}_base64")
    if data is None:
        return None if value is None else bytes_of_json(value, serde, topic)
    try:
        held = base64.b64decode(data, validate=True)
    except (TypeError, ValueError):
        raise ValueError(f'"{part}_base64" is bytes in base64, not {data!r}') from None
    if value is not None and not _is_told_of(held, value, serde, topic):
        raise ValueError(f'"{part}_base64" is for what "{part}" can\'t say: leave one out')
    return held


def _is_told_of(data: bytes, value: Any, serde: Serde[Any], topic: str) -> bool:
    """Return whether a line has told a value of bytes, beside these."""
    from pystreams.readable_values import (
        json_of_plain,
        json_of_value,
        plain_of_value,
        value_of_json,
    )

    try:
        read = plain_of_value(serde.deserializer(topic)(data))
    except Exception:  # noqa: BLE001 - the user's serde may raise anything
        return False
    is_unusual = json_of_plain(read) is None
    return is_unusual and bool(value_of_json(json_of_value(read).decode()) == value)


def _headers_of(headers: Any) -> Headers:
    """Return headers, given as pairs or as an object."""
    pairs = [*map(list, headers.items())] if isinstance(headers, dict) else headers
    try:
        return tuple(map(_header, pairs))
    except (TypeError, ValueError, IndexError):
        raise ValueError(
            '"headers" are pairs, [["name", "text"]], or an object, {"name": "text"}; a text may '
            'be null, or {"base64": "..."}'
        ) from None


def _header(pair: Any) -> tuple[str, bytes | None]:
    from pystreams.readable_values import bytes_of_json
    from pystreams.serdes import BYTES

    if not isinstance(pair, list) or not isinstance(pair[0], str):
        raise TypeError(pair)
    name, text = pair
    return name, None if text is None else bytes_of_json(text, BYTES, "")
