"""Avro through fastavro: the schemas are parsed once, a record is one call of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, TypeVar, cast

import orjson

from pystreams.errors import SchemaRegistryError
from pystreams.exception_texts import exception_text
from pystreams.registry.avro_writer import writer_of
from pystreams.registry.registry_client import RegistryClient
from pystreams.registry.registry_serde import Read, RegistrySerde, Write, ruled_serdes
from pystreams.registry.ruled_schema import RuledSchema
from pystreams.registry.rules import encrypted_tags, keeps_record_names
from pystreams.registry.union_names import (
    has_choice,
    has_choice_by_reference,
    namer,
    without_names,
)
from pystreams.typed_values.class_unions import untold_text
from pystreams.typed_values.misfit import Misfit
from pystreams.typed_values.plain_functions import plain_functions

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class AvroSerde(RegistrySerde[T]):
    """Values of an Avro schema, as dicts or as a class's."""

    schema_type = "AVRO"

    def own_schema(self) -> Any:
        """Return the schema that was given; a scalar's as Confluent's client registers it."""
        schema = self.choice.schema
        if isinstance(schema, str) and schema.strip()[:1] not in {"{", "["}:
            text = orjson.dumps({"type": schema.strip().strip('"')}).decode()
            return self.client.schema_of(text, self.schema_type)
        return super().own_schema()

    def record_name(self, schema: Any) -> str | None:
        """Return the full name of the record, or None for a union or a scalar."""
        parsed = self._parsed(schema, "a serde's schema")
        return parsed.get("name") if isinstance(parsed, dict) else None

    def make_writer(self, schema: Any, prefix: bytes, where: str) -> Write:
        """Return the function that writes values with a schema."""
        from fastavro import schemaless_writer  # noqa: PLC0415 - an extra

        parsed, named = parsed_schema(self.client, schema, where)
        to_plain = self._to_plain(named)
        if _is_bytes(parsed):
            return lambda value: prefix + value

        def write(value: Any) -> bytes:
            buffer = BytesIO()
            buffer.write(prefix)
            try:
                plain = value if to_plain is None else to_plain(value)
                schemaless_writer(buffer, parsed, plain)
            except Exception as error:
                raise ValueError(f"{where}: {exception_text(error)}") from error
            return buffer.getvalue()

        made = writer_of(parsed, named)
        return write if made is None else _with_made_writer(made, to_plain, prefix, write)

    def make_reader(self, schema: Any, skipped_bytes: int, where: str) -> Read[T]:
        """Return the function that reads records of a writer's schema."""
        from fastavro import schemaless_reader  # noqa: PLC0415 - an extra

        writers = self._parsed(schema, where)
        own = self.own_schema()
        readers = None if own is None else self._parsed(own, where)
        if readers == writers:
            # Nothing to resolve, which costs each record.
            readers = None
        of_class, takes_names = None, False
        if self.model is not None:
            functions = plain_functions(self.model)
            of_class = _class_reader(functions.from_plain, self.model, where)
            takes_names = functions.takes_names
        if _is_bytes(writers):
            return lambda data: cast("Any", data[skipped_bytes:])

        def read(data: bytes) -> Any:
            buffer = BytesIO(data)
            buffer.seek(skipped_bytes)
            try:
                plain = schemaless_reader(buffer, writers, readers, return_record_name=takes_names)
            except Exception as error:
                kind = type(error).__name__
                raise ValueError(f"{where}: {kind}: {exception_text(error)}") from error
            return plain if of_class is None else of_class(plain)

        return read

    def make_rules_writer(self, ruled: RuledSchema, prefix: bytes) -> Write:
        """Return the function that writes values with a schema that has rules."""
        write_plain: Write = ruled_serdes().avro_writer(ruled, prefix)
        where = ruled.where
        parsed, named = parsed_schema(self.client, ruled.schema, where)
        _refuse_unfound_secrets(ruled, parsed, named)
        name_records = None
        if keeps_record_names(ruled.schema, "WRITE"):
            name_records = namer(parsed, named, self._plain_writer(ruled.schema, where))
        if self.model is None:
            return write_plain if name_records is None else _after(name_records, write_plain)
        to_plain = self._to_plain(named)

        def write(value: Any) -> bytes:
            try:
                plain = to_plain(value)
            except Exception as error:
                raise ValueError(f"{where}: {exception_text(error)}") from error
            return write_plain(plain if name_records is None else name_records(plain))

        return write

    def make_rules_reader(self, ruled: RuledSchema) -> Read[T]:
        """Return the function that reads records by rules, and resolves them to the own schema."""
        functions = None if self.model is None else plain_functions(self.model)
        keeps_names = ruled.source is None and keeps_record_names(ruled.read_into, "READ")
        if functions is not None and functions.untold and not keeps_names:
            raise SchemaRegistryError(
                f"{ruled.where}: its schema has rules, which lose the names of records: "
                f"{untold_text(*functions.untold[0])}"
            )
        read_named: Callable[[bytes], Any] = ruled_serdes().avro_reader(ruled)
        where, left = ruled.where, ruled.read_into
        own, into = self.own_schema(), self._parsed(left, where)
        as_it_is = ruled.source is None and (own is None or self._parsed(own, where) == into)
        if _is_bytes(into) or (as_it_is and self.model is None):
            return _after(read_named, without_names)
        if as_it_is and functions is not None and functions.takes_names:
            # Written once more, a record without its name may be taken for another of its union.
            return _after(read_named, _class_reader(functions.from_plain, self.model, where))
        # What rules have left becomes bytes once more, to be read as any other: migrations know no
        # defaults, and rules know the writer's schema, not the own one.
        write = self._plain_writer(left, where)
        resolve, shows_values = self.make_reader(left, 0, where), not ruled.is_secret

        def read(data: bytes) -> T:
            named = read_named(data)
            try:
                again = write(named)
            except ValueError:
                if shows_values:
                    raise
                raise ValueError(f"{where}: what its rules have left does not fit") from None
            return resolve(again)

        return read

    def _plain_writer(self, schema: Any, where: str) -> Write:
        return AvroSerde[Any](self.client, None, self.choice).make_writer(schema, b"", where)

    def _to_plain(self, named: Mapping[str, Any]) -> Any:
        if self.model is None:
            return None
        return plain_functions(self.model, record_names(named)).to_plain

    def _parsed(self, schema: Any, where: str) -> Any:
        return parsed_schema(self.client, schema, where)[0]

    def __repr__(self) -> str:
        model = "" if self.model is None else self.model.__name__
        return f"SchemaRegistry({self.client.url!r}).avro({model})"


