"""What builders of stores are given: refused at once where a store could not be made of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pystreams.errors import TopologyError
from pystreams.kernel.async_functions import NOT_ASYNC, is_async
from pystreams.serdes import Serde
from pystreams.stores.contracts.spec import StoreKind, StoreSpec, StoreSupplier

_METHODS_OF_SERDES = (
    "serializer",
    "deserializer",
    "headers_serializer",
    "headers_deserializer",
)
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def spec_over(
    supplier: StoreSupplier,
    kind: StoreKind,
    key_serde: Serde[Any] | None,
    value_serde: Serde[Any] | None,
    *,
    timestamped: bool = False,
    factory: str = "",
) -> StoreSpec:
    """Return the spec of a store of a kind over what a supplier says.

    Args:
        factory: The method of `Stores` that makes such suppliers; None for the kind's.

    Raises:
        TopologyError: It is no supplier, or one of another kind, or a serde is none.
    """
    factory = factory or kind.factory
    if not isinstance(supplier, StoreSupplier):
        raise TopologyError(
            f"a builder of a {kind.name} store takes a supplier, not {supplier!r}: make one with "
            f"Stores.{factory}(...)"
        )
    where = f"store {supplier.name!r}"
    if supplier.kind != kind:
        raise TopologyError(
            f"{where}: a {kind.name} store needs a supplier of one, and this is "
            f"one of a {supplier.kind.name} store; use Stores.{factory}"
        )
    check_serdes(where, key_serde, value_serde)
    return StoreSpec.of(supplier, key_serde, value_serde, timestamped=timestamped)


def check_plain(supplier: StoreSupplier, other_builder: str) -> None:
    """Refuse a supplier that keeps timestamps, for a store that has none.

    Raises:
        TopologyError: It does; names the builder it is for.
    """
    if supplier.timestamped:
        raise TopologyError(
            f"store {supplier.name!r}: a plain store can't be built over a timestamped supplier; "
            f"use {other_builder}, or a plain supplier"
        )


def check_serdes(where: str, key_serde: object, value_serde: object) -> None:
    """Refuse what is no serde; None is the configured default.

    Args:
        where: Whose they are; begins the error's message.

    Raises:
        TopologyError: One is none.
    """
    for part, serde in (("key", key_serde), ("value", value_serde)):
        if serde is not None:
            check_serde(f"{where}: {part}_serde", serde)


def check_serde(where: str, value: object) -> None:
    """Refuse what is no serde.

    Args:
        where: Whose it is; begins the error's message.

    Raises:
        TopologyError: It is none, or its methods are async.
    """
    functions = (getattr(value, name, None) for name in ("serializer", "deserializer"))
    if isinstance(value, type) or not all(map(callable, functions)):
        raise TopologyError(
            f"{where} must be a serde, an object with serializer(topic) and "
            f"deserializer(topic) such as serdes.STRING, not {value!r}"
        )
    for name in _METHODS_OF_SERDES:
        method = getattr(value, name, None)
        if is_async(method):
            raise TopologyError(f"{where}: {type(value).__name__}.{name} {NOT_ASYNC}")


def topic_settings(where: str, config: Mapping[str, str] | None) -> dict[str, str]:
    """Return settings of a topic, none for None.

    Args:
        where: The option that they are; begins the error's message.

    Raises:
        TopologyError: They are no mapping.
    """
    if config is None or isinstance(config, Mapping):
        return dict(config or {})
    raise TopologyError(
        f"{where} must be topic settings by their names, as in "
        f'{{"segment.bytes": "104857600"}}, not {config!r}'
    )


def checked_name(name: object) -> str:
    """Return a store's name if it can be part of a topic's and a directory's name.

    Spec: Kafka Named.validate.
    """
    if not isinstance(name, str) or not _LEGAL_NAME.fullmatch(name) or name in {".", ".."}:
        raise TopologyError(
            f"store name {name!r} is not valid: use 1 to 249 letters, digits, '.', '_' or '-'"
        )
    return name
