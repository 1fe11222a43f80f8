"""What a request asks of a store: which query, of which partitions, how far along.

Keys in addresses are texts that the store's key serde takes (`pystreams.readable_values`): a text,
a number, JSON; of bytes see `byte_keys`. A parameter that the store does not know is refused, never
passed over.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from starlette.datastructures import QueryParams

from pystreams.config.guarantee import IsolationLevel
from pystreams.http.api_description.parameters import ALWAYS, DEFAULT_LIMIT, MAX_LIMIT, MAX_NUMBER
from pystreams.http.responses import RequestError
from pystreams.http.stores.byte_keys import utf8
from pystreams.ids import TopicPartition
from pystreams.readable_keys import bytes_of_key
from pystreams.readable_values import bytes_of_json
from pystreams.serdes import BYTES, STRING, Serde
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
from pystreams.stores.contracts.spec import StoreKind, StoreSpec

_TIMES = frozenset({"time_from", "time_to"})


@dataclass(frozen=True, slots=True)
class Terms:
    """How a query is to be answered, whatever it asks.

    Attributes:
        partition: The one partition that is asked; None: as the query says.
        isolation_level: What is seen; None: as the configuration says.
        position_bound: How far a partition must have come.
    """

    partition: int | None
    isolation_level: IsolationLevel | None
    position_bound: PositionBound | None


_NO_TERMS = Terms(None, None, None)


def terms_of(given: QueryParams) -> Terms:
    """Return how a request is to be answered.

    Raises:
        RequestError: It can't be read.
    """
    if not given:
        return _NO_TERMS
    return Terms(
        _number(given, "partition", None),
        _isolation(given.get("isolation")),
        _bound(given.get("min_position")),
    )


def query_of_key(spec: StoreSpec, key: Any, given: QueryParams) -> Query[Any]:
    """Return what asks a store for a key.

    Raises:
        RequestError: A parameter is not for such a store, or can't be read.
    """
    answers = spec.kind.answers
    if VersionedKeyQuery in answers:
        _refuse_unknown(spec, given, {"as_of", *_TIMES})
        start, end = (_number(given, name, None) for name in ("time_from", "time_to"))
        if start is None and end is None:
            return VersionedKeyQuery(key, _number(given, "as_of", None))
        if "as_of" in given:
            raise RequestError(400, "as_of asks for one version, time_from and time_to for several")
        return MultiVersionedKeyQuery(key, start, end)
    if WindowKeyQuery in answers:
        _refuse_unknown(spec, given, _TIMES)
        return WindowKeyQuery(key, *_times(given))
    _refuse_unknown(spec, given, ())
    if WindowRangeQuery in answers:
        return WindowRangeQuery(key=key)
    return TimestampedKeyQuery(key) if spec.timestamped else KeyQuery(key)


def plain_query(spec: StoreSpec) -> Callable[[Any], Query[Any]] | None:
    """Return what asks a store for a key without parameters; None where several values answer."""
    answers = spec.kind.answers
    if KeyQuery not in answers or WindowKeyQuery in answers or VersionedKeyQuery in answers:
        return None
    return TimestampedKeyQuery if spec.timestamped else KeyQuery


def key_reading(serde: Serde[Any]) -> Callable[[str], Any]:
    """Return what returns the key that a text stands for, as `key_of` does."""
    return str if serde is STRING else partial(key_of, serde=serde)


def query_of_range(spec: StoreSpec, serde: Serde[Any], given: QueryParams) -> Query[Any]:
    """Return what asks a store for a range.

    Raises:
        RequestError: Such a store has no ranges, or a parameter is not for it or can't be read.
    """
    answers = spec.kind.answers
    if WindowKeyQuery in answers:
        _refuse_unknown(spec, given, {"limit", *_TIMES})
        start, end = _times(given)
        return WindowRangeQuery(time_from=start, time_to=end)
    if answers and RangeQuery not in answers:  # Without any, it says itself what it can be asked.
        raise RequestError(400, f"{spec.kind.name} stores are asked for one key: add /KEY")
    _refuse_unknown(spec, given, {"limit", "from", "to", "order"})
    lower, upper = (key_of(given[end], serde) if end in given else None for end in ("from", "to"))
    order = given.get("order", "ascending")
    if order not in ("ascending", "descending"):
        raise RequestError(400, f"order is ascending or descending, not {order!r}")
    if lower is not None and upper is not None:
        _refuse_inverted(given, serde)
    kind = TimestampedRangeQuery if spec.timestamped else RangeQuery
    return kind(lower, upper, order == "descending")


def key_of(text: str, serde: Serde[Any]) -> Any:
    """Return the key that a text stands for.

    Raises:
        RequestError: The serde can't take it, or it is null.
    """
    key = serde.deserializer("")(_bytes_of_key(text, serde))
    if key is None:
        raise RequestError(400, f"the key {text!r} is null: no store has such a key")
    return key


def key_of_store(text: str, spec: StoreSpec, serde: Serde[Any]) -> Any:
    """Return the key of a store that a text stands for.

    Raises:
        RequestError: The serde can't take it, or the store is for nobody to ask.
    """
    try:
        return key_of(text, serde)
    except RequestError as error:
        if spec.kind.answers or spec.kind.how_to_ask == StoreKind.how_to_ask:
            raise
        # What an operation keeps for itself has keys of a form of its own.
        raise RequestError(400, spec.kind.unknown_query(KeyQuery(text), spec)) from error


def limit_of(given: QueryParams) -> int:
    """Return how many entries of each partition are asked for.

    Raises:
        RequestError: It is no number, or too high.
    """
    limit: int = _number(given, "limit", DEFAULT_LIMIT)
    if not 1 <= limit <= MAX_LIMIT:
        raise RequestError(400, f"limit is 1 to {MAX_LIMIT}, not {limit}")
    return limit


def _refuse_unknown(spec: StoreSpec, given: QueryParams, known: Any) -> None:
    if given and (unknown := sorted(set(given) - set(ALWAYS) - set(known))):
        raise RequestError(
            400,
            f"{', '.join(unknown)}: not asked of {spec.kind.name} stores in this way; what is: "
            f"{', '.join(sorted(set(ALWAYS) | set(known)))}",
        )


def _bytes_of_key(text: str, serde: Serde[Any]) -> bytes:
    try:
        return bytes_of_key(text if serde is BYTES else utf8(text, serde), serde, "")
    except ValueError as error:
        raise RequestError(400, f"the key {error}{_as_json(text, serde)}") from error


def _as_json(text: str, serde: Serde[Any]) -> str:
    """Return how a text is to be written that the serde takes as JSON; "" if it does not."""
    try:
        bytes_of_json(text, serde, "")
    except (ValueError, TypeError):
        return ""
    return f"; a text is written as JSON for it: {json.dumps(text, ensure_ascii=False)}"


def _refuse_inverted(given: QueryParams, serde: Serde[Any]) -> None:
    """Refuse a range of which a store would warn in the log: whoever may ask would fill that."""
    start, end = given["from"], given["to"]
    if _bytes_of_key(start, serde) > _bytes_of_key(end, serde):
        raise RequestError(
            400,
            f"from is above to in order of bytes ({start!r} and {end!r}), so that nothing is "
            "between; negative numbers sort last",
        )


def _times(given: QueryParams) -> tuple[int, int]:
    return _number(given, "time_from", 0), _number(given, "time_to", MAX_NUMBER)


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


def _number(given: QueryParams, name: str, default: Any) -> Any:
    text = given.get(name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError as error:
        raise RequestError(400, f"{name} is a whole number, not {text!r}") from error
    if abs(number) > MAX_NUMBER:
        raise RequestError(400, f"{name} is a whole number of 64 bits, not {text}")
    return number
