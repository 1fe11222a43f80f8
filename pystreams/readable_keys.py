"""Keys as people ask for them, and are shown them: of bytes in two ways, of all others in one.

Bytes that are UTF-8 text are that text. All others are {"base64": "..."}; so is a text that could
be read as such an object, so that what was shown always asks for the same key.
"""

from __future__ import annotations

import base64
from typing import Any

import orjson

from pystreams.readable_values import BASE64, bytes_of_json, bytes_of_text, plain_of_value
from pystreams.serdes import BYTES, Serde


def bytes_of_key(text: str, serde: Serde[Any], topic: str) -> bytes:
    """Return what a text that asks for a key is in a serde's bytes.

    Args:
        text: Bytes that are no UTF-8 are in it as in `sys.argv`: by "surrogateescape".

    Raises:
        ValueError: The serde can't take it.
    """
    if serde is not BYTES:
        return bytes_of_text(text, serde, topic)
    data = text.encode(errors="surrogateescape")
    shown = _object_in(data)
    return data if shown is None else bytes_of_json(shown, serde, topic)


def shown_key(key: Any) -> Any:
    """Return a key for JSON."""
    if type(key) is str:  # As most are, of which many are asked for.
        return key
    if isinstance(key, bytes) and _object_in(key) is not None:
        return {BASE64: base64.b64encode(key).decode()}
    return plain_of_value(key)


def _object_in(data: bytes) -> dict[str, Any] | None:
    """Return the object that stands for bytes; None of bytes that stand for themselves."""
    if not data.lstrip().startswith(b"{"):
        return None
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and found.keys() == {BASE64} else None