def _refuse_unfound_secrets(ruled: RuledSchema, parsed: Any, named: Mapping[str, Any]) -> None:
    """Refuse a schema of which rules may not find a field that they are to encrypt.

    Raises:
        SchemaRegistryError: It is such a one.
    """
    if not encrypted_tags(ruled.schema):
        return
    if has_choice_by_reference(parsed, named):
        raise SchemaRegistryError(
            f"{ruled.where}: it has a union of records of which one is defined elsewhere, where "
            "rules do not find fields to encrypt: define the records of the union in it"
        )
    if has_choice(parsed, named) and not keeps_record_names(ruled.schema, "WRITE"):
        raise SchemaRegistryError(
            f"{ruled.where}: behind a rule that transforms the whole value, rules do not find "
            "fields to encrypt of records in a union: let a rule about fields (CEL_FIELD) do it"
        )


def _after(first: Callable[[Any], Any], then: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: then(first(value))


def _with_made_writer(
    made: Write, to_plain: Callable[[Any], Any] | None, prefix: bytes, write: Write
) -> Write:
    """Return the function that leaves to fastavro what the schema's own function does not take."""
    if to_plain is None:

        def write_plain(value: Any) -> bytes:
            try:
                return prefix + made(value)
            except Exception:  # noqa: BLE001 - whatever it is, fastavro knows better
                return write(value)

        return write_plain
    plain_of = to_plain

    def write_model(value: Any) -> bytes:
        try:
            return prefix + made(plain_of(value))
        except Exception:  # noqa: BLE001 - likewise
            return write(value)

    return write_model


def parsed_schema(client: RegistryClient, schema: Any, where: str) -> tuple[Any, dict[str, Any]]:
    """Return fastavro's form of a schema, and the types that it names."""
    from fastavro import parse_schema  # noqa: PLC0415 - an extra

    named: dict[str, Any] = {}
    seen: set[tuple[str, int]] = set()

    def parse_references(of: Any) -> None:
        for reference in of.references or ():
            key = (reference.subject, reference.version)
            if key in seen:
                continue
            seen.add(key)
            found = client.version(reference.subject, reference.version, where)
            parse_references(found)
            parse_schema(orjson.loads(found.schema_str), named_schemas=named)

    parse_references(schema)
    return parse_schema(orjson.loads(schema.schema_str), named_schemas=named), named


def _class_reader(from_plain: Callable[[Any], Any], model: Any, where: str) -> Callable[[Any], Any]:
    """Return the function that makes a class's values of plain ones, and says where one is not."""

    def read(plain: Any) -> Any:
        try:
            return from_plain(plain)
        except Misfit as error:
            raise ValueError(f"{where}: {error.text(model.__name__)}") from None
        except ValueError as error:
            raise ValueError(f"{where}: {exception_text(error)}") from None

    return read


def record_names(named: Mapping[str, Any]) -> dict[str, str]:
    """Return the full names of a schema's records by their last parts, of which there is one."""
    names: dict[str, list[str]] = {}
    for name, schema in named.items():
        if schema["type"] == "record":
            names.setdefault(name.rpartition(".")[2], []).append(name)
    return {last: found[0] for last, found in names.items() if len(found) == 1}


def _is_bytes(parsed: Any) -> bool:
    """Return whether a schema is of bytes alone, which Confluent writes without their length."""
    return parsed == "bytes" or (
        isinstance(parsed, dict) and parsed.get("type") == "bytes" and "logicalType" not in parsed
    )
