"""What a client raises."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from pystreams.errors import StreamsError

NOT_TAKEN = (400, 414)
"""What a store answers that knows no such parameter, or no such key, or has none that long."""


class HttpQueryError(StreamsError):
    """An application did not answer, or refused to.

    Attributes:
        status: The HTTP status, 0 where there was no answer: 503 may be asked again.
        answer: What it said beside the message: the owner, the position.
    """

    def __init__(self, message: str, *, status: int = 0, answer: dict[str, Any]) -> None:
        super().__init__(message)
        self.status = status
        self.answer = answer

    @property
    def tells_of_no_key(self) -> bool:
        """Whether it is an answer: there is no such key, in any process."""
        # With a reason it is the partition that is not there.
        told = self.answer
        return self.status == HTTPStatus.NOT_FOUND and "partition" in told and "reason" not in told

    @property
    def is_of_a_partition(self) -> bool:
        """Whether a partition has no answer, as it has moved or is behind, and the process has."""
        return self.is_an_applications and {"partition", "reason"} <= self.answer.keys()

    @property
    def is_an_applications(self) -> bool:
        """Whether a process of some application has refused, as it does, and no one else."""
        return "status" in self.answer
