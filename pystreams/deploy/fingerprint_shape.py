"""What a fingerprint must have to be compared: one that others could write is looked at first.

Facts that an earlier pystreams did not note may be missing; what a later one adds is let be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from pystreams.deploy.fingerprint import FORMAT, Fingerprint

_Check = Callable[[Any], bool]

_DEEPEST = 100
"""Each aggregation of aggregations takes two levels."""


def is_fingerprint(found: Any) -> TypeGuard[Fingerprint]:
    """Return whether something read from JSON is a fingerprint that can be compared."""
    return (
        _is_shallow(found, _DEEPEST)
        and _can_be_told(found)
        and _FINGERPRINT(found)
        and found["format"] == FORMAT
    )


def _is_shallow(found: Any, levels: int) -> bool:
    parts = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return levels > 0 and all(_is_shallow(part, levels - 1) for part in parts)


def _can_be_told(found: Any) -> bool:
    """Return whether its texts can be written: JSON may have halves of characters."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _of_type(kind: type) -> _Check:
    return lambda found: type(found) is kind


def _or_none(check: _Check) -> _Check:
    return lambda found: found is None or check(found)


def _list_of(check: _Check) -> _Check:
    return lambda found: isinstance(found, list) and all(map(check, found))


def _named(check: _Check) -> _Check:
    return lambda found: isinstance(found, dict) and all(map(check, found.values()))


def _facts(needed: Mapping[str, _Check], others: Mapping[str, _Check] | None = None) -> _Check:
    """Return whether something has some facts; others may be missing."""

    def check(found: Any) -> bool:
        return (
            isinstance(found, dict)
            and needed.keys() <= found.keys()
            and all(is_one(found[name]) for name, is_one in needed.items())
            and all(is_one(found[name]) for name, is_one in (others or {}).items() if name in found)
        )

    return check


def _is_part(found: Any) -> bool:
    return isinstance(found, str) or _SERDE(found)


_BOOL, _NUMBER, _TEXT = map(_of_type, (bool, int, str))
_SERDE = _facts(
    {"name": _TEXT, "format": _or_none(_TEXT)},
    {"parts": _or_none(_named(_is_part)), "limits": _or_none(_named(_NUMBER))},
)
_SERDES: Mapping[str, _Check] = {
    "key_serde": _or_none(_SERDE),
    "value_serde": _or_none(_SERDE),
}
_WINDOWS = _facts({"type": _TEXT})
_KEY_WINDOWS = _or_none(_list_of(_WINDOWS))
_RETENTION = _facts(
    {
        "retain_duplicates": _BOOL,
        "segment_interval_ms": _or_none(_NUMBER),
        "time_ordered": _BOOL,
        "window_size_ms": _or_none(_NUMBER),
        "retention_ms": _NUMBER,
    }
)
_STORE = _facts(
    {
        **_SERDES,
        "kind": _TEXT,
        "engine": _TEXT,
        "logged": _BOOL,
        "restored_from": _or_none(_TEXT),
        "generated": _BOOL,
        "subtopology": _or_none(_NUMBER),
        "partitions": _or_none(_NUMBER),
        "windows": _or_none(_WINDOWS),
        "retention": _or_none(_RETENTION),
        "ttl_ms": _or_none(_NUMBER),
        "max_entries": _or_none(_NUMBER),
        "made_of": _list_of(_TEXT),
        "shape": _TEXT,
        "declared": _TEXT,
    },
    {
        "timestamped": _or_none(_BOOL),
        "key_windows": _KEY_WINDOWS,
        "places": _or_none(_list_of(_list_of(_TEXT))),
        "required": _or_none(_list_of(_BOOL)),
        "identity": _or_none(_named(_or_none(_SERDE))),
    },
)
_REPARTITION_TOPIC = _facts(
    {**_SERDES, "partitions": _or_none(_NUMBER), "declared": _TEXT},
    {
        "partitioner": _or_none(_BOOL),
        "key_windows": _KEY_WINDOWS,
        "declared_partitions": _or_none(_NUMBER),
    },
)
_FINGERPRINT = _facts(
    {
        "format": _NUMBER,
        "stores": _named(_STORE),
        "repartition_topics": _named(_REPARTITION_TOPIC),
        "former_stores": _named(_STORE),
    },
    {"digest": _TEXT, **dict.fromkeys(("circles", "doubts", "refused"), _list_of(_TEXT))},
)
