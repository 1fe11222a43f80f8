"""What can be asked of a store: one frozen class a question, its fields are the question.

| query                    | of stores              | answer of a partition                   |
|--------------------------|------------------------|-----------------------------------------|
| `KeyQuery`               | key-value              | the plain value, or None                |
| `RangeQuery`             | key-value              | iterator of (key, plain value)          |
| `TimestampedKeyQuery`    | key-value, timestamped | `ValueAndTimestamp`, or None            |
| `TimestampedRangeQuery`  | key-value, timestamped | iterator of (key, `ValueAndTimestamp`)  |
| `WindowKeyQuery`         | window                 | iterator of (window start in ms, value) |
| `WindowRangeQuery`       | window: by start       | iterator of (`Windowed` key, value)     |
|                          | session: by key        |                                         |
| `VersionedKeyQuery`      | versioned              | `VersionedRecord`, or None              |
| `MultiVersionedKeyQuery` | versioned              | iterator of `VersionedRecord`           |

All tables of the DSL keep timestamps. Times are milliseconds since the epoch, ranges include both
ends, and keys come in order of their bytes.

Differs from Kafka: the builder methods (`withRange`, `withDescendingKeys`, `asOf`) are keyword
arguments here. There is no `skipCache`: the record cache and the transaction are one map here, and
READ_COMMITTED reads past it.

Spec: KIP-796, KIP-805, KIP-806, KIP-960, KIP-968, KIP-992; Kafka `org.apache.kafka.streams.query`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pystreams.stores.contracts.key_value import ValueAndTimestamp
from pystreams.stores.contracts.versioned import VersionedRecord
from pystreams.stores.contracts.window import Windowed

R = TypeVar("R")


class Query(Generic[R]):
    """A question whose answer, of one partition, is an `R`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class KeyQuery(Query[Any]):
    """The value of one key, without its timestamp."""

    key: Any


@dataclass(frozen=True, slots=True)
class RangeQuery(Query[Iterator[tuple[Any, Any]]]):
    """The values of a range of keys, without their timestamps.

    Attributes:
        lower: The first key; None leaves the end open.
        upper: The last key, inclusive; None leaves the end open.
        descending: Highest key first.
    """

    lower: Any = None
    upper: Any = None
    descending: bool = False


@dataclass(frozen=True, slots=True)
class TimestampedKeyQuery(Query[ValueAndTimestamp[Any]]):
    """The value of one key, with its timestamp."""

    key: Any


@dataclass(frozen=True, slots=True)
class TimestampedRangeQuery(Query[Iterator[tuple[Any, ValueAndTimestamp[Any]]]]):
    """The values of a range of keys, with their timestamps.

    Attributes:
        lower: The first key; None leaves the end open.
        upper: The last key, inclusive; None leaves the end open.
        descending: Highest key first.
    """

    lower: Any = None
    upper: Any = None
    descending: bool = False


@dataclass(frozen=True, slots=True)
class WindowKeyQuery(Query[Iterator[tuple[int, Any]]]):
    """The windows of one key that start in a range of time, oldest first.

    Attributes:
        time_from: The earliest start of a window (ms).
        time_to: The latest start of a window (ms), inclusive.
    """

    key: Any
    time_from: int
    time_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRangeQuery(Query[Iterator[tuple[Windowed[Any], Any]]]):
    """All sessions of one key, or the windows of all keys that start in a range of time.

    Give the key to ask a session store, both times to ask a window store.

    Attributes:
        key: The key whose sessions are asked for, or None.
        time_from: The earliest start of a window (ms), or None.
        time_to: The latest start of a window (ms), inclusive, or None.

    Raises:
        ValueError: Neither a key nor both times were given, or both were.
    """

    key: Any = None
    time_from: int | None = None
    time_to: int | None = None

    def __post_init__(self) -> None:
        """Check that one thing is asked."""
        times = (self.time_from is not None) + (self.time_to is not None)
        if times != (2 if self.key is None else 0):
            raise ValueError(
                "WindowRangeQuery takes either key=... (of a session store) or time_from=... and "
                f"time_to=... (of a window store); it was given {self}"
            )


@dataclass(frozen=True, slots=True)
class VersionedKeyQuery(Query[VersionedRecord[Any]]):
    """One version of a key.

    Attributes:
        as_of: The time (ms) at which the version is valid; None asks for the latest.
    """

    key: Any
    as_of: int | None = None


@dataclass(frozen=True, slots=True)
class MultiVersionedKeyQuery(Query[Iterator[VersionedRecord[Any]]]):
    """The versions of a key that are valid somewhere in a range of time.

    Attributes:
        from_time: The range's first millisecond; None leaves it open.
        to_time: Its last millisecond, inclusive; None leaves it open.
        descending: Newest version first; else oldest first.
    """

    key: Any
    from_time: int | None = None
    to_time: int | None = None
    descending: bool = False
