"""What a task has counted in the lives that ended with a rollback."""

from __future__ import annotations

from collections.abc import Iterable

from pystreams.record import OutputBuffer


class EarlierLives:
    """Counts of a task up to its last rollback.

    Attributes:
        dropped: Records dropped.
    """

    __slots__ = ("_sent", "dropped")

    def __init__(self) -> None:
        self.dropped = 0
        self._sent: dict[str, int] = {}

    def end_with(self, dropped: int, outputs: Iterable[OutputBuffer]) -> None:
        """Take note that a life ends.

        Args:
            dropped: Records dropped in all lives.
            outputs: The buffers that end with it.
        """
        self.dropped = dropped
        self._sent = self.sent_with(outputs)

    def sent_with(self, outputs: Iterable[OutputBuffer]) -> dict[str, int]:
        """Return what was sent, by topic, in lives that ended and out of some buffers."""
        sent = dict(self._sent)
        for output in outputs:
            sent[output.topic] = sent.get(output.topic, 0) + output.sent_records
        return sent
