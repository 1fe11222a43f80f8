"""The fields of a dataclass, a named tuple or a typed dict, as they are read."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NotRequired, Required, get_args, get_origin


@dataclass(frozen=True, slots=True)
class ModelField:
    """One field of a class.

    Attributes:
        name: As it is in the class and in the data.
        default: Makes the value of a field that the data does not have; None where it must.
        is_keyword: Whether the constructor takes it by name only.
        may_be_absent: Whether a value without it has no such key (a typed dict's).
    """

    name: str
    annotation: Any
    default: Callable[[], object] | None = None
    is_keyword: bool = False
    may_be_absent: bool = False


def is_named_tuple(model: object) -> bool:
    """Return whether a class is made by `NamedTuple`."""
    return isinstance(model, type) and issubclass(model, tuple) and hasattr(model, "_fields")


def is_model(model: object) -> bool:
    """Return whether a class has fields that are known here."""
    is_dataclass = isinstance(model, type) and dataclasses.is_dataclass(model)
    return is_dataclass or is_named_tuple(model) or typing.is_typeddict(model)


def is_dict(model: Any) -> bool:
    """Return whether values of a class are dicts: those of a typed dict."""
    return isinstance(model, type) and issubclass(model, dict)


def package_of(model: Any) -> str | None:
    """Return the package a model is of; one that nobody has imported has no models."""
    if isinstance(model, type):
        for package, root in (("msgspec", "Struct"), ("pydantic", "BaseModel")):
            module = sys.modules.get(package)
            if module is not None and issubclass(model, getattr(module, root)):
                return package
    return None


def fields_of(model: Any) -> list[ModelField]:
    """Return the fields of a class that `is_model`, in their order.

    Raises:
        TypeError: The names in its annotations can't be found, or one is none of a value's.
    """
    hints = _hints(model)
    if typing.is_typeddict(model):
        return [_key_of(model, name, hint) for name, hint in hints.items()]
    if is_named_tuple(model):
        defaults = model._field_defaults
        return [
            ModelField(name, hints.get(name, Any), _constant(defaults, name))
            for name in model._fields
        ]
    for name, hint in hints.items():
        if isinstance(hint, dataclasses.InitVar):
            raise TypeError(
                f"{model.__name__}.{name} is an InitVar: it is not in a value, and so it can't be "
                "written for who makes the value again"
            )
    return [
        ModelField(field.name, hints[field.name], _default(field), bool(field.kw_only))
        for field in dataclasses.fields(model)
        if field.init
    ]


def names_of(model: Any) -> frozenset[str]:
    """Return the names of all fields of a value, those that its constructor makes included."""
    if isinstance(model, type) and dataclasses.is_dataclass(model):
        return frozenset(field.name for field in dataclasses.fields(model))
    return frozenset(field.name for field in fields_of(model))


def _hints(model: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(model, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"the annotations of {model.__name__} can't be read: {error}; define the class it "
            "names at the top of a module, where it can be found"
        ) from error


def _key_of(model: Any, name: str, hint: Any) -> ModelField:
    # With `from __future__ import annotations` the class itself does not know.
    required = name in model.__required_keys__
    while get_origin(hint) in {Required, NotRequired}:
        required = get_origin(hint) is Required
        (hint,) = get_args(hint)
    return ModelField(name, hint, may_be_absent=not required)


def _constant(defaults: dict[str, object], name: str) -> Callable[[], object] | None:
    if name not in defaults:
        return None
    value = defaults[name]
    return lambda: value


def _default(field: dataclasses.Field[Any]) -> Callable[[], object] | None:
    if field.default is not dataclasses.MISSING:
        return _constant({field.name: field.default}, field.name)
    if field.default_factory is not dataclasses.MISSING:
        return typing.cast("Callable[[], object]", field.default_factory)
    return None
