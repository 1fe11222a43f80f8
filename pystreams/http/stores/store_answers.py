"""What stores answer, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Any

import orjson
from starlette.responses import Response

from pystreams.http.api_description.parameters import MAX_LIMIT
from pystreams.http.responses import RequestError
from pystreams.readable_keys import shown_key
from pystreams.readable_values import plain_of_value
from pystreams.runtime.queries.query_results import FailureReason, QueryResult
from pystreams.stores.contracts.key_value import ValueAndTimestamp
from pystreams.stores.contracts.position import Position
from pystreams.stores.contracts.queries import Query, WindowKeyQuery
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.contracts.versioned import VersionedRecord
from pystreams.stores.contracts.window import Windowed

Answers = Mapping[int | None, QueryResult[Any]]
"""Answers by partition; None is the whole of a global store."""

_STATUS = {
    FailureReason.UNKNOWN_QUERY_TYPE: 400,
    FailureReason.DOES_NOT_EXIST: 404,
    FailureReason.NOT_PRESENT: 421,
    FailureReason.NOT_ACTIVE: 503,
    FailureReason.NOT_UP_TO_BOUND: 503,
    FailureReason.STORE_EXCEPTION: 500,
}


def described(spec: StoreSpec) -> dict[str, Any]:
    """Return what a store is, and what it can be asked."""
    return {
        "store": spec.name,
        "kind": spec.kind.name,
        "engine": spec.metrics_scope,
        "logged": spec.logging,
        "asked_by": sorted(query.__name__ for query in spec.kind.answers),
    }


def check(found: Answers) -> None:
    """Check that all partitions have answered.

    Raises:
        RequestError: One has not.
    """
    for number, answer in found.items():
        if answer.failure_reason is not None:
            raise RequestError(
                _STATUS[answer.failure_reason],
                answer.failure_message,
                reason=answer.failure_reason.value,
                partition=number,
                position=position_of(answer.position),
            )


def answer_of_key(
    spec: StoreSpec, query: Query[Any], key: Any, found: Answers
) -> dict[str, Any] | None:
    """Return what the partitions have of a key: one has it at most; None if none has."""
    for number, result in found.items():
        value = result.value
        if value is None:
            continue
        # What is asked for most comes first: whether something is an iterator takes long to see.
        if isinstance(value, ValueAndTimestamp) or not isinstance(value, Iterator):
            return answer_of_value(key, value, number, position_of(result.position))
        entries = list(islice(_entries(spec, query, value), MAX_LIMIT + 1))
        if entries:
            told = {"entries": entries[:MAX_LIMIT], "more": len(entries) > MAX_LIMIT}
            return {"key": shown_key(key), **told, **_where(number, result)}
    return None


def answer_of_value(
    key: Any, value: Any, number: int | None, position: Mapping[str, Mapping[str, int]]
) -> dict[str, Any]:
    """Return what a partition has of a key, where it is one value."""
    shown = shown_key(key)
    return {"key": shown, **_fields(value), "partition": number, "position": position}


def answer_of_range(
    spec: StoreSpec, query: Query[Any], found: Answers, limit: int
) -> list[dict[str, Any]]:
    """Return what each partition has of a range, as many entries as the limit says."""
    partitions = []
    for number, result in found.items():
        entries = list(islice(_entries(spec, query, result.value or ()), limit + 1))
        more = len(entries) > limit
        partitions.append({"entries": entries[:limit], "more": more, **_where(number, result)})
    return partitions


def position_where_no_key_is(answer: Response) -> Any | None:
    """Return the position at which another process has no such key; None of any other answer."""
    told = _told_of_no_key(answer)
    return told.get("position", {}) if "partition" in told else None


def partitions_without_key(answer: Response) -> set[int]:
    """Return the partitions in which another process, asked for all, has no such key."""
    return set(_told_of_no_key(answer).get("partitions", ()))


def _told_of_no_key(answer: Response) -> dict[str, Any]:
    if answer.status_code != HTTPStatus.NOT_FOUND:
        return {}
    try:
        told = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return {}
    # With a reason it is the partition that is not there.
    return told if isinstance(told, dict) and "reason" not in told else {}


def position_of(position: Position) -> dict[str, dict[str, int]]:
    """Return a position as topic -> partition -> offset."""
    written: dict[str, dict[str, int]] = {}
    for partition, offset in position.offsets.items():
        written.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return written


def _where(number: int | None, result: QueryResult[Any]) -> dict[str, Any]:
    return {"partition": number, "position": position_of(result.position)}


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, ValueAndTimestamp):
        return {"value": plain_of_value(value.value), "timestamp": value.timestamp}
    if isinstance(value, VersionedRecord):
        plain = plain_of_value(value.value)
        return {"value": plain, "timestamp": value.timestamp, "valid_to": value.valid_to}
    return {"value": plain_of_value(value)}


def _entries(spec: StoreSpec, query: Query[Any], found: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for entry in found:
        if isinstance(entry, VersionedRecord):
            yield _fields(entry)
            continue
        key, value = entry
        if isinstance(query, WindowKeyQuery):
            size_ms = spec.retention.window_size_ms if spec.retention else None
            yield {"window": {"start": key, "end": key + (size_ms or 0)}, **_fields(value)}
        elif isinstance(key, Windowed):
            window = {"start": key.window.start, "end": key.window.end}
            yield {"key": shown_key(key.key), "window": window, **_fields(value)}
        else:
            yield {"key": shown_key(key), **_fields(value)}
