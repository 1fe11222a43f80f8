"""docs/security.md: its configurations are those that are tested, and what it says of records."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pystreams import StreamsBuilder, StreamsConfig, serdes
from pystreams.config import clients
from pystreams.config.files import parse_properties
from pystreams.registry.avro_writer import writer_of
from pystreams.testing import TopologyTestDriver
from tests.broker.security.credentials import CREDENTIALS
from tests.broker.security.secured_broker import SecuredBroker

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
SNIPPETS = [
    dict(parse_properties(text)) for text in re.findall(r"```properties\n(.*?)```", PAGE, re.DOTALL)
]


def keys_tried(mechanism: str) -> set[str]:
    """Return the keys of a configuration that an application is run with."""
    place = Path("/none")
    broker = SecuredBroker(
        *("none:1",) * 5,
        ca=place,
        other_ca=place,
        client_certificate={"ssl.certificate.location": "", "ssl.key.location": ""},
        admin=None,  # type: ignore[arg-type]
    )
    return set(CREDENTIALS[mechanism](broker, "http://none"))


@pytest.mark.parametrize(
    "snippet", SNIPPETS, ids=lambda snippet: str(snippet.get("sasl.mechanism"))
)
def test_a_configuration_of_the_page_is_one_that_is_tested(snippet: dict[str, str]) -> None:
    assert set(snippet) == keys_tried(snippet.get("sasl.mechanism", "mTLS"))
    config = StreamsConfig.of({"application.id": "orders", **snippet})
    for made in (
        clients.consumer_config(config),
        clients.restore_consumer_config(config),
        clients.global_consumer_config(config),
        clients.history_consumer_config(config),
        clients.producer_config(config, "orders-1"),
        clients.admin_config(config),
    ):
        assert {name: made[name] for name in snippet} == snippet


def test_page_names_the_words_of_keys_whose_values_are_hidden() -> None:
    from pystreams.config.resolution import SECRET_WORDS

    line = next(line for line in PAGE.splitlines() if line.startswith("Values of keys"))
    assert set(re.findall(r"`([^`]+)`", line)) >= set(SECRET_WORDS)


@pytest.mark.parametrize(
    "hostile",
    [
        b"[" * 1_000_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b"\xff\xfe",
        b"cos\nsystem\n(S''\ntR.",
    ],
    ids=["open brackets", "deep object", "no text", "a pickle"],
)
def test_a_hostile_value_is_a_record_that_can_t_be_read_and_no_more(hostile: bytes) -> None:
    builder = StreamsBuilder()
    builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.JSON).to("out")
    config: dict[str, Any] = {
        "application.id": "app",
        "bootstrap.servers": "none:1",
        "deserialization.exception.handler": "continue",
    }
    with TopologyTestDriver(builder.build(), config) as driver:
        raw = driver.create_input_topic("in", serdes.STRING, serdes.BYTES)
        output = driver.create_output_topic("out", serdes.STRING, serdes.JSON)

        raw.pipe_input("a", hostile)
        raw.pipe_input("a", b'{"total": 1}')

        assert output.read_values() == [{"total": 1}]


def test_names_in_an_avro_schema_are_never_run() -> None:
    name = "a']+[__import__('sys').exit(3)]+['"
    schema = {"type": "record", "name": name, "fields": [{"name": name, "type": "string"}]}

    write = writer_of(schema, {})

    assert write is not None
    assert write({name: "x"}) == b"\x02x"
