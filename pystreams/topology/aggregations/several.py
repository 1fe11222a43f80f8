"""Several aggregations at once, kept in one store and given as one result."""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import call, itemgetter
from typing import Any, TypeVar, overload
from zlib import crc32

from pystreams.errors import TopologyError
from pystreams.kernel.async_functions import deserializer_of, serializer_of
from pystreams.serdes import DOUBLE
from pystreams.topology.aggregations import state_bytes
from pystreams.topology.aggregations.aggregation import Aggregation, no_state

V = TypeVar("V")
T = TypeVar("T")

States = tuple[Any, ...]


@overload
def several(**parts: Aggregation[V, Any, Any]) -> Aggregation[V, Any, dict[str, Any]]: ...


@overload
def several(
    into: Callable[..., T], /, **parts: Aggregation[V, Any, Any]
) -> Aggregation[V, Any, T]: ...


def several(
    into: Callable[..., Any] = dict, /, **parts: Aggregation[Any, Any, Any]
) -> Aggregation[Any, Any, Any]:
    """Put several aggregations together: their results, by name.

        several(count=count(), total=sum(lambda order: order.price))

    Args:
        into: Called with the results by name; a class of yours, such as a NamedTuple. A dict when
            not given.
        parts: The aggregations, in any order: what is kept of each goes by its name. A part that
            has no state, as nothing was selected for it, has the result None, and so has one that
            says no number yet: the variance of one value.

    Raises:
        TopologyError: There are no parts, one is no aggregation, or `into` takes other names.
    """
    if not 0 < len(parts) < 256:
        raise TopologyError("aggregations.several takes 1 to 255 aggregations by name: n=count()")
    for name, part in parts.items():
        if not isinstance(part, Aggregation):
            raise TopologyError(
                f"aggregations.several: {name} must be an aggregation such as count(), not {part!r}"
            )
    names, given = tuple(parts), tuple(parts.values())
    _check_names(into, names)
    results = tuple(_result_of(part) for part in given)
    timed = any(part.with_timestamp for part in given)
    folds = tuple(_told_the_time(part) if timed else _starting(part) for part in given)
    no_states = (None,) * len(given)

    def held(states: list[Any]) -> States | None:
        for state in states:
            if state is not None:
                return tuple(states)
        return None

    def aggregator(key: Any, value: Any, so_far: States | None, *at: int) -> Any:
        kept = no_states if so_far is None else so_far
        return held([fold(key, value, state, *at) for fold, state in zip(folds, kept, strict=True)])

    def merger(key: Any, so_far: States | None, other: States | None) -> Any:
        if so_far is None or other is None:
            return other if so_far is None else so_far
        merged = []
        for part, left, right in zip(given, so_far, other, strict=True):
            both = left is not None and right is not None
            alone = right if left is None else left
            merged.append(part.merger(key, left, right) if both else alone)
        return held(merged)

    def subtractor(key: Any, value: Any, so_far: States) -> Any:
        states = []
        for part, state in zip(given, so_far, strict=True):
            undo = part.subtractor
            assert undo is not None, "asked of several that can all be undone"
            states.append(None if state is None else undo(key, value, state))
        return held(states)

    def result(states: States) -> Any:
        if _all_there(states):
            return into(**dict(zip(names, map(call, results, states), strict=True)))
        pairs = zip(results, states, strict=True)
        found = [None if state is None else result_of(state) for result_of, state in pairs]
        return into(**dict(zip(names, found, strict=True)))

    return Aggregation(
        "aggregations.several",
        no_state,
        aggregator,
        merger,
        _States(parts),
        result,
        subtractor if all(part.subtractor is not None for part in given) else None,
        with_timestamp=timed,
    )


