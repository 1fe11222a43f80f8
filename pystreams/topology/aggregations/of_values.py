"""Aggregations that keep values: min, max, first, last, top_n, bottom_n, collect, distinct_count.

What is kept is kept with a serde, `JSON` unless another is given. JSON knows text, numbers, lists
and dicts with text as keys; it makes a list of a tuple.

First and last are by event time: the timestamp of the record. Of equal timestamps the earlier
arrival is the first, and the later one the last; so it is with `collect`.
"""

# ruff: noqa: A001 - called as aggregations.min.

from __future__ import annotations

import builtins
from bisect import bisect_right
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Literal, Protocol, TypeVar, overload

from pystreams.errors import TopologyError
from pystreams.serdes import JSON, LONG, Serde
from pystreams.topology.aggregations import state_bytes
from pystreams.topology.aggregations.aggregation import Aggregation, Growth, aggregation_of
from pystreams.topology.aggregations.state_bytes import TimedValue, TimedValues, Values
from pystreams.topology.contracts.user_functions import VALUE, checked


class Comparable(Protocol):
    """What `<` can be asked of."""

    def __lt__(self, other: Any, /) -> bool: ...


V = TypeVar("V")
T = TypeVar("T")
C = TypeVar("C", bound=Comparable)

Timed = tuple[int, Any]
"""(timestamp in ms, value)."""


@overload
def min(*, serde: Serde[C] = JSON) -> Aggregation[C, Any, C]: ...


@overload
def min(select: Callable[[V], C | None], *, serde: Serde[C] = JSON) -> Aggregation[V, Any, C]: ...


def min(
    select: Callable[[Any], Any] | None = None, *, serde: Serde[Any] = JSON
) -> Aggregation[Any, Any, Any]:
    """Keep the least value; of equal ones the first to arrive.

    Args:
        select: Called with a value; returns what is compared and kept, None for nothing. The values
            themselves when not given.
        serde: How it is kept.
    """
    ordered = _ordered(serde)

    def lesser(so_far: Any, value: Any) -> Any:
        return builtins.min(so_far, ordered(value))

    return _one_value("min", state_bytes.MIN, select, Growth(ordered, lesser, lesser), serde)


@overload
def max(*, serde: Serde[C] = JSON) -> Aggregation[C, Any, C]: ...


@overload
def max(select: Callable[[V], C | None], *, serde: Serde[C] = JSON) -> Aggregation[V, Any, C]: ...


def max(
    select: Callable[[Any], Any] | None = None, *, serde: Serde[Any] = JSON
) -> Aggregation[Any, Any, Any]:
    """Keep the greatest value; of equal ones the first to arrive. Arguments are those of `min`."""
    ordered = _ordered(serde)

    def greater(so_far: Any, value: Any) -> Any:
        return builtins.max(so_far, ordered(value))

    return _one_value("max", state_bytes.MAX, select, Growth(ordered, greater, greater), serde)


@overload
def first(*, serde: Serde[V] = JSON) -> Aggregation[V, Any, V]: ...


@overload
def first(select: Callable[[V], T | None], *, serde: Serde[T] = JSON) -> Aggregation[V, Any, T]: ...


def first(
    select: Callable[[Any], Any] | None = None, *, serde: Serde[Any] = JSON
) -> Aggregation[Any, Any, Any]:
    """Keep the value of the lowest timestamp; of equal timestamps the first to arrive.

    Args:
        select: Called with a value; returns what is kept, None for nothing. The values themselves
            when not given.
        serde: How it is kept.
    """

    def earlier(so_far: Timed, other: Timed) -> Timed:
        return other if other[0] < so_far[0] else so_far

    def add(so_far: Timed, value: Any, timestamp: int) -> Timed:
        return (timestamp, value) if timestamp < so_far[0] else so_far

    growth = Growth(_timed, add, earlier, with_timestamp=True)
    return _one_value("first", state_bytes.FIRST, select, growth, serde)


@overload
def last(*, serde: Serde[V] = JSON) -> Aggregation[V, Any, V]: ...


@overload
def last(select: Callable[[V], T | None], *, serde: Serde[T] = JSON) -> Aggregation[V, Any, T]: ...


def last(
    select: Callable[[Any], Any] | None = None, *, serde: Serde[Any] = JSON
) -> Aggregation[Any, Any, Any]:
    """Keep the value of the highest timestamp; of equal timestamps the last to arrive.

    Arguments are those of `first`.
    """

    def later(so_far: Timed, other: Timed) -> Timed:
        return so_far if other[0] < so_far[0] else other

    def add(so_far: Timed, value: Any, timestamp: int) -> Timed:
        return so_far if timestamp < so_far[0] else (timestamp, value)

    growth = Growth(_timed, add, later, with_timestamp=True)
    return _one_value("last", state_bytes.LAST, select, growth, serde)


