"""Protobuf messages: the schema is the descriptor of the file in which their class stands."""

from __future__ import annotations

import re
from base64 import b64decode, standard_b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from pystreams.errors import ConfigError, SchemaRegistryError
from pystreams.exception_texts import exception_text
from pystreams.registry.registry_client import RegisteredId
from pystreams.registry.registry_serde import Read, RegistrySerde, Write, ruled_serdes
from pystreams.registry.ruled_schema import RuledSchema
from pystreams.registry.rules import has_encoding_rules
from pystreams.registry.subjects import SchemaUse
from pystreams.registry.wire_format import named_schema, place_bytes, read_place

T = TypeVar("T")

_SHIPPED = ("confluent/", "google/protobuf/", "google/type/")
"""Files that each reader has: they are not registered."""


@dataclass(frozen=True, repr=False)
class ProtobufSerde(RegistrySerde[T]):
    """Messages of one generated class."""

    schema_type = "PROTOBUF"

    def own_schema(self) -> Any:
        """Return the schema of the class's file, without what it refers to."""
        return self._schema_of(self._descriptor().file, [])

    def record_name(self, schema: Any) -> str | None:
        """Return the message's full name."""
        return str(self._descriptor().full_name)

    def place(self) -> bytes:
        """Return where in its file the message stands."""
        return place_bytes(_place_of(self._descriptor()))

    def make_writer(self, schema: Any, prefix: bytes, where: str) -> Write:
        """Return the function that writes messages; those of keys always in one way."""
        model: Any = self.model
        deterministic = self.choice.is_key

        def write(message: Any) -> bytes:
            if type(message) is not model:
                raise ValueError(
                    f"{where}: expected a {_name(model)}, not {type(message).__qualname__}"
                )
            try:
                data: bytes = message.SerializeToString(deterministic=deterministic)
            except Exception as error:
                raise ValueError(f"{where}: {exception_text(error)}") from error
            return prefix + data

        return write

    def make_reader(self, schema: Any, skipped_bytes: int, where: str) -> Read[T]:
        """Return the function that reads messages with their place before them."""
        parse, refuse = self._parser(where), self._refuser(schema, where)
        known: set[bytes] = set()
        first, after_first = b"\x00", skipped_bytes + 1

        def read(data: bytes) -> Any:
            if first in known and data[skipped_bytes:after_first] == first:
                return parse(data[after_first:])
            place, end = read_place(data, skipped_bytes)
            shown = data[skipped_bytes:end]
            if shown not in known and refuse(place):
                known.add(shown)
            return parse(data[end:])

        return read

    def make_reader_beside(self, schema: Any, place: bytes, where: str) -> Read[T]:
        """Return the function that reads messages whose place a header says."""
        self._refuser(schema, where)(read_place(place, 0)[0])
        return self._parser(where)

    def make_rules_writer(self, ruled: RuledSchema, prefix: bytes) -> Write:
        """Return the function that writes messages with a schema that has rules."""
        self._refuse_for_rules(ruled)
        model: Any = self.model
        where, start = ruled.where, len(prefix)
        in_one_way = self.choice.is_key
        write_message: Write = ruled_serdes().protobuf_writer(
            self._in_descriptors(ruled), prefix, model
        )

        def write(message: Any) -> bytes:
            if type(message) is not model:
                raise ValueError(
                    f"{where}: expected a {_name(model)}, not {type(message).__qualname__}"
                )
            data = write_message(message)
            if in_one_way:
                left: Any = model.FromString(data[start:])
                return prefix + bytes(left.SerializeToString(deterministic=True))
            return data

        return write

    def make_rules_reader(self, ruled: RuledSchema) -> Read[T]:
        """Return the function that reads messages by rules."""
        self._refuse_for_rules(ruled)
        model: Any = self.model
        refuse, schema_type = self._refuser(ruled.schema, ruled.where), self.schema_type
        read_message = ruled_serdes().protobuf_reader(self._in_descriptors(ruled), model)

        def read(data: bytes) -> Any:
            refuse(read_place(data, named_schema(data, schema_type)[1])[0])
            message = read_message(data)
            if type(message) is model:
                return message
            # Of a class that was made of the schema to which it was migrated.
            return model.FromString(message.SerializeToString())

        return read

    def _refuse_for_rules(self, ruled: RuledSchema) -> None:
        """Refuse what rules would be carried out wrongly for."""
        if self._descriptor().containing_type is not None:
            raise SchemaRegistryError(
                f"{ruled.where}: rules are carried out for messages that stand in no other, and "
                f"{_name(self.model)} does: move it out, or use a subject without rules"
            )
        if self.choice.is_key and has_encoding_rules(ruled.schema):
            raise SchemaRegistryError(
                f"{ruled.where}: rules for the bytes of a key that is a Protobuf message are not "
                "carried out here: use rules for its fields"
            )

    def _in_descriptors(self, ruled: RuledSchema) -> RuledSchema:
        """Return a schema as Confluent's serializers take it: not as text."""
        schema = self._in_descriptor(ruled.schema_id, ruled.schema, ruled.where)
        latest = ruled.latest
        if latest is not None:
            made = self._in_descriptor(latest.schema_id, latest.schema, ruled.where)
            name = RegisteredId(latest.schema_id, latest.guid, latest.version)
            latest = self.client.registered(name, ruled.subject, made)
        return ruled._replace(schema=schema, latest=latest)

    def _in_descriptor(self, schema_id: int | str, schema: Any, where: str) -> Any:
        if _file_of(schema.schema_str) is not None:
            return schema
        text = self.client.text(schema_id, "serialized", where)
        if _file_of(text) is None:
            raise SchemaRegistryError(
                f"the schema registry at {self.client.url} gives the schema of {where} as text "
                "alone, and rules need its descriptor: use one that gives it, as Confluent's"
            )
        return self.client.with_text(schema, text)

    def _parser(self, where: str) -> Callable[[bytes], Any]:
        message_class: Any = self.model
        from_string = message_class.FromString

        def parse(data: bytes) -> Any:
            try:
                return from_string(data)
            except Exception as error:
                raise ValueError(
                    f"{where}: it is no {_name(self.model)} ({exception_text(error)})"
                ) from error

        return parse

    def _refuser(self, schema: Any, where: str) -> Callable[[tuple[int, ...]], bool]:
        """Return what refuses another message of the file: its bytes could be read, as nonsense.

        It returns whether the message is the serde's own, as far as the file tells. The package is
        not compared: readers of other languages have their own.
        """
        names = _message_names(schema.schema_str)
        descriptor = self._descriptor()
        own = _local_name(descriptor)

        def refuse(place: tuple[int, ...]) -> bool:
            found = names.get(place)
            if found is not None and found != own:
                raise ValueError(
                    f"{where}: it is a message {found}, and this serde reads {own}: give it the "
                    "class of that message"
                )
            return found is not None

        return refuse

    def _of_subject(self, subject: str, own: Any, where: str) -> tuple[RegisteredId, Any]:
        if self.choice.write_with is not SchemaUse.LATEST:
            references = self._references(self._descriptor().file, where)
            own = self._schema_of(self._descriptor().file, references)
        return super()._of_subject(subject, own, where)

    def _references(self, file: Any, where: str) -> list[Any]:
        """Return references to the files that one imports, registered under their own names."""
        return [
            self._reference(imported, where)
            for imported in file.dependencies
            if not imported.name.startswith(_SHIPPED)
        ]

    def _reference(self, file: Any, where: str) -> Any:
        schema, client = self._schema_of(file, self._references(file, where)), self.client
        if self.choice.write_with is SchemaUse.REGISTER:
            client.register(file.name, schema, where)
        # Which version it is of its subject is told by a look-up alone.
        version = client.look_up(file.name, schema, where).version
        return client.reference(file.name, file.name, version or 1)

    def _schema_of(self, file: Any, references: list[Any]) -> Any:
        text = standard_b64encode(file.serialized_pb).decode()
        return self.client.schema_of(text, self.schema_type, references)

    def _descriptor(self) -> Any:
        return message_descriptor(self.model)

    def __repr__(self) -> str:
        return f"SchemaRegistry({self.client.url!r}).protobuf({_name(self.model)})"


