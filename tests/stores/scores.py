"""A kind of store that is not in the package: of each player the best score of each day.

    logged and stored key    player | int64 day (ms)
    value                    int64 score

All that others know of it is `SCORES`, the object that builders carry.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from pystreams import (
    IsolationLevel,
    Processor,
    ProcessorContext,
    Query,
    Record,
    StoreEngine,
    StoreKind,
    Stores,
    StreamsBuilder,
    Topology,
    serdes,
)
from pystreams.stores.contracts.key_layout import KeyLayout, KeyTime
from pystreams.stores.contracts.key_value import KeyValueEngine
from pystreams.stores.contracts.local_store import LocalStore
from pystreams.stores.contracts.spec import Retention, StoreSpec
from pystreams.stores.dirty_map.of_spec import dirty_map
from pystreams.stores.spec_builder import StoreSpecBuilder
from pystreams.stores.typed_stores.typed_state_store import TypedParts, TypedStateStore, TypedView
from pystreams.stores.typed_stores.views import BytesReader, view_of

DAY_MS = 86_400_000
_DAY = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class BestOf(Query[int]):
    """The best score that a player ever had."""

    player: str


class ScoreReads(TypedParts[str, int]):
    """Reads of the owner and of other threads."""

    __slots__ = ()
    _reader: BytesReader

    def of(self, player: str) -> Iterator[tuple[int, int]]:
        """Iterate over (day, score) of a player."""
        return ((day, score) for of, day, score in self._between(player) if of == player)

    def all(self) -> Iterator[tuple[str, int, int]]:
        return self._between(None)

    def _between(self, player: str | None) -> Generator[tuple[str, int, int], None, None]:
        low = None if player is None else self._key_bytes(player)
        high = None if low is None else low + b"\xff" * (_DAY.size + 1)
        for key, score in self._reader.range(low, high):
            found = self._deserialize_key(key[: -_DAY.size])
            yield found, _DAY.unpack_from(key, len(key) - _DAY.size)[0], self._decode(score)


class ScoresView(ScoreReads, TypedView[str, int]):
    __slots__ = ()


class Scores(ScoreReads, TypedStateStore[str, int]):
    """The store as processors and the runtime see it."""

    __slots__ = ("_reader",)
    metered_methods: ClassVar[Mapping[str, str]] = {"of": "range", "put": "put"}

    def put(self, player: str, time: int, score: int | None) -> None:
        """Note a score, unless there is a better one of the day; None forgets the day's."""
        key = self._key_bytes(player) + _DAY.pack(time // DAY_MS * DAY_MS)
        best = self._reader.get(key)
        if score is not None and best is not None and self._decode(best) >= score:
            return
        raw = None if score is None else self._serialize_value(score)
        self._write(key, raw, raw, self._record.timestamp, self._record)

    def read_only(self, isolation_level: IsolationLevel) -> ScoresView:
        parts = self._view_parts()
        return ScoresView(view_of(self._buffer, isolation_level), **parts)

    def _bind_buffer(self) -> None:
        super()._bind_buffer()
        self._reader: BytesReader = self._buffer


class LocalScores(LocalStore):
    """What `KafkaStreams.store` returns."""

    def of(self, player: str) -> Iterator[tuple[int, int]]:
        return self._chain(lambda view: view.of(player))


def best_of(view: ScoresView, query: BestOf) -> int | None:
    return max((score for _, score in view.of(query.player)), default=None)


class ScoresKind(StoreKind):
    """The best score of each player and day."""

    name = "scores"
    caches = False
    key_layout = KeyLayout(tail_bytes=_DAY.size)
    answers: ClassVar = {BestOf: best_of}
    how_to_ask = "ask it with BestOf"
    local_store = LocalScores

    def build(self, spec: StoreSpec, engine: KeyValueEngine) -> Scores:
        return Scores(dirty_map(spec, engine), spec.key_serde, spec.value_serde)

    def key_times(self, retention: Retention | None) -> Mapping[str, KeyTime]:
        return {"day": KeyTime(-_DAY.size)}


SCORES = ScoresKind()


def scores_builder(engine: StoreEngine = StoreEngine.ROCKSDB) -> StoreSpecBuilder:
    return Stores.store_builder(SCORES, "scores", serdes.STRING, serdes.LONG, engine=engine)


class NotingScores(Processor[str, int, str, int]):
    def init(self, context: ProcessorContext[str, int]) -> None:
        self._context = context
        self._store: Scores = context.get_state_store("scores")

    def process(self, record: Record[str, int]) -> None:
        self._store.put(record.key, record.timestamp, record.value)
        best = max((score for _, score in self._store.of(record.key)), default=0)
        self._context.forward(Record(record.key, best, record.timestamp))


def noting_scores(engine: StoreEngine = StoreEngine.ROCKSDB) -> Topology:
    """Note the scores of the topic `in`, and say each player's best so far."""
    builder = StreamsBuilder()
    builder.add_state_store(scores_builder(engine))
    played = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.LONG)
    noted = played.process(NotingScores, stores=["scores"])
    noted.to("best", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()
