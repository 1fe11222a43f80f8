"""What the formats share: Confluent's five bytes, one writer a topic and one reader a schema id.

The registry is asked when the first value of a topic is written, and when the first record of a
schema id is read; after that a record costs a dict look-up.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pystreams.errors import ConfigError, SchemaRegistryError
from pystreams.registry.registry_client import RegistryClient
from pystreams.registry.subjects import SchemaUse, SubjectName, SubjectNameStrategy, subject_of

T = TypeVar("T")

MAGIC = b"\x00"
PREFIX_BYTES = 5
_PREFIX = struct.Struct(">bI")


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """What the user says about the schema of a serde.

    Attributes:
        schema: Its text, or the client's `Schema` (with references); None to take the writer's.
        is_key: Whether keys are of it.
        subject: How its subject is named.
        write_with: Which schema values are written with, or the id of it.
    """

    schema: Any
    is_key: bool
    subject: SubjectNameStrategy | SubjectName
    write_with: SchemaUse | int

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

    @abstractmethod
    def make_writer(self, schema: Any, prefix: bytes, where: str) -> Callable[[Any], bytes]:
        """Return the function that writes values with a schema."""

    @abstractmethod
    def make_reader(self, schema: Any, where: str) -> Callable[[bytes], T]:
        """Return the function that reads records, prefix included, of a writer's schema."""

    def record_name(self, schema: Any) -> str | None:
        """Return the name of the record that a schema describes."""
        return None

    def serializer(self, topic: str) -> Callable[[T], bytes]:
        """Return the serializing function; its first call asks the registry."""
        write: Callable[[T], bytes] | None = None

        def serialize(value: T) -> bytes:
            nonlocal write
            if write is None:
                write = self._writer(topic)
            return write(value)

        return serialize

    def deserializer(self, topic: str) -> Callable[[bytes], T]:
        """Return the deserializing function; it asks the registry once a schema id."""
        readers: dict[bytes, Callable[[bytes], T]] = {}
        where = f"the {self.choice.part}s of topic {topic!r}"

        def deserialize(data: bytes) -> T:
            prefix = data[:PREFIX_BYTES]
            read = readers.get(prefix)
            if read is None:
                read = readers[prefix] = self._reader(prefix, where)
            return read(data)

        return deserialize

    def own_schema(self) -> Any:
        """Return the client's form of the schema that was given, or None."""
        schema = self.choice.schema
        if isinstance(schema, str):
            return self.client.schema_of(schema.strip(), self.schema_type)
        return schema

    def _writer(self, topic: str) -> Callable[[T], bytes]:
        choice = self.choice
        where = f"the {choice.part}s of topic {topic!r}"
        own = self.own_schema()
        if isinstance(choice.write_with, int):
            schema_id, schema = choice.write_with, self.client.schema(choice.write_with, where)
        else:
            subject = subject_of(
                choice.subject, topic, choice.part, None if own is None else self.record_name(own)
            )
            schema_id, schema = self._of_subject(subject, own, where)
        refuse_rules(schema, where)
        return self.make_writer(
            schema, _PREFIX.pack(0, schema_id), f"{where} (schema id {schema_id})"
        )

    def _of_subject(self, subject: str, own: Any, where: str) -> tuple[int, Any]:
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

    def _reader(self, prefix: bytes, where: str) -> Callable[[bytes], T]:
        if prefix[:1] != MAGIC or len(prefix) < PREFIX_BYTES:
            raise ValueError(
                f"it is not in Confluent's format: a zero byte and four of a schema id come before "
                f"the {self.schema_type} data there, and it begins with "
                f"{prefix.hex() or 'nothing'} (ids in headers are not read)"
            )
        schema_id: int = _PREFIX.unpack(prefix)[1]
        schema = self.client.schema(schema_id, where)
        if (schema.schema_type or "AVRO") != self.schema_type:
            raise ValueError(
                f"schema id {schema_id} is of {schema.schema_type}, and this serde reads "
                f"{self.schema_type}: take that serde of SchemaRegistry"
            )
        refuse_rules(schema, where)
        return self.make_reader(schema, f"{where} (schema id {schema_id})")


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