class _States(state_bytes.OfParts):
    """States of the parts: mark, number of parts, CRC-32 of their names, length (int32) of each.

    A length of -1 is that of no state. In the bytes the parts stand in the order of their names, so
    that the order in which they are declared says nothing; other names are refused. Where the bytes
    begin with the former mark there is no CRC, and the parts stand as declared.
    """

    def __init__(self, parts: Mapping[str, Aggregation[Any, Any, Any]]) -> None:
        self.parts = {name: part.state_serde() for name, part in parts.items()}
        self._serdes = [part.serde for part in parts.values()]
        self._names = ", ".join(parts)
        names = sorted(parts)
        self._crc = crc32("\0".join(names).encode())
        self._by_name = _picked([list(parts).index(name) for name in names])
        self._as_declared = _picked([names.index(name) for name in parts])
        self._head = struct.Struct(f">BBI{len(names)}i")
        self._former_head = struct.Struct(f">BB{len(names)}i")

    def serializer(self, topic: str) -> Callable[[States], bytes]:
        writes = self._by_name([serializer_of(serde, topic) for serde in self._serdes])
        pack, mark, count, crc = self._head.pack, state_bytes.SEVERAL, len(writes), self._crc
        by_name = self._by_name

        def serialize(declared: States) -> bytes:
            states = by_name(declared)
            if _all_there(states):
                raw = list(map(call, writes, states))
                return pack(mark, count, crc, *map(len, raw)) + b"".join(raw)
            pairs = zip(writes, states, strict=True)
            parts = [None if state is None else write(state) for write, state in pairs]
            lengths = [-1 if part is None else len(part) for part in parts]
            return pack(mark, count, crc, *lengths) + b"".join(
                [part for part in parts if part is not None]
            )

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], States]:
        reads = [deserializer_of(serde, topic) for serde in self._serdes]
        reads_by_name = self._by_name(reads)
        unpack, first_at, crc = self._head.unpack_from, self._head.size, self._crc
        as_declared = self._as_declared

        def deserialize(data: bytes) -> States:
            if data[0] != state_bytes.SEVERAL:
                return self._former(reads, data)
            self._check_number(data)
            _, _, names_crc, *lengths = unpack(data)
            if names_crc != crc:
                raise ValueError(
                    f"aggregations.several of {self._names} can't read a state of parts with "
                    "other names: give the store another name, or reset the application"
                )
            return as_declared(_read(reads_by_name, lengths, data, first_at))

        return deserialize

    def _former(self, reads: list[Callable[[bytes], Any]], data: bytes) -> States:
        if data[0] != state_bytes.SEVERAL_BY_PLACE:
            raise state_bytes.wrong_mark("several", state_bytes.SEVERAL, data)
        self._check_number(data)
        _, _, *lengths = self._former_head.unpack_from(data)
        return tuple(_read(reads, lengths, data, self._former_head.size))

    def _check_number(self, data: bytes) -> None:
        if data[1] != len(self._serdes):
            raise ValueError(
                f"aggregations.several has {len(self._serdes)} parts and can't read a state of "
                f"{data[1]}: give the store another name, or reset the application"
            )


def _picked(places: list[int]) -> Callable[[Sequence[Any]], States]:
    """Return the function that takes the items at these places, in this order; all there are."""
    if places == list(range(len(places))):
        return tuple
    return itemgetter(*places)


def _read(
    reads: Iterable[Callable[[bytes], Any]], lengths: list[int], data: bytes, at: int
) -> list[Any]:
    states: list[Any] = []
    for read, length in zip(reads, lengths, strict=True):
        if length < 0:
            states.append(None)
        else:
            end = at + length
            states.append(read(data[at:end]))
            at = end
    return states


def _all_there(states: States) -> bool:
    for state in states:  # noqa: SIM110 - a generator costs as much as the rest
        if state is None:
            return False
    return True


def _result_of(part: Aggregation[Any, Any, Any]) -> Callable[[Any], Any]:
    """Return the function of a part's result, with None for nan: JSON has none within a dict."""
    result = part.result
    if part.result_serde is not DOUBLE:
        return result

    def number(state: Any) -> Any:
        found = result(state)
        return found if found == found else None  # noqa: PLR0124 - only nan is not

    return number


def _starting(part: Aggregation[Any, Any, Any]) -> Callable[..., Any]:
    """Return the aggregator of a part, which also takes no state: it begins with one."""
    aggregator, initializer = part.aggregator, part.initializer
    if initializer is no_state:
        return aggregator

    def starting(key: Any, value: Any, so_far: Any, *at: int) -> Any:
        return aggregator(key, value, initializer() if so_far is None else so_far, *at)

    return starting


def _told_the_time(part: Aggregation[Any, Any, Any]) -> Callable[..., Any]:
    """Return the same, as one that is told the time and may not care."""
    aggregator = _starting(part)
    if part.with_timestamp:
        return aggregator
    return lambda key, value, so_far, _: aggregator(key, value, so_far)


def _check_names(into: Callable[..., Any], names: tuple[str, ...]) -> None:
    try:
        signature = inspect.signature(into)
    except (TypeError, ValueError):
        return  # A dict, for one.
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        name = getattr(into, "__name__", repr(into))
        raise TopologyError(
            f"aggregations.several gives {', '.join(names)} to {name}, which takes "
            f"{', '.join(signature.parameters)}: {error}"
        ) from error
