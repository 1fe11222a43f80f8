"""JSON whose schema is in a registry: orjson's bytes, validated by jsonschema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from pystreams.registry.registry_client import RegistryClient
from pystreams.registry.registry_serde import Read, RegistrySerde, Write
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

    def __repr__(self) -> str:
        """Return how it was made."""
        model = "" if self.model is None else self.model.__name__
        return f"SchemaRegistry({self.client.url!r}).json_schema({model})"


def validator(client: RegistryClient, schema: Any, where: str) -> Validate:
    """Return the function that refuses a value which does not fit a schema.

    What the schema refers to is looked for in the registry, and nowhere else.
    """
    from jsonschema.exceptions import best_match  # noqa: PLC0415 - an extra
    from jsonschema.validators import validator_for  # noqa: PLC0415
    from referencing import Registry, Resource  # noqa: PLC0415
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415

    named: dict[str, Any] = {}

    def find_references(of: Any) -> None:
        for reference in of.references or ():
            if reference.name not in named:
                found = client.version(reference.subject, reference.version, where)
                contents = orjson.loads(found.schema_str)
                named[reference.name] = Resource.from_contents(contents, DRAFT202012)
                find_references(found)

    find_references(schema)
    described = orjson.loads(schema.schema_str)
    resources: Any = Registry().with_resources(named.items())
    made = validator_for(described)(described, registry=resources)

    def refuse(value: object) -> None:
        if made.is_valid(value):
            return
        error: Any = best_match(made.iter_errors(value))
        raise ValueError(
            f"{where}: {error.json_path} does not fit the schema's {error.validator!r}: "
            f"{error.validator_value!r}"
        )

    return refuse
