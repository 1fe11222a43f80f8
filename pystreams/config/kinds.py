"""Kinds of configuration values: how a string from a file, or a Python value, becomes the value.

A kind is a name for the reference page and a `parse` that takes what the user wrote and returns
what the runtime uses. `parse` raises `ValueError` with a phrase that completes the sentence
"<key>: <value> ...". Plain Kafka forms only: whole numbers without units, `true` and `false`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from pystreams import serdes
from pystreams.kernel.async_functions import NOT_ASYNC, is_async

E = TypeVar("E", bound=Enum)

_WHOLE_NUMBER = re.compile(r"[+-]?\d+")
_LISTENER = re.compile(r"^(?:SASL_)?(?:PLAINTEXT|SSL)://", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z0-9_+.-]+://")
_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|([A-Za-z0-9._-]+)):(\d{1,5})")
_PORT_MAX = 65535
_LABEL_MAX = 63
"""Characters that may stand between two dots of a host's name (RFC 1035)."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value.

    Attributes:
        name: What the reference page calls it: "int", "boolean", ...
        valid: What it accepts, in words; empty when the name says it all.
        parse: Turns what the user wrote into the value. Raises `ValueError` with a reason.
    """

    name: str
    valid: str
    parse: Callable[[Any], Any]


def whole_number(minimum: int, maximum: int | None = None) -> Kind:
    """Return the kind of whole numbers from `minimum` to `maximum`, both included."""
    valid = f"at least {minimum}" if maximum is None else f"{minimum} to {maximum}"

    def parse(value: object) -> int:
        if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value.strip()):
            number = int(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            number = value
        else:
            raise ValueError("is not a whole number (plain digits, no unit)")
        if number < minimum or (maximum is not None and number > maximum):
            raise ValueError(f"is out of range: {valid}")
        return number

    return Kind("int", valid, parse)


def text(pattern: str | None = None, *, valid: str = "", empty: bool = False) -> Kind:
    """Return the kind of text, optionally held to a regular expression.

    Args:
        pattern: What the whole text must match.
        valid: The pattern in words.
        empty: Whether the empty text is a value.
    """
    compiled = None if pattern is None else re.compile(pattern)

    def parse(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError("is not text")  # noqa: TRY004 - one exception for all of them
        if not value:
            if empty:
                return value
            raise ValueError("is empty")
        if compiled is not None and not compiled.fullmatch(value):
            raise ValueError(f"does not fit: {valid}")
        return value

    return Kind("string", valid, parse)


def one_of(choices: type[E], unsupported: Mapping[str, str] | None = None) -> Kind:
    """Return the kind of an enum's values; case does not matter.

    Args:
        choices: The enum; its values are what users write.
        unsupported: Values that Kafka has and pystreams has not, with the cure.
    """
    by_text = {str(choice.value).lower(): choice for choice in choices}
    valid = ", ".join(str(choice.value) for choice in choices)

    def parse(value: object) -> Enum:
        if isinstance(value, choices):
            return value
        written = str(value).strip().lower()
        choice = by_text.get(written)
        if choice is not None:
            return choice
        if unsupported is not None and written in unsupported:
            raise ValueError(f"is not supported: {unsupported[written]}")
        raise ValueError(f"is none of: {valid}")

    return Kind("string", valid, parse)


def some_of(choices: type[E]) -> Kind:
    """Return the kind of sets of an enum's values: "none", "all", or several with commas."""
    by_text = {str(choice.value): choice for choice in choices}
    valid = f"none, all, or some of {', '.join(by_text)}, separated by commas"

    def parse(value: object) -> frozenset[Enum]:
        listed = value.split(",") if isinstance(value, str) else value
        if not isinstance(listed, Iterable):
            raise ValueError(f"is not: {valid}")  # noqa: TRY004 - one exception for all of them
        written: set[Any] = {item.strip() if isinstance(item, str) else item for item in listed}
        if not written and not isinstance(value, str):
            return frozenset()
        if written in ({"none"}, {"all"}):
            return frozenset(choices) if "all" in written else frozenset()
        found = {item if isinstance(item, choices) else by_text.get(item) for item in written}
        chosen = frozenset(item for item in found if item is not None)
        if not chosen or len(chosen) < len(found):
            raise ValueError(f"is not: {valid}")
        return chosen

    return Kind("list", valid, parse)


