"""A topology of many kinds of nodes, each of which can be made slow by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystreams import (
    FixedKeyProcessor,
    JoinWindows,
    ProcessorContext,
    PunctuationType,
    Record,
    Retry,
    StreamsBuilder,
    TimeWindows,
    Topology,
    serdes,
)
from pystreams.serdes import Serde

Spend = Callable[[str], None]
"""Called by each part with its name; takes its time if that is the slow one."""

WINDOW_MS = 1_000


class _Ticking(FixedKeyProcessor[Any, Any, Any]):
    """Is slow with each record, or when it is called by the time."""

    def __init__(self, spend: Spend) -> None:
        self._spend = spend

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self._context = context
        context.schedule(1, PunctuationType.STREAM_TIME, lambda _: self._spend("punctuator"))

    def process(self, record: Record[Any, Any]) -> None:
        self._spend("processor")
        self._context.forward(record)


class _SlowText(Serde[str]):
    """A serde that is slow in both directions."""

    def __init__(self, spend: Spend, name: str) -> None:
        self._spend, self._name = spend, name

    def serializer(self, topic: str) -> Callable[[str], bytes]:
        def serialize(value: str) -> bytes:
            self._spend(f"{self._name} writes")
            return value.encode()

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], str]:
        def deserialize(raw: bytes) -> str:
            self._spend(f"{self._name} reads")
            return raw.decode()

        return deserialize


def topology_of(spend: Spend) -> Topology:
    """Return a topology whose parts call `spend` with the names of `PARTS`."""

    def spending(name: str, function: Callable[..., Any]) -> Callable[[Any], Any]:
        def called(value: Any) -> Any:
            spend(name)
            return function(value)

        return called

    def batch(values: list[str]) -> list[str]:
        spend("batch")
        return values

    async def answer(value: str) -> str:
        spend("async")
        return value

    def join(left: str, right: str) -> str:
        spend("joiner")
        return left + right

    def add(_: str, value: str, so_far: str) -> str:
        spend("aggregator")
        return max(value, so_far)

    text = serdes.STRING
    builder = StreamsBuilder()
    words = builder.stream(
        "in", key_serde=text, value_serde=_SlowText(spend, "source"), name="source"
    )
    words = words.filter(lambda _, value: bool(spending("filter", str)(value)), name="filter")
    words = words.map_values(spending("map", str), name="map")
    words = words.map_values(spending("retried", str), name="retried", retry=Retry(on=ValueError))
    words = words.process_values(lambda: _Ticking(spend), name="processor")
    words = words.map_values_batch(batch, name="batch")
    words = words.map_values_async(answer, name="async")
    joined = words.join(
        builder.stream("right", key_serde=text, value_serde=text, name="right"),
        join,
        JoinWindows.of_time_difference_with_no_grace(WINDOW_MS),
        value_serde=_SlowText(spend, "join's store"),
        name="joined",
    )
    joined.foreach(lambda _, value: spending("foreach", str)(value), name="foreach")
    windowed = words.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(WINDOW_MS))
    table = windowed.aggregate(
        str, add, name="windowed", value_serde=_SlowText(spend, "window's store")
    )
    table.to_stream(name="rows").map(
        lambda key, value: (key.key, spending("pair", str)(value)), name="pair"
    ).to("out", key_serde=text, value_serde=_SlowText(spend, "sink"), name="sink")
    return builder.build()


AGGREGATE = "KSTREAM-AGGREGATE-0000000013"
PARTS = {
    "source reads": "source",
    "filter": "filter",
    "map": "map",
    "retried": "retried",
    "processor": "processor",
    "punctuator": "processor",
    "batch": "batch",
    "async": "async",
    "joiner": "joined-this-join",
    "join's store writes": "joined-this-windowed",
    "foreach": "foreach",
    "aggregator": AGGREGATE,
    "window's store writes": AGGREGATE,
    "window's store reads": AGGREGATE,
    "pair": "pair",
    "sink writes": "sink",
}
"""The node of each part."""
