"""Schemas with rules for the tests: one record in three formats, and what rules say of it."""

from __future__ import annotations

from base64 import standard_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka.schema_registry import (
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    Schema,
)
from confluent_kafka.schema_registry.confluent import meta_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from pystreams import Serde
from pystreams.registry import SchemaRegistry, SchemaUse
from tests.registry.messages import classes, field, message

CARD = "4111111111111111"

BILL_AVRO = orjson.dumps(
    {
        "type": "record",
        "name": "Bill",
        "namespace": "shop",
        "fields": [
            {"name": "card", "type": "string", "confluent:tags": ["PII"]},
            {"name": "cents", "type": "long"},
        ],
    }
).decode()
BILL_JSON = orjson.dumps(
    {
        "type": "object",
        "title": "Bill",
        "properties": {
            "card": {"type": "string", "confluent:tags": ["PII"]},
            "cents": {"type": "integer"},
        },
        "required": ["card"],
    }
).decode()
BILL_FILE = FileDescriptorProto(
    name="shop/bill.proto",
    package="shop",
    syntax="proto3",
    message_type=[
        message(
            "Bill",
            field("card", 1, FieldDescriptorProto.TYPE_STRING),
            field("cents", 2, FieldDescriptorProto.TYPE_INT64),
        )
    ],
)
_FIELD_META: Any = vars(meta_pb2)["field_meta"]
BILL_FILE.message_type[0].field[0].options.Extensions[_FIELD_META].tags.append("PII")
BILL_TEXT = 'syntax = "proto3"; package shop; message Bill { string card = 1; int64 cents = 2; }'
BILL_PROTOBUF = standard_b64encode(BILL_FILE.SerializeToString()).decode()
BillMessage: Any = classes(BILL_FILE)["shop.Bill"]

CONFIG = {"secret": "a secret of the key store"}
"""What Confluent's local key store is configured with."""


@dataclass(frozen=True)
class Format:
    """A format in which a bill is written.

    Attributes:
        schema_type: What the registry calls it.
        text: The schema of a bill.
        bill: Makes one of a card's number and an amount.
        plain: Makes a dict of one.
        card: The full name of the field that is tagged PII.
    """

    schema_type: str
    text: str
    bill: Callable[[str, int], Any]
    plain: Callable[[Any], dict[str, Any]]
    card: str

    def schema(self, *rules: Rule, migrations: tuple[Rule, ...] = ()) -> Schema:
        """Return the schema of a bill with rules."""
        rule_set = RuleSet(list(migrations), list(rules))
        return Schema(self.text, self.schema_type, [], None, rule_set)

    def serde(self, registry: SchemaRegistry, **said: Any) -> Serde[Any]:
        """Return the serde of bills that writes with the subject's latest version."""
        said = {"write_with": SchemaUse.LATEST, **said}
        if self.schema_type == "PROTOBUF":
            return registry.protobuf(**{"model": BillMessage, **said})
        if self.schema_type == "JSON":
            return registry.json_schema(**said)
        return registry.avro(**said)


def _dict(card: str, cents: int) -> dict[str, Any]:
    return {"card": card, "cents": cents}


AVRO = Format("AVRO", BILL_AVRO, _dict, dict, "shop.Bill.card")
JSON = Format("JSON", BILL_JSON, _dict, dict, "$.card")
PROTOBUF = Format(
    "PROTOBUF",
    BILL_PROTOBUF,
    lambda card, cents: BillMessage(card=card, cents=cents),
    lambda bill: {"card": bill.card, "cents": bill.cents},
    "shop.Bill.card",
)
FORMATS = [AVRO, JSON, PROTOBUF]


def registry_with(form: Format, *rules: Rule, topic: str = "bills") -> SchemaRegistry:
    """Return a registry that has a topic's bills under rules."""
    registry = SchemaRegistry({"url": "mock://"}, rule_config=CONFIG)
    registry.client.register_schema(f"{topic}-value", form.schema(*rules))
    return registry


def condition(name: str, expression: str, mode: str = "WRITE", **said: Any) -> Rule:
    """Return a condition in CEL."""
    return rule(name, "CEL", "CONDITION", mode, expression, **said)


def transform(name: str, expression: str, mode: str = "WRITE", **said: Any) -> Rule:
    """Return a transform in CEL."""
    return rule(name, "CEL", "TRANSFORM", mode, expression, **said)


def migration(name: str, expression: str, mode: str = "UPGRADE") -> Rule:
    """Return a migration in JSONata."""
    return rule(name, "JSONATA", "TRANSFORM", mode, expression)


def encryption(name: str = "hide the card", *, whole: bool = False, **said: Any) -> Rule:
    """Return a rule that encrypts fields tagged PII, or all; `algorithm=`, `kms=` are taken."""
    params = {
        "encrypt.kek.name": "bills",
        "encrypt.kms.type": said.pop("kms", "local-kms"),
        "encrypt.kms.key.id": "the-key",
    }
    for parameter in ("algorithm", "expiry_days"):
        if parameter in said:
            params[f"encrypt.dek.{parameter.replace('_', '.')}"] = said.pop(parameter)
    kind = "ENCRYPT_PAYLOAD" if whole else "ENCRYPT"
    tags = None if whole else said.pop("tags", ["PII"])
    return rule(name, kind, "TRANSFORM", "WRITEREAD", None, params=params, tags=tags, **said)


def rule(name: str, type: str, kind: str, mode: str, expression: str | None, **said: Any) -> Rule:  # noqa: A002
    """Return a rule; `said` are `Rule`'s other arguments."""
    params = said.pop("params", None)
    return Rule(
        name=name,
        doc=said.get("doc"),
        kind=RuleKind(kind),
        mode=RuleMode(mode),
        type=type,
        tags=said.get("tags"),
        params=None if params is None else RuleParams(params),
        expr=expression,
        on_success=said.get("on_success"),
        on_failure=said.get("on_failure"),
        disabled=said.get("disabled", False),
    )
