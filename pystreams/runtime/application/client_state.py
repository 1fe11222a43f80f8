"""Where an application instance is in its life.

CREATED -> REBALANCING <-> RUNNING -> PENDING_SHUTDOWN -> NOT_RUNNING
|             |
+-------------+----> PENDING_ERROR -> ERROR
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """State of an application instance; the names are Kafka Streams'."""

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"
