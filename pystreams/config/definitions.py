"""What one configuration key is: kind, default, importance, meaning.

`key` makes a dataclass field that carries its definition as metadata, so that the class body of
`StreamsConfig` is the single source for parsing, for `pystreams config` and for the reference page.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pystreams.config.kinds import Kind

_METADATA_KEY = "definition"


class Importance(Enum):
    """How likely a user is to set a key."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class _Unset(Enum):
    """Marks of a definition that no value of a user can equal."""

    REQUIRED = "required"
    SAME = "same"


REQUIRED = _Unset.REQUIRED
_SAME = _Unset.SAME


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """One key of the configuration.

    Attributes:
        name: Kafka's dotted name.
        default: The value when the user sets none; `REQUIRED` when the user must.
        default_exactly_once: The default under exactly-once; equals `default` for most keys.
        default_text: The default in words, where the value itself would mislead.
        importance: How likely a user is to set it.
        client: Whether it is only passed on to the Kafka clients.
    """

    name: str
    kind: Kind
    default: Any
    default_exactly_once: Any
    default_text: str | None
    importance: Importance
    doc: str
    client: bool

    @property
    def field(self) -> str:
        """The attribute of `StreamsConfig` that holds the value."""
        return self.name.replace(".", "_")

    @property
    def required(self) -> bool:
        """Whether the user must set it."""
        return self.default is REQUIRED

    def default_in_words(self) -> str:
        """Return the default as the reference page prints it."""
        if self.default_text is not None:
            return self.default_text
        if self.required:
            return "(required)"
        plain = _in_words(self.default)
        if self.default_exactly_once == self.default:
            return plain
        return f"{plain}; {_in_words(self.default_exactly_once)} under exactly-once"


def _in_words(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return str(value.value)
    return "null" if value is None else str(value)


def key(
    kind: Kind,
    default: object,
    doc: str,
    *,
    importance: Importance = Importance.LOW,
    exactly_once: object = _SAME,
    default_text: str | None = None,
    client: bool = False,
) -> Any:
    """Return a dataclass field without a default that carries its definition."""
    definition = KeyDefinition(
        name="",
        kind=kind,
        default=default,
        default_exactly_once=default if exactly_once is _SAME else exactly_once,
        default_text=default_text,
        importance=importance,
        doc=" ".join(doc.split()),
        client=client,
    )
    return dataclasses.field(metadata={_METADATA_KEY: definition})


def definitions_of(config_class: type[Any]) -> tuple[KeyDefinition, ...]:
    """Return the definitions that a config class's fields carry, in the order of the class body."""
    return tuple(
        dataclasses.replace(field.metadata[_METADATA_KEY], name=field.name.replace("_", "."))
        for field in dataclasses.fields(config_class)
        if _METADATA_KEY in field.metadata
    )
