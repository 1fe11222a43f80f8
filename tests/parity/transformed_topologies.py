"""The parity topology of tables with transformers; what it covers stands at the Java method."""

from __future__ import annotations

from typing import Any

from pystreams import (
    KStream,
    KTable,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Stores,
    StreamsBuilder,
    Topology,
    ValueTransformerWithKey,
)
from pystreams.serdes import LONG, STRING
from tests.parity.golden import Observations
from tests.parity.values import city, or_dash

START_MS = 1_700_000_000_000


class Turns(ValueTransformerWithKey[str, str, str]):
    """Numbers the values of a key."""

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.turns = context.get_state_store("turns")

    def transform(self, key: str, value: str | None) -> str | None:
        turn = (self.turns.get(key) or 0) + 1
        self.turns.put(key, turn)
        return None if turn % 7 == 0 else f"{turn}. {or_dash(value)}"


class Marks(ValueTransformerWithKey[str, str, str]):
    """The city; of a row that is not there something too, of some no row."""

    def transform(self, key: str, value: str | None) -> str | None:
        if value is None:
            return "nobody" if len(key) == 2 else None
        return None if value.endswith("3") else city(value)


class Anchored(Processor[str, str, str, str]):
    """Tells when it is called."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context
        self.anchor(START_MS - 1_234, 700, PunctuationType.STREAM_TIME)
        self.anchor(START_MS + 9_999, 1_500, PunctuationType.STREAM_TIME)
        self.anchor(0, 1_700, PunctuationType.WALL_CLOCK_TIME)
        self.anchor(START_MS + 20_000, 3_000, PunctuationType.WALL_CLOCK_TIME)

    def anchor(self, start_ms: int, interval_ms: int, kind: PunctuationType) -> None:
        def tell(time_ms: int) -> None:
            self.context.forward(Record(f"{kind.name}/{interval_ms}", str(time_ms), time_ms))

        self.context.schedule(interval_ms, kind, tell, start_time_ms=start_ms)

    def process(self, record: Record[str, str]) -> None:
        """Take the record."""


def to_partitions(_topic: str, key: Any, _value: Any, _count: int) -> set[int] | None:
    if key is None:
        return None
    return set() if len(key) > 3 else {0}


def either(left: Any, right: Any) -> str:
    return f"{or_dash(left)}|{or_dash(right)}"


def transformed_tables(observations: Observations) -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(
        Stores.key_value_store_builder(
            Stores.persistent_key_value_store("turns"), key_serde=STRING, value_serde=LONG
        )
    )
    people: KTable[Any, Any] = builder.table("people")
    people.transform_values(Turns, node_name="turned", stores=["turns"]).to_stream(
        lambda key, _value: f"{key}!", name="turns-of"
    ).to("turned-out", key_serde=STRING, value_serde=STRING)

    marked = people.transform_values(Marks)
    marked.filter(lambda _key, value: len(value) % 2 == 0).to_stream().to("even-out")
    marked.group_by(
        lambda key, value: (value, key), key_serde=STRING, value_serde=STRING
    ).count().to_stream().to("marks-out", key_serde=STRING, value_serde=LONG)

    kept = people.transform_values(Marks, name="kept", key_serde=STRING, value_serde=STRING)
    kept.group_by(
        lambda key, value: (value, key), key_serde=STRING, value_serde=STRING
    ).count().to_stream().to("kept-out", key_serde=STRING, value_serde=LONG)

    others: KTable[Any, Any] = builder.table("others")
    marked.outer_join(others, either).to_stream().to("both-out")

    orders: KStream[Any, Any] = builder.stream("orders")
    orders.left_join(marked, either).to("marked-orders", partitioner=to_partitions)
    orders.left_join(kept, either).to("kept-orders")
    orders.process(Anchored).to("anchored-out")
    return builder.build()
