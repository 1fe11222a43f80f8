"""Processor time of a value through Avro and JSON Schema: ours beside Confluent's own serializers.

    python benchmarks/serdes.py [--values 20000] [--rounds 5]

Each reads what the other wrote (Avro's bytes are the same), which is checked first. The registry is
the client's `mock://`: nobody asks it after the first value. Rounds of the two take turns; the
least of each is told, in microseconds of processor time a value.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from pystreams import Serde
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


JSON_SCHEMA = """
{"type": "object", "title": "Flight", "required": ["carrier", "number"], "properties": {
  "carrier": {"type": "string"},
  "number": {"type": "integer"},
  "origin": {"type": "string"},
  "destination": {"type": "string"},
  "tail": {"type": ["null", "string"]},
  "departed_at": {"type": "integer"},
  "delay": {"type": ["null", "number"]},
  "distance": {"type": "integer"},
  "tags": {"type": "array", "items": {"type": "string"}}
}}
"""
NAMED = {"subject.name.strategy.type": "TOPIC"}
CONTEXT = SerializationContext("flights", MessageField.VALUE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    registry = SchemaRegistry({"url": "mock://"})
    client = registry.client
    compare(
        "avro",
        registry.avro(schema=SCHEMA),
        (AvroSerializer(client, SCHEMA, conf=NAMED), AvroDeserializer(client, SCHEMA, conf=NAMED)),
        options,
    )
    for validate in (False, True):
        conf = {**NAMED, "validate": validate}
        compare(
            "json schema" + (", validated" if validate else ""),
            registry.json_schema(schema=JSON_SCHEMA, validate=validate),
            (
                JSONSerializer(JSON_SCHEMA, client, conf=conf),
                JSONDeserializer(JSON_SCHEMA, schema_registry_client=client, conf=conf),
            ),
            options,
        )


def compare(
    name: str, serde: Serde[Any], theirs: tuple[Any, Any], options: argparse.Namespace
) -> None:
    """Check that both do the same, then tell what it costs each."""
    write, read = serde.serializer("flights"), serde.deserializer("flights")
    serializer, deserializer = theirs

    def their_write(value: Any) -> Any:
        return serializer(value, CONTEXT)

    def their_read(data: bytes) -> Any:
        return deserializer(data, CONTEXT)

    data, their_data = write(FLIGHT), their_write(FLIGHT)
    if name == "avro":
        assert data == their_data, "the bytes differ"
    assert read(their_data) == their_read(data) == FLIGHT, "what is read differs"
    for what, ours, other, value in (
        ("write", write, their_write, FLIGHT),
        ("read", read, their_read, data),
    ):
        rounds = [
            (cost_us(ours, value, options.values), cost_us(other, value, options.values))
            for _ in range(options.rounds)
        ]
        our_us, their_us = min(first for first, _ in rounds), min(last for _, last in rounds)
        print(
            f"{name}, {what}: ours {our_us:.2f} us, confluent-kafka {their_us:.2f} us "
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
