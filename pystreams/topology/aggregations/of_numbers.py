"""Aggregations of numbers: count, sum, mean, variance, standard deviation; all of them exact.

They can be undone, so that tables can be aggregated by them too; a group of a table that has lost
its last row has no row.
"""

# ruff: noqa: A001 - called as aggregations.sum.

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeVar, overload

from pystreams.serdes import DOUBLE, LONG
from pystreams.topology.aggregations import exact_numbers as exact
from pystreams.topology.aggregations import state_bytes
from pystreams.topology.aggregations.aggregation import (
    Aggregation,
    Growth,
    aggregation_of,
)

V = TypeVar("V")
N = TypeVar("N", bound=float)

_COUNT = struct.Struct(">Bq")
_MOMENTS = state_bytes.plain(exact.moments_bytes, exact.moments_from)


def _write_count(counted: int) -> bytes:
    return _COUNT.pack(state_bytes.COUNT, counted)


def _read_count(data: bytes) -> int:
    if data[0] != state_bytes.COUNT:
        raise state_bytes.wrong_mark("count", state_bytes.COUNT, data)
    counted: int = _COUNT.unpack(data)[1]
    return counted


_COUNTS = state_bytes.plain(_write_count, _read_count)


def count(select: Callable[[V], object] | None = None) -> Aggregation[V, Any, int]:
    """Count the values.

    Args:
        select: Called with a value; one for which it returns None is not counted.
    """
    growth = Growth[int](
        begin=lambda _: 1,
        add=lambda so_far, _: so_far + 1,
        merge=lambda so_far, other: so_far + other,
        subtract=lambda so_far, _: so_far - 1 or None,
    )
    return aggregation_of("count", select, growth, _COUNTS, lambda counted: counted, LONG)


@overload
def sum() -> Aggregation[N, Any, N]: ...


@overload
def sum(select: Callable[[V], N | None]) -> Aggregation[V, Any, N]: ...


def sum(select: Callable[[Any], Any] | None = None) -> Aggregation[Any, Any, Any]:
    """Add up numbers: integers of any size to an integer, floats to the float next to the true sum.

    Args:
        select: Called with a value; returns the number, None for none. The values themselves when
            not given.
    """
    growth = Growth(exact.sum_of, exact.plus, exact.merged, exact.minus)
    return aggregation_of(
        "sum", select, growth, exact.sum_serde(state_bytes.SUM, "sum"), exact.total_of
    )


@overload
def mean() -> Aggregation[float, Any, float]: ...


@overload
def mean(select: Callable[[V], float | None]) -> Aggregation[V, Any, float]: ...


def mean(select: Callable[[Any], Any] | None = None) -> Aggregation[Any, Any, float]:
    """Return the float next to the true mean of numbers.

    Args:
        select: As in `sum`.
    """
    growth = Growth(exact.sum_of, exact.plus, exact.merged, exact.minus)
    serde = exact.sum_serde(state_bytes.MEAN, "mean")
    return aggregation_of("mean", select, growth, serde, exact.mean_of, DOUBLE)


@overload
def variance(*, sample: bool = True) -> Aggregation[float, Any, float]: ...


@overload
def variance(
    select: Callable[[V], float | None], *, sample: bool = True
) -> Aggregation[V, Any, float]: ...


def variance(
    select: Callable[[Any], Any] | None = None, *, sample: bool = True
) -> Aggregation[Any, Any, float]:
    """Return the float next to the true variance of numbers; infinite beyond all floats.

    Args:
        select: As in `sum`.
        sample: Divide by one less than the count, as for a sample of something larger: nan for one
            number. False divides by the count.
    """
    return _spread("variance", select, lambda moments: exact.variance_of(moments, sample=sample))


@overload
def stddev(*, sample: bool = True) -> Aggregation[float, Any, float]: ...


@overload
def stddev(
    select: Callable[[V], float | None], *, sample: bool = True
) -> Aggregation[V, Any, float]: ...


def stddev(
    select: Callable[[Any], Any] | None = None, *, sample: bool = True
) -> Aggregation[Any, Any, float]:
    """Return the float next to the true standard deviation of numbers.

    Args:
        select: As in `sum`.
        sample: As in `variance`, whose root it is.
    """
    return _spread("stddev", select, lambda moments: exact.stddev_of(moments, sample=sample))


def _spread(
    name: str, select: Callable[[Any], Any] | None, result: Callable[[exact.Moments], float]
) -> Aggregation[Any, Any, float]:
    growth = Growth(exact.moments_of, exact.moments_plus, exact.moments_merged, exact.moments_minus)
    serde = state_bytes.marked(state_bytes.VARIANCE, name, _MOMENTS)
    return aggregation_of(name, select, growth, serde, result, DOUBLE)
