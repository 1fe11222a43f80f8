"""Notices records that librdkafka takes for written though no broker has said so.

An idempotent producer has up to five batches of a partition on their way. If the first is refused
and the second one taken, librdkafka (up to 2.16) concludes that the first must be there, too, since
brokers take batches in order: it reports success, and commits the transaction. But of a producer
that a broker knows nothing of on that partition, it takes any batch as the first. So what the first
ones hold is lost, in silence, where they come before the broker knows that it leads the partition:
just after the topic was made, or its leader has moved.

With `debug=eos` it says so in its log, as `IMPLICITACK`, before the flush returns. What was sent
since the last commit is then processed again: it can't be sent again behind what was taken.

Rejected: one batch at a time (`max.in.flight.requests.per.connection`), as that is one for all
partitions of a broker; a callback for each record in transactions, where there is none now.

Source: confluent-kafka-go's issue 921; librdkafka's pull request 2081 "Support implicit acks".
"""

from __future__ import annotations

import re

from pystreams.errors import TransactionAbortableError
from pystreams.runtime.adapters.connection.connections import ClientLog

_FACILITY = "IMPLICITACK"
_WHERE = re.compile(r"(?P<topic>[\w.-]+) \[(?P<partition>\d+)\] (?P<count>\d+) message")


class ImplicitAcknowledgements:
    """Takes the log lines of one client and passes them on.

    Args:
        log: Takes them next.
    """

    def __init__(self, log: ClientLog) -> None:
        self._log = log
        self._told: list[str] = []

    def log(self, level: int, template: str, facility: str, client: str, line: str) -> None:
        """Take one line."""
        if facility == _FACILITY:
            self._told.append(line)
        self._log.log(level, template, facility, client, line)

    def refuse(self, name: str) -> None:
        """Return if there were none; they are forgotten.

        Args:
            name: The producer's.

        Raises:
            TransactionAbortableError: Records may be lost.
        """
        if self._told:
            lines = " and ".join(map(_in_words, self._told))
            self.forget()
            raise TransactionAbortableError(
                f"{name}: {lines} may be lost: their batch was refused, and one that the client "
                "had sent behind it was taken"
            )

    def forget(self) -> None:
        """Forget what was told: nothing of it is to be committed."""
        self._told.clear()


def _in_words(line: str) -> str:
    found = _WHERE.search(line)
    if found is None:
        return line
    return f"{found['count']} records for {found['topic']}-{found['partition']}"
