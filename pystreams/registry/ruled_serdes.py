"""Values of schemas with rules, written and read by Confluent's own serializers.

These carry rules out, for a multiple of what a value costs without them. Each is made for one
schema of one topic, and asks nothing that is not told here: neither subjects nor versions.

They do so only for a "latest version": without one theirs write what no rule has seen. So what a
writer is made for is their latest version, whichever it is; and what values are read into, where
that is not what they were written with.

Importing this needs the extra `pystreams-kafka[rules]`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from io import BytesIO
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryError as ClientsError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.serde import RuleError
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from pystreams.errors import SchemaRegistryError
from pystreams.exception_texts import exception_text, named_exception
from pystreams.registry.rule_executors import RuleFailure
from pystreams.registry.ruled_schema import RuledSchema

Write = Callable[[Any], bytes]
Read = Callable[[bytes], Any]


def avro_writer(ruled: RuledSchema, prefix: bytes) -> Write:
    """Return the function that writes plain values of an Avro schema behind a prefix."""
    return _writer(
        ruled,
        AvroSerializer(
            _as_client(ruled), ruled.schema, None, _to_write(ruled, prefix), *_rules_of(ruled)
        ),
    )


def avro_reader(ruled: RuledSchema) -> Read:
    """Return the function that reads values of an Avro schema, in unions with records' names."""
    conf = _to_read(ruled)
    return _told(
        ruled,
        AvroDeserializer(_as_client(ruled), ruled.own, None, True, conf, *_rules_of(ruled)),
    )


def json_writer(ruled: RuledSchema, prefix: bytes, dump: Callable[[Any], bytes]) -> Write:
    """Return the function that writes plain values of a JSON Schema behind a prefix.

    Args:
        dump: Makes bytes of what the rules have left, or refuses it.
    """
    conf = {**_to_write(ruled, prefix), "validate": False}
    return _writer(
        ruled,
        JSONSerializer(ruled.schema, _as_client(ruled), None, conf, *_rules_of(ruled), dump),
    )


def json_reader(ruled: RuledSchema, load: Callable[[Any], Any]) -> Read:
    """Return the function that reads plain values of a JSON Schema, which it does not validate."""
    conf = {**_to_read(ruled), "validate": False}
    return _told(
        ruled, JSONDeserializer(ruled.own, None, _as_client(ruled), conf, *_rules_of(ruled), load)
    )


def protobuf_writer(ruled: RuledSchema, prefix: bytes, model: Any) -> Write:
    """Return the function that writes messages of a class behind a prefix."""
    return _writer(
        ruled,
        ProtobufSerializer(model, _as_client(ruled), _to_write(ruled, prefix), *_rules_of(ruled)),
    )


def protobuf_reader(ruled: RuledSchema, model: Any) -> Read:
    """Return the function that reads messages of a class."""
    return _told(
        ruled,
        ProtobufDeserializer(model, _to_read(ruled), _as_client(ruled), *_rules_of(ruled)),
    )


def _as_client(ruled: RuledSchema) -> Any:
    return ruled


def _rules_of(ruled: RuledSchema) -> tuple[dict[str, Any], Any]:
    return ruled.client.rule_config, ruled.client.rule_registry


def _to_write(ruled: RuledSchema, prefix: bytes) -> dict[str, Any]:
    return {
        "auto.register.schemas": False,
        "use.latest.version": True,
        "subject.name.strategy": lambda *_: ruled.subject,
        "schema.id.serializer": lambda payload, *_: prefix + payload,
    }


def _to_read(ruled: RuledSchema) -> dict[str, Any]:
    return {
        "use.latest.version": ruled.latest is not None,
        "subject.name.strategy": lambda *_: ruled.subject,
        "schema.id.deserializer": lambda data, _, schema_id: schema_id.from_bytes(BytesIO(data)),
    }


def _writer(ruled: RuledSchema, serialize: Any) -> Write:
    """Return the function that writes copies: transforms change what they are given."""
    write = _told(ruled, serialize)
    return lambda value: write(deepcopy(value))


def _told(ruled: RuledSchema, function: Any) -> Callable[[Any], Any]:
    """Return a function of Confluent's, with errors that name the rule and say whose fault it is.

    What a value is is not told where it is to be kept secret.
    """
    context = SerializationContext(
        ruled.topic, MessageField.KEY if ruled.is_key else MessageField.VALUE
    )
    shows_values = not ruled.is_secret
    where = ruled.where

    def call(value: Any) -> Any:
        try:
            return function(value, context)
        except SchemaRegistryError:
            raise
        except ClientsError as error:
            raise SchemaRegistryError(
                f"the schema registry at {ruled.client.url} refused what the rules of {where} "
                f"need ({error}): no record was skipped"
            ) from error
        except Exception as error:
            failure = _failure(error)
            if failure is not None:
                raise _rule_error(failure, where, shows_values=shows_values) from error
            if isinstance(error, SerializationError) and not exception_text(error):
                reason = error.__cause__ or "a rule has left nothing of it"
                raise ValueError(f"{where}: {reason}") from error
            kind = type(error).__name__
            if kind == "ValueError" and exception_text(error).startswith(where):
                raise  # It is one of ours, which shows no value.
            if shows_values:
                raise ValueError(f"{where}: {kind}: {exception_text(error)}") from error
            raise ValueError(f"{where}: it does not fit the schema ({kind})") from None

    return call


def _failure(error: BaseException | None) -> RuleFailure | None:
    while error is not None and not isinstance(error, RuleFailure):
        error = error.__cause__
    return error


def _rule_error(failure: RuleFailure, where: str, *, shows_values: bool) -> Exception:
    """Return the error of a rule: the record's, or that of the keys it is encrypted with."""
    rule, cause = failure.rule, failure.__cause__
    named = f"{where}: rule {rule.name!r} ({rule.type} {str(rule.kind).lower()} on {failure.mode})"
    if failure.field is not None:
        named += f", field {failure.field}"
    if failure.unmet:
        return ValueError(f"{named}: not met: {rule.doc or rule.expr}")
    if not isinstance(cause, RuleError):
        reason = f": {cause.args[0] if cause and cause.args else cause}" if shows_values else ""
        return ValueError(f"{named}: {type(cause).__name__}{reason}")
    reason = str(cause)
    if cause.__cause__ is not None:
        reason += f" ({' '.join(named_exception(cause.__cause__).split())})"
    if not _is_of_keys(failure):
        return ValueError(f"{named}: {reason}")
    return SchemaRegistryError(
        f"{named}: {reason}; check rule_config=, the key store and the registry's keys, and start "
        "again: no record was skipped"
    )


def _is_of_keys(failure: RuleFailure) -> bool:
    """Return whether it is not the record's fault: the key store or the registry has no key.

    A key that was there and is gone is the record's: so that what it was about is forgotten.
    """
    cause = failure.__cause__
    if not str(failure.rule.type).upper().startswith("ENCRYPT") or not isinstance(cause, RuleError):
        return False
    return failure.mode != "READ" or cause.__cause__ is not None
