"""Which rules a schema has, and which of them are refused before a value is touched.

Rules stand beside a schema in Confluent's registry: conditions, transforms and encryption that are
carried out when values are written or read (domain and encoding rules), and those that bring values
from one version of the schema to another (migrations).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pystreams.errors import SchemaRegistryError

_FIELD_ENCRYPTION, _PAYLOAD_ENCRYPTION = "ENCRYPT", "ENCRYPT_PAYLOAD"
_TYPES = ("CEL", "CEL_FIELD", _FIELD_ENCRYPTION, _PAYLOAD_ENCRYPTION, "JSONATA")
_ACTIONS = ("DLQ", "ERROR", "NONE")
_ALGORITHM, _EXPIRY = "encrypt.dek.algorithm", "encrypt.dek.expiry.days"
_DETERMINISTIC = "AES256_SIV"
_HASHED = "-topic-vh"
"""Ends the topics, which do not exist, for which foreign-key joins serialize what they hash."""


def has_rules(schema: Any) -> bool:
    """Return whether a schema has rules for values that are written or read."""
    return bool(_rules(schema, "domain_rules") or has_encoding_rules(schema))


def has_encoding_rules(schema: Any) -> bool:
    """Return whether a schema has rules for the bytes of values."""
    return bool(_rules(schema, "encoding_rules"))


def has_migrations(schema: Any) -> bool:
    """Return whether a schema, if there is one, has rules that bring values to it, or back."""
    return schema is not None and bool(_rules(schema, "migration_rules"))


def has_any_rules(schema: Any) -> bool:
    """Return whether a schema, if there is one, has rules of either kind."""
    return schema is not None and (has_rules(schema) or has_migrations(schema))


def keeps_record_names(schema: Any, mode: str) -> bool:
    """Return whether rules of a mode (READ, WRITE) leave values in records that have names.

    A transform of the whole makes a plain value of it, and is made for plain ones.
    """
    return not any(
        _type(rule) in {"CEL", "JSONATA"} and str(rule.kind) == "TRANSFORM"
        for rule in _rules(schema, "domain_rules")
        if not rule.disabled and str(rule.mode) in {mode, "WRITEREAD"}
    )


def is_encrypted(schema: Any) -> bool:
    """Return whether a rule encrypts fields, or the whole."""
    return next(_encryptions(schema), None) is not None


def encrypted_tags(schema: Any) -> set[str]:
    """Return the tags of the fields that a schema's rules encrypt; "" for all fields."""
    return {
        tag
        for rule in _encryptions(schema)
        if _type(rule) == _FIELD_ENCRYPTION
        for tag in rule.tags or ("",)
    }


def refuse_unknown_rules(schema: Any, where: str) -> None:
    """Refuse a schema of which a rule, or what a rule asks for, is not known here.

    Raises:
        SchemaRegistryError: It has such a rule.
    """
    for rule in _all(schema):
        if _type(rule) not in _TYPES:
            raise SchemaRegistryError(
                f"the schema of {where} has rule {rule.name!r} of type {rule.type}, which is not "
                f"carried out here ({', '.join(_TYPES)} are): use a subject without it"
            )
        for asked in (rule.on_success, rule.on_failure):
            unknown = set((asked or "NONE").split(",")) - {*_ACTIONS, ""}
            if unknown:
                raise SchemaRegistryError(
                    f"the schema of {where} has rule {rule.name!r} with the action "
                    f"{unknown.pop()}, which is not known here ({', '.join(_ACTIONS)} are): "
                    "change the rule"
                )


def refuse_changing_bytes(schema: Any, topic: str, where: str, *, is_key: bool) -> None:
    """Refuse encryption that makes other bytes of an equal value, where bytes are compared.

    Keys are: partitions are chosen by their bytes, and rows are found by them.

    Raises:
        SchemaRegistryError: It does so.
    """
    if not (is_key or topic.endswith(_HASHED)):
        return
    compared = "keys" if is_key else "values that a foreign-key join compares"
    for rule in _encryptions(schema):
        rotates = _parameter(rule, schema, _EXPIRY) not in {None, "", "0"}
        if rotates or _parameter(rule, schema, _ALGORITHM) != _DETERMINISTIC:
            raise SchemaRegistryError(
                f"rule {rule.name!r} of {where} makes other bytes each time it encrypts, and "
                f"{compared} must be equal bytes where they are equal: set {_ALGORITHM} to "
                f"{_DETERMINISTIC} in the rule, without {_EXPIRY}"
            )


def _encryptions(schema: Any) -> Iterator[Any]:
    for rule in _all(schema):
        if _type(rule) in {_FIELD_ENCRYPTION, _PAYLOAD_ENCRYPTION}:
            yield rule


def _all(schema: Any) -> Iterator[Any]:
    for kind in ("domain_rules", "encoding_rules", "migration_rules"):
        for rule in _rules(schema, kind):
            if not rule.disabled:
                yield rule


def _rules(schema: Any, kind: str) -> list[Any]:
    return list(getattr(schema.rule_set, kind, None) or ())


def _type(rule: Any) -> str:
    return str(rule.type).upper()


def _parameter(rule: Any, schema: Any, name: str) -> str | None:
    """Return what a rule, or else its schema, says under a name."""
    properties = schema.metadata and schema.metadata.properties
    said = (rule.params and rule.params.params, properties and properties.properties)
    return next((named[name] for named in said if named and name in named), None)
