"""Sums without rounding: of integers and floats, in whatever order, and with what is taken out.

A float is an integer divided by a power of two. So a sum of floats is one too, kept as
`mantissa / 2**places`: nothing is lost on the way, and the result is the float next to the true
sum, as `math.fsum` gives it. Therefore results and bytes do not depend on the order of records, a
merge of sessions is as good as one session, and what a table's row had added can be taken out. The
mantissa of usual numbers has 8 to 14 bytes.
"""

from __future__ import annotations

import math
import numbers
import struct
import sys
from fractions import Fraction
from operator import index
from typing import Any

from pystreams.serdes import Serde
from pystreams.topology.aggregations import state_bytes

Sum = tuple[int, int, int, int]
"""(count, how many of them were floats, mantissa, places)."""

Moments = tuple[int, int, int, int]
"""(count, places, mantissa of the sum, that of the sum of squares in twice as many places)."""

_ROOT_BITS = 2 * sys.float_info.mant_dig + 3
"""Of a ratio, so that its root has more than a float."""
_INTEGERS = struct.Struct(">B?Q")
_FLOATS = struct.Struct(">B?QQH")
_MOMENTS = struct.Struct(">QHI")


def scaled(number: Any) -> tuple[int, int, int]:
    """Return a number as (mantissa, places, 1 for a float and 0 for an integer).

    Raises:
        TypeError: It is no number, or one of another kind, such as a Decimal.
        ValueError: It is nan or infinite.
    """
    kind = type(number)
    if kind is int:
        return number, 0, 0
    if kind is not float:
        if isinstance(number, int) or hasattr(number, "__index__"):
            return index(number), 0, 0
        if not isinstance(number, numbers.Real) or isinstance(number, Fraction):
            raise TypeError(f"int and float can be added up here, not {kind.__name__}")
        number = float(number)
    try:
        numerator, denominator = number.as_integer_ratio()
    except (OverflowError, ValueError):
        raise ValueError(
            f"{number} can't be added up: select None for values without a number"
        ) from None
    return numerator, denominator.bit_length() - 1, 1


def sum_of(number: Any) -> Sum:
    """Return the sum of one number."""
    mantissa, places, floats = scaled(number)
    return 1, floats, mantissa, places


def plus(total: Sum, number: Any) -> Sum:
    """Return a sum with one number more."""
    count, floats, mantissa, places = total
    other, other_places, is_float = scaled(number)
    if other_places == places:
        mantissa += other
    elif other_places < places:
        mantissa += other << places - other_places
    else:
        mantissa = (mantissa << other_places - places) + other
        places = other_places
    return count + 1, floats + is_float, mantissa, places


def merged(left: Sum, right: Sum) -> Sum:
    """Return the sum of two sums."""
    count, floats, mantissa, places = left
    more, more_floats, other, other_places = right
    if other_places > places:
        mantissa <<= other_places - places
        places = other_places
    elif other_places < places:
        other <<= places - other_places
    return count + more, floats + more_floats, mantissa + other, places


def minus(total: Sum, number: Any) -> Sum | None:
    """Return a sum without one of its numbers; None if that was the last."""
    mantissa, places, floats = scaled(number)
    count, floats, mantissa, places = merged(total, (-1, -floats, -mantissa, places))
    if count <= 0:
        return None
    # Only integers are left.
    return (count, 0, mantissa >> places, 0) if not floats else (count, floats, mantissa, places)


def total_of(total: Sum) -> int | float:
    """Return the sum: an integer if all its numbers are, else the nearest float."""
    _, floats, mantissa, places = total
    return ratio(mantissa, 1 << places) if floats else mantissa


def mean_of(total: Sum) -> float:
    """Return the float nearest to the mean."""
    count, _, mantissa, places = total
    return ratio(mantissa, count << places)


