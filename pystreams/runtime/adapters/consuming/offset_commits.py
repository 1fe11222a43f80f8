"""Offset commits that can be waited for in pieces.

librdkafka's synchronous commit has no timeout: without a broker it blocks for the session timeout
(42.5 s), and the thread that waits is deaf to a stop. So each is made on a thread of its own, and
whoever wants it waits as long as it likes.

At most one commit is under way: a later one must not be overtaken by an earlier one, which would
set the group back. Meanwhile the client's other calls block as well: the consumer does without.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any

from confluent_kafka import TopicPartition as KafkaPartition

from pystreams.errors import RetriableClientError

_Answer = Sequence[KafkaPartition] | None


class OffsetCommits:
    """The offset commits of one consumer; owned by the consumer's thread.

    Args:
        doing: The start of an error's message.
    """

    def __init__(self, commit: Callable[[list[KafkaPartition]], _Answer], doing: str) -> None:
        self._commit = commit
        self._doing = doing
        self._under_way: Future[_Answer] | None = None

    def commit(
        self, offsets: list[KafkaPartition], timeout_s: float, *, here: bool = False
    ) -> _Answer:
        """Commit offsets, once the commit before has an answer; what that was is of no interest.

        Args:
            timeout_s: How long to wait for an answer (s).
            here: Commit on the calling thread, without the timeout. Within a rebalance callback
                the client serves no other thread.

        Raises:
            RetriableClientError: No answer in time. The commit may still happen.
            KafkaException: The client's own error.
        """
        if not self.settled(timeout_s):
            raise RetriableClientError(f"{self._doing}: no answer to the commit before")
        if here:
            return self._commit(offsets)
        future: Future[_Answer] = Future()
        self._under_way = future
        # A daemon: the end of the process does not wait for an answer that may never come.
        threading.Thread(
            target=self._run, args=(future, offsets), name="offset-commit", daemon=True
        ).start()
        if not self.settled(timeout_s):
            raise RetriableClientError(f"{self._doing}: no answer within {timeout_s:.0f} s")
        return future.result()

    def settled(self, timeout_s: float) -> bool:
        """Return whether no commit is under way, waiting for that up to the timeout (s)."""
        if self._under_way is not None:
            if not wait_for([self._under_way], timeout_s).done:
                return False
            self._under_way = None
        return True

    def _run(self, future: Future[Any], offsets: list[KafkaPartition]) -> None:
        try:
            future.set_result(self._commit(offsets))
        except BaseException as error:  # noqa: BLE001 - whoever waits for it raises it
            future.set_exception(error)
