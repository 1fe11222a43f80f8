"""What the formats share: where a schema's id stands, one writer a topic and one reader a schema.

The registry is asked when the first value of a topic is written, and when the first record of a
schema is read; after that a record costs a dict look-up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pystreams.errors import ConfigError, SchemaRegistryError
from pystreams.record import Headers
from pystreams.registry.registry_client import RegisteredId, RegistryClient
from pystreams.registry.subjects import SchemaUse, SubjectName, SubjectNameStrategy, subject_of
from pystreams.registry.wire_format import (
    GUID_BYTES,
    ID_BYTES,
    SchemaIdPlace,
    header_bytes,
    header_name,
    header_of,
    id_bytes,
    named_schema,
    without_header,
)

T = TypeVar("T")

Write = Callable[[Any], bytes]
Read = Callable[[bytes], T]


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """What the user says about the schema of a serde.

    Attributes:
        schema: Its text, or the client's `Schema` (with references); None to take the writer's.
        is_key: Whether keys are of it.
        subject: How its subject is named.
        write_with: Which schema values are written with, or the id of it.
        id_place: Where its id is written.
    """

    schema: Any
    is_key: bool
    subject: SubjectNameStrategy | SubjectName
    write_with: SchemaUse | int
    id_place: SchemaIdPlace

    @property
    def part(self) -> str:
        """Return "key" or "value"."""
        return "key" if self.is_key else "value"


@dataclass(frozen=True)
class RegistrySerde(ABC, Generic[T]):
    """A serde in Confluent's wire format.

    Attributes:
        client: Asks the registry.
        model: The class of the values; None for plain ones.
        choice: What is said about the schema.
    """

    client: RegistryClient
    model: type[T] | None
    choice: SchemaChoice

    schema_type = ""
    """What the registry calls the format."""

    @property
    def value_type(self) -> type[T] | None:
        """Return the class of the values, if there is one."""
        return self.model

    @abstractmethod
    def make_writer(self, schema: Any, prefix: bytes, where: str) -> Write:
        """Return the function that writes values with a schema, behind a prefix."""

    @abstractmethod
    def make_reader(self, schema: Any, skipped_bytes: int, where: str) -> Read[T]:
        """Return the function that reads records of a writer's schema.

        Args:
            schema: The writer's.
            skipped_bytes: How many bytes stand before the data.
            where: What is read, for errors.
        """

    def record_name(self, schema: Any) -> str | None:
        """Return the name of the record that a schema describes."""
        return None

    def place(self) -> bytes:
        """Return what stands behind a schema's id: of Protobuf, where in its file a message is."""
        return b""

    def serializer(self, topic: str) -> Callable[[T], bytes]:
        """Return the serializing function; its first call asks the registry."""
        write: Write | None = None

        def serialize(value: T) -> bytes:
            nonlocal write
            if write is None:
                (schema_id, _, _), schema, where = self._schema_to_write(topic)
                write = self.make_writer(schema, id_bytes(schema_id) + self.place(), where)
            return write(value)

        return serialize

    def headers_serializer(
        self, topic: str
    ) -> Callable[[T, Headers], tuple[bytes, Headers]] | None:
        """Return the function that knows a record's headers.

        A header with the schema of the record's source goes no further: who reads what is written
        would believe it.
        """
        name = header_name(self.choice.part)
        if self.choice.id_place is SchemaIdPlace.PREFIX:
            serialize = self.serializer(topic)
            return lambda value, headers: (
                serialize(value),
                without_header(headers, name) if headers else headers,
            )
        write: Write | None = None
        header: Headers = ()

        def serialize_beside(value: T, headers: Headers) -> tuple[bytes, Headers]:
            nonlocal write, header
            if write is None:
                (schema_id, guid, _), schema, where = self._schema_to_write(topic)
                header = ((name, header_bytes(schema_id, guid) + self.place()),)
                write = self.make_writer(schema, b"", where)
            return write(value), without_header(headers, name) + header if headers else header

        return serialize_beside

    def deserializer(self, topic: str) -> Callable[[bytes], T]:
        """Return the deserializing function; it asks the registry once a schema."""
        readers: dict[bytes, Read[T]] = {}

        def deserialize(data: bytes) -> T:
            prefix = data[:ID_BYTES]
            read = readers.get(prefix)
            if read is None:
                if prefix[:1] == b"\x01":
                    prefix = data[:GUID_BYTES]
                read = readers.get(prefix) or self._reader(data, topic)
                readers[prefix] = read
            return read(data)

        return deserialize

    def headers_deserializer(self, topic: str) -> Callable[[bytes, Headers], T] | None:
        """Return the function that looks for the schema among the headers first."""
        name = header_name(self.choice.part)
        deserialize = self.deserializer(topic)
        readers: dict[bytes, Read[T]] = {}

        def deserialize_beside(data: bytes, headers: Headers) -> T:
            header = header_of(headers, name) if headers else None
            if header is None:
                return deserialize(data)
            read = readers.get(header)
            if read is None:
                read = readers[header] = self._reader(header, topic, beside=True)
            return read(data)

        return deserialize_beside

    def own_schema(self) -> Any:
        """Return the client's form of the schema that was given, or None."""
        schema = self.choice.schema
        if isinstance(schema, str):
            return self.client.schema_of(schema.strip(), self.schema_type)
        return schema

    def _schema_to_write(self, topic: str) -> tuple[RegisteredId, Any, str]:
        choice = self.choice
        where = f"the {choice.part}s of topic {topic!r}"
        own = self.own_schema()
        if isinstance(choice.write_with, int):
            registered = RegisteredId(choice.write_with, None, None)
            schema = self.client.schema(choice.write_with, where)
        else:
            subject = subject_of(
                choice.subject, topic, choice.part, None if own is None else self.record_name(own)
            )
            registered, schema = self._of_subject(subject, own, where)
        refuse_rules(schema, where)
        return registered, schema, f"{where} (schema id {registered.schema_id})"

    def _of_subject(self, subject: str, own: Any, where: str) -> tuple[RegisteredId, Any]:
        if self.choice.write_with is SchemaUse.LATEST:
            return self.client.latest(subject, where)
        if own is None:
            message = (
                f"{where} can't be written without a schema: give schema=..., or "
                "write_with=SchemaUse.LATEST"
            )
            raise ConfigError(message)
        if self.choice.write_with is SchemaUse.LOOK_UP:
            return self.client.look_up(subject, own, where), own
        return self.client.register(subject, own, where), own

    def _reader(self, named_by: bytes, topic: str, *, beside: bool = False) -> Read[T]:
        """Return the reader of what a prefix, or a header beside the data, names."""
        where = f"the {self.choice.part}s of topic {topic!r}"
        schema_id, size = named_schema(named_by, self.schema_type)
        schema = self.client.schema(schema_id, where)
        if (schema.schema_type or "AVRO") != self.schema_type:
            raise ValueError(
                f"schema id {schema_id} is of {schema.schema_type}, and this serde reads "
                f"{self.schema_type}: take that serde of SchemaRegistry"
            )
        refuse_rules(schema, where)
        where = f"{where} (schema id {schema_id})"
        if beside:
            return self.make_reader_beside(schema, named_by[size:], where)
        return self.make_reader(schema, size, where)

    def make_reader_beside(self, schema: Any, place: bytes, where: str) -> Read[T]:
        """Return the function that reads records whose schema a header names.

        Args:
            schema: The writer's.
            place: What the header has behind the schema's id.
            where: What is read, for errors.
        """
        return self.make_reader(schema, 0, where)


def refuse_rules(schema: Any, where: str) -> None:
    """Refuse a schema with rules, as values would be written or read without them.

    Raises:
        SchemaRegistryError: It has some.
    """
    rules = schema.rule_set
    if rules is not None and (rules.domain_rules or getattr(rules, "encoding_rules", None)):
        message = (
            f"the schema of {where} has rules (encryption, conditions, transforms), which are not "
            "carried out here: use a subject without them"
        )
        raise SchemaRegistryError(message)
