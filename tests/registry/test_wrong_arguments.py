"""Wrong arguments of a registry are refused when it is called: by name, before any record."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference

from pystreams import ConfigError
from pystreams.registry import SchemaRegistry
from tests.registry.messages import Refund

Make = Callable[[SchemaRegistry], object]


@pytest.fixture
def registry() -> SchemaRegistry:
    return SchemaRegistry({"url": "mock://"})


def wrong(**arguments: Any) -> Make:
    return lambda registry: registry.avro(**arguments)


def wrong_json(**arguments: Any) -> Make:
    return lambda registry: registry.json_schema(**arguments)


WRONG: dict[str, tuple[Make, str]] = {
    "text that is no JSON": (wrong(schema="{"), r"registry.avro: schema is no Avro schema"),
    "a type that Avro has not": (
        wrong(schema='{"type": "recrd", "name": "X", "fields": []}'),
        r"registry.avro: schema is no Avro schema: .*recrd",
    ),
    "the name of a file": (
        wrong(schema="orders.avsc"),
        r"registry.avro: schema .*orders\.avsc.*give the schema's text, not the name of its file",
    ),
    "a dict": (wrong(schema={"type": "string"}), r"registry.avro: schema is its text, .*not dict"),
    "a schema of another format": (
        wrong(schema=Schema("{}", "JSON")),
        r"registry.avro: schema is of JSON, and this serde is of AVRO",
    ),
    "text that is no JSON, with references": (
        wrong(schema=Schema("{", "AVRO", [SchemaReference("a.B", "b", 1)])),
        r"registry.avro: schema is no Avro schema",
    ),
    "JSON that is no JSON Schema": (
        wrong_json(schema='{"type": "strin"}'),
        r"registry.json_schema: schema is no JSON schema: .*strin",
    ),
    "no JSON Schema's text": (wrong_json(schema="{"), r"registry.json_schema: schema is no JSON"),
    "a model that is no class": (wrong(model="Order"), r"registry.avro: model is the class"),
    "a strategy that is none": (wrong(subject="topic"), r"registry.avro: subject is a Subject"),
    "a strategy of other parameters": (
        wrong(subject=lambda topic: topic),
        r"registry.avro: subject is .* function of \(topic, part, record\)",
    ),
    "a use that is none": (wrong(write_with="latest"), r"registry.avro: write_with is a SchemaUse"),
    "an id below 0": (wrong_json(write_with=-1), r"registry.json_schema: write_with is .*not -1"),
    "a message in the place of its class": (
        lambda registry: registry.protobuf(Refund()),
        r"registry.protobuf takes a message class that protoc has generated, not a Refund",
    ),
    "no use of Protobuf": (
        lambda registry: registry.protobuf(Refund, write_with="latest"),  # type: ignore[arg-type]
        r"registry.protobuf: write_with is a SchemaUse",
    ),
}


@pytest.mark.parametrize("named", WRONG)
def test_a_wrong_argument_is_refused_when_the_serde_is_made(
    registry: SchemaRegistry, named: str
) -> None:
    make, message = WRONG[named]

    with pytest.raises(ConfigError, match=message):
        make(registry)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mock://",), r"takes the configuration .* \{'url': .*not str"),
        (({"urls": "mock://"},), r"config has no 'url', a text \(it has 'urls'\)"),
        (
            ({"url": "localhost:8081"},),
            "'url' has no scheme: write http://localhost:8081, or https",
        ),
        (({"url": "http://a:1, b:2"},), "'url' has no scheme: write http://b:2"),
        (({"url": "me:hunter2@a:1"},), "'url' has no scheme: write http://a:1"),
        (({"url": "ftp://a:1"},), "'url' begins with http:// or https://, not ftp://"),
        (({"url": "http://"},), "'url' names no host"),
        (({"url": "http://a:1,"},), "'url' names no host"),
        (({"url": "mock://", "timeout": "10"},), r"'timeout' is a number of seconds, not '10'"),
    ],
)
def test_a_wrong_configuration_is_refused_when_the_registry_is_made(
    arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        SchemaRegistry(*arguments)


def test_schema_ids_have_a_place_that_is_one() -> None:
    with pytest.raises(ConfigError, match="schema_ids is a SchemaIdPlace, not 'headers'"):
        SchemaRegistry({"url": "mock://"}, schema_ids="headers")  # type: ignore[arg-type]


def test_a_schema_of_a_scalar_and_one_with_references_are_taken(registry: SchemaRegistry) -> None:
    registry.avro(schema="string")
    registry.avro(schema='"long"')
    registry.avro(schema=Schema('{"type": "array", "items": "a.B"}', "AVRO", [_REFERENCE]))
    registry.json_schema(schema="true")
    registry.json_schema(schema='{"$ref": "elsewhere.json"}', validate=False)


_REFERENCE = SchemaReference("a.B", "b", 1)


def test_a_wrong_schema_is_told_with_the_users_line(tmp_path: Path) -> None:
    application = tmp_path / "orders.py"
    application.write_text(
        "from pystreams import StreamsBuilder, serdes\n"
        "from pystreams.registry import SchemaRegistry\n"
        "registry = SchemaRegistry({'url': 'mock://'})\n"
        "orders = registry.avro(schema='{')\n"
        "topology = StreamsBuilder().build()\n"
    )
    command = [sys.executable, "-m", "pystreams", "describe", str(application)]

    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert told.returncode != 0
    assert "registry.avro: schema is no Avro schema" in told.stderr
    assert "line 4" in told.stderr


def test_missing_packages_are_told_with_the_extra_that_brings_them(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden.py"
    hidden.write_text(
        "import sys\n"
        "for name in sys.argv[1:]:\n"
        "    sys.modules[name] = None\n"
        "from pystreams.registry import SchemaRegistry\n"
        "registry = SchemaRegistry({'url': 'mock://'})\n"
        "registry.json_schema(schema='{}')\n"
        "registry.avro(schema='\"string\"')\n"
    )

    for package in ("confluent_kafka.schema_registry", "fastavro", "jsonschema_rs"):
        told = subprocess.run(
            [sys.executable, str(hidden), package],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

        assert told.returncode != 0
        assert "ConfigError" in told.stderr
        assert "pip install 'pystreams-kafka[registry]'" in told.stderr
