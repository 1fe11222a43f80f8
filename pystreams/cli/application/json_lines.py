"""A record as a line of JSON: what `pystreams consume --json` prints and `produce --json` takes.

What is printed becomes the same record again: its key's and its value's bytes, its headers in their
order, and its timestamp. Partition and offset are told alone.
"""

from __future__ import annotations

from typing import Any

from pystreams.cli.application.topic_serdes import TopicSerdes
from pystreams.record import MAX_TIME, ConsumedMessage, Headers, ProducedRecord

_FIELDS = ("key", "value", "timestamp", "headers", "partition", "offset")
"""Nothing follows of the last two."""


def line_of(message: ConsumedMessage, key: Any, value: Any) -> str:
    """Return the line of a record.

    Args:
        key: Its key as its serde reads it, None if it has none.
        value: Likewise.
    """
    from pystreams.readable_values import json_of_value, plain_of_value

    record = {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "key": plain_of_value(key),
        "value": plain_of_value(value),
    }
    if headers := message.headers():
        record["headers"] = [[name, plain_of_value(data)] for name, data in headers]
    return json_of_value(record).decode()


def record_of(line: str, topic: str, serdes: TopicSerdes, time_ms: int) -> ProducedRecord:
    """Return the record of a line.

    Args:
        serdes: Of the topic.
        time_ms: Its timestamp if the line has none (ms).

    Raises:
        ValueError: The line is no record, or its key or value does not fit the serde.
    """
    import orjson

    from pystreams.readable_values import bytes_of_json

    record: Any = orjson.loads(line)
    if not isinstance(record, dict) or "value" not in record:
        raise ValueError('with --json a line is an object with "value", and "key" if it has one')
    if unknown := sorted(record.keys() - _FIELDS):
        raise ValueError(f"{unknown[0]!r} is no field of a record: there are {', '.join(_FIELDS)}")
    key, value, timestamp = record.get("key"), record["value"], record.get("timestamp", time_ms)
    if type(timestamp) is not int or not 0 <= timestamp <= MAX_TIME:
        raise ValueError(
            '"timestamp" is a whole number, 0 or more: milliseconds since the epoch, not '
            f"{orjson.dumps(timestamp).decode()}"
        )
    return (
        None if key is None else bytes_of_json(key, serdes.key, topic),
        None if value is None else bytes_of_json(value, serdes.value, topic),
        timestamp,
        _headers_of(record.get("headers") or ()),
    )


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
