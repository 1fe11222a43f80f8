"""A class becomes a function that makes its values of plain ones: dicts, lists and scalars.

Each class is compiled once, when the serde is made, so that a type which can't be read is refused
there. A value then costs one call and, for each field of a scalar type, one look at its type.
"""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

from pystreams.typed_values.class_unions import (
    ClassMember,
    best_members,
    check_collections,
    class_member,
    members_of,
    tag_fields,
    untold_pairs,
    untold_text,
)
from pystreams.typed_values.misfit import Misfit, Read, misfit
from pystreams.typed_values.model_fields import ModelField, fields_of, is_model, names_of
from pystreams.typed_values.scalar_readers import as_it_is, literal_reader, scalar_reader, values_of

_ABSENT = object()
_READ_AS_THEY_ARE = frozenset({str, int, float, bool})
_ARRAYS = (list, collections.abc.Sequence, collections.abc.Iterable)
_OBJECTS = (dict, collections.abc.Mapping)
_COLLECTIONS = (*_ARRAYS, *_OBJECTS, tuple)
_AS_THEY_COME = (Any, object, dict, list)

_Plan = list[tuple[str, type, Read, Callable[[], object] | None]]


class _NoType:
    """A type of no value."""


class ModelReader:
    """Makes functions that read classes, and keeps them, as classes may name themselves.

    Args:
        strict: Refuse fields that a class does not have.
        named_records: Records come with their names, in pairs, where they are of a union.

    Attributes:
        seen: The types that were met on the way, those within others included.
        has_class_unions: Whether there are unions of several classes among them.
        untold: Classes of such unions that only the names of records can tell apart.
    """

    def __init__(self, *, strict: bool, named_records: bool = False) -> None:
        self._strict = strict
        self._named_records = named_records
        self._readers: dict[Any, Read] = {}
        self.seen: list[Any] = []
        self.has_class_unions = False
        self.untold: list[tuple[Any, Any]] = []

    def reader(self, annotation: Any) -> Read:
        """Return the function that makes a value of a type, or raises `Misfit`.

        Raises:
            TypeError: There is no reader for the type, or it is a union of classes that can't be
                told apart.
        """
        self.seen.append(annotation)
        read = self._reader(annotation)
        if not self._named_records:
            return read
        if any(annotation is kind for kind in _AS_THEY_COME):
            return lambda value: read(_without_names(value))
        if is_model(annotation) or get_origin(annotation) in _COLLECTIONS:
            return lambda value: read(_name_and_record(value)[1])
        return read

    def _reader(self, annotation: Any) -> Read:
        if annotation is Any:
            return as_it_is
        if isinstance(annotation, NewType):
            return self.reader(annotation.__supertype__)
        if is_model(annotation):
            return self._model_reader(annotation)
        found = scalar_reader(annotation)
        if found is not None:
            return found
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self.reader(arguments[0])
        if origin is Literal:
            return literal_reader(arguments)
        if origin in {Union, types.UnionType}:
            return self._union_reader(arguments)
        if origin in _ARRAYS:
            return _array_reader(self.reader(arguments[0]))
        if origin is tuple:
            return self._tuple_reader(arguments)
        if origin in _OBJECTS:
            return _object_reader(self._key_reader(arguments[0]), self.reader(arguments[1]))
        name = getattr(annotation, "__name__", None) or repr(annotation)
        raise TypeError(f"{name} can't be read; see the page on serdes for the types that can")

    def _key_reader(self, annotation: Any) -> Read:
        """Return the function for keys, which are text in JSON."""
        read = self.reader(annotation)
        kind = annotation
        while isinstance(kind, NewType) or get_origin(kind) is Annotated:
            kind = kind.__supertype__ if isinstance(kind, NewType) else get_args(kind)[0]
        values = get_args(kind) if get_origin(kind) is Literal else values_of(kind)
        if kind is int:
            return _int_from_text
        if kind not in {bool, float}:
            if all(isinstance(value, str) for value in values):
                return read
            if all(isinstance(value, int) for value in values) and get_origin(kind) is not Literal:
                return lambda value: read(_int_from_text(value))
        name = getattr(kind, "__name__", None) or repr(kind)
        raise TypeError(f"keys of {name} can't be read: JSON's are text; take str or int")

    def _model_reader(self, model: Any) -> Read:
        known = self._readers.get(model)
        if known is not None:
            return known
        # A class that names itself finds this until its own is made.
        self._readers[model] = lambda value: self._readers[model](value)  # noqa: PLW0108 - the later
        self._readers[model] = self._compile(model)
        return self._readers[model]

    def _compile(self, model: Any) -> Read:
        fields = fields_of(model)
        plan: _Plan = []
        for field in fields:
            try:
                read = self.reader(field.annotation)
            except TypeError as error:
                raise TypeError(f"{model.__name__}.{field.name}: {error}") from error
            exact = field.annotation if field.annotation in _READ_AS_THEY_ARE else _NoType
            plan.append((field.name, exact, read, field.default))
        if typing.is_typeddict(model):
            optional = frozenset(field.name for field in fields if field.may_be_absent)
            read_fields: Callable[[dict[str, Any]], object] = _keys_reader(plan, optional)
        else:
            read_fields = _arguments_reader(model, plan, fields)
        return _checked(model, read_fields, names_of(model) if self._strict else None)

    def _union_reader(self, arguments: tuple[Any, ...]) -> Read:
        choices = [choice for argument in arguments for choice in members_of(argument)]
        check_collections(choices)
        if sum(map(is_model, choices)) > 1:
            return self._class_union_reader(choices)
        readers = [self.reader(choice) for choice in arguments if choice is not type(None)]
        has_null = type(None) in arguments
        if len(readers) == 1 and has_null:
            read_one = readers[0]
            return lambda value: None if value is None else read_one(value)

        def read(value: object) -> object:
            if value is None and has_null:
                return None
            return _first_that_fits(readers, value)

        return read

    def _class_union_reader(self, choices: list[Any]) -> Read:
        models = [choice for choice in choices if is_model(choice)]
        untold = untold_pairs(models)
        if untold and not self._named_records:
            raise TypeError(untold_text(*untold[0]))
        self.has_class_unions = True
        self.untold += untold
        members = [self._class_member(model) for model in models]
        first = choices.index(models[0])
        before = [self.reader(choice) for choice in choices[:first]]
        after = [self.reader(choice) for choice in choices[first:] if not is_model(choice)]
        every = [member.read for member in members]
        by_name = {member.model.__name__: member.read for member in members}

        def read(value: object) -> object:
            name, record = _name_and_record(value) if self._named_records else ("", value)
            if type(record) is not dict:
                return _first_that_fits([*before, *every, *after], record)
            if name in by_name:
                return by_name[name](record)
            best = best_members(members, record)
            if name and untold:
                _refuse_untold(untold, best, name)
            fitting = [member.read for member in best] or every
            return _first_that_fits([*before, *fitting, *after], record)

        return read

    def _class_member(self, model: Any) -> ClassMember:
        tags = [(name, self.reader(annotation)) for name, annotation in tag_fields(model)]
        return class_member(model, self.reader(model), tags)

    def _tuple_reader(self, arguments: tuple[Any, ...]) -> Read:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            read_array = _array_reader(self.reader(arguments[0]))
            return lambda value: tuple(typing.cast("list[object]", read_array(value)))
        readers = [self.reader(argument) for argument in arguments]

        def read(value: object) -> object:
            if not isinstance(value, list | tuple) or len(value) != len(readers):
                raise misfit(f"an array of {len(readers)}", value)
            return tuple(
                _read_inside(read_item, item, index)
                for index, (read_item, item) in enumerate(zip(readers, value, strict=True))
            )

        return read


