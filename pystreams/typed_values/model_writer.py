"""A class becomes a function that turns its values into dicts, lists and scalars.

Scalars stay what they are (dates, UUIDs and decimals too: Avro's logical types take them); members
of enumerations become their values. What a type leaves as it is costs nothing.
"""

from __future__ import annotations

import collections.abc
import enum
import types
import typing
from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any, NewType, Union, get_args, get_origin

from pystreams.typed_values.model_fields import fields_of, is_model

Write = Callable[[Any], object]

_ARRAYS = (list, collections.abc.Sequence, collections.abc.Iterable)
_OBJECTS = (dict, collections.abc.Mapping)


class ModelWriter:
    """Makes functions that write classes, and keeps them, as classes may name themselves."""

    def __init__(self) -> None:
        self._writers: dict[Any, Write] = {}

    def writer(self, annotation: Any) -> Write | None:
        """Return the function that turns a value of a type into plain ones; None: it is plain."""
        if isinstance(annotation, NewType):
            return self.writer(annotation.__supertype__)
        if is_model(annotation):
            return self._model_writer(annotation)
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
            return attrgetter("value")
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self.writer(arguments[0])
        if origin in {Union, types.UnionType}:
            return self._union_writer(arguments)
        if origin in _ARRAYS or (origin is tuple and arguments[1:] == (Ellipsis,)):
            write = self.writer(arguments[0])
            return None if write is None else lambda value: [write(item) for item in value]
        if origin in _OBJECTS:
            return _object_writer(self.writer(arguments[0]), self.writer(arguments[1]))
        return None

    def _model_writer(self, model: Any) -> Write:
        known = self._writers.get(model)
        if known is not None:
            return known
        self._writers[model] = lambda value: self._writers[model](value)  # noqa: PLW0108 - the later
        plan = [(field.name, self.writer(field.annotation)) for field in fields_of(model)]
        made = _keys_writer(plan) if typing.is_typeddict(model) else _attributes_writer(plan)
        self._writers[model] = made
        return made

    def _union_writer(self, arguments: tuple[Any, ...]) -> Write | None:
        choices = {choice: self.writer(choice) for choice in arguments}
        if all(write is None for write in choices.values()):
            return None
        others = [choice for choice in arguments if choice is not type(None)]
        if len(others) == 1:
            write = typing.cast("Write", choices[others[0]])
            return lambda value: None if value is None else write(value)

        def write_choice(value: Any) -> object:
            write = choices.get(type(value))
            return value if write is None else write(value)

        return write_choice


def _attributes_writer(plan: list[tuple[str, Write | None]]) -> Write:
    def write(value: Any) -> object:
        made = {}
        for name, write_field in plan:
            item = getattr(value, name)
            made[name] = item if write_field is None else write_field(item)
        return made

    return write


def _keys_writer(plan: list[tuple[str, Write | None]]) -> Write:
    def write(value: Any) -> object:
        return {
            name: value[name] if write_field is None else write_field(value[name])
            for name, write_field in plan
            if name in value
        }

    return write


def _object_writer(write_key: Write | None, write_value: Write | None) -> Write | None:
    if write_key is None and write_value is None:
        return None

    def write(value: Any) -> object:
        return {
            (key if write_key is None else write_key(key)): (
                item if write_value is None else write_value(item)
            )
            for key, item in value.items()
        }

    return write
