"""What the formats share: where a schema's id stands, one writer a topic and one reader a schema.

The registry is asked when the first value of a topic is written, and when the first record of a
schema is read; after that a record costs a dict look-up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, NamedTuple, TypeVar

from pystreams.errors import ConfigError, SchemaRegistryError, StreamsError
from pystreams.record import Headers
from pystreams.registry.registry_client import (
    RegisteredId,
    RegistryClient,
    UnknownSchemaError,
    told_with_cure,
)
from pystreams.registry.ruled_schema import RuledSchema, read_by_rules
from pystreams.registry.rules import (
    has_any_rules,
    has_rules,
    refuse_changing_bytes,
    refuse_unknown_rules,
)
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
        write_with: Which schema values are written with, or the id of it.
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


class Writing(NamedTuple):
    """What values are written with.

    Attributes:
        registered: What the registry calls it.
        schema: The client's form of it.
        where: What is written, for errors.
    """

    registered: RegisteredId
    schema: Any
    where: str


@dataclass(frozen=True)
class RegistrySerde(ABC, Generic[T]):
    """A serde in Confluent's wire format.

    Attributes:
        model: The class of the values; None for plain ones.
    """

    client: RegistryClient
    model: type[T] | None
    choice: SchemaChoice

    schema_type = ""
    """What the registry calls the format."""
    gives_bytes = True

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

    @abstractmethod
    def make_rules_writer(self, ruled: RuledSchema, prefix: bytes) -> Write:
        """Return the function that writes values with a schema that has rules."""

    @abstractmethod
    def make_rules_reader(self, ruled: RuledSchema) -> Read[T]:
        """Return the function that reads records of a writer's schema by rules.

        It is given them as if the schema were named before the data, wherever it was.
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
                writing = self._schema_to_write(topic)
                prefix = id_bytes(writing.registered.schema_id) + self.place()
                write = self._writer(writing, prefix, topic)
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
                writing = self._schema_to_write(topic)
                schema_id, guid = writing.registered[:2]
                header = ((name, header_bytes(schema_id, guid) + self.place()),)
                write = self._writer(writing, b"", topic)
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

    def _schema_to_write(self, topic: str) -> Writing:
        choice = self.choice
        where = f"the {choice.part}s of topic {topic!r}"
        own = self.own_schema()
        if isinstance(choice.write_with, int):
            registered = RegisteredId(choice.write_with, None, None)
            schema = self.client.schema(choice.write_with, where)
        else:
            registered, schema = self._of_subject(self._subject(topic, own), own, where)
            if choice.write_with is not SchemaUse.LATEST:
                schema = self._with_its_rules(registered, schema, where)
        where = f"{where} (schema id {registered.schema_id})"
        return Writing(registered, schema, where)

    def _with_its_rules(self, registered: RegisteredId, own: Any, where: str) -> Any:
        """Return a schema that was given, with the rules that the registry has for it.

        It may have some that were not given: those of the version before. What the client has put
        beside an id is what was given.

        Raises:
            SchemaRegistryError: It has dropped those that were.
        """
        schema_id, url = registered.schema_id, self.client.url
        try:
            told = self.client.schema(schema_id, where)
        except UnknownSchemaError as error:
            raise SchemaRegistryError(
                f"the schema registry at {url} does not know yet schema id {schema_id}, which it "
                f"has given for {where}: start again, no record was skipped"
            ) from error
        if has_rules(own) and not has_rules(told):
            raise SchemaRegistryError(
                f"the schema of {where} has rules, and the schema registry at {url} has dropped "
                "them: it keeps schemas alone, so who reads would not know of them; use "
                "one that keeps rules, as Confluent's, or a schema without"
            )
        return told if has_rules(told) else own

    def _writer(self, writing: Writing, prefix: bytes, topic: str) -> Write:
        registered, schema, where = writing
        if not has_rules(schema):
            return self.make_writer(schema, prefix, where)
        refuse_unknown_rules(schema, where)
        refuse_changing_bytes(schema, topic, where, is_key=self.choice.is_key)
        ruled = self._ruled(registered.schema_id, schema, topic, where)
        latest = self.client.registered(registered, ruled.subject, schema)
        ruled = ruled._replace(latest=latest)
        return _made(lambda: self.make_rules_writer(ruled, prefix), where)

    def _subject(self, topic: str, schema: Any) -> str:
        choice = self.choice
        name = None if schema is None else self.record_name(schema)
        return subject_of(choice.subject, topic, choice.part, name)

    def _of_subject(self, subject: str, own: Any, where: str) -> tuple[RegisteredId, Any]:
        if self.choice.write_with is SchemaUse.LATEST:
            return self.client.latest(subject, where)
        if own is None:
            raise ConfigError(
                f"{where} can't be written without a schema: give schema=..., or "
                "write_with=SchemaUse.LATEST"
            )
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
        where = f"{where} (schema id {schema_id})"
        read = self._rules_reader(schema_id, schema, topic, where)
        if read is not None:
            by_rules = read
            return (lambda data: by_rules(named_by + data)) if beside else by_rules
        if beside:
            return self.make_reader_beside(schema, named_by[size:], where)
        return self.make_reader(schema, size, where)

    def _rules_reader(
        self, schema_id: int | str, schema: Any, topic: str, where: str
    ) -> Read[T] | None:
        """Return the reader that carries rules out, or None where there are none to be."""
        given = None if self.choice.schema is None else self.own_schema()
        by_latest = given is None and self.choice.write_with is SchemaUse.LATEST
        if not (has_rules(schema) or has_any_rules(given) or by_latest):
            return None
        written = self._ruled(schema_id, schema, topic, where)
        ruled = read_by_rules(written, given, by_latest=by_latest)
        if ruled is None:
            return None
        refuse_unknown_rules(ruled.schema, where)
        refuse_unknown_rules(ruled.read_into, where)
        return _made(lambda: self.make_rules_reader(ruled), where)

    def _ruled(self, schema_id: int | str, schema: Any, topic: str, where: str) -> RuledSchema:
        subject, is_key = self._subject(topic, schema), self.choice.is_key
        return RuledSchema(
            self.client, schema_id, schema, subject=subject, topic=topic, is_key=is_key, where=where
        )

    def make_reader_beside(self, schema: Any, place: bytes, where: str) -> Read[T]:
        """Return the function that reads records whose schema a header names.

        Args:
            schema: The writer's.
            place: What the header has behind the schema's id.
            where: What is read, for errors.
        """
        return self.make_reader(schema, 0, where)


def _made(make: Callable[[], T], where: str) -> T:
    """Return what is made of a schema with rules; that it can't be made is no record's fault."""
    try:
        return make()
    except StreamsError:
        raise
    except Exception as error:
        raise SchemaRegistryError(
            f"the schema of {where} can't be used with its rules: {told_with_cure(error)}"
        ) from error


def ruled_serdes() -> ModuleType:
    """Return the module that carries rules out.

    Raises:
        ConfigError: There is a package missing.
    """
    try:
        from pystreams.registry import ruled_serdes as made  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(
            "rules of schemas (encryption, conditions, transforms, migrations) need packages: "
            f"pip install 'pystreams-kafka[rules]' ({error})"
        ) from error
    return made