def _first_that_fits(readers: list[Read], value: object) -> object:
    refusals = []
    for read in readers:
        try:
            return read(value)
        except Misfit as error:
            refusals.append(error)
    if len(refusals) == 1:
        raise refusals[0]
    expected = "; ".join(error.text("") for error in refusals)
    raise misfit(f"one of {len(readers)} types ({expected})", value)


def _refuse_untold(
    untold: list[tuple[Any, Any]], best: list[ClassMember], record_name: str
) -> None:
    """Refuse a record that may be of two classes, after neither of which it is named."""
    models = [member.model for member in best]
    for first, second in untold:
        if first in models and second in models:
            raise Misfit(
                f"a record named {first.__name__} or {second.__name__}, whose fields are the same",
                f"one named {record_name}",
            )


def _name_and_record(value: object) -> tuple[str, object]:
    """Return the name of a record of a union, without its namespace; none of another value."""
    if type(value) is tuple and len(value) == 2 and type(value[1]) is dict:
        return str(value[0]).rpartition(".")[2], value[1]
    return "", value


def _without_names(value: object) -> object:
    """Return a value that is read as it comes, without the names of the records in it."""
    _, record = _name_and_record(value)
    if type(record) is dict:
        return {key: _without_names(item) for key, item in record.items()}
    if type(record) is list:
        return [_without_names(item) for item in record]
    return record