def ratio(numerator: int, denominator: int) -> float:
    """Return the float nearest to a ratio; infinite when it is beyond all floats."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def sum_serde(mark: int, name: str) -> Serde[Sum]:
    """Return the serde of sums: whether there are floats, counts, and the mantissa behind them.

    Args:
        mark: The first byte.
    """

    def write(total: Sum) -> bytes:
        count, floats, mantissa, places = total
        raw = _signed_bytes(mantissa)
        if floats:
            return _FLOATS.pack(mark, True, count, floats, places) + raw
        return _INTEGERS.pack(mark, False, count) + raw

    def read(data: bytes) -> Sum:
        if data[0] != mark:
            raise state_bytes.wrong_mark(name, mark, data)
        if data[1]:
            _, _, count, floats, places = _FLOATS.unpack_from(data)
            return count, floats, int.from_bytes(data[20:], "big", signed=True), places
        count = _INTEGERS.unpack_from(data)[2]
        return count, 0, int.from_bytes(data[10:], "big", signed=True), 0

    return state_bytes.plain(write, read)


def moments_of(number: Any) -> Moments:
    """Return the moments of one number."""
    mantissa, places, _ = scaled(number)
    return 1, places, mantissa, mantissa * mantissa


def moments_plus(moments: Moments, number: Any) -> Moments:
    """Return moments with one number more."""
    return moments_merged(moments, moments_of(number))


def moments_merged(left: Moments, right: Moments) -> Moments:
    """Return the moments of both."""
    count, places, sums, squares = left
    more, other_places, other_sums, other_squares = right
    if other_places > places:
        apart = other_places - places
        places, sums, squares = other_places, sums << apart, squares << 2 * apart
    elif other_places < places:
        apart = places - other_places
        other_sums, other_squares = other_sums << apart, other_squares << 2 * apart
    return count + more, places, sums + other_sums, squares + other_squares


def moments_minus(moments: Moments, number: Any) -> Moments | None:
    """Return moments without one of their numbers; None if that was the last."""
    _, places, sums, squares = moments_of(number)
    left = moments_merged(moments, (-1, places, -sums, -squares))
    return left if left[0] > 0 else None


def root_of_ratio(numerator: int, denominator: int) -> float:
    """Return the float nearest to the root of a ratio, which is none below 0."""
    shift = (numerator.bit_length() - denominator.bit_length() - _ROOT_BITS) // 2
    if shift >= 0:
        return ratio(_root_to_odd(numerator, denominator << 2 * shift) << shift, 1)
    return ratio(_root_to_odd(numerator << -2 * shift, denominator), 1 << -shift)


def _root_to_odd(numerator: int, denominator: int) -> int:
    """Return the root of a ratio, rounded down, or to the odd number next to it if it is not whole.

    So a float that is made of it is rounded as the root itself would be.
    """
    root = math.isqrt(numerator // denominator)
    return root | (root * root * denominator != numerator)


def variance_of(moments: Moments, *, sample: bool) -> float:
    """Return the float nearest to the variance; nan for the sample variance of one number."""
    if sample and moments[0] == 1:
        return math.nan
    return ratio(*_variance_ratio(moments, sample=sample))


def stddev_of(moments: Moments, *, sample: bool) -> float:
    """Return the float nearest to the standard deviation; nan where the variance is."""
    if sample and moments[0] == 1:
        return math.nan
    return root_of_ratio(*_variance_ratio(moments, sample=sample))


def _variance_ratio(moments: Moments, *, sample: bool) -> tuple[int, int]:
    count, places, sums, squares = moments
    degrees = count - 1 if sample else count
    return count * squares - sums * sums, count * degrees << 2 * places


def moments_bytes(moments: Moments) -> bytes:
    """Return count, places, the length of the sum, the sum and the sum of squares."""
    count, places, sums, squares = moments
    raw_sums = _signed_bytes(sums)
    return _MOMENTS.pack(count, places, len(raw_sums)) + raw_sums + _signed_bytes(squares)


def moments_from(data: bytes) -> Moments:
    """Return the moments of `moments_bytes`."""
    count, places, length = _MOMENTS.unpack_from(data)
    sums = int.from_bytes(data[14 : 14 + length], "big", signed=True)
    return count, places, sums, int.from_bytes(data[14 + length :], "big", signed=True)


def _signed_bytes(number: int) -> bytes:
    """Return an integer of any size in as few bytes as it needs, big-endian."""
    return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)
