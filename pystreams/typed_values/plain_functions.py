"""The two functions between a class's values and plain ones: dicts, lists and scalars."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from pystreams.typed_values.json_functions import (
    msgspec_text,
    pydantic_text,
    telling,
)
from pystreams.typed_values.model_fields import is_dict, package_of
from pystreams.typed_values.model_reader import ModelReader
from pystreams.typed_values.model_writer import ModelWriter
from pystreams.typed_values.scalar_readers import as_it_is

_KEPT = (bytes, dt.date, dt.datetime, dt.time, decimal.Decimal, uuid.UUID)


class PlainFunctions(NamedTuple):
    """What makes plain values of a class's, and a class's of plain ones.

    Attributes:
        to_plain: Refuses values of another class with a TypeError, whose fields may only look
            alike.
        from_plain: Makes them again.
        takes_names: Whether `from_plain` wants the names of records that are of unions, in pairs
            of name and record: there are unions of classes.
        untold: Classes of such unions that only these names can tell apart.
    """

    to_plain: Callable[[Any], Any]
    from_plain: Callable[[Any], Any]
    takes_names: bool = False
    untold: tuple[tuple[Any, Any], ...] = ()


def plain_functions(model: Any, record_names: Mapping[str, str] | None = None) -> PlainFunctions:
    """Return the functions that make plain values of a class's, and a class's of plain ones.

    Dates, UUIDs, decimals and bytes stay as they are.

    Args:
        model: The class.
        record_names: As `ModelWriter` takes them.

    Raises:
        TypeError: The class, or a type within it, can't be read.
    """
    package = package_of(model)
    if package == "msgspec":
        import msgspec  # noqa: PLC0415 - the user's model has it

        convert = partial(msgspec.convert, type=model, builtin_types=_KEPT)
        from_plain = telling(convert, msgspec.ValidationError, msgspec_text, model)
        to_plain = _of_model(model, partial(msgspec.to_builtins, builtin_types=_KEPT))
        return PlainFunctions(to_plain, from_plain)
    if package == "pydantic":
        import pydantic  # noqa: PLC0415 - the user's model has it

        adapter = pydantic.TypeAdapter(model)
        validate = adapter.validate_python
        from_plain = telling(validate, pydantic.ValidationError, pydantic_text, model)
        to_plain = _of_model(model, lambda value: adapter.dump_python(value, by_alias=True))
        return PlainFunctions(to_plain, from_plain)
    to_plain = _of_model(model, ModelWriter(record_names).writer(model))
    named = ModelReader(strict=False, named_records=True)
    from_plain = named.reader(model)
    if named.has_class_unions:
        return PlainFunctions(to_plain, from_plain, takes_names=True, untold=tuple(named.untold))
    return PlainFunctions(to_plain, ModelReader(strict=False).reader(model))


def _of_model(model: Any, write: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if not isinstance(model, type) or model.__module__ == "builtins":
        return write or as_it_is
    kind = dict if is_dict(model) else model
    write_known = write or as_it_is

    def to_plain(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"expected a {model.__name__}, not {type(value).__name__}")
        return write_known(value)

    return to_plain
