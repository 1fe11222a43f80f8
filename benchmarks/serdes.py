"""Processor time of a value through Avro: ours beside Confluent's own serializers.

    python benchmarks/serdes.py [--values 20000] [--rounds 5]

Both write the same bytes and read them alike, which is checked first. The registry is the client's
`mock://`: nobody asks it after the first value. Rounds of the two take turns; the least of each is
told, in microseconds of processor time a value.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from pystreams.registry import SchemaRegistry

SCHEMA = """
{"type": "record", "name": "Flight", "namespace": "bench", "fields": [
  {"name": "carrier", "type": "string"},
  {"name": "number", "type": "int"},
  {"name": "origin", "type": "string"},
  {"name": "destination", "type": "string"},
  {"name": "tail", "type": ["null", "string"], "default": null},
  {"name": "departed_at", "type": "long"},
  {"name": "delay", "type": ["null", "double"], "default": null},
  {"name": "distance", "type": "int"},
  {"name": "tags", "type": {"type": "array", "items": "string"}}
]}
"""
FLIGHT: dict[str, Any] = {
    "carrier": "UA",
    "number": 1545,
    "origin": "EWR",
    "destination": "IAH",
    "tail": "N14228",
    "departed_at": 1_357_034_220_000,
    "delay": 2.0,
    "distance": 1400,
    "tags": ["day", "full"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    registry = SchemaRegistry({"url": "mock://"})
    context = SerializationContext("flights", MessageField.VALUE)
    named = {"subject.name.strategy.type": "TOPIC"}
    serde = registry.avro(schema=SCHEMA)
    our_write, our_read = serde.serializer("flights"), serde.deserializer("flights")
    serializer = AvroSerializer(registry.client, SCHEMA, conf=named)
    deserializer = AvroDeserializer(registry.client, SCHEMA, conf=named)

    def their_write(value: Any) -> Any:
        return serializer(value, context)

    def their_read(data: bytes) -> Any:
        return deserializer(data, context)

    data = our_write(FLIGHT)
    assert data == their_write(FLIGHT), "the bytes differ"
    assert our_read(data) == their_read(data) == FLIGHT, "what is read differs"
    for name, ours, theirs, value in (
        ("write", our_write, their_write, FLIGHT),
        ("read", our_read, their_read, data),
    ):
        rounds = [
            (cost_us(ours, value, options.values), cost_us(theirs, value, options.values))
            for _ in range(options.rounds)
        ]
        our_us, their_us = min(first for first, _ in rounds), min(last for _, last in rounds)
        print(
            f"avro {name}: ours {our_us:.2f} us, confluent-kafka {their_us:.2f} us "
            f"({their_us / our_us:.1f} times)"
        )


def cost_us(function: Callable[[Any], Any], value: Any, values: int) -> float:
    """Processor time of one call."""
    started = time.process_time()
    for _ in range(values):
        function(value)
    return (time.process_time() - started) / values * 1e6


if __name__ == "__main__":
    main()
