"""`/v1/stores`: what the stores of this process hold, as JSON.

Keys in addresses are texts that the store's key serde takes (`pystreams.readable_values`): a text,
a number, JSON. Each answer says how far its partition had come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from pystreams.config.guarantee import IsolationLevel
from pystreams.http.responses import RequestError, as_json
from pystreams.ids import TopicPartition
from pystreams.readable_values import bytes_of_text
from pystreams.runtime.application.kafka_streams import KafkaStreams
from pystreams.runtime.queries.query_results import FailureReason, QueryResult
from pystreams.serdes import BYTES, Serde, filled
from pystreams.stores.contracts.key_value import ValueAndTimestamp
from pystreams.stores.contracts.position import Position, PositionBound
from pystreams.stores.contracts.queries import (
    KeyQuery,
    MultiVersionedKeyQuery,
    Query,
    RangeQuery,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.contracts.versioned import VersionedRecord
from pystreams.stores.contracts.window import Windowed

_DEFAULT_LIMIT = 100
_MAX_LIMIT = 10_000
_EVER_MS = (1 << 63) - 1
_STATUS = {
    FailureReason.UNKNOWN_QUERY_TYPE: 400,
    FailureReason.DOES_NOT_EXIST: 404,
    FailureReason.NOT_PRESENT: 421,
    FailureReason.NOT_ACTIVE: 503,
    FailureReason.NOT_UP_TO_BOUND: 503,
    FailureReason.STORE_EXCEPTION: 500,
}


class StoreQueries:
    """Queries to the stores of one application.

    Args:
        streams: The application.
    """

    def __init__(self, streams: KafkaStreams) -> None:
        self._streams = streams

    async def names(self, _: Request) -> Response:
        """Answer which stores there are, and what they can be asked."""
        return as_json([_described(spec) for spec in self._specs().values()])

    async def value(self, request: Request) -> Response:
        """Answer what a store has of one key."""
        spec = self._spec(request)
        key = self._key(spec, request.path_params["key"])
        found = self._ask(request, spec, _query_of_key(spec, key, request))
        return as_json(_answer_of_key(key, found))

    async def entries(self, request: Request) -> Response:
        """Answer what a store has of a range, partition by partition."""
        return await run_in_threadpool(self._entries, request)

    def _entries(self, request: Request) -> Response:
        spec = self._spec(request)
        limit = _number(request, "limit", _DEFAULT_LIMIT)
        if not 1 <= limit <= _MAX_LIMIT:
            raise RequestError(400, f"limit is 1 to {_MAX_LIMIT}, not {limit}")
        found = self._ask(request, spec, self._query_of_range(spec, request))
        partitions = []
        for number, result in found.items():
            entries = list(islice(_entries_of(result.value or ()), limit + 1))
            partitions.append(
                {
                    "partition": number,
                    "entries": entries[:limit],
                    "more": len(entries) > limit,
                    "position": _position(result.position),
                }
            )
        return as_json({"partitions": partitions})

    # ------------------------------------------------------------------ inside

    def _specs(self) -> dict[str, StoreSpec]:
        stores = self._streams.topology.stores
        return {name: builder.spec for name, builder in stores.items()}

    def _spec(self, request: Request) -> StoreSpec:
        name, specs = request.path_params["store"], self._specs()
        if name not in specs:
            raise RequestError(404, f"there is no store {name!r}; there are: {sorted(specs)}")
        return specs[name]

    def _key_serde(self, spec: StoreSpec) -> Serde[Any]:
        return filled(spec.key_serde, self._streams.config.default_key_serde) or BYTES

    def _key(self, spec: StoreSpec, text: str) -> Any:
        serde = self._key_serde(spec)
        try:
            return serde.deserializer("")(bytes_of_text(text, serde, ""))
        except ValueError as error:
            raise RequestError(400, f"the key {error}") from error

    def _query_of_range(self, spec: StoreSpec, request: Request) -> Query[Any]:
        given, answers = request.query_params, spec.kind.answers
        if WindowRangeQuery in answers:
            if "key" in given:
                return WindowRangeQuery(key=self._key(spec, given["key"]))
            return WindowRangeQuery(
                time_from=_number(request, "time_from", 0),
                time_to=_number(request, "time_to", _EVER_MS),
            )
        if RangeQuery not in answers:
            raise RequestError(400, f"{spec.kind.name} stores are asked for one key: add /KEY")
        lower, upper = (
            self._key(spec, given[end]) if end in given else None for end in ("from", "to")
        )
        descending = given.get("order") == "descending"
        if spec.timestamped:
            return TimestampedRangeQuery(lower, upper, descending)
        return RangeQuery(lower, upper, descending)

    def _ask(
        self, request: Request, spec: StoreSpec, query: Query[Any]
    ) -> dict[int, QueryResult[Any]]:
        """Return the answers of the partitions; raises if one can't answer."""
        given = request.query_params
        result = self._streams.query(
            query,
            store=spec.name,
            partitions=[_number(request, "partition", 0)] if "partition" in given else None,
            isolation_level=_isolation(given.get("isolation")),
            position_bound=_bound(given.get("min_position")),
        )
        for number, answer in result.partition_results.items():
            if answer.failure_reason is not None:
                raise RequestError(
                    _STATUS[answer.failure_reason],
                    answer.failure_message,
                    reason=answer.failure_reason.value,
                    partition=number,
                    position=_position(answer.position),
                )
        if not result.partition_results:
            raise RequestError(421, f"store {spec.name!r} has no partition in this process")
        return dict(result.partition_results)


