"""Keys of stores, asked for without any parameter: what is asked a thousand times a second.

What does not change from one question to the next is found out once. Whatever is out of the
ordinary (no such key, a store that restores) is for `StoreQueries` to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pystreams.http.stores.store_answers import answer_of_value, position_of
from pystreams.runtime.application.kafka_streams import KafkaStreams
from pystreams.runtime.queries.key_reader import Read, Unread
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
        self._partitioner = partial(streams.key_partitioner, spec.name)
        self._partition_of: Callable[[Any], int] | None = None
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
        partition_of = self._partition_of
        if self._reader is None:
            return None
        if partition_of is None:
            partition_of = self._partition_of = self._partitioner()
        key = self._key_of(text)
        number = partition_of(key)
        read = self._reader.read(number, key)
        if type(read) is not Read:
            return number if read is Unread.ELSEWHERE else None
        value, position = read
        if value is None:
            return None
        told = self._told.get(number)
        if told is None or told[0] is not position:
            told = self._told[number] = position, position_of(position)
        return answer_of_value(key, value, number, told[1])