def _checked(
    model: Any, read_fields: Callable[[dict[str, Any]], object], names: frozenset[str] | None
) -> Read:
    expected = f"an object ({model.__name__})"

    def read(value: object) -> object:
        if type(value) is not dict:
            raise misfit(expected, value)
        if names is not None and not value.keys() <= names:
            unknown = min(map(str, value.keys() - names))
            raise Misfit(f"no such field in {model.__name__}", "one").inside(unknown)
        return read_fields(value)

    return read


def _arguments_reader(
    model: Any, plan: _Plan, fields: list[ModelField]
) -> Callable[[dict[str, Any]], object]:
    positional = [entry for entry, field in zip(plan, fields, strict=True) if not field.is_keyword]
    keywords = [entry for entry, field in zip(plan, fields, strict=True) if field.is_keyword]

    def read(data: dict[str, Any]) -> object:
        return model(*_read_all(positional, data))

    def read_with_keywords(data: dict[str, Any]) -> object:
        named = dict(zip((entry[0] for entry in keywords), _read_all(keywords, data), strict=True))
        return model(*_read_all(positional, data), **named)

    return read_with_keywords if keywords else read


def _read_all(plan: _Plan, data: dict[str, Any]) -> list[object]:
    values: list[object] = []
    get, append = data.get, values.append
    for name, exact, read, default in plan:
        value = get(name, _ABSENT)
        if type(value) is exact:
            append(value)
        elif value is not _ABSENT:
            append(_read_inside(read, value, name))
        elif default is not None:
            append(default())
        else:
            raise Misfit("a value", "no such field").inside(name)
    return values


def _keys_reader(
    plan: _Plan, optional: frozenset[str]
) -> Callable[[dict[str, Any]], dict[str, object]]:
    def read(data: dict[str, Any]) -> dict[str, object]:
        made = {}
        for name, exact, read_value, _ in plan:
            value = data.get(name, _ABSENT)
            if type(value) is exact:
                made[name] = value
            elif value is not _ABSENT:
                made[name] = _read_inside(read_value, value, name)
            elif name not in optional:
                raise Misfit("a value", "no such field").inside(name)
        return made

    return read


def _read_inside(read: Read, value: object, step: str | int) -> object:
    try:
        return read(value)
    except Misfit as error:
        raise error.inside(step) from None


def _array_reader(read_item: Read) -> Read:
    def read(value: object) -> object:
        if not isinstance(value, list | tuple):
            raise misfit("an array", value)
        try:
            return [read_item(item) for item in value]
        except Misfit:
            # Once more, for the index: counting would cost each good array.
            return [_read_inside(read_item, item, index) for index, item in enumerate(value)]

    return read


def _object_reader(read_key: Read, read_value: Read) -> Read:
    def read(value: object) -> object:
        if type(value) is not dict:
            raise misfit("an object", value)
        return {
            _read_inside(read_key, key, str(key)): _read_inside(read_value, item, str(key))
            for key, item in value.items()
        }

    return read


def _int_from_text(value: object) -> object:
    if type(value) is int:
        return value
    try:
        return int(typing.cast("str", value))
    except (TypeError, ValueError):
        raise Misfit("an integer as a key", "another string") from None
