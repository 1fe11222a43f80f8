"""Serdes over a real registry: what it refuses, and what happens when it is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka.schema_registry import RuleSet, Schema, SchemaReference
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from pystreams import SchemaRegistryError, Serde, StreamsBuilder, serdes
from pystreams.registry import SchemaIdPlace, SchemaRegistry, SchemaUse, SubjectNameStrategy
from pystreams.serdes import HeadersSerde
from pystreams.testing import TopologyTestDriver
from tests import names
from tests.registry.messages import Line, Note, Order
from tests.registry.registry_proxy import RegistryProxy
from tests.registry.rule_sets import condition
from tests.registry_server import RegistryServer

CONF = {"subject.name.strategy.type": "TOPIC"}
CONTINUE = {
    "deserialization.exception.handler": "continue",
    "processing.exception.handler": "continue",
    "production.exception.handler": "continue",
}
Connect = Callable[..., SchemaRegistry]


def record(name: str, *fields: dict[str, Any]) -> str:
    return orjson.dumps({"type": "record", "name": name, "fields": fields}).decode()


X: dict[str, Any] = {"name": "x", "type": "int"}
Y: dict[str, Any] = {"name": "y", "type": "int", "default": 9}
Z: dict[str, Any] = {"name": "z", "type": "string"}
POINT, POINT_WITH_Y, POINT_WITH_Z = (
    record("Point", X),
    record("Point", X, Y),
    record("Point", X, Z),
)


@pytest.fixture
def topic() -> str:
    """A topic, and so subjects, that no other test has."""
    return names.unique_name("topic")


@pytest.fixture
def connect(registry_server: RegistryServer) -> Iterator[Connect]:
    """Make registries whose connections are closed with the test."""
    made: list[SchemaRegistry] = []

    def connect(**config: Any) -> SchemaRegistry:
        place = config.pop("schema_ids", SchemaIdPlace.PREFIX)
        config = {name.replace("_", "."): value for name, value in config.items()}
        made.append(SchemaRegistry({"url": registry_server.url, **config}, schema_ids=place))
        return made[-1]

    yield connect
    for registry in made:
        registry.client.close()


@pytest.fixture
def registry(connect: Connect) -> SchemaRegistry:
    return connect()


@pytest.fixture
def proxy(registry_server: RegistryServer) -> Iterator[RegistryProxy]:
    with RegistryProxy(registry_server.url) as proxy:
        yield proxy


def test_avro_is_what_confluents_serializers_write_and_read(
    registry: SchemaRegistry, topic: str
) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    serde = registry.avro(schema=POINT)

    data = serde.serializer(topic)({"x": 1})

    assert AvroSerializer(registry.client, POINT, conf=CONF)({"x": 1}, context) == data
    assert AvroDeserializer(registry.client, conf=CONF)(data, context) == {"x": 1}
    assert serde.deserializer(topic)(data) == {"x": 1}


def test_json_is_what_confluents_serializers_write_and_read(
    registry: SchemaRegistry, topic: str
) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    schema = '{"type": "object", "title": "Point", "properties": {"x": {"type": "integer"}}}'
    serde = registry.json_schema(schema=schema)

    theirs: Any = JSONSerializer(schema, registry.client, conf=CONF)
    read: Any = JSONDeserializer(schema, schema_registry_client=registry.client, conf=CONF)
    assert read(serde.serializer(topic)({"x": 1}), context) == {"x": 1}
    assert serde.deserializer(topic)(theirs({"x": 2}, context)) == {"x": 2}


@pytest.mark.parametrize("model", ["Note", "Order"])
def test_protobuf_comes_back_from_another_client(
    registry: SchemaRegistry, connect: Connect, topic: str, model: str
) -> None:
    value = {"Note": Note(text="soon"), "Order": Order(id="A-1", lines=[Line(cents=3)])}[model]
    data = registry.protobuf(type(value)).serializer(topic)(value)

    assert connect().protobuf(type(value)).deserializer(topic)(data) == value


def test_an_old_reader_reads_what_a_new_writer_wrote_and_the_other_way_round(
    registry: SchemaRegistry, topic: str
) -> None:
    old, new = registry.avro(schema=POINT), registry.avro(schema=POINT_WITH_Y)

    old_data = old.serializer(topic)({"x": 1})
    new_data = new.serializer(topic)({"x": 1, "y": 2})

    assert old_data[:5] != new_data[:5]
    assert registry.client.get_versions(f"{topic}-value") == [1, 2]
    assert old.deserializer(topic)(new_data) == {"x": 1}
    assert new.deserializer(topic)(old_data) == {"x": 1, "y": 9}
    latest = registry.avro(write_with=SchemaUse.LATEST)
    assert latest.serializer(topic)({"x": 1, "y": 2}) == new_data


def test_an_incompatible_schema_stops_the_application_with_the_registrys_reason(
    registry: SchemaRegistry, topic: str
) -> None:
    subject = f"{topic}-value"
    registry.client.register_schema(subject, Schema(POINT, "AVRO"))
    registry.client.set_compatibility(subject, "BACKWARD")

    write = registry.avro(schema=POINT_WITH_Z).serializer(topic)

    with pytest.raises(SchemaRegistryError, match=rf"{subject}.*it is incompatible with the ver"):
        write({"x": 1, "z": "a"})


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        (SubjectNameStrategy.TOPIC, "{topic}-value"),
        (SubjectNameStrategy.RECORD, "{record}"),
        (SubjectNameStrategy.TOPIC_RECORD, "{topic}-{record}"),
        (lambda topic, part, name: f"{part}.{topic}.{name}", "value.{topic}.{record}"),
    ],
)
def test_subjects_are_named_by_the_strategy(
    registry: SchemaRegistry, topic: str, strategy: Any, subject: str
) -> None:
    name = f"Point_{topic}".replace("-", "_")
    serde = registry.avro(schema=record(name, X), subject=strategy)

    data = serde.serializer(topic)({"x": 1})

    assert subject.format(topic=topic, record=name) in registry.client.get_subjects()
    assert serde.deserializer(topic)(data) == {"x": 1}


def test_references_are_registered_and_found(
    registry: SchemaRegistry, connect: Connect, topic: str
) -> None:
    registry.client.register_schema(f"{topic}-point", Schema(POINT, "AVRO"))
    text = record("Line", {"name": "start", "type": "Point"}, {"name": "end", "type": "Point"})
    schema = Schema(text, "AVRO", [SchemaReference("Point", f"{topic}-point", 1)])
    value = {"start": {"x": 1}, "end": {"x": 2}}

    data = registry.avro(schema=schema).serializer(topic)(value)

    assert connect().avro().deserializer(topic)(data) == value


def test_rules_that_the_registry_drops_are_not_believed_to_be_there(
    registry: SchemaRegistry, topic: str
) -> None:
    paid = condition("paid", "message.x > 0", mode="WRITEREAD")
    schema = Schema(POINT, "AVRO", [], None, RuleSet(None, [paid]))

    for use in (SchemaUse.REGISTER, SchemaUse.LOOK_UP):
        write = registry.avro(schema=schema, write_with=use).serializer(topic)
        with pytest.raises(SchemaRegistryError, match="has dropped them: it keeps schemas alone"):
            write({"x": 1})


def test_a_registry_without_guids_has_its_ids_in_headers(connect: Connect, topic: str) -> None:
    schema = record("Point", {"name": "x", "type": "long"})
    registry = connect(schema_ids=SchemaIdPlace.HEADERS)
    serde: Serde[Any] = registry.avro(schema=schema)
    assert isinstance(serde, HeadersSerde)
    write, read = serde.headers_serializer(topic), serde.headers_deserializer(topic)
    assert write is not None
    assert read is not None

    data, headers = write({"x": 2**40}, ())

    assert read(data, headers) == {"x": 2**40}
    context = SerializationContext(topic, MessageField.VALUE, list(headers))
    assert AvroDeserializer(registry.client, conf=CONF)(data, context) == {"x": 2**40}


def test_wrong_credentials_stop_it_with_the_cure(
    registry_server: RegistryServer, connect: Connect, topic: str
) -> None:
    with RegistryProxy(registry_server.url, "ada:secret") as proxy:
        for user_info in (None, "ada:wrong"):
            config = {"basic_auth_user_info": user_info} if user_info else {}
            serde = connect(url=proxy.url, **config).avro(schema=POINT)
            with pytest.raises(SchemaRegistryError, match=r"Unauthorized.*basic\.auth") as caught:
                serde.serializer(topic)({"x": 1})
            assert "wrong" not in str(caught.value)

        known = connect(url=proxy.url, basic_auth_user_info="ada:secret")
        serde = known.avro(schema=POINT)
        assert serde.deserializer(topic)(serde.serializer(topic)({"x": 1})) == {"x": 1}


@pytest.mark.parametrize("place", ["the key", "the url"])
def test_wrong_credentials_are_told_with_the_registrys_url_and_no_secret(
    registry_server: RegistryServer,
    connect: Connect,
    topic: str,
    caplog: pytest.LogCaptureFixture,
    place: str,
) -> None:
    with RegistryProxy(registry_server.url, "ada:secret") as proxy:

        def points(user_info: str) -> tuple[SchemaRegistry, Serde[Any]]:
            if place == "the key":
                made = connect(url=proxy.url, basic_auth_user_info=user_info, max_retries=0)
            else:
                url = proxy.url.replace("//", f"//{user_info}@")
                made = connect(url=url, max_retries=0)
            return made, made.avro(schema=POINT)

        _, known = points("ada:secret")
        data = known.serializer(topic)({"x": 1})
        told = []
        for user_info in ("ada:wrong-secret", "eve:secret-of-eve"):
            registry, serde = points(user_info)
            topology = copies(topic, serde)
            told += [repr(registry), repr(serde), str(topology.describe())]
            with TopologyTestDriver(topology, CONTINUE) as driver:
                with pytest.raises(SchemaRegistryError, match=r"401|Unauthorized") as refused:
                    driver.pipe_raw(topic, b"k", data, 0)
                told += messages(refused.value)
            assert proxy.url in str(refused.value)
        _, down = points("eve:secret-of-eve")
        proxy.down()
        with pytest.raises(SchemaRegistryError, match="does not answer") as unanswered:
            down.deserializer(topic)(data)
        told += messages(unanswered.value)

    assert [text for text in (*told, caplog.text) if "secret" in text] == []


def test_the_registry_is_asked_once_for_what_it_has_said(
    proxy: RegistryProxy, connect: Connect, topic: str
) -> None:
    serde = connect(url=proxy.url).avro(schema=POINT)
    write, read = serde.serializer(topic), serde.deserializer(topic)

    for number in range(3):
        assert read(write({"x": number})) == {"x": number}

    assert len(proxy.asked) <= 2


def test_down_at_the_start_it_stops_the_application_and_no_record_is_skipped(
    proxy: RegistryProxy, registry: SchemaRegistry, connect: Connect, topic: str
) -> None:
    data = registry.avro(schema=POINT).serializer(topic)({"x": 1})
    points = connect(url=proxy.url, max_retries=0).avro(schema=POINT)
    proxy.down()

    with TopologyTestDriver(copies(topic, points), CONTINUE) as driver:
        with pytest.raises(
            SchemaRegistryError, match=rf"of topic '{topic}'.*no record was skipped"
        ):
            driver.pipe_raw(topic, b"k", data, 0)
        assert driver.produced_raw("out") == []

    proxy.up()
    with TopologyTestDriver(copies(topic, points), CONTINUE) as driver:
        driver.pipe_raw(topic, b"k", data, 0)
        assert [value for _, value, _, _ in driver.produced_raw("out")] == [b'{"x":1}']


def test_down_later_it_stops_at_the_first_schema_that_is_new(
    proxy: RegistryProxy, registry: SchemaRegistry, connect: Connect, topic: str
) -> None:
    old = registry.avro(schema=POINT).serializer(topic)({"x": 1})
    new = registry.avro(schema=POINT_WITH_Y).serializer(topic)({"x": 1, "y": 2})
    points = connect(url=proxy.url, max_retries=0).avro()

    with TopologyTestDriver(copies(topic, points), CONTINUE) as driver:
        driver.pipe_raw(topic, b"k", old, 0)
        proxy.down()
        driver.pipe_raw(topic, b"k", old, 1)
        with pytest.raises(
            SchemaRegistryError, match=rf"of topic '{topic}'.*no record was skipped"
        ):
            driver.pipe_raw(topic, b"k", new, 2)
        assert [value for _, value, _, _ in driver.produced_raw("out")] == [b'{"x":1}'] * 2


def messages(error: BaseException | None) -> list[str]:
    """Return what an error says, and what has caused it."""
    return [] if error is None else [str(error), *messages(error.__cause__)]


def copies(topic: str, points: Serde[Any]) -> Any:
    builder = StreamsBuilder()
    stream = builder.stream(topic, key_serde=serdes.STRING, value_serde=points)
    stream.to("out", value_serde=serdes.JSON)
    return builder.build()


@pytest.mark.parametrize("place", SchemaIdPlace)
def test_a_row_of_an_earlier_schema_hears_of_the_row_that_it_names_by_a_foreign_key(
    connect: Connect, topic: str, tmp_path: Path, place: SchemaIdPlace
) -> None:
    """The registry has one id for a schema, whatever subjects have it: kept rows, and hashes."""
    heard = []
    for schema in (POINT, POINT_WITH_Y):
        points = connect(schema_ids=place).avro(schema=schema)
        builder = StreamsBuilder()
        named = builder.table(
            f"{topic}-names", key_serde=serdes.INT, value_serde=serdes.STRING, name="named"
        )
        builder.table(topic, key_serde=serdes.STRING, value_serde=points, name="points").join(
            named,
            lambda point, name: f"{point['x']} is {name}",
            foreign_key=lambda point: point["x"],
            value_serde=serdes.STRING,
            node_name="joined",
        ).to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.STRING)
        with TopologyTestDriver(builder.build(), state_directory=tmp_path) as driver:
            names_in = driver.create_input_topic(f"{topic}-names", serdes.INT, serdes.STRING)
            out = driver.create_output_topic("out", serdes.STRING, serdes.STRING)
            if schema is POINT:
                driver.create_input_topic(topic, serdes.STRING, points).pipe_input("p", {"x": 1})
            names_in.pipe_input(1, "one" if schema is POINT else "uno")
            heard += [value for _, value in out.read_key_values()]

    assert heard == ["1 is one", "1 is uno"]
