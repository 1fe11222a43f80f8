"""A proxy that refuses batches of records, as a broker does that does not lead a partition yet."""

from __future__ import annotations

import struct
from random import Random

from tests.broker.troubles.request_proxy import PRODUCE, RequestProxy, api_of, not_leader

_HEADER_BYTES = 12
"""The request's size, its kind and version, and its number."""
_ACKS_AND_TIMEOUT_BYTES = 6


class RefusingProxy(RequestProxy):
    """Refuses batches as long as it is told to.

    Args:
        bootstrap_servers: The broker.
        seed: Decides which batches.
        rate: How many of them (0 to 1).

    Attributes:
        troubles: How many were refused.
    """

    def __init__(self, bootstrap_servers: str, seed: int, rate: float) -> None:
        self.troubles = 0
        self._random = Random(seed)
        self._rate = rate
        super().__init__(bootstrap_servers)

    def behave(self) -> None:
        """Refuse nothing any more."""
        self._rate = 0

    def _given_for(self, request: bytes) -> bytes | None:
        if api_of(request) != PRODUCE or self._random.random() >= self._rate:
            return None
        self.troubles += 1
        return not_leader(*_place_of(request))


def _place_of(request: bytes) -> tuple[str, int]:
    """Return topic and partition of a Produce request, version 9 or 10, as librdkafka makes it.

    It has one partition, and names of less than 127 bytes, each behind its length plus one.
    """
    (client_bytes,) = struct.unpack_from(">h", request, _HEADER_BYTES)
    at = _HEADER_BYTES + 2 + client_bytes + 1  # No tags.
    at += max(request[at], 1)  # The transactional id; 0 stands for none.
    at += _ACKS_AND_TIMEOUT_BYTES + 1  # One topic.
    name = request[at + 1 : at + request[at]]
    at += request[at] + 1  # One partition.
    (partition,) = struct.unpack_from(">i", request, at)
    return name.decode(), partition
