"""An admin client that is replaced when it has lost all its brokers.

When an answer names no broker, as that of a single one which its controller has put out, librdkafka
2.16 drops all it knows. It then begins anew from bootstrap.servers, unless an answer that comes at
the same moment stops the timer for that: so it stays, for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from pystreams.runtime.adapters.connection.confluent_errors import error_of

_PATIENCE_S = 2.0
_PAUSE_S = 10.0


class LastingClient:
    """Holds the client. May be used from any thread.

    Attributes:
        client: The one to ask.
    """

    def __init__(self, make: Callable[[], AdminClient]) -> None:
        self.client = make()
        self._make = make
        self._has_answered = False
        self._looked_s = -_PAUSE_S
        # Kept, as requests may still be on their way: librdkafka may abort the process if a client
        # goes away under them.
        self._lost: list[AdminClient] = []

    def knowing_leaders(self) -> AdminClient:
        """Return the client to ask for offsets: it has heard who leads all partitions, if it can.

        librdkafka 2.16 waits for that within the call otherwise. If the answer comes before it has
        begun to wait, it reads what another thread of its own has freed by then, which may end the
        process (`rd_kafka_topic_partition_list_query_leaders_async_worker`).
        """
        if not self._has_answered:
            with suppress(KafkaException):  # Those who wait for the offsets are told.
                self.list_topics(_PATIENCE_S)
        return self.client

    def list_topics(self, timeout_s: float) -> ClusterMetadata:
        """Return all topics, or raise what the client says.

        Where it says for seconds that no broker is there, another client is asked; if that one gets
        an answer, it is the client from now on.
        """
        try:
            topics = self.client.list_topics(timeout=timeout_s)
        except KafkaException as raised:
            knows_none = error_of(raised).code() == KafkaError._TRANSPORT  # noqa: SLF001
            if not (knows_none and self._has_answered and timeout_s >= _PATIENCE_S):
                raise
            return self._ask_another(raised)
        self._has_answered = True
        return topics

    def _ask_another(self, raised: KafkaException) -> ClusterMetadata:
        now_s = time.monotonic()
        if now_s - self._looked_s < _PAUSE_S:
            raise raised
        self._looked_s = now_s
        another = self._make()
        try:
            topics = another.list_topics(timeout=_PATIENCE_S)
        except KafkaException:
            raise raised from None
        self._lost.append(self.client)
        self.client = another
        return topics
