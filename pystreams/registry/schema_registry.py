"""A schema registry, from which serdes are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pystreams.registry.arguments import (
    check_choice,
    check_config,
    check_model,
    check_records,
    check_schema,
)
from pystreams.registry.avro import AvroSerde, parsed_schema, record_names
from pystreams.registry.json_schema import JsonSchemaSerde, validator
from pystreams.registry.protobuf import ProtobufSerde, message_descriptor
from pystreams.registry.registry_client import RegistryClient
from pystreams.registry.registry_serde import RegistrySerde, SchemaChoice
from pystreams.registry.subjects import SchemaUse, SubjectName, SubjectNameStrategy
from pystreams.registry.wire_format import SchemaIdPlace
from pystreams.serdes import Serde
from pystreams.typed_values.json_functions import json_functions
from pystreams.typed_values.plain_functions import plain_functions

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
    """The class of the values; anything without one."""


class SchemaRegistry:
    """Makes serdes whose schemas are in a registry that speaks Confluent's API.

    Nothing is asked before the first record. A registry that does not answer, or refuses what it
    is asked, stops the application with a `SchemaRegistryError`: it is never taken for a bad
    record, whatever the handlers say.

    Args:
        config: The keys of Confluent's client: `url`, and for example `basic.auth.user.info`,
            `bearer.auth.credentials.source`, `ssl.ca.location`, `max.retries`, `timeout`.
        schema_ids: Where its serdes write the id of a record's schema.
        rule_config: What carries out the rules of schemas is configured with, as Confluent's
            `rule_config`: what the key store asks for. It is shown nowhere.

    Raises:
        ConfigError: An argument is of a wrong type, or packages are missing.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        schema_ids: SchemaIdPlace = SchemaIdPlace.PREFIX,
        rule_config: Mapping[str, Any] | None = None,
    ) -> None:
        check_config(config, schema_ids, rule_config)
        self._client = RegistryClient(config, rule_config)
        self._id_place = schema_ids

    @property
    def client(self) -> Any:
        """Return Confluent's own client, to register schemas or change compatibility."""
        return self._client.confluent_client

    def avro(
        self,
        model: type[T] | None = None,
        *,
        schema: Any = None,
        is_key: bool = False,
        subject: SubjectNameStrategy | SubjectName = SubjectNameStrategy.TOPIC,
        write_with: SchemaUse | int = SchemaUse.REGISTER,
    ) -> Serde[T]:
        """Return a serde of Avro.

        Args:
            model: The class of the values, as `serdes.json_of` takes them; dicts without one.
            schema: The schema to write with, and to read into (the writer's is resolved to it): its
                text, or the client's `Schema` where it has references. Without one, values are
                read as they were written.
            is_key: Whether it is for keys, which have a subject of their own.
            subject: How the subject is named.
            write_with: The schema to write with, or the id of one.

        Raises:
            ConfigError: An argument is of a wrong type, the schema is none of Avro, or packages are
                missing; or classes of a union have the same fields, and no records of their names.
        """
        choice = self._choice("avro", schema, subject, write_with, is_key=is_key)
        check_model("avro", model, plain_functions)
        serde = AvroSerde(self._client, model, choice)

        def parse(own: Any) -> None:
            check_records(model, record_names(parsed_schema(self._client, own, "")[1]))

        _check_schema("avro", serde, parse)
        return serde

    def json_schema(
        self,
        model: type[T] | None = None,
        *,
        schema: Any = None,
        is_key: bool = False,
        subject: SubjectNameStrategy | SubjectName = SubjectNameStrategy.TOPIC,
        write_with: SchemaUse | int = SchemaUse.REGISTER,
        validate: bool = True,
    ) -> Serde[T]:
        """Return a serde of JSON with a schema.

        Args:
            model: The class of the values, as `serdes.json_of` takes them; any JSON without one.
            schema: As for `avro`. What is read is validated by it, or else by the writer's.
            is_key: As for `avro`.
            subject: Likewise; the record's name is the schema's title.
            write_with: Likewise.
            validate: Whether values are validated, which costs much more than the rest.

        Raises:
            ConfigError: As `avro` does.
        """
        choice = self._choice("json_schema", schema, subject, write_with, is_key=is_key)
        check_model("json_schema", model, lambda checked: json_functions(checked, strict=False))
        serde = JsonSchemaSerde(self._client, model, choice, validate)

        def parse(own: Any) -> None:
            if validate:
                validator(self._client, own, "")

        _check_schema("json_schema", serde, parse)
        return serde

    def protobuf(
        self,
        model: type[T],
        *,
        is_key: bool = False,
        subject: SubjectNameStrategy | SubjectName = SubjectNameStrategy.TOPIC,
        write_with: SchemaUse | int = SchemaUse.REGISTER,
    ) -> Serde[T]:
        """Return a serde of Protobuf messages.

        Files that the message's imports are registered under their own names, as references.

        Args:
            model: The class that protoc has generated; its file is the schema.
            is_key: As for `avro`; equal keys are equal bytes.
            subject: Likewise; the record's name is the message's full one.
            write_with: Likewise.

        Raises:
            ConfigError: It is no such class, or another argument is of a wrong type.
        """
        message_descriptor(model)
        choice = self._choice("protobuf", None, subject, write_with, is_key=is_key)
        return ProtobufSerde(self._client, model, choice)

    def _choice(
        self,
        method: str,
        schema: Any,
        subject: SubjectNameStrategy | SubjectName,
        write_with: SchemaUse | int,
        *,
        is_key: bool,
    ) -> SchemaChoice:
        check_choice(method, subject, write_with)
        return SchemaChoice(schema, is_key, subject, write_with, self._id_place)

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._client.url!r})"


def _check_schema(method: str, serde: RegistrySerde[Any], parse: Callable[[Any], object]) -> None:
    """Refuse a serde whose schema is none of its format."""
    check_schema(method, serde.choice.schema, serde.own_schema(), serde.schema_type, parse)
