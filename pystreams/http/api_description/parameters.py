"""What may stand in an address beside a path: every parameter, once, with its schema (JSON)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

MAX_NUMBER: Final = (1 << 63) - 1
MAX_LIMIT: Final = 10_000
DEFAULT_LIMIT: Final = 100

ALWAYS: Final = ("isolation", "min_position", "partition")
"""What a question to a store may always have."""


class Parameter(NamedTuple):
    """A parameter."""

    text: str
    schema: dict[str, Any]


_TIME: Final = {"type": "integer", "minimum": -MAX_NUMBER, "maximum": MAX_NUMBER}
_TEXT: Final = {"type": "string"}

IN_PATH: Final = {
    "store": Parameter("The store's name.", _TEXT),
    "key": Parameter(
        "The key as the store's key serde writes it, with / as %2F: a text as it is, a number in "
        'digits, of serdes.JSON as JSON, so that its key "a" is %22a%22; null is refused. '
        'Bytes that are no UTF-8 are percent-encoded, or {"base64": "..."}, as answers show them.',
        _TEXT,
    ),
}
IN_QUERY: Final = {
    "isolation": Parameter(
        "What is seen; as default.state.isolation.level says if not given. In small letters or "
        "capitals.",
        {
            "type": "string",
            "enum": [
                *("read_committed", "read_uncommitted"),
                *("READ_COMMITTED", "READ_UNCOMMITTED"),
            ],
        },
    ),
    "min_position": Parameter(
        "How far a partition must have come, as JSON: topic, partition, offset.",
        {"type": "string", "examples": ['{"orders":{"0":17}}']},
    ),
    "partition": Parameter("One partition.", {"type": "integer", "maximum": MAX_NUMBER}),
    "as_of": Parameter("Of versioned stores: the version valid at that time (ms).", _TIME),
    "time_from": Parameter("The first start of a window, or of a version's time (ms).", _TIME),
    "time_to": Parameter("The last start of a window, or of a version's time (ms).", _TIME),
    "from": Parameter("The first key, written as in a path.", _TEXT),
    "to": Parameter("The last key, likewise.", _TEXT),
    "order": Parameter(
        "By key.",
        {"type": "string", "enum": ["ascending", "descending"], "default": "ascending"},
    ),
    "limit": Parameter(
        "How many entries of each partition.",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    ),
}
