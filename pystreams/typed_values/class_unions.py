"""Unions of classes: of which of them a value is, and whether that can be told at all.

JSON does not say which class an object was. Its fields do: a class is left out if one that it
needs is not there, or if a field of few values (a `Literal`, an enumeration) has another one. Of
the others those are taken of which the data has the fewest unknown fields, then those of which the
fewest are missing. Only where all of that is equal the types of fields decide.
"""

from __future__ import annotations

import collections.abc
import datetime as dt
import decimal
import enum
import types
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Annotated, Any, Literal, NewType, TypeGuard, Union, get_args, get_origin

from pystreams.typed_values.misfit import Misfit, Read
from pystreams.typed_values.model_fields import fields_of, is_dict, is_model, names_of

_TEXT, _NUMBER = frozenset({"text"}), frozenset({"number"})
_ARRAY, _OBJECT = frozenset({"array"}), frozenset({"object"})
_ANY = frozenset({"array", "boolean", "bytes", "null", "number", "object", "text"})
_KINDS: dict[Any, frozenset[str]] = {
    None: frozenset({"null"}),
    type(None): frozenset({"null"}),
    bool: frozenset({"boolean"}),
    bytes: frozenset({"bytes"}),
    collections.abc.Iterable: _ARRAY,
    collections.abc.Mapping: _OBJECT,
    collections.abc.Sequence: _ARRAY,
    decimal.Decimal: _TEXT | _NUMBER,
    dict: _OBJECT,
    dt.date: _TEXT,
    dt.datetime: _TEXT,
    dt.time: _TEXT,
    float: _NUMBER,
    int: _NUMBER,
    list: _ARRAY,
    str: _TEXT,
    tuple: _ARRAY,
    uuid.UUID: _TEXT,
}

