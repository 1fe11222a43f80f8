"""The one module that imports confluent-kafka's consumer and producer; the adapters get them here.

`consume(n, timeout)` of confluent-kafka waits for n messages until the timeout, however many there
are already: so `consume_available` takes what is there, and waits for one message only when there
is none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from confluent_kafka import Consumer, Message, Producer

from pystreams.errors import RetriableClientError
from pystreams.runtime.adapters.connection.confluent_errors import (
    CLIENT_EXCEPTIONS,
    error_of,
    translate,
)

_CONNECT_TIMEOUT_S = 0.5

__all__ = ["Consumer", "Message", "Producer", "consume_available", "init_transactions", "release"]


def consume_available(
    client: Consumer, max_records: int, timeout_s: float, doing: str
) -> list[Message]:
    """Return messages, and errors in the form of messages, that have arrived.

    Args:
        timeout_s: How long to wait for the first one (s).
        doing: The start of an error's message.

    Raises:
        StreamsError: What the client's own error means; see `confluent_errors.translate`.
    """
    try:
        messages = client.consume(max_records, 0.0)
        if not messages and timeout_s > 0:
            messages = client.consume(1, timeout_s)
            if messages and max_records > 1:
                messages += client.consume(max_records - 1, 0.0)
        return messages
    except CLIENT_EXCEPTIONS as error:
        raise translate(error_of(error), doing) from error


def init_transactions(client: Producer, topics: Collection[str], timeout_s: float) -> None:
    """Fence older producers of the same transactional id, as soon as there is a connection.

    librdkafka asks for the coordinator at once, and where it is not connected yet, as a new client
    never is, half a second later. So a question comes first that waits for no more than that; and
    once more: the first answer may put an end to the connection it came over, which was to one of
    `bootstrap.servers` whose place in the cluster was not known.

    Args:
        topics: Some that exist, to ask about; none where none is known.
        timeout_s: How long fencing may take (s).

    Raises:
        KafkaException: They are not fenced, or it is not known.
    """
    if topics:
        with contextlib.suppress(*CLIENT_EXCEPTIONS):
            for _ in range(2):
                client.list_topics(next(iter(topics)), _CONNECT_TIMEOUT_S)
    try:
        client.init_transactions(timeout_s)
    finally:
        del client  # Else an error that is kept, with its frames, keeps the client and its threads.


def release(client: Producer, *, abort_timeout_s: float | None) -> bool:
    """Let go of a producer; an open transaction is aborted.

    The client's own `close` would wait for the broker for ever. Dropping the last reference frees
    it; what was not sent is thrown away here.

    Args:
        abort_timeout_s: How long the abort may take (s); 0: it is not tried. None where no
            transaction is open.

    Returns:
        Whether none is left open.
    """
    ended = abort_timeout_s is None or abort_timeout_s > 0
    try:
        if abort_timeout_s:
            client.abort_transaction(abort_timeout_s)
    except CLIENT_EXCEPTIONS as error:
        # What another producer has fenced, or the broker's time limit has ended, is not open.
        ended = not isinstance(translate(error_of(error), "aborting"), RetriableClientError)
    with contextlib.suppress(*CLIENT_EXCEPTIONS):
        client.purge()
        client.flush(0)
    return ended
