"""What can go wrong with the development broker."""

from __future__ import annotations

from pystreams.errors import StreamsError


class BrokerError(StreamsError):
    """The development broker can't be started, found or stopped. The message names the cure."""


class PortTakenError(BrokerError):
    """The port that was asked for has another owner."""

    def __init__(self, port: int) -> None:
        self.port = port
        super().__init__(
            f"port {port} is in use by another process: choose another one with --port, "
            "leave the option out to get a free one, or stop that process"
        )


class BrokerStartError(BrokerError):
    """Kafka ended, or did not answer in time, while it was starting.

    Attributes:
        log_tail: The last lines of its log, oldest first.
    """

    def __init__(self, message: str, log_tail: list[str]) -> None:
        self.log_tail = log_tail
        shown = "".join(f"\n  {line}" for line in log_tail) or "\n  (the log is empty)"
        super().__init__(f"{message}; the last lines of its log:{shown}")
