"""Keys as a store is asked for them: texts."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

UNDECODED: Final = "surrogateescape"
"""How bytes that are no UTF-8 are in a text, and come into an address as they are."""
_BASE64 = "base64"


def text_of_key(key: Any) -> str:
    """Return the text by which a store is asked for a key: the text, the bytes, or as JSON."""
    if isinstance(key, str):
        return key
    if not isinstance(key, bytes | bytearray):
        return json.dumps(key)
    text = key.decode(errors=UNDECODED)
    # The server reads it as other bytes.
    return json.dumps({_BASE64: base64.b64encode(key).decode()}) if _stands_for(text) else text


def texts_of(entry: dict[str, Any]) -> list[str]:
    """Return the texts by which a store may be asked for the key of an entry of a range."""
    key = entry["key"]
    if "window" in entry:
        return [json.dumps({"key": key, "window": entry["window"]})]
    return [key, json.dumps(key)] if isinstance(key, str) else [json.dumps(key)]


def _stands_for(text: str) -> bool:
    """Return whether a text is the object that stands for bytes."""
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, dict) and found.keys() == {_BASE64}
