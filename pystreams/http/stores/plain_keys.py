"""Keys of stores, asked for without any parameter: what is asked a thousand times a second.

What does not change from one question to the next is found out once. Whatever is out of the
ordinary (no such key, a store that restores) is for `StoreQueries` to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystreams.http.stores.store_answers import answer_of_value, position_of
from pystreams.runtime.application.kafka_streams import KafkaStreams
from pystreams.runtime.queries.key_reader import Unread
from pystreams.stores.contracts.position import Position
from pystreams.stores.contracts.queries import Query
from pystreams.stores.contracts.spec import StoreSpec


class PlainKeys:
    """The keys of one store. Belongs to the thread of the server's event loop.

    Args:
        key_of: Returns the key that a text stands for; may raise.
        query_of: Returns the query for a key.
    """

    def __init__(
        self,
        streams: KafkaStreams,
        spec: StoreSpec,
        key_of: Callable[[str], Any],
        query_of: Callable[[Any], Query[Any]],
    ) -> None:
        self._name = spec.name
        self._partition_of = streams.partition_of_key
        self._reader = streams.key_reader(spec.name, query_of)
        self._key_of = key_of
        # Of each partition, the position that was told last, and as it was written.
        self._told: dict[int, tuple[Position, dict[str, dict[str, int]]]] = {}

    def ask(self, text: str) -> dict[str, Any] | int | None:
        """Return what the store has of the key that a text stands for.

        Returns:
            The answer; or the partition, which another process has; None: ask as ever.

        Raises:
            Exception: Whatever asking as ever meets again.
        """
        if self._reader is None:
            return None
        key = self._key_of(text)
        number = self._partition_of(self._name, key)
        if number is None:
            return None
        read = self._reader.read(number, key)
        if isinstance(read, Unread):
            return number if read is Unread.ELSEWHERE else None
        if read.value is None:
            return None
        told = self._told.get(number)
        if told is None or told[0] is not read.position:
            told = self._told[number] = read.position, position_of(read.position)
        return answer_of_value(key, read.value, number, told[1])
