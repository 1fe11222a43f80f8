"""Several aggregations at once, kept in one store and given as one result."""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable
from typing import Any, TypeVar, overload

from pystreams.errors import TopologyError
from pystreams.serdes import Serde
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
        parts: The aggregations. A part that has no state, as nothing was selected for it, has the
            result None.

    Raises:
        TopologyError: There are no parts, one is no aggregation, or `into` takes other names.
    """
    if not parts:
        raise TopologyError("aggregations.several takes aggregations by name: several(n=count())")
    for name, part in parts.items():
        if not isinstance(part, Aggregation):
            raise TopologyError(
                f"aggregations.several: {name} must be an aggregation such as count(), not {part!r}"
            )
    _check_names(into, tuple(parts))
    given = tuple(parts.values())
    results = tuple((name, part.result) for name, part in parts.items())
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
        pairs = zip(results, states, strict=True)
        return into(**{name: None if state is None else of(state) for (name, of), state in pairs})

    serde = _States(tuple(part.serde for part in given))
    return Aggregation(
        "aggregations.several",
        no_state,
        aggregator,
        merger,
        state_bytes.marked(state_bytes.SEVERAL, "several", serde),
        result,
        subtractor if all(part.subtractor is not None for part in given) else None,
        with_timestamp=timed,
    )


class _States:
    """States of the parts, behind the length (int32) of each; -1 for no state.

    Args:
        serdes: Those of the parts.
    """

    def __init__(self, serdes: tuple[Serde[Any], ...]) -> None:
        self._serdes = serdes

    def serializer(self, topic: str) -> Callable[[States], bytes]:
        writes = [serde.serializer(topic) for serde in self._serdes]
        pack = struct.Struct(f">{len(writes)}i").pack

        def serialize(states: States) -> bytes:
            raw = [
                None if state is None else write(state)
                for write, state in zip(writes, states, strict=True)
            ]
            lengths = [-1 if part is None else len(part) for part in raw]
            return pack(*lengths) + b"".join([part for part in raw if part is not None])

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], States]:
        reads = [serde.deserializer(topic) for serde in self._serdes]
        lengths = struct.Struct(f">{len(reads)}i")

        def deserialize(data: bytes) -> States:
            states: list[Any] = []
            at = lengths.size
            for read, length in zip(reads, lengths.unpack_from(data), strict=True):
                if length < 0:
                    states.append(None)
                else:
                    states.append(read(data[at : at + length]))
                    at += length
            return tuple(states)

        return deserialize


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
