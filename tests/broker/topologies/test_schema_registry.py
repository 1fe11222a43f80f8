"""An application whose topics and state have schemas, on a real broker with a real registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pystreams.broker import DevelopmentBroker
from pystreams.registry import SchemaIdPlace, SchemaRegistry
from pystreams.serdes import seeing_deserializer, seeing_serializer
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.reading import reader_of
from tests.broker.writing import Writer
from tests.registry.registry_proxy import RegistryProxy
from tests.registry_server import RegistryServer

SALE = """
{"type": "record", "name": "Sale", "fields": [{"name": "cents", "type": "int"}MORE]}
"""
OLD = SALE.replace("MORE", "")
NEW = SALE.replace("MORE", ', {"name": "shop", "type": "string", "default": "?"}')
CODE = """
from pystreams import StreamsBuilder, serdes
from pystreams.registry import SchemaIdPlace, SchemaRegistry

registry = SchemaRegistry({{"url": "{url}", "max.retries": 0}}, schema_ids=SchemaIdPlace.HEADERS)
keys = registry.avro(schema='"string"', is_key=True)
sales = registry.avro(schema='''{schema}''')
builder = StreamsBuilder()
source = builder.stream("{source}", key_serde=keys, value_serde=sales)
source.group_by(lambda key, sale: key.upper(), key_serde=keys, value_serde=sales).reduce(
    lambda total, sale: {{**sale, "cents": total["cents"] + sale["cents"]}}, name="totals"
).to_stream().to("{output}")
"""


def test_a_topology_survives_restarts_a_new_schema_and_a_registry_that_is_down(
    broker: DevelopmentBroker,
    registry_server: RegistryServer,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
) -> None:
    source, output = create_topic("sales"), create_topic("totals")
    registry = SchemaRegistry({"url": registry_server.url}, schema_ids=SchemaIdPlace.HEADERS)
    old, new = registry.avro(schema=OLD), registry.avro(schema=NEW)
    servers = broker.bootstrap_servers
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 50,
        "statestore.cache.max.bytes": 0,
    }
    file = tmp_path / "totals.py"

    with (
        RegistryProxy(registry_server.url) as proxy,
        reader_of(servers) as consumer,
        Application(unique_name, tmp_path, file, settings) as application,
    ):
        file.write_text(CODE.format(url=proxy.url, source=source, output=output, schema=OLD))
        produced = Sales(servers, source, registry)
        totals = Totals(consumer, output, registry)
        produced.send("ada", old, {"cents": 3})
        produced.send("ada", new, {"cents": 4, "shop": "B"})
        running = application.start()
        running.wait_until(lambda: totals.last("ADA") == {"cents": 7}, "both sales counted")
        running.kill()

        file.write_text(CODE.format(url=proxy.url, source=source, output=output, schema=NEW))
        produced.send("ada", old, {"cents": 5})
        proxy.down()
        stopped = application.start()
        assert stopped.ended() != 0
        assert "no record was skipped" in str(stopped.lines())
        proxy.up()

        running = application.start()
        expected = {"cents": 12, "shop": "?"}
        running.wait_until(lambda: totals.last("ADA") == expected, "the state taken up again")
        running.stop()
        registry.client.close()


class Sales:
    """Produces records with their schemas in headers."""

    def __init__(self, servers: str, topic: str, registry: SchemaRegistry) -> None:
        self._writer = Writer(servers)
        self._topic = topic
        self._keys = registry.avro(schema='"string"', is_key=True)

    def send(self, key: str, serde: Any, sale: dict[str, Any]) -> None:
        raw_key, headers = seeing_serializer(self._keys, self._topic)(key, ())
        data, headers = seeing_serializer(serde, self._topic)(sale, headers)
        self._writer.write(self._topic, data, raw_key, headers=headers)
        self._writer.flush()


class Totals:
    """Follows what was written, key by key."""

    def __init__(self, consumer: Any, topic: str, registry: SchemaRegistry) -> None:
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        self._consumer = consumer
        self._key = seeing_deserializer(registry.avro(is_key=True), topic)
        self._value = seeing_deserializer(registry.avro(), topic)
        self._last: dict[str, Any] = {}
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def last(self, key: str) -> Any:
        while (message := self._consumer.poll(0.05)) is not None:
            if message.error() is None:
                headers = tuple(message.headers() or ())
                found = self._key(message.key(), headers)
                self._last[found] = self._value(message.value(), headers)
        return self._last.get(key)
