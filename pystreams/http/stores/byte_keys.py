"""Keys that are bytes, as addresses have them.

A key that is no UTF-8 text is percent-encoded byte by byte, or is what answers show of it: see
`pystreams.readable_keys`. A key in an address is unquoted with `UNDECODED`: bytes that are no UTF-8
come as lone surrogates.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.datastructures import QueryParams
from starlette.requests import Request

from pystreams.client.keys import UNDECODED
from pystreams.serdes import Serde

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
