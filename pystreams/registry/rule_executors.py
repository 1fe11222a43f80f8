"""Confluent's executors of rules, which here say which rule has failed, and for which field.

Their own errors say neither. Each registry has executors of its own: what they learn (keys, above
all) and what they are configured with is not shared with others of the process.

Importing this needs the extra `pystreams-kafka[rules]`.
"""

from __future__ import annotations

import datetime as dt
import importlib
import logging
from collections.abc import Callable
from typing import Any

from celpy import celtypes
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor
from confluent_kafka.schema_registry.rules.cel.cel_field_executor import CelFieldExecutor
from confluent_kafka.schema_registry.rules.encryption.encrypt_executor import (
    EncryptionExecutor,
    FieldEncryptionExecutor,
)
from confluent_kafka.schema_registry.rules.encryption.kms_driver_registry import (
    KmsDriver,
    register_kms_driver,
)
from confluent_kafka.schema_registry.rules.jsonata.jsonata_executor import JsonataExecutor
from confluent_kafka.schema_registry.serde import (
    FieldContext,
    FieldRuleExecutor,
    FieldTransform,
    RuleAction,
    RuleContext,
    RuleError,
    RuleExecutor,
)
from confluent_kafka.serialization import SerializationError

from pystreams.registry.union_names import without_names

# At DEBUG it logs the values that it evaluates, and takes long for it.
logging.getLogger("celpy").setLevel(logging.INFO)


class RuleFailure(Exception):  # noqa: N818 - never leaves this package
    """A rule has failed for a value.

    Attributes:
        rule: Confluent's.
        mode: What it was carried out for, as `WRITE`.
        field: The full name of the field that it was about; None for the whole.
        unmet: Whether it is a condition that is not met.
    """

    def __init__(self, ctx: RuleContext, field: str | None, *, unmet: bool = False) -> None:
        super().__init__(ctx.rule.name)
        self.rule = ctx.rule
        self.mode = str(ctx.rule_mode)
        self.field = field
        self.unmet = unmet


class _NamedExecutor(RuleExecutor):
    """An executor whose errors name the rule."""

    def __init__(self, executor: RuleExecutor) -> None:
        self._executor = executor

    def configure(self, client_conf: dict[str, Any], rule_conf: dict[str, Any]) -> None:
        self._executor.configure(client_conf, rule_conf)

    def type(self) -> str:
        return self._executor.type()

    def transform(self, ctx: RuleContext, message: Any) -> Any:
        if str(ctx.rule_mode) != "WRITE" or str(ctx.rule.kind) == "CONDITION":
            # Expressions are about plain values; what a writer has named stays so.
            message = without_names(message)
        try:
            result = plain(self._executor.transform(ctx, message))
        except Exception as error:
            raise RuleFailure(ctx, None) from error
        if str(ctx.rule.kind) == "CONDITION" and not result:
            raise RuleFailure(ctx, None, unmet=True)
        return result


class _NamedFieldExecutor(_NamedExecutor):
    """An executor of rules about fields, whose errors name the rule and the field."""

    _executor: FieldRuleExecutor

    def transform(self, ctx: RuleContext, message: Any) -> Any:
        fields = _Fields(self._executor)
        try:
            return fields.transform(ctx, message)
        except Exception as error:
            unmet = type(error).__name__ == "RuleConditionError"
            raise RuleFailure(ctx, fields.field, unmet=unmet) from error


class _Fields(FieldRuleExecutor):
    """A rule carried out once, over the fields of a value.

    Attributes:
        field: The one that was come to last.
    """

    def __init__(self, executor: FieldRuleExecutor) -> None:
        self._executor = executor
        self.field: str | None = None

    def type(self) -> str:
        return self._executor.type()

    def new_transform(self, ctx: RuleContext) -> FieldTransform:
        transform = self._executor.new_transform(ctx)

        def transform_field(ctx: RuleContext, field: FieldContext, value: Any) -> Any:
            self.field = field.full_name
            return plain(transform(ctx, field, value))

        return transform_field


class _DeadLetter(RuleAction):
    """The action DLQ: the record is an error, and where it goes is for the handlers to say."""

    def type(self) -> str:
        return "DLQ"

    def run(self, ctx: RuleContext, message: Any, ex: Exception | None) -> None:
        raise SerializationError from ex


class _KeyStore(KmsDriver):
    """What makes clients of a key store, each with the configuration that it is given.

    Confluent's keeps the first one for all who ask later, whatever they are configured with.
    """

    def __init__(self, prefix: str, module: str, driver: str) -> None:
        self._prefix = prefix
        self._module = f"confluent_kafka.schema_registry.rules.encryption.{module}"
        self._driver = driver

    def get_key_url_prefix(self) -> str:
        return self._prefix

    def new_kms_client(self, conf: dict[str, Any], key_url: str | None) -> Any:
        try:
            driver = getattr(importlib.import_module(self._module), self._driver)()
        except ImportError as error:
            raise RuleError(
                f"keys of {self._prefix} need packages: pip install 'confluent-kafka[rules]'"
            ) from error
        return _OwnKeyStoreClient(driver.new_kms_client(conf, key_url))


class _OwnKeyStoreClient:
    """A client that is found by nobody but who has made it."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def does_support(self, key_uri: str) -> bool:
        return False

    def get_aead(self, key_uri: str) -> Any:
        return self._client.get_aead(key_uri)


for key_store in (
    _KeyStore("local-kms://", "localkms.local_driver", "LocalKmsDriver"),
    _KeyStore("aws-kms://", "awskms.aws_driver", "AwsKmsDriver"),
    _KeyStore("azure-kms://", "azurekms.azure_driver", "AzureKmsDriver"),
    _KeyStore("gcp-kms://", "gcpkms.gcp_driver", "GcpKmsDriver"),
    _KeyStore("hcvault://", "hcvault.hcvault_driver", "HcVaultKmsDriver"),
):
    register_kms_driver(key_store)


def new_rule_registry() -> RuleRegistry:
    """Return a registry of rules with executors of its own."""
    made = RuleRegistry()
    for executor in (CelExecutor(), JsonataExecutor(), EncryptionExecutor()):
        made.register_executor(_NamedExecutor(executor))
    for field_executor in (CelFieldExecutor(), FieldEncryptionExecutor()):
        made.register_executor(_NamedFieldExecutor(field_executor))
    made.register_action(_DeadLetter())
    return made


def plain(value: Any) -> Any:
    """Return what an expression has given in Python's own types; messages are left alone."""
    if isinstance(value, dict):
        return {plain(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, tuple):
        return tuple(plain(inner) for inner in value)
    make_plain = _PLAIN.get(type(value))
    return value if make_plain is None else make_plain(value)


_PLAIN: dict[type, Callable[[Any], Any]] = {
    celtypes.BoolType: bool,
    celtypes.BytesType: bytes,
    celtypes.DoubleType: float,
    celtypes.DurationType: lambda made: dt.timedelta(made.days, made.seconds, made.microseconds),
    celtypes.IntType: int,
    celtypes.StringType: str,
    celtypes.TimestampType: lambda made: dt.datetime.combine(made.date(), made.timetz()),
    celtypes.UintType: int,
}
