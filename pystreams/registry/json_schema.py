"""JSON whose schema is in a registry: orjson's bytes, validated by jsonschema-rs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from pystreams.errors import SchemaRegistryError
from pystreams.registry.registry_client import RegistryClient
from pystreams.registry.registry_serde import Read, RegistrySerde, Write, ruled_serdes
from pystreams.registry.ruled_schema import RuledSchema
from pystreams.typed_values.json_functions import json_functions

T = TypeVar("T")

Validate = Callable[[object], None]


@dataclass(frozen=True, repr=False)
class JsonSchemaSerde(RegistrySerde[T]):
    """Values of a JSON Schema, plain or of a class.

    Attributes:
        validate: Whether values are compared with their schema, written and read.
    """

    validate: bool = True

    schema_type = "JSON"

    def record_name(self, schema: Any) -> str | None:
        """Return the schema's title, if it has one."""
        described = orjson.loads(schema.schema_str)
        return described.get("title") if isinstance(described, dict) else None

    def make_writer(self, schema: Any, prefix: bytes, where: str) -> Write:
        """Return the function that writes values with a schema."""
        dump = orjson.dumps if self.model is None else json_functions(self.model, strict=False)[0]
        if not self.validate:
            return lambda value: prefix + dump(value)
        refuse, loads = validator(self.client, schema, where), orjson.loads
        is_plain = self.model is None

        def write(value: Any) -> bytes:
            data = dump(value)
            refuse(value if is_plain else loads(data))
            return prefix + data

        return write

    def make_reader(self, schema: Any, skipped_bytes: int, where: str) -> Read[T]:
        """Return the function that reads records of a writer's schema."""
        loads = orjson.loads
        from_bytes: Callable[[Any], Any] = loads
        if self.model is not None:
            from_bytes = json_functions(self.model, strict=False)[1]
        if not self.validate:
            return lambda data: from_bytes(data[skipped_bytes:])
        refuse = validator(self.client, self.own_schema() or schema, where)
        is_plain = self.model is None

        def read(data: bytes) -> Any:
            payload = data[skipped_bytes:]
            plain = loads(payload)
            refuse(plain)
            return plain if is_plain else from_bytes(payload)

        return read

    def make_rules_writer(self, ruled: RuledSchema, prefix: bytes) -> Write:
        """Return the function that writes values with a schema that has rules.

        What the rules have made of a value is validated.
        """
        refuse = self._refuser(ruled.schema, ruled.where)

        def dump_valid(plain: Any) -> bytes:
            refuse(plain)
            return orjson.dumps(plain)

        write_plain: Write = ruled_serdes().json_writer(ruled, prefix, dump_valid)
        dump = orjson.dumps if self.model is None else json_functions(self.model, strict=False)[0]
        loads = orjson.loads
        return lambda value: write_plain(loads(dump(value)))

    def make_rules_reader(self, ruled: RuledSchema) -> Read[T]:
        """Return the function that reads records by rules; what these have made is validated."""
        read_plain: Callable[[bytes], Any] = ruled_serdes().json_reader(ruled, orjson.loads)
        refuse = self._refuser(self.own_schema() or ruled.read_into, ruled.where)
        from_bytes = None if self.model is None else json_functions(self.model, strict=False)[1]

        def read(data: bytes) -> Any:
            plain = read_plain(data)
            refuse(plain)
            return plain if from_bytes is None else from_bytes(orjson.dumps(plain))

        return read

    def _refuser(self, schema: Any, where: str) -> Validate:
        return validator(self.client, schema, where) if self.validate else lambda _: None

    def __repr__(self) -> str:
        model = "" if self.model is None else self.model.__name__
        return f"SchemaRegistry({self.client.url!r}).json_schema({model})"


def validator(client: RegistryClient, schema: Any, where: str) -> Validate:
    """Return the function that refuses a value which does not fit a schema.

    What the schema refers to is looked for in the registry, and nowhere else.
    """
    import jsonschema_rs  # noqa: PLC0415 - an extra

    named: dict[str, Any] = {}

    def find_references(of: Any) -> None:
        for reference in of.references or ():
            if reference.name not in named:
                found = client.version(reference.subject, reference.version, where)
                named[reference.name] = orjson.loads(found.schema_str)
                find_references(found)

    find_references(schema)
    described = orjson.loads(schema.schema_str)
    try:
        resources = jsonschema_rs.Registry(named.items(), retriever=_refuse_reference)
        made = jsonschema_rs.validator_for(
            described,
            registry=resources,
            retriever=_refuse_reference,
            # A format is a remark, as in Confluent's serializers.
            validate_formats=False,
        )
    except ValueError as error:
        told = str(error).splitlines()[0]
        raise SchemaRegistryError(f"the schema of {where} can't be used: {told}") from error

    def refuse(value: object) -> None:
        try:
            fits = made.is_valid(value)
        except ValueError:  # Dates and the like are what they become.
            value = orjson.loads(orjson.dumps(value))
            fits = made.is_valid(value)
        if fits:
            return
        broken = min(made.iter_errors(value), key=lambda error: len(error.instance_path))
        raise ValueError(
            f"{where}: {_path(broken.instance_path)} does not fit the schema's "
            f"{_rule(described, broken.evaluation_path)}"
        )

    return refuse


def _path(path: Sequence[str | int]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def _rule(described: Any, path: Sequence[str | int]) -> str:
    """Return a rule and what it asks for; the error's own text would show the value."""
    found = described
    for step in path:
        try:
            found = found[step]
        except (LookupError, TypeError):  # Behind a reference.
            return repr(path[-1])
    return f"{path[-1]!r}: {found!r}" if path else "false"


def _refuse_reference(uri: str) -> Any:
    raise ValueError(f"it refers to {uri!r}, which is not among its references in the registry")
