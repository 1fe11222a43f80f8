"""Avro's bytes for values of the types that a schema names, by a function made for the schema.

fastavro goes through the schema with each value, which costs more than the bytes do. Here that is
done once: the schema becomes the text of one Python function without calls for its fields.

- Only values of exactly the types that the schema names are written: a `str` for a string, a `dict`
  with each field for a record. For any other the function raises something, whatever it is, and
  fastavro decides: it knows defaults, other types that will do, and what to say of the rest.
- Of a schema it does not know (unions of more than null and one type, schemas that contain
  themselves) there is no function.
- Text of the schema comes into the function's text as literals only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from pystreams.registry.wire_format import VARINTS

Write = Callable[[Any], bytes]

_LINES_MAX = 2000
_INT, _LONG = 1 << 31, 1 << 63
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
"""The types of Avro that have no name of their own, and nothing in them."""


class _Unknown(Exception):  # noqa: N818 - never leaves this module
    """There is something in the schema that no function is made for."""


def writer_of(parsed: Any, named: dict[str, Any]) -> Write | None:
    """Return the function that writes values of a schema, or None for one that is not known.

    Args:
        parsed: fastavro's form of the schema.
        named: The types that it refers to by name.
    """
    making = _Making(named)
    try:
        parts = making.add(parsed, "value", 1)
        text = "\n".join(
            ["def write(value):", *making.lines, f"    return b''.join(({_listed(parts)}))"]
        )
        made: dict[str, Any] = {}
        exec(compile(text, "<avro writer>", "exec"), making.values, made)  # noqa: S102
    except (_Unknown, SyntaxError, LookupError, TypeError):
        # Python allows twenty blocks within each other; and what is odd about a schema, fastavro
        # may know.
        return None
    write: Write = made["write"]
    return write


def _listed(parts: list[str]) -> str:
    return "".join(f"{part}, " for part in parts)


class _Making:
    """The text of a function while it grows.

    Attributes:
        lines: Statements, after which the parts that `add` has returned are the value's bytes.
        values: What they name.
    """

    def __init__(self, named: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self.values: dict[str, Any] = {
            "varints": VARINTS,
            "double": struct.Struct("<d").pack,
            "float4": struct.Struct("<f").pack,
        }
        self._named = dict(named)
        self._around: list[str] = []
        self._count = 0

    def add(self, schema: Any, name: str, depth: int) -> list[str]:
        """Add what makes bytes of the value in a variable; return the expressions of its parts."""
        if len(self.lines) > _LINES_MAX:
            raise _Unknown
        if isinstance(schema, list):
            return self._union(schema, name, depth)
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return self._primitive(schema, name, depth)
            if schema not in self._named:
                raise _Unknown
            return self.add(self._named[schema], name, depth)
        if "name" in schema:
            self._named[schema["name"]] = schema
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.add(kind, name, depth)
        if "logicalType" in schema:
            self._prepare(schema, kind, name, depth)
        if kind in {"record", "error"}:
            return self._record(schema, name, depth)
        if kind == "array":
            return self._blocks(name, depth, "list", lambda item: [(schema["items"], item)])
        if kind == "map":
            return self._map(schema, name, depth)
        if kind == "enum":
            indexes = {symbol: VARINTS[index] for index, symbol in enumerate(schema["symbols"])}
            return [f"{self._value(indexes)}[{name}]"]
        if kind == "fixed":
            self._require(f"type({name}) is bytes and len({name}) == {int(schema['size'])}", depth)
            return [name]
        return self.add(kind, name, depth)

    def _primitive(self, kind: str, name: str, depth: int) -> list[str]:
        if kind == "null":
            self._require(f"{name} is None", depth)
            return []
        if kind == "boolean":
            self._require(f"type({name}) is bool", depth)
            return [rf"(b'\x01' if {name} else b'\x00')"]
        if kind in {"int", "long"}:
            bound = _INT if kind == "int" else _LONG
            self._require(f"type({name}) is int and {-bound} <= {name} < {bound}", depth)
            return [f"varints[{name}]"]
        if kind in {"float", "double"}:
            self._require(f"type({name}) is float or type({name}) is int", depth)
            return [f"{'double' if kind == 'double' else 'float4'}({name})"]
        self._require(f"type({name}) is {'str' if kind == 'string' else 'bytes'}", depth)
        if kind == "string":
            self._line(f"{name} = {name}.encode()", depth)
        return [f"varints[len({name})]", name]

    def _record(self, schema: Any, name: str, depth: int) -> list[str]:
        if schema["name"] in self._around:
            raise _Unknown
        self._around.append(schema["name"])
        self._require(f"type({name}) is dict and '-type' not in {name}", depth)
        parts: list[str] = []
        for field in schema["fields"]:
            variable = self._variable()
            self._line(f"{variable} = {name}[{field['name']!r}]", depth)
            parts += self.add(field["type"], variable, depth)
        self._around.pop()
        return parts

    def _union(self, schemas: list[Any], name: str, depth: int) -> list[str]:
        if len(schemas) != 2 or "null" not in schemas:
            raise _Unknown
        null = schemas.index("null")
        made = self._variable()
        self._line(f"if {name} is None:", depth)
        self._line(f"{made} = {VARINTS[null]!r}", depth + 1)
        self._line("else:", depth)
        parts = [repr(VARINTS[1 - null]), *self.add(schemas[1 - null], name, depth + 1)]
        self._line(f"{made} = b''.join(({_listed(parts)}))", depth + 1)
        return [made]

    def _map(self, schema: Any, name: str, depth: int) -> list[str]:
        def key_and_value(item: str) -> list[tuple[Any, str]]:
            return [("string", f"{item}[0]"), (schema["values"], f"{item}[1]")]

        return self._blocks(name, depth, "dict", key_and_value)

    def _blocks(
        self, name: str, depth: int, kind: str, parts_of: Callable[[str], list[tuple[Any, str]]]
    ) -> list[str]:
        """Add an array, or a map: one block with all that is in it, and the empty one."""
        made, item = self._variable(), self._variable()
        self._require(f"type({name}) is {kind}", depth)
        self._line(f"if {name}:", depth)
        self._line(f"{made} = [varints[len({name})]]", depth + 1)
        items = f"{name}.items()" if kind == "dict" else name
        self._line(f"for {item} in {items}:", depth + 1)
        for schema, expression in parts_of(item):
            variable = self._variable()
            self._line(f"{variable} = {expression}", depth + 2)
            parts = self.add(schema, variable, depth + 2)
            self._line(f"{made} += ({_listed(parts)})", depth + 2)
        self._line(rf"{made}.append(b'\x00')", depth + 1)
        self._line(f"{made} = b''.join({made})", depth + 1)
        self._line("else:", depth)
        self._line(rf"{made} = b'\x00'", depth + 1)
        return [made]

    def _prepare(self, schema: Any, kind: str, name: str, depth: int) -> None:
        """Add the change of a logical type's value into the type below."""
        from fastavro.write import LOGICAL_WRITERS  # noqa: PLC0415 - an extra

        prepare = LOGICAL_WRITERS.get(f"{kind}-{schema['logicalType']}")
        if prepare is not None:
            self._line(f"{name} = {self._value(prepare)}({name}, {self._value(schema)})", depth)

    def _require(self, condition: str, depth: int) -> None:
        self._line(f"if not ({condition}):", depth)
        self._line("raise ValueError", depth + 1)

    def _line(self, text: str, depth: int) -> None:
        self.lines.append("    " * depth + text)

    def _variable(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _value(self, value: Any) -> str:
        name = f"given{len(self.values)}"
        self.values[name] = value
        return name
