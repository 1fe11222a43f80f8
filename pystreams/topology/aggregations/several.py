"""Several aggregations at once, kept in one store and given as one result."""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable
from typing import Any, TypeVar, overload

from pystreams.errors import TopologyError
from pystreams.serdes import Serde
from pystreams.topology.aggregations import state_bytes
from pystreams.topology.aggregations.aggregation import Aggregation, marked

V = TypeVar("V")
T = TypeVar("T")

_LENGTH = struct.Struct(">i")
_NO_STATE = _LENGTH.pack(-1)

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
    no_states = (None,) * len(given)

    def held(states: list[Any]) -> States | None:
        return None if all(state is None for state in states) else tuple(states)

    def aggregator(key: Any, value: Any, so_far: States | None, timestamp: int = 0) -> Any:
        states = []
        for part, kept in zip(given, so_far or no_states, strict=True):
            state = part.initializer() if kept is None else kept
            if part.with_timestamp:
                states.append(part.aggregator(key, value, state, timestamp))
            else:
                states.append(part.aggregator(key, value, state))
        return held(states)

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

    return Aggregation(
        "several",
        lambda: None,
        aggregator,
        merger,
        marked(state_bytes.SEVERAL, "several", _States(tuple(part.serde for part in given))),
        result,
        subtractor if all(part.subtractor is not None for part in given) else None,
        with_timestamp=any(part.with_timestamp for part in given),
    )


class _States:
    """States of the parts, each with its length (int32) before it; -1 for no state.

    Args:
        serdes: Those of the parts.
    """

    def __init__(self, serdes: tuple[Serde[Any], ...]) -> None:
        self._serdes = serdes

    def serializer(self, topic: str) -> Callable[[States], bytes]:
        writes, pack = [serde.serializer(topic) for serde in self._serdes], _LENGTH.pack

        def serialize(states: States) -> bytes:
            parts: list[bytes] = []
            for write, state in zip(writes, states, strict=True):
                if state is None:
                    parts.append(_NO_STATE)
                    continue
                raw = write(state)
                parts += (pack(len(raw)), raw)
            return b"".join(parts)

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], States]:
        reads, unpack = [serde.deserializer(topic) for serde in self._serdes], _LENGTH.unpack_from

        def deserialize(data: bytes) -> States:
            states: list[Any] = []
            at = 0
            for read in reads:
                length = unpack(data, at)[0]
                at += 4
                if length < 0:
                    states.append(None)
                    continue
                states.append(read(data[at : at + length]))
                at += length
            return tuple(states)

        return deserialize


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
