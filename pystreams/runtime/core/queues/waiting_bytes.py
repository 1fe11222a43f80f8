"""What records take that are read and wait: those a client holds back, those that wait in a task.

The bytes that the broker has of them count, and what Python keeps of each at the least. What a
serde makes of them, if that is more, does not: it is not known.
"""

from __future__ import annotations

from collections.abc import Iterable

from pystreams.record import ConsumedMessage

OVERHEAD_BYTES = 400
"""The client's message, a tuple, a timestamp, and the smallest key and value that a serde makes."""


def bytes_of(messages: Iterable[ConsumedMessage]) -> int:
    """Return what messages take."""
    return sum(
        OVERHEAD_BYTES
        + len(message.key() or b"")
        + len(message.value() or b"")
        + bytes_of_headers(message)
        for message in messages
    )


def bytes_of_headers(message: ConsumedMessage) -> int:
    """Return what the headers of a message take."""
    return sum(len(name) + len(value or b"") for name, value in message.headers() or ())