_Pairs = frozenset[tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class ClassMember:
    """A class of a union.

    Attributes:
        read: Makes its values.
        names: All fields that its data may have.
        always: Those that are in all data that were written of it.
        required: Those that data must have to be read.
        tags: Fields of few values, with what reads them.
    """

    model: Any
    read: Read
    names: frozenset[str]
    always: frozenset[str]
    required: frozenset[str]
    tags: tuple[tuple[str, Read], ...]


def members_of(annotation: Any) -> list[Any]:
    """Return the types of a union, or the type itself, bare of what only names or remarks on it."""
    if isinstance(annotation, NewType):
        return members_of(annotation.__supertype__)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return members_of(arguments[0])
    if origin in {Union, types.UnionType}:
        return [member for argument in arguments for member in members_of(argument)]
    return [annotation]


def class_member(model: Any, read: Read, tags: Sequence[tuple[str, Read]]) -> ClassMember:
    """Return a class as a member of unions."""
    required = frozenset(
        field.name for field in fields_of(model) if not (field.default or field.may_be_absent)
    )
    return ClassMember(model, read, names_of(model), always_in(model), required, tuple(tags))


def tag_fields(model: Any) -> list[tuple[str, Any]]:
    """Return the fields of a class that are of few values, with their types."""
    return [
        (field.name, field.annotation)
        for field in fields_of(model)
        if all(
            _values(member) or member in {None, type(None)}
            for member in members_of(field.annotation)
        )
    ]


def best_members(members: Sequence[ClassMember], data: dict[str, Any]) -> list[ClassMember]:
    """Return the classes whose fields fit data best, in the order in which to try them.

    Those of which the data has more unknown fields are no choice: these would be lost.
    """
    keys = data.keys()
    able = [member for member in members if member.required <= keys and _has_its_tags(member, data)]
    unknown = [len(keys - member.names) for member in able]
    fewest = min(unknown, default=0)
    best = [member for member, count in zip(able, unknown, strict=True) if count == fewest]
    return sorted(best, key=lambda member: len(member.always - keys))


def untold_pairs(models: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return those classes, in the order of their union, of which data look alike."""
    return [
        (first, second)
        for first, second in combinations(models, 2)
        if not (
            first is second
            or _names_tell(first, second)
            or _refuses_model(first, second, frozenset())
        )
    ]


def untold_text(first: Any, second: Any) -> str:
    """Return what to say of two classes that can't be told apart, with the cure."""
    shared = ", ".join(sorted(names_of(first) & names_of(second)))
    return (
        f"{first.__name__} and {second.__name__} can't be told apart: what is written of them has "
        f"the same fields ({shared or 'none'}); give each a field that tells them apart, such as "
        f'kind: Literal["{first.__name__.lower()}"] = "{first.__name__.lower()}"'
    )


def untold_records_text(first: Any, second: Any) -> str:
    """Return what to say of such classes where a schema has no records named after them."""
    return (
        f"{first.__name__} and {second.__name__} have the same fields, and the schema has no "
        "records of both names by which they could be told apart: name the records as the classes"
    )


def check_collections(choices: Sequence[Any]) -> None:
    """Refuse a union of lists, or of dicts, of classes that can't be told apart.

    Raises:
        TypeError: There are two of them.
    """
    for first, second in combinations(choices, 2):
        ours, theirs = _items(first), _items(second)
        if first == second or not (ours and theirs) or _kinds(first) != _kinds(second):
            continue
        models = all(any(map(is_model, members_of(item))) for item in (ours[-1], theirs[-1]))
        if models and not _refuses(ours[-1], theirs[-1], frozenset()):
            raise TypeError(
                f"{first} and {second} can't be told apart: take one of a union, such as "
                "list[A | B] for list[A] | list[B]"
            )


def always_in(model: Any) -> frozenset[str]:
    """Return the fields that all data have which are written of a class."""
    if not is_dict(model):
        return names_of(model)
    return frozenset(field.name for field in fields_of(model) if not field.may_be_absent)


def _items(annotation: Any) -> list[Any]:
    """Return the types of what is in lists, tuples and dicts; nothing of another type."""
    if _KINDS.get(get_origin(annotation)) not in (_ARRAY, _OBJECT):
        return []
    return [item for item in get_args(annotation) if item is not Ellipsis]


def _has_its_tags(member: ClassMember, data: dict[str, Any]) -> bool:
    for name, read in member.tags:
        if name in data:
            try:
                read(data[name])
            except Misfit:
                return False
    return True


def _names_tell(first: Any, second: Any) -> bool:
    """Return whether no data of two classes have the same fields, or none of it matters."""
    if not (always_in(first) <= names_of(second) and always_in(second) <= names_of(first)):
        return True
    if not (is_dict(first) and is_dict(second)):
        return False
    types_of = {field.name: field.annotation for field in fields_of(first)}
    return all(
        types_of.get(field.name, field.annotation) == field.annotation
        for field in fields_of(second)
    )


def _refuses_model(reads: Any, writes: Any, around: _Pairs) -> bool:
    """Return whether no data of one class can be read as the other."""
    if (reads, writes) in around:
        return False
    around |= {(reads, writes)}
    written = {field.name: field.annotation for field in fields_of(writes)}
    always, names = always_in(writes), names_of(writes)
    for field in fields_of(reads):
        if field.name not in names:
            if field.default is None and not field.may_be_absent:
                return True
            continue
        told = field.name in always and field.name in written
        if told and _refuses(field.annotation, written[field.name], around):
            return True
    return False


def _refuses(reads: Any, writes: Any, around: _Pairs) -> bool:
    pairs = product(members_of(reads), members_of(writes))
    return all(_refuses_member(one, other, around) for one, other in pairs)


def _refuses_member(reads: Any, writes: Any, around: _Pairs) -> bool:
    if is_model(reads) and is_model(writes):
        return _refuses_model(reads, writes, around)
    if not _kinds(reads) & _kinds(writes):
        return True
    ours, theirs = _values(reads), _values(writes)
    return bool(ours and theirs) and not ours & theirs


def _kinds(annotation: Any) -> frozenset[str]:
    """Return what data of a type may be in JSON or Avro; all of it where that is not known."""
    if is_model(annotation):
        return _OBJECT
    if values := _values(annotation):
        return frozenset().union(*(_KINDS.get(kind, _ANY) for kind, _ in values))
    if _is_enum(annotation):
        return _NUMBER  # Flags, which may be combined.
    return _KINDS.get(get_origin(annotation) or annotation, _ANY)


def _values(annotation: Any) -> frozenset[tuple[type, object]]:
    """Return all values that a type has; none where they are not few."""
    if get_origin(annotation) is Literal:
        return frozenset((type(value), value) for value in get_args(annotation))
    if _is_enum(annotation) and not issubclass(annotation, enum.Flag):
        return frozenset((type(member.value), member.value) for member in annotation)
    return frozenset()


def _is_enum(annotation: Any) -> TypeGuard[type[enum.Enum]]:
    return isinstance(annotation, type) and issubclass(annotation, enum.Enum)
