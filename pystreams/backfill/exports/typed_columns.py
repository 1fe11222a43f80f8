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
_INT_SIGN = 1 << 31


def typed(column: Column, serde: Serde[Any] | None) -> Column:
    """Return a binary column as the type of its serde; None stays binary."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    if any(serde is text for text in _TEXTS):
        return column.cast("string")
    if serde is serdes.LONG:
        return F.conv(F.hex(column), 16, -10).cast("bigint")
    if serde is serdes.INT:
        return int_of(column)
    if serde is serdes.DOUBLE:
        return F.udf(_double, "double")(column)
    return column


def int_of(column: Column) -> Column:
    """Return the int32 that four bytes are."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    # Without a sign, of which the first bit is made.
    number = F.conv(F.hex(column), 16, 10).cast("bigint")
    return (number.bitwiseXOR(F.lit(_INT_SIGN)) - F.lit(_INT_SIGN)).cast("int")


def _double(data: bytearray | None) -> float | None:
    return None if data is None else float(struct.unpack(">d", data)[0])
