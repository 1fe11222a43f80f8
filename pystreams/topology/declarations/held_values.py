"""Declares `map_values_batch` and `map_values_async`: checks what is given, makes the operators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypedDict

from pystreams.errors import TopologyError
from pystreams.topology.contracts.held_records import CallLimits
from pystreams.topology.contracts.user_functions import KEY_VALUE, VALUE, checked, checked_async
from pystreams.topology.operators.records.async_calls import MapValuesAsyncOperator
from pystreams.topology.operators.records.batches import MapValuesBatchOperator


class AsyncOptions(TypedDict, total=False):
    """Keywords of `map_values_async`, which describes them."""

    max_in_flight: int
    timeout_ms: int
    retries: int
    retry_backoff_ms: int
    ordered: bool


def in_batches(
    mapper: Callable[..., Iterable[Any]], *, with_key: bool, max_batch: int
) -> MapValuesBatchOperator:
    """Return the operator of `map_values_batch`.

    Raises:
        TopologyError: The mapper takes other parameters, or the number is out of range.
    """
    operation, keyed = "map_values_batch", ("keys", "values")
    checked(mapper, operation, keyed if with_key else ("values",), keyed)
    _check_number(operation, "max_batch", max_batch, 1)
    return MapValuesBatchOperator(mapper=mapper, with_key=with_key, max_batch=max_batch)


def awaited(
    mapper: Callable[..., Awaitable[Any]], options: AsyncOptions, *, with_key: bool
) -> MapValuesAsyncOperator:
    """Return the operator of `map_values_async`.

    Raises:
        TopologyError: The mapper takes other parameters, or an option is out of range.
    """
    operation = "map_values_async"
    unknown = set(options) - AsyncOptions.__annotations__.keys()
    if unknown:
        raise TopologyError(f"{operation}: unknown option {min(unknown)!r}")
    checked_async(mapper, operation, KEY_VALUE if with_key else VALUE, KEY_VALUE)
    max_in_flight = options.get("max_in_flight", 100)
    limits = CallLimits(
        timeout_ms=options.get("timeout_ms", 5000),
        retries=options.get("retries", 0),
        retry_backoff_ms=options.get("retry_backoff_ms", 100),
    )
    ordered = options.get("ordered", True)
    if not isinstance(ordered, bool):
        raise TopologyError(f"{operation}: ordered is True or False, not {ordered!r}")
    _check_number(operation, "max_in_flight", max_in_flight, 1)
    _check_number(operation, "timeout_ms", limits.timeout_ms, 1)
    _check_number(operation, "retries", limits.retries, 0)
    _check_number(operation, "retry_backoff_ms", limits.retry_backoff_ms, 0)
    return MapValuesAsyncOperator(
        mapper=mapper,
        with_key=with_key,
        max_in_flight=max_in_flight,
        limits=limits,
        ordered=ordered,
    )


def _check_number(operation: str, name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise TopologyError(f"{operation}: {name} is a whole number from {least}, not {value!r}")
