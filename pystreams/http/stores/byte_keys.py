"""Keys that are bytes, as addresses have them and as answers show them.

A key that is UTF-8 text is that text. Any other is percent-encoded byte by byte, or is what answers
show of it: {"base64": "..."}. A text that could be read as such an object is shown as one, so that
what an answer has shown always asks for the same key.

A key in an address is unquoted with `UNDECODED`: bytes that are no UTF-8 come as lone surrogates.
"""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import parse_qsl, unquote

import orjson
from starlette.datastructures import QueryParams
from starlette.requests import Request

from pystreams.client.keys import UNDECODED
from pystreams.readable_values import BASE64, bytes_of_json, plain_of_value
from pystreams.serdes import BYTES, Serde

_STORES = "/v1/stores/"
_KEYS = ("from", "to")


def key_text_of(request: Request) -> str:
    """Return the key in the path of `/v1/stores/STORE/KEY`."""
    path = unquote(request.scope["raw_path"].decode("ascii"), errors=UNDECODED)
    return path.removeprefix(_STORES).partition("/")[2]


def parameters_of(request: Request) -> QueryParams:
    """Return the parameters of a request, of which `from` and `to` are keys."""
    query = request.scope["query_string"].decode("latin-1")
    texts = parse_qsl(query, keep_blank_values=True)
    keys = parse_qsl(query, keep_blank_values=True, errors=UNDECODED)
    return QueryParams(
        [key if text[0] in _KEYS else text for text, key in zip(texts, keys, strict=True)]
    )


def bytes_in(text: str) -> bytes:
    """Return the key that a text stands for.

    Raises:
        ValueError: It is an object as answers show it, but for its base64.
    """
    data = text.encode(errors=UNDECODED)
    shown = _object_in(data)
    return data if shown is None else bytes_of_json(shown, BYTES, "")


def utf8(text: str, serde: Serde[Any]) -> str:
    """Return a text of an address.

    Raises:
        ValueError: Its bytes are no UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        data = text.encode(errors=UNDECODED)
        raise ValueError(f"{data!r} is no UTF-8 text, which {serde!r} takes") from error
    return text


def shown_key(key: Any) -> Any:
    """Return a key as answers show it."""
    if not isinstance(key, bytes):
        return key
    if _object_in(key) is not None:
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
