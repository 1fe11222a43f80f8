"""Which rows of an inner join by a foreign key wait for an answer that may delete their result.

A row whose foreign key stays asks only to be told of a foreign row that is there. If the change
before it has moved the row to that key, or away from any, its answer is what would delete the
result; but that is of the value before, and is not heard any more. So such a row asks to be told in
any case, until the answer to its present value has come.

Differs from Kafka, where the result then stays for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystreams.topology.contracts.operator import NodeContext

Digest = bytes | None
"""The hash of a value; None of a deleted row's."""


class Unanswered:
    """The values that wait for an answer, in one task, by their hashes: equal ones are counted.

    What another life of the task has left unanswered is not known by value: from then on all rows
    ask in any case.
    """

    __slots__ = ("_all", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[Digest, int] = {}
        self._all = False

    def commit_with(self, node: NodeContext) -> None:
        """Commit with the offsets whether there are any, and take over what was committed."""
        name = f"unanswered {node.name}"
        self._all = node.task.committed_number(name, 0) > 0
        node.task.commit_number(name, lambda: 1 if self._waiting or self._all else -1)

    def asks(self, digest: Digest) -> None:
        """Take note that a value waits."""
        self._waiting[digest] = self._waiting.get(digest, 0) + 1

    def was_waiting(self, value: Any, digest_of: Callable[[Any], Digest]) -> bool:
        """Return whether a value that is no more has waited, or may have; it no longer does."""
        waited = bool(self._waiting) and self.answered(digest_of(value))
        return waited or self._all

    def answered(self, digest: Digest) -> bool:
        """Take note that a value was answered; return whether it waited."""
        count = self._waiting.pop(digest, 0)
        if count > 1:
            self._waiting[digest] = count - 1
        return count > 0