@overload
def top_n(
    n: int, *, by: Callable[[V], Any] | None = None, serde: Serde[V] = JSON
) -> Aggregation[V, Any, list[V]]: ...


@overload
def top_n(
    n: int,
    select: Callable[[V], T | None],
    *,
    by: Callable[[T], Any] | None = None,
    serde: Serde[T] = JSON,
) -> Aggregation[V, Any, list[T]]: ...


def top_n(
    n: int,
    select: Callable[[Any], Any] | None = None,
    *,
    by: Callable[[Any], Any] | None = None,
    serde: Serde[Any] = JSON,
) -> Aggregation[Any, Any, list[Any]]:
    """Keep the `n` greatest values, the greatest first; of equal ones those that arrived first.

    Args:
        n: How many are kept at most.
        select: Called with a value; returns what is kept, None for nothing. The values themselves
            when not given.
        by: Called with what is kept; returns what it is compared by. Itself when None.
        serde: How it is kept.

    Raises:
        TopologyError: `n` is no whole number of 1 or more, or a function takes other parameters.
    """
    return _ranked("top_n", state_bytes.TOP, n, select, by, serde)


@overload
def bottom_n(
    n: int, *, by: Callable[[V], Any] | None = None, serde: Serde[V] = JSON
) -> Aggregation[V, Any, list[V]]: ...


@overload
def bottom_n(
    n: int,
    select: Callable[[V], T | None],
    *,
    by: Callable[[T], Any] | None = None,
    serde: Serde[T] = JSON,
) -> Aggregation[V, Any, list[T]]: ...


def bottom_n(
    n: int,
    select: Callable[[Any], Any] | None = None,
    *,
    by: Callable[[Any], Any] | None = None,
    serde: Serde[Any] = JSON,
) -> Aggregation[Any, Any, list[Any]]:
    """Keep the `n` least values, the least first; otherwise as `top_n`."""
    return _ranked("bottom_n", state_bytes.BOTTOM, n, select, by, serde)


Keep = Literal["first", "last"]


@overload
def collect(
    limit: int, *, keep: Keep = "last", serde: Serde[V] = JSON
) -> Aggregation[V, Any, list[V]]: ...


@overload
def collect(
    limit: int,
    select: Callable[[V], T | None],
    *,
    keep: Keep = "last",
    serde: Serde[T] = JSON,
) -> Aggregation[V, Any, list[T]]: ...


def collect(
    limit: int,
    select: Callable[[Any], Any] | None = None,
    *,
    keep: Keep = "last",
    serde: Serde[Any] = JSON,
) -> Aggregation[Any, Any, list[Any]]:
    """Keep values in the order of their timestamps, those of equal timestamps as they arrived.

    Args:
        limit: How many are kept at most.
        select: As in `first`.
        keep: Which ones, when there are more: "first" or "last" in that order.
        serde: How a value is kept.

    Raises:
        TopologyError: `limit` is no whole number of 1 or more, or `keep` is something else.
    """
    _check_size("collect", "limit", limit)
    if keep not in {"first", "last"}:
        raise TopologyError(f"aggregations.collect: keep is 'first' or 'last', not {keep!r}")
    keeps_first = keep == "first"

    def add(so_far: list[Timed], value: Any, timestamp: int) -> list[Timed]:
        if len(so_far) >= limit:
            if keeps_first and timestamp >= so_far[limit - 1][0]:
                return bounded(so_far)
            if not keeps_first and timestamp < so_far[-limit][0]:
                return bounded(so_far)
        at = len(so_far)
        if timestamp < so_far[-1][0]:
            at = bisect_right(so_far, timestamp, key=_time_of)
        return bounded([*so_far[:at], (timestamp, value), *so_far[at:]])

    def merge(so_far: list[Timed], other: list[Timed]) -> list[Timed]:
        return bounded(sorted(so_far + other, key=_time_of))

    def bounded(timed: list[Timed]) -> list[Timed]:
        # Of an earlier version, with a higher limit, there may be more.
        return timed[:limit] if keeps_first else timed[-limit:]

    mark = state_bytes.COLLECT_FIRST if keeps_first else state_bytes.COLLECT_LAST
    parts: state_bytes.Parts = {"kept": serde, "keep": keep, "limit": limit}
    return aggregation_of(
        "collect",
        select,
        Growth(lambda value, timestamp: [(timestamp, value)], add, merge, with_timestamp=True),
        state_bytes.marked(mark, "collect", TimedValues(serde), parts),
        lambda timed: [value for _, value in bounded(timed)],
    )


