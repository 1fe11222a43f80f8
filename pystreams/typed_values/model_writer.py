"""A class becomes a function that turns its values into dicts, lists and scalars.

Scalars stay what they are (dates, UUIDs and decimals too: Avro's logical types take them); members
of enumerations become their values. What a type leaves as it is costs nothing.
"""

from __future__ import annotations

import collections.abc
import enum
import types
import typing
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Annotated, Any, NewType, Union, get_args, get_origin

from pystreams.typed_values.class_unions import (
    always_in,
    members_of,
    untold_pairs,
    untold_records_text,
)
from pystreams.typed_values.model_fields import fields_of, is_dict, is_model, names_of

Write = Callable[[Any], object]

_ARRAYS = (list, collections.abc.Sequence, collections.abc.Iterable)
_OBJECTS = (dict, collections.abc.Mapping)
_RECORD_NAME = "-type"
"""Where fastavro looks for the name of a record of a union."""


class ModelWriter:
    """Makes functions that write classes, and keeps them, as classes may name themselves.

    Args:
        record_names: The full names of a schema's records, by those of classes: values of unions
            of classes say theirs.
    """

    def __init__(self, record_names: Mapping[str, str] | None = None) -> None:
        self._record_names = record_names
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
        choices = {
            choice: self.writer(choice) for argument in arguments for choice in members_of(argument)
        }
        if all(write is None for write in choices.values()):
            return None
        models = [choice for choice in choices if is_model(choice)]
        if len(models) > 1:
            choices |= self._named_writers(models)
            choices[dict] = _dict_writer([each for each in choices.items() if is_dict(each[0])])
        others = [choice for choice in choices if choice is not type(None)]
        if len(others) == 1:
            write = typing.cast("Write", choices[others[0]])
            return lambda value: None if value is None else write(value)

        def write_choice(value: Any) -> object:
            write = choices.get(type(value))
            return value if write is None else write(value)

        return write_choice

    def _named_writers(self, models: list[Any]) -> dict[Any, Write]:
        """Return what writes classes of a union, with the names of records where there are any."""
        names = self._record_names
        writers = {model: self._model_writer(model) for model in models}
        if names is None:
            return writers
        nameless = {model for model in models if model.__name__ not in names}
        refused = {
            model: _refusing(pair)
            for pair in untold_pairs(models)
            for model in pair
            if model in nameless
        }
        named = {
            model: _naming(names[model.__name__], writers[model])
            for model in models
            if model not in nameless
        }
        return writers | named | refused


def _dict_writer(writers: list[tuple[Any, Write | None]]) -> Write:
    """Return what writes a dict as the first typed dict whose keys it has."""
    known = [(always_in(model), names_of(model), write) for model, write in writers]

    def write(value: Any) -> object:
        for always, names, write_known in known:
            if write_known is not None and always <= value.keys() <= names:
                return write_known(value)
        return value

    return write


def _naming(name: str, write: Write) -> Write:
    return lambda value: {_RECORD_NAME: name, **typing.cast("dict[str, object]", write(value))}


def _refusing(pair: tuple[Any, Any]) -> Write:
    def write(_: Any) -> object:
        raise ValueError(untold_records_text(*pair))

    return write


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
