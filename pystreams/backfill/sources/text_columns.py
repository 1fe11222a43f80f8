"""Numbers and times that an archive has as text: all of a CSV, strings of JSON.

What is none ends the reading, with the value and its column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

_DATE = r"^\s*\d{4,}-\d\d?-\d\d?"
_TIME = r"[ T]\d\d?:\d\d?(:\d\d?(\.\d+)?)?"
_WITHOUT_ZONE = rf"{_DATE}({_TIME})?\s*$"
_WITH_ZONE = rf"{_DATE}{_TIME}\s*[A-Za-z+-]"


def number_of(text: Column, type_name: str, name: str) -> Column:
    """Return text as a whole number.

    Args:
        type_name: Spark's name of the number's type.
        name: The archive's name of the column.
    """
    return _or_told(text, text.try_cast(type_name), name, f"a whole number ({type_name})")


def milliseconds_of(text: Column, name: str) -> Column:
    """Return text as milliseconds since the epoch.

    A whole number is that already. Else it is a time in ISO 8601, in UTC when it has no zone.

    Args:
        name: The archive's name of the column.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    number = text.try_cast("bigint")
    # As a time without a zone Spark would take any text, and leave its zone out.
    naive = F.when(text.rlike(_WITHOUT_ZONE), utc(text.try_cast("timestamp_ntz")))
    zoned = F.when(text.rlike(_WITH_ZONE), text.try_cast("timestamp"))
    found = F.coalesce(number, F.unix_millis(naive), F.unix_millis(zoned))
    return _or_told(text, found, name, "a number of milliseconds, or a time in ISO 8601")


def utc(time: Column) -> Column:
    """Return a time without a zone as one of UTC; a cast would take the session's zone."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.concat(time.cast("string"), F.lit("Z")).cast("timestamp")


def _or_told(text: Column, found: Column, name: str, wanted: str) -> Column:
    """Return what was found in text; where there is text and nothing was found, end."""
    from pyspark.sql import functions as F  # noqa: N812

    words = F.concat(F.lit(f"column {name!r} has '"), text, F.lit(f"', which is not {wanted}"))
    return F.when(text.isNotNull(), F.coalesce(found, F.raise_error(words)))
