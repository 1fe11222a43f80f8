"""Refuses wrong arguments of `SchemaRegistry` when it is called, not at the first record.

What a schema refers to is in the registry, which nothing is asked before the first record: such a
schema is parsed then, and here only looked at for whether it is JSON.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from pystreams.errors import ConfigError, StreamsError
from pystreams.registry.subjects import SchemaUse, SubjectNameStrategy
from pystreams.registry.wire_format import SchemaIdPlace
from pystreams.typed_values.class_unions import untold_records_text
from pystreams.typed_values.plain_functions import plain_functions

_FORMS = {"AVRO": "Avro", "JSON": "JSON"}
_NOT_A_FILE = "; give the schema's text, not the name of its file"


def check_config(config: object, schema_ids: object, rule_config: object) -> None:
    """Refuse what no registry can be asked with.

    Raises:
        ConfigError: An argument is of a wrong type, or there is no `url`; names it.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(
            "SchemaRegistry takes the configuration of Confluent's client, such as "
            f"{{'url': 'http://localhost:8081'}}, not {type(config).__name__}"
        )
    if not isinstance(config.get("url"), str):
        named = ", ".join(map(repr, config)) or "nothing"
        raise ConfigError(f"SchemaRegistry: config has no 'url', a text (it has {named})")
    for url in config["url"].split(","):
        _check_url(url.strip())
    timeout = config.get("timeout")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float)):
        raise ConfigError(f"SchemaRegistry: 'timeout' is a number of seconds, not {timeout!r}")
    if not isinstance(schema_ids, SchemaIdPlace):
        raise ConfigError(f"SchemaRegistry: schema_ids is a SchemaIdPlace, not {schema_ids!r}")
    if rule_config is not None and not isinstance(rule_config, Mapping):
        raise ConfigError("SchemaRegistry: rule_config is a mapping of names to values")


def _check_url(url: str) -> None:
    """Refuse an address that Confluent's client would refuse at the first record.

    What may be a user's name and password is not told.
    """
    scheme, separator, rest = url.partition("://")
    host = (rest if separator else url).rpartition("@")[2]
    if scheme == "mock":  # Of the client's own, for tests: it may have no name.
        return
    if not host:
        raise ConfigError("SchemaRegistry: 'url' names no host: write http://HOST:PORT")
    if not separator:
        raise ConfigError(
            f"SchemaRegistry: 'url' has no scheme: write http://{host}, or https://{host}"
        )
    if scheme not in {"http", "https"}:
        raise ConfigError(f"SchemaRegistry: 'url' begins with http:// or https://, not {scheme}://")


def check_choice(method: str, subject: object, write_with: object) -> None:
    """Refuse what names no subject, or no schema to write with.

    Args:
        method: Of the registry, such as "avro"; begins the error's message.
        subject: The argument.
        write_with: The argument.

    Raises:
        ConfigError: One is of a wrong type; names it, and what it should be.
    """
    where = f"registry.{method}"
    if not isinstance(subject, SubjectNameStrategy) and not _names_subjects(subject):
        raise ConfigError(
            f"{where}: subject is a SubjectNameStrategy, or a function of (topic, part, record), "
            f"not {subject!r}"
        )
    if isinstance(write_with, SchemaUse):
        return
    if isinstance(write_with, bool) or not isinstance(write_with, int) or write_with < 0:
        raise ConfigError(
            f"{where}: write_with is a SchemaUse, or the id of a schema, not {write_with!r}"
        )


def check_model(method: str, model: object, make_functions: Callable[[Any], object]) -> None:
    """Refuse a class whose values can't be read and written; None is no class.

    Args:
        method: Of the registry.
        model: The argument.
        make_functions: Makes of a class what reads and writes its values.

    Raises:
        ConfigError: It is no class, or a field is of a type that can't be read.
    """
    if model is None:
        return
    if not hasattr(model, "__name__"):
        raise ConfigError(f"registry.{method}: model is the class of the values, not {model!r}")
    try:
        make_functions(model)
    except TypeError as error:
        raise ConfigError(f"registry.{method}: model: {error}") from None


def check_records(model: Any, record_names: Mapping[str, str]) -> None:
    """Refuse a class with unions of classes that neither fields nor an Avro schema tell apart.

    Args:
        model: The class; None is none.
        record_names: The schema's records, by the last parts of their names.

    Raises:
        ConfigError: There is one.
    """
    if model is None:
        return
    for pair in plain_functions(model).untold:
        if not all(named.__name__ in record_names for named in pair):
            raise ConfigError(f"registry.avro: model: {untold_records_text(*pair)}")


def check_schema(
    method: str, schema: Any, own: Any, schema_type: str, parse: Callable[[Any], object]
) -> None:
    """Refuse what is no schema of the format; None is no schema.

    Args:
        method: Of the registry.
        schema: The argument.
        own: The client's form of it.
        schema_type: What the registry calls the format.
        parse: Called with that form; raises if it is no schema of the format.

    Raises:
        ConfigError: It is none, says why; or packages are missing.
    """
    if schema is None:
        return
    where, form = f"registry.{method}: schema", _FORMS[schema_type]
    if not isinstance(getattr(own, "schema_str", None), str):
        raise ConfigError(
            f"{where} is its text, or the client's Schema, not {type(schema).__name__}"
        )
    if (own.schema_type or "AVRO") != schema_type:
        raise ConfigError(f"{where} is of {own.schema_type}, and this serde is of {schema_type}")
    try:
        orjson.loads(own.schema_str)
        if not own.references:
            parse(own)
    except ImportError as error:
        raise ConfigError(
            f"registry.{method} needs packages: pip install 'pystreams-kafka[registry]' ({error})"
        ) from None
    except ConfigError:
        raise  # It says what to do.
    except Exception as error:  # noqa: BLE001 - whatever a parser makes of it
        given = schema if isinstance(schema, str) else own.schema_str
        cure = "" if given.lstrip()[:1] in {"{", "["} else _NOT_A_FILE
        raise ConfigError(f"{where} is no {form} schema: {_told(error)}{cure}") from None


def _names_subjects(function: object) -> bool:
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind("topic", "part", None)
    except TypeError:
        return False
    except ValueError:  # A built-in function, which does not tell its parameters.
        return True
    return True


def _told(error: Exception) -> str:
    """Return what a parser says, in one line."""
    found = error.__cause__ if isinstance(error, StreamsError) and error.__cause__ else error
    text = str(found).partition("\n")[0]
    named = "" if found is not error else f"{type(found).__name__}: "
    return f"{named}{text[:200]}"
