"""The two functions between a class's values and JSON's bytes.

Classes of the standard library are read by our own plan over orjson, whatever else is installed,
so that bytes and refusals do not change with the packages beside. A model of msgspec or pydantic
is left to its package.
"""

from __future__ import annotations

import collections.abc
import datetime as dt
import decimal
import uuid
from collections.abc import Callable
from typing import Any, get_args, get_origin

import orjson

from pystreams.typed_values.finite_numbers import check_nulls
from pystreams.typed_values.misfit import Misfit, path_text
from pystreams.typed_values.model_fields import is_dict, is_model, names_of, package_of
from pystreams.typed_values.model_reader import ModelReader
from pystreams.typed_values.model_writer import ModelWriter

_TEXT_KEYS = frozenset({str, Any})
_WITHOUT_FLOATS = frozenset(
    (str, int, bool, None, type(None), dt.date, dt.datetime, dt.time, decimal.Decimal, uuid.UUID)
)


def json_functions(
    model: Any, *, strict: bool
) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """Return the functions that write and read values of a class.

    Raises:
        TypeError: The class, or a type within it, has no JSON form that is known here.
    """
    package = package_of(model)
    if package is not None and strict:
        cure = {
            "msgspec": "class ...(Struct, forbid_unknown_fields=True)",
            "pydantic": 'model_config = ConfigDict(extra="forbid")',
        }[package]
        raise TypeError(f"{model.__name__} is a model of {package}, which is strict by {cure}")
    if package == "msgspec":
        return _msgspec_functions(model)
    if package == "pydantic":
        return _pydantic_functions(model)
    return _plain_functions(model, strict=strict)


def _plain_functions(
    model: Any, *, strict: bool
) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    models = ModelReader(strict=strict)
    read = models.reader(model)
    name = getattr(model, "__name__", repr(model))
    if bytes in models.seen:
        raise TypeError(f"{name} holds bytes, which have no form in JSON: make them a string")

    def deserialize(data: bytes) -> Any:
        try:
            return read(loads(data))
        except Misfit as error:
            raise ValueError(error.text(name)) from None

    loads = orjson.loads
    return _plain_serializer(model, name, models.seen), deserialize


def _plain_serializer(model: Any, name: str, seen: list[Any]) -> Callable[[Any], bytes]:
    kind = model if isinstance(model, type) and not is_dict(model) else None
    kind = dict if is_dict(model) else kind
    option, default = _writing_options(seen)
    dumps, holds_floats = orjson.dumps, not all(map(_is_without_floats, seen))

    def serialize(value: Any) -> bytes:
        if kind is not None and not isinstance(value, kind):
            raise TypeError(f"serdes.json_of({name}) takes a {name}, not {type(value).__name__}")
        data = dumps(value, default, option)
        if holds_floats and data.find(b"null") >= 0:
            check_nulls(value, data, name)
        return data

    return serialize


def _is_without_floats(kind: Any) -> bool:
    """Return whether a type holds no floats but in its parts, which are seen too."""
    return kind in _WITHOUT_FLOATS or is_model(kind) or get_origin(kind) is not None


def _writing_options(seen: list[Any]) -> tuple[int, Callable[[Any], object]]:
    models = [kind for kind in seen if is_model(kind)]
    is_array = any(isinstance(kind, type) and issubclass(kind, tuple) for kind in models)
    has_hidden = any(name.startswith("_") for kind in models for name in names_of(kind))
    has_keys = any(
        get_origin(kind) in {dict, collections.abc.Mapping} and get_args(kind)[0] not in _TEXT_KEYS
        for kind in seen
    )
    option = orjson.OPT_NON_STR_KEYS if has_keys else 0
    if not is_array and not has_hidden:
        return option, _write_scalar
    # orjson leaves out names that begin with an underscore.
    option |= orjson.OPT_PASSTHROUGH_DATACLASS
    write = ModelWriter()
    writers = {kind: write.writer(kind) for kind in models}

    def default(value: Any) -> object:
        write_model = writers.get(type(value))
        return _write_scalar(value) if write_model is None else write_model(value)

    return option, default


def _write_scalar(value: object) -> object:
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _msgspec_functions(model: Any) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    import msgspec  # noqa: PLC0415 - the user's model has it

    encode, decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(model).decode

    def serialize(value: Any) -> bytes:
        data = encode(value)
        if data.find(b"null") >= 0:
            check_nulls(value, data, model.__name__)
        return data

    return _of_model(model, serialize), telling(
        decode, msgspec.ValidationError, msgspec_text, model
    )


def _pydantic_functions(model: Any) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    import pydantic  # noqa: PLC0415 - the user's model has it

    adapter = pydantic.TypeAdapter(model)
    dump = adapter.dump_json

    def serialize(value: Any) -> bytes:
        # By alias, as that is how it is read.
        data = dump(value, by_alias=True)
        if data.find(b"null") >= 0:
            check_nulls(value, data, model.__name__, to_plain)
        return data

    def to_plain(value: Any) -> Any:
        return adapter.dump_python(value, mode="json", by_alias=True)

    deserialize = telling(adapter.validate_json, pydantic.ValidationError, pydantic_text, model)
    return _of_model(model, serialize), deserialize


def telling(
    read: Callable[[Any], Any],
    refusal: type[Exception],
    text: Callable[[type, Any], str],
    model: type,
) -> Callable[[Any], Any]:
    """Return a package's function with its refusals as ValueErrors that show no value."""

    def read_or_tell(data: Any) -> Any:
        try:
            return read(data)
        except refusal as error:
            raise ValueError(text(model, error)) from None

    return read_or_tell


def pydantic_text(model: type, error: Any) -> str:
    """Return what pydantic found, without the values that its own text shows."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{path_text(model.__name__, misfit['loc'])}: {misfit['msg']}" for misfit in found
    )


def msgspec_text(model: type, error: Exception) -> str:
    """Return what msgspec found, the path first; its own text has no values."""
    text, _, place = str(error).partition(" - at `$")
    return f"{model.__name__}{place.removesuffix('`')}: {text}"


def _of_model(model: type, write: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def serialize(value: Any) -> bytes:
        if not isinstance(value, model):
            name = model.__name__
            raise TypeError(f"serdes.json_of({name}) takes a {name}, not {type(value).__name__}")
        return write(value)

    return serialize