def _described(spec: StoreSpec) -> dict[str, Any]:
    return {
        "store": spec.name,
        "kind": spec.kind.name,
        "engine": spec.metrics_scope,
        "logged": spec.logging,
        "asked_by": sorted(query.__name__ for query in spec.kind.answers),
    }


def _query_of_key(spec: StoreSpec, key: Any, request: Request) -> Query[Any]:
    answers, given = spec.kind.answers, request.query_params
    if VersionedKeyQuery in answers:
        if "time_from" in given or "time_to" in given:
            return MultiVersionedKeyQuery(
                key, _number(request, "time_from", 0), _number(request, "time_to", _EVER_MS)
            )
        return VersionedKeyQuery(key, _number(request, "as_of", None))
    if WindowKeyQuery in answers:
        return WindowKeyQuery(
            key, _number(request, "time_from", 0), _number(request, "time_to", _EVER_MS)
        )
    if WindowRangeQuery in answers:
        return WindowRangeQuery(key=key)
    return TimestampedKeyQuery(key) if spec.timestamped else KeyQuery(key)


def _answer_of_key(key: Any, found: dict[int, QueryResult[Any]]) -> dict[str, Any]:
    """Return what the partitions have of a key: one has it at most."""
    for number, result in found.items():
        value = result.value
        if isinstance(value, Iterator):
            value = list(islice(_entries_of(value), _MAX_LIMIT)) or None
        if value is not None:
            told = {"entries": value} if isinstance(value, list) else _fields(value)
            return {
                "key": key,
                **told,
                "partition": number,
                "position": _position(result.position),
            }
    positions = [_position(result.position) for result in found.values()]
    raise RequestError(404, f"no partition here has the key {key!r}", positions=positions)


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, ValueAndTimestamp):
        return {"value": value.value, "timestamp": value.timestamp}
    if isinstance(value, VersionedRecord):
        return {"value": value.value, "timestamp": value.timestamp, "valid_to": value.valid_to}
    return {"value": value}


def _entries_of(found: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Return the entries of an answer as they are written."""
    for entry in found:
        if isinstance(entry, VersionedRecord):
            yield _fields(entry)
            continue
        key, value = entry
        if isinstance(key, Windowed):
            window = {"start": key.window.start, "end": key.window.end}
            yield {"key": key.key, "window": window, **_fields(value)}
        else:
            yield {"key": key, **_fields(value)}


def _position(position: Position) -> dict[str, dict[str, int]]:
    """Return a position as topic -> partition -> offset."""
    written: dict[str, dict[str, int]] = {}
    for partition, offset in position.offsets.items():
        written.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return written


def _bound(text: str | None) -> PositionBound | None:
    if text is None:
        return None
    try:
        offsets = {
            TopicPartition(topic, int(number)): int(offset)
            for topic, of_topic in orjson.loads(text).items()
            for number, offset in of_topic.items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise RequestError(
            400, f'min_position is JSON such as {{"topic":{{"0":17}}}}, not {text!r}'
        ) from error
    return PositionBound.at(Position(offsets))


def _isolation(text: str | None) -> IsolationLevel | None:
    if text is None:
        return None
    try:
        return IsolationLevel(text.upper())
    except ValueError as error:
        known = ", ".join(level.value.lower() for level in IsolationLevel)
        raise RequestError(400, f"isolation is one of {known}, not {text!r}") from error


def _number(request: Request, name: str, default: Any) -> Any:
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError as error:
        raise RequestError(400, f"{name} is a whole number, not {text!r}") from error
