"""Buffers of suppressions, opened, filled and emptied as an operator does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pystreams import StoreEngine, serdes
from pystreams.record import Headers, PresentRecord, StaticMessage
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.stores.kinds.suppress.kind import SUPPRESS
from pystreams.stores.kinds.suppress.store import SuppressionBuffer
from pystreams.stores.spec_builder import StoreSpecBuilder
from tests.stores.support import CHANGELOG, Home

Buffer = SuppressionBuffer[str, str]
Change = tuple[str | None, str | None]


class Left(NamedTuple):
    """What has left a buffer."""

    key: str
    change: Change
    timestamp: int = 0


def opened(home: Home, engine: StoreEngine = StoreEngine.ROCKSDB) -> Buffer:
    types: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
    spec = StoreSpec("s", SUPPRESS, engine=engine, **types)
    buffer: Any = StoreSpecBuilder(spec).build()
    buffer.init(home.context())
    return buffer  # type: ignore[no-any-return]


def record_at(timestamp: int, headers: Headers = (), offset: int = 0) -> PresentRecord:
    """The record that a change comes of."""
    record = PresentRecord()
    record.message = StaticMessage("topic", 0, offset, None, None, timestamp)
    record.timestamp, record.headers = timestamp, headers
    return record


def put(
    buffer: Buffer, time: int, key: str, value: str | None, timestamp: int = 0, **of: Any
) -> None:
    """Put a change; `old` is its old value."""
    buffer.put(time, key, (value, of.pop("old", None)), record_at(timestamp, **of))


def let_leave(buffer: Buffer, is_due: Callable[[int], bool] = lambda _: True) -> list[Left]:
    """Let changes go, all of them without a condition."""
    return [
        Left(*buffer.typed(key, change), change.timestamp)
        for key, change in buffer.leave_while(is_due)
    ]


def until(time: int) -> Callable[[int], bool]:
    return lambda due: due <= time


def the_first() -> Callable[[int], bool]:
    asked = iter([True])
    return lambda _: next(asked, False)


def commit(buffer: Buffer, offset: int = 0) -> None:
    buffer.flush_cache()
    buffer.commit({CHANGELOG: offset})


def logged(home: Home) -> list[StaticMessage]:
    """What a buffer has logged, as its changelog gives it back."""
    topic, partition = CHANGELOG
    return [
        StaticMessage(topic, partition, offset, *record)
        for offset, record in enumerate(home.changelog.records)
    ]
