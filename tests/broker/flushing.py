"""Flushing a producer as the runtime does: again and again while a broker is slow."""

from __future__ import annotations

import time

from pystreams.errors import RetriableClientError
from pystreams.runtime.ports import ProducerPort
from tests.broker.waiting import DEADLINE_S


def flush(producer: ProducerPort) -> None:
    """Return when everything sent is acknowledged; fail after the deadline."""
    end_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            return producer.flush()
        except RetriableClientError:
            if time.monotonic() > end_s:
                raise