def message_descriptor(model: Any) -> Any:
    """Return the descriptor of a generated class.

    Raises:
        ConfigError: It is none.
    """
    descriptor = getattr(model, "DESCRIPTOR", None)
    if descriptor is None or not isinstance(model, type) or not hasattr(model, "FromString"):
        given = repr(model) if descriptor is None else f"a {type(model).__name__}"
        raise ConfigError(
            f"registry.protobuf takes a message class that protoc has generated, not {given}"
        )
    return descriptor


def _name(model: Any) -> str:
    return str(model.__qualname__)


def _place_of(descriptor: Any) -> list[int]:
    """Return a message's index in each message around it, the outermost first."""
    around = descriptor.containing_type
    if around is None:
        names = list(descriptor.file.message_types_by_name)
        return [names.index(descriptor.name)]
    names = [nested.name for nested in around.nested_types]
    return [*_place_of(around), names.index(descriptor.name)]


def _local_name(descriptor: Any) -> str:
    """Return a message's name without the package."""
    around = descriptor.containing_type
    return descriptor.name if around is None else f"{_local_name(around)}.{descriptor.name}"


def _message_names(schema_text: str) -> dict[tuple[int, ...], str]:
    """Return each message's name in a file, by its place; registries give text or a descriptor."""
    file = _file_of(schema_text)
    if file is None:
        return dict(_names_in_text(schema_text))
    return dict(_names_in_descriptor(file.message_type, (), ""))


def _file_of(schema_text: str) -> Any:
    """Return the file that a descriptor is of, or None for the text of a file."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415 - an extra

    try:
        return FileDescriptorProto.FromString(b64decode(schema_text, validate=True))
    except Exception:  # noqa: BLE001 - whatever it makes of a text that is none
        return None


def _names_in_descriptor(
    messages: Any, around: tuple[int, ...], prefix: str
) -> Iterator[tuple[tuple[int, ...], str]]:
    for index, message in enumerate(messages):
        place, name = (*around, index), f"{prefix}{message.name}"
        yield place, name
        yield from _names_in_descriptor(message.nested_type, place, f"{name}.")


_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\bmessage\s+(\w+)\s*\{|[{}]""",
    re.DOTALL,
)


def _names_in_text(text: str) -> Iterator[tuple[tuple[int, ...], str]]:
    """Give the messages of a .proto file: its braces are counted, the rest of it passed over."""
    names: list[str] = []
    counts = [0]
    messages_around: list[tuple[int, ...] | None] = [()]
    for token in _TOKEN.finditer(text):
        around = messages_around[-1]
        if token[1] is not None and around is not None:
            place = (*around, counts[-1])
            counts[-1] += 1
            names.append(token[1])
            messages_around.append(place)
            counts.append(0)
            yield place, ".".join(names)
        elif token[1] is not None or token[0] == "{":
            messages_around.append(None)
            counts.append(0)
        elif token[0] == "}" and len(counts) > 1:
            counts.pop()
            if messages_around.pop() is not None:
                names.pop()