def callable_or_name(names: Mapping[str, str], signature: str) -> Kind:
    """Return the kind of a function, or the name of a built-in one.

    Args:
        names: Every accepted name, in lower case -> the built-in's name. Holds Kafka's class
            names too, so that a Java application's file can be used as it is.
        signature: What a function is given and returns, in words.
    """
    builtin = list(dict.fromkeys(names.values()))
    valid = ", ".join([*builtin, "module:function", signature] if builtin else [signature])

    def parse(value: object) -> object:
        found = value
        if isinstance(value, str):
            name = names.get(_simple_class_name(value))
            if name is not None:
                return name
            if ":" not in value:
                raise ValueError(f"is none of: {valid}")
            found = import_object(value)
        if not callable(found):
            raise ValueError(f"can't be called; it must be: {valid}")  # noqa: TRY004
        if is_async(found):
            raise ValueError(NOT_ASYNC)
        return found

    return Kind("function", valid, parse)


def topic_or_callable(signature: str) -> Kind:
    """Return the kind of a topic's name, or a function that chooses one.

    Args:
        signature: What a function is given and returns, in words.
    """
    function = callable_or_name({}, signature)
    topic = text(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", valid="letters, digits, '.', '_' and '-'")

    def parse(value: object) -> object:
        is_topic = isinstance(value, str) and ":" not in value
        return (topic if is_topic else function).parse(value)

    return Kind("string", f"a topic, module:function, {signature}", parse)


def import_object(reference: str) -> Any:
    """Import `module:attribute`.

    Raises:
        ValueError: The module does not import, or lacks the attribute.
    """
    module_name, _, attribute = reference.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"can't be imported ({error})") from error
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise ValueError(f"can't be imported (no {part!r} in {module_name})") from error
    return found


def _simple_class_name(name: str) -> str:
    """Return the last part of a Java class name (after `.` or `$`), in lower case."""
    return re.split(r"[.$]", name.strip())[-1].lower()


def _parse_boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    written = str(value).strip().lower()
    if written not in {"true", "false"}:
        raise ValueError("is neither true nor false")
    return written == "true"


def _parse_path(value: object) -> Path:
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("is not the path of a directory")
    return Path(value).expanduser()


def _parse_servers(value: object) -> str:
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, Sequence) or not all(isinstance(server, str) for server in listed):
        raise ValueError("is not a list of host:port")
    # Brokers name their listeners so; Java passes over it too: security.protocol says it.
    servers = [_LISTENER.sub("", server.strip()) for server in listed if server.strip()]
    if not servers:
        raise ValueError("names no server; write host:port, several with commas")
    for server in servers:
        match = _SERVER.fullmatch(server)
        if match is None or not 0 < int(match[1]) <= _PORT_MAX:
            scheme = _SCHEME.match(server)
            cure = f": leave out {scheme[0]}" if scheme else ""
            raise ValueError(f"holds {server!r}, which is not host:port{cure}")
    return ",".join(servers)


def _parse_address(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is not text")  # noqa: TRY004 - one exception for all of them
    if not value:
        return value
    match = _ADDRESS.fullmatch(value)
    if match is None or not 0 < int(match[2]) <= _PORT_MAX:
        raise ValueError("is not HOST:PORT")
    labels = (match[1] or "address").removesuffix(".").split(".")
    if not all(0 < len(label) <= _LABEL_MAX for label in labels):
        raise ValueError(f"is not HOST:PORT: between dots stand 1 to {_LABEL_MAX} characters")
    return value


def _parse_serde(value: object) -> serdes.Serde[Any]:
    found = value
    if isinstance(value, str):
        name = _simple_class_name(value)
        known = serdes.BY_NAME.get(_JAVA_SERDES.get(name, name))
        if known is not None:
            return known
        if ":" not in value:
            names = ", ".join(serdes.BY_NAME)
            raise ValueError(f"is no serde: {names}, module:attribute, or a Serde object")
        found = import_object(value)
    if not (hasattr(found, "serializer") and hasattr(found, "deserializer")):
        raise ValueError("has no serializer() and deserializer(): pass a Serde object")
    serde: serdes.Serde[Any] = found
    return serde


_JAVA_SERDES = {
    "stringserde": "string",
    "longserde": "long",
    "integerserde": "int",
    "doubleserde": "double",
    "uuidserde": "uuid",
    "bytearrayserde": "bytes",
    "bytesserde": "bytes",
}

BOOLEAN = Kind("boolean", "true, false", _parse_boolean)
PATH = Kind("path", "", _parse_path)
SERVERS = Kind("list", "host:port, several separated by commas", _parse_servers)
ADDRESS = Kind("string", "HOST:PORT", _parse_address)
SERDE = Kind(
    "serde", ", ".join(serdes.BY_NAME) + ", module:attribute, a Serde object", _parse_serde
)
