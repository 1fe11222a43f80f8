"""Bytes as columns of a type of their own, where the serde is one of ours that has such a type.

STRING, UUID and JSON (its text) are strings, INT, LONG and DOUBLE numbers. All others stay binary.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from pystreams import serdes
from pystreams.serdes import Serde

if TYPE_CHECKING:
    from pyspark.sql import Column

_TEXTS: tuple[Serde[Any], ...] = (serdes.STRING, serdes.UUID, serdes.JSON)
_NUMBERS: tuple[tuple[Serde[Any], str], ...] = (
    (serdes.INT, "int"),
    (serdes.LONG, "bigint"),
    (serdes.DOUBLE, "double"),
)


def typed(column: Column, serde: Serde[Any] | None) -> Column:
    """Return a binary column as the type of its serde; None stays binary."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    if any(serde is text for text in _TEXTS):
        return column.cast("string")
    for number, type_name in _NUMBERS:
        if serde is number:
            read = _double if type_name == "double" else _whole_number
            return F.udf(read, type_name)(column)
    return column


def _whole_number(data: bytearray | None) -> int | None:
    return None if data is None else int.from_bytes(data, "big", signed=True)


def _double(data: bytearray | None) -> float | None:
    return None if data is None else float(struct.unpack(">d", data)[0])
