"""The one module that imports confluent-kafka's consumer and producer; the adapters get them here.

`consume(n, timeout)` of confluent-kafka waits for n messages until the timeout, however many there
are already: so `consume_available` takes what is there, and waits for one message only when there
is none.
"""

from __future__ import annotations

import contextlib

from confluent_kafka import Consumer, Message, Producer

from pystreams.runtime.adapters.connection.confluent_errors import (
    CLIENT_EXCEPTIONS,
    error_of,
    translate,
)

_CLOSE_TIMEOUT_S = 3.0

__all__ = ["Consumer", "Message", "Producer", "consume_available", "release"]


def consume_available(
    client: Consumer, max_records: int, timeout_s: float, doing: str
) -> list[Message]:
    """Return messages, and errors in the form of messages, that have arrived.

    Args:
        max_records: The most to return.
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


def release(client: Producer, *, in_transaction: bool) -> None:
    """Let go of a producer at once; an open transaction is aborted.

    The client's own `close` would wait for the broker for ever. Dropping the last reference frees
    it; what was not sent is thrown away here.
    """
    with contextlib.suppress(*CLIENT_EXCEPTIONS):
        if in_transaction:
            client.abort_transaction(_CLOSE_TIMEOUT_S)
    with contextlib.suppress(*CLIENT_EXCEPTIONS):
        client.purge()
        client.flush(0)