def distinct_count(
    select: Callable[[V], Any] | None = None, *, serde: Serde[Any] = JSON
) -> Aggregation[V, Any, int]:
    """Count the values that differ, exactly. Values are equal if Python says so: 1 and 1.0 are.

    All of them are kept in the state, which is read and written with each record: for groups of
    some hundreds. `approx_distinct_count` takes 2 KB at most, and `KStream.distinct` before a count
    costs the same however many there are.

    Args:
        select: Called with a value; returns what is counted, None for nothing. The values
            themselves when not given: text, numbers, or tuples of them.
        serde: How it is kept. Other values need one that gives back what can be in a set.
    """
    image = state_bytes.image_with(serde)

    def counted(value: Any) -> Any:
        return value if image is None else state_bytes.frozen(image(value))

    def add(so_far: frozenset[Any], value: Any) -> frozenset[Any]:
        one = counted(value)
        return so_far if one in so_far else so_far | {one}

    growth = Growth[frozenset[Any]](
        begin=lambda value: frozenset((counted(value),)),
        add=add,
        merge=lambda so_far, other: so_far | other,
    )
    make = frozenset if image is None else state_bytes.frozen_set
    body = Values(serde, make, in_order=False)
    states = state_bytes.marked(state_bytes.DISTINCT, "distinct_count", body, {"kept": serde})
    return aggregation_of("distinct_count", select, growth, states, len, LONG)


def _one_value(
    name: str,
    mark: int,
    select: Callable[[Any], Any] | None,
    growth: Growth[Any],
    serde: Serde[Any],
) -> Aggregation[Any, Any, Any]:
    timed = growth.with_timestamp
    body = TimedValue(serde) if timed else serde
    states = state_bytes.marked(mark, name, body, {"kept": serde})
    result = itemgetter(1) if timed else _itself
    return aggregation_of(name, select, growth, states, result, serde)


def _ranked(
    name: str,
    mark: int,
    n: int,
    select: Callable[[Any], Any] | None,
    by: Callable[[Any], Any] | None,
    serde: Serde[Any],
) -> Aggregation[Any, Any, list[Any]]:
    _check_size(name, "n", n)
    rank_of = _itself if by is None else checked(by, f"aggregations.{name}", VALUE)
    image = (state_bytes.image_with(serde) if by is None else None) or _itself
    greatest_first = mark == state_bytes.TOP

    def begin(value: Any) -> list[Any]:
        first = image(value)
        _comparable(rank_of(first))
        return [first]

    def add(so_far: list[Any], selected: Any) -> list[Any]:
        value = image(selected)
        rank = _comparable(rank_of(value))
        low, high = 0, len(so_far)
        while low < high:
            middle = (low + high) // 2
            other = rank_of(so_far[middle])
            if other < rank if greatest_first else rank < other:
                high = middle
            else:
                low = middle + 1
        return so_far[:n] if low >= n else [*so_far[:low], value, *so_far[low : n - 1]]

    def merge(so_far: list[Any], other: list[Any]) -> list[Any]:
        for value in other:
            so_far = add(so_far, value)
        return so_far

    body = Values(serde)
    states = state_bytes.marked(mark, name, body, {"kept": serde, "n": n})
    # Of an earlier version, with a greater n, there may be more.
    return aggregation_of(
        name, select, Growth(begin, add, merge), states, lambda kept: list(kept[:n])
    )


def _check_size(name: str, argument: str, size: object) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise TopologyError(
            f"aggregations.{name}: {argument} must be a whole number of 1 or more, not {size!r}"
        )


def _ordered(serde: Serde[Any]) -> Callable[[Any], Any]:
    """Return the function that makes a value comparable to what is kept with a serde."""
    image = state_bytes.image_with(serde)
    return _comparable if image is None else lambda value: _comparable(image(value))


def _comparable(value: Any) -> Any:
    """Return a value; refuse nan, with which order has no meaning."""
    if value != value:  # noqa: PLR0124 - as only nan does
        raise ValueError(f"{value} has no order: select None for values without a number")
    return value


def _timed(value: Any, timestamp: int) -> Timed:
    return timestamp, value


def _time_of(timed: Timed) -> int:
    return timed[0]


def _itself(value: Any) -> Any:
    return value
