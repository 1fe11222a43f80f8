"""Approximate aggregations in little room: percentiles and distinct counts, by `datasketches`.

The package is an extra, `pip install 'pystreams-kafka[sketches]'`.

Percentiles are kept as a t-digest. The other quantile sketches of the package (KLL, REQ, classic)
draw random numbers that can't be seeded: a restart, a replay or a backfill would give other bytes
and other results than the run before. A t-digest of equal input is equal. It is asked to take in
values 64 at a time, which is faster than one by one and more exact; those that wait stand before it
in the state. Percentiles are exact for as many values as three quarters of the compression.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from types import ModuleType
from typing import Any, TypeVar, overload

from pystreams.errors import TopologyError
from pystreams.serdes import BYTES, DOUBLE, LONG
from pystreams.topology.aggregations import state_bytes
from pystreams.topology.aggregations.aggregation import Aggregation, Growth, aggregation_of

V = TypeVar("V")

_WAITING_MAX = 64
_PACK = struct.Struct(">d").pack
_INT64 = 1 << 63
_EMPTY_TEXT = "\0pystreams: the empty text\0"
"""What stands for it, which the package does not count."""


@overload
def approx_distinct_count(*, log2_registers: int = 12) -> Aggregation[Any, Any, int]: ...


@overload
def approx_distinct_count(
    select: Callable[[V], Any], *, log2_registers: int = 12
) -> Aggregation[V, Any, int]: ...


def approx_distinct_count(
    select: Callable[[Any], Any] | None = None, *, log2_registers: int = 12
) -> Aggregation[Any, Any, int]:
    """Count the values that differ, about: by a HyperLogLog sketch of 2 KB, mostly within 1.6 %.

    Text, integers, floats and bytes can be counted. An integer and a float that are equal are two
    here, but for 0 and 0.0. Text and integers are what they are to DataSketches in Java, but for
    the empty text, which is not counted there.

    Args:
        select: Called with a value; returns what is counted, None for nothing. The values
            themselves when not given.
        log2_registers: 7 to 21; one more halves the square of the error, and doubles the room.

    Raises:
        TopologyError: The package is not installed, or `log2_registers` is not in that range.
    """
    package = _datasketches("approx_distinct_count")
    if log2_registers not in range(7, 22):
        raise TopologyError(
            "aggregations.approx_distinct_count: log2_registers must be 7 to 21, not "
            f"{log2_registers!r}"
        )
    sketch_class, union_class, kind = package.hll_sketch, package.hll_union, package.HLL_4

    def begin(value: Any) -> bytes:
        sketch = sketch_class(log2_registers, kind)
        sketch.update(_hashable(value))
        return bytes(sketch.serialize_compact())

    def add(so_far: bytes, value: Any) -> bytes:
        sketch = sketch_class.deserialize(so_far)
        sketch.update(_hashable(value))
        return bytes(sketch.serialize_compact())

    def merge(so_far: bytes, other: bytes) -> bytes:
        union = union_class(log2_registers)
        union.update(sketch_class.deserialize(so_far))
        union.update(sketch_class.deserialize(other))
        return bytes(union.get_result(kind).serialize_compact())

    def result(state: bytes) -> int:
        estimate: float = sketch_class.deserialize(state).get_estimate()
        return round(estimate)

    serde = state_bytes.marked(state_bytes.HLL, "approx_distinct_count", BYTES)
    return aggregation_of(
        "approx_distinct_count", select, Growth(begin, add, merge), serde, result, LONG
    )


@overload
def percentile(rank: float, *, compression: int = 200) -> Aggregation[float, Any, float]: ...


@overload
def percentile(
    rank: float, select: Callable[[V], float | None], *, compression: int = 200
) -> Aggregation[V, Any, float]: ...


def percentile(
    rank: float, select: Callable[[Any], Any] | None = None, *, compression: int = 200
) -> Aggregation[Any, Any, float]:
    """Return the number below which a part of all numbers lies, about: 0.5 is the median.

    Args:
        rank: The part, 0 to 1.
        select: As in `percentiles`.
        compression: As there.
    """
    growth, result = _digest("percentile", (rank,), compression)
    serde = state_bytes.marked(state_bytes.TDIGEST, "percentile", BYTES)
    return aggregation_of(
        "percentile", select, growth, serde, lambda state: result(state)[0], DOUBLE
    )


@overload
def percentiles(
    ranks: Sequence[float], *, compression: int = 200
) -> Aggregation[float, Any, tuple[float, ...]]: ...


@overload
def percentiles(
    ranks: Sequence[float], select: Callable[[V], float | None], *, compression: int = 200
) -> Aggregation[V, Any, tuple[float, ...]]: ...


def percentiles(
    ranks: Sequence[float],
    select: Callable[[Any], Any] | None = None,
    *,
    compression: int = 200,
) -> Aggregation[Any, Any, tuple[float, ...]]:
    """Return the numbers below which parts of all numbers lie, about, in the order of `ranks`.

    Args:
        ranks: The parts, 0 to 1, such as (0.5, 0.99).
        select: Called with a value; returns the number, None for none. The values themselves when
            not given.
        compression: How fine the t-digest is: 10 or more. At 200 it takes 4.5 KB; a rank is off by
            1 % at the median or less, by 0.1 % near 0.01 and 0.99. Up to three quarters as many
            values, 150 at 200, are told exactly.

    Raises:
        TopologyError: The package is not installed, or an argument is out of its range.
    """
    given: Any = ranks
    if not isinstance(given, Iterable):
        raise TopologyError(
            "aggregations.percentiles: ranks are several, such as (0.5, 0.99); "
            f"percentile({given!r}) takes one"
        )
    growth, result = _digest("percentiles", tuple(given), compression)
    serde = state_bytes.marked(state_bytes.TDIGEST, "percentiles", BYTES)
    return aggregation_of("percentiles", select, growth, serde, result)


def _digest(
    name: str, ranks: tuple[Any, ...], compression: int
) -> tuple[Growth[bytes], Callable[[bytes], tuple[float, ...]]]:
    """Return how a t-digest grows, and what it says.

    Its state is how many values wait (one byte), these (float64 each), and the digest of all
    others, empty before the first.
    """
    digest_class = _datasketches(name).tdigest_double
    if not ranks or not all(isinstance(rank, Real) and 0 <= float(rank) <= 1 for rank in ranks):
        raise TopologyError(
            f"aggregations.{name}: ranks are from 0 to 1, such as 0.99, not {ranks!r}"
        )
    if compression not in range(10, 65_536):
        raise TopologyError(
            f"aggregations.{name}: compression must be 10 to 65535, not {compression!r}"
        )

    def digest_of(state: bytes) -> Any:
        end = 1 + 8 * state[0]
        digest = digest_class.deserialize(state[end:]) if state[end:] else digest_class(compression)
        for value in struct.unpack_from(f">{state[0]}d", state, 1):
            digest.update(value)
        return digest

    def begin(value: Any) -> bytes:
        return b"\x01" + _PACK(_finite(value))

    def add(so_far: bytes, value: Any) -> bytes:
        waiting = so_far[0] + 1
        end = 8 * waiting - 7
        state = bytes((waiting,)) + so_far[1:end] + _PACK(_finite(value)) + so_far[end:]
        return state if waiting < _WAITING_MAX else b"\x00" + digest_of(state).serialize()

    def merge(so_far: bytes, other: bytes) -> bytes:
        digest = digest_of(so_far)
        digest.merge(digest_of(other))
        return b"\x00" + bytes(digest.serialize())

    def result(state: bytes) -> tuple[float, ...]:
        digest = digest_of(state)
        return tuple(digest.get_quantile(rank) for rank in ranks)

    return Growth(begin, add, merge), result


def _hashable(value: Any) -> Any:
    """Return what the package counts a value by."""
    if isinstance(value, float):
        return value
    if isinstance(value, str):
        return value or _EMPTY_TEXT
    if isinstance(value, int):
        # Beyond 64 bits it would be rounded to a float.
        return value if -_INT64 <= value < _INT64 else str(value)
    if isinstance(value, bytes):
        return value.decode("latin-1") or _EMPTY_TEXT
    raise TypeError(f"text, int, float or bytes can be counted here, not {type(value).__name__}")


def _finite(number: Any) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{value} has no rank: select None for values without a number")
    return value


def _datasketches(name: str) -> ModuleType:
    """Return the package.

    Raises:
        TopologyError: It is not installed.
    """
    try:
        import datasketches  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise TopologyError(
            f"aggregations.{name} needs the package datasketches: "
            "pip install 'pystreams-kafka[sketches]'"
        ) from error
    package: ModuleType = datasketches
    return package
