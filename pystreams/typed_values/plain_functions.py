"""The two functions between a class's values and plain ones: dicts, lists and scalars."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from pystreams.typed_values.json_functions import (
    is_dict,
    msgspec_text,
    pydantic_text,
    telling,
)
from pystreams.typed_values.model_fields import package_of
from pystreams.typed_values.model_reader import ModelReader
from pystreams.typed_values.model_writer import ModelWriter
from pystreams.typed_values.scalar_readers import as_it_is

_KEPT = (bytes, dt.date, dt.datetime, dt.time, decimal.Decimal, uuid.UUID)


def plain_functions(model: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the functions that make plain values of a class's, and a class's of plain ones.

    Dates, UUIDs, decimals and bytes stay as they are. The first function refuses values of another
    class with a TypeError, whose fields may only look alike.

    Raises:
        TypeError: The class, or a type within it, can't be read.
    """
    package = package_of(model)
    if package == "msgspec":
        import msgspec  # noqa: PLC0415 - the user's model has it

        convert = partial(msgspec.convert, type=model, builtin_types=_KEPT)
        from_plain = telling(convert, msgspec.ValidationError, msgspec_text, model)
        return _of_model(model, partial(msgspec.to_builtins, builtin_types=_KEPT)), from_plain
    if package == "pydantic":
        import pydantic  # noqa: PLC0415 - the user's model has it

        adapter = pydantic.TypeAdapter(model)
        validate = adapter.validate_python
        from_plain = telling(validate, pydantic.ValidationError, pydantic_text, model)
        return _of_model(model, lambda value: adapter.dump_python(value, by_alias=True)), from_plain
    write = ModelWriter().writer(model)
    return _of_model(model, write), ModelReader(strict=False).reader(model)


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
