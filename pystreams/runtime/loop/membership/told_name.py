"""Whether the group tells of a member what the member tells now.

A client id says in which state directory a process is, where it answers, and which topology it runs
(`streams_metadata`). A broker keeps that of a static member for as long as it is one: who takes its
place, as a process that is started again does, is told of under the client id of the one before. At
a new address, or as another one of several processes, which has another port, it would be asked
where nobody, or somebody else, answers; with an edited topology it would pass for one that runs the
former; in another directory, nobody would keep its tasks warm where it was before. So it leaves the
group, and joins it again. Where no address is told, another directory is what counts.
"""

from __future__ import annotations

from collections.abc import Callable

from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.group_description import GroupDescription
from pystreams.runtime.cluster.streams_metadata import directory_of, host_of
from pystreams.runtime.ports import ConsumerPort

_log = get_logger("pystreams.thread")


class ToldName:
    """Has one thread told of under its own client id; owned by it.

    Args:
        client_id: What its consumer is called.
        join: Has it join the group again.
    """

    def __init__(
        self, client_id: str, consumer: Callable[[], ConsumerPort], join: Callable[[], None]
    ) -> None:
        self._client_id = client_id
        self._consumer = consumer
        self._join = join
        self._joined_again = False

    def is_told_anew(self, group: GroupDescription) -> bool:
        """Join again, once, where the group has another client id; return whether that was done."""
        if self._joined_again:
            return False
        member_id = self._consumer().member_id()
        told = [member.client_id for member in group.members if member.member_id == member_id]
        if not any(map(self._differs, told)):
            return False
        self._joined_again = True
        _log.info(
            "the group has the client id of the process before: leaving it and joining it again",
            client_id=self._client_id,
            former=told[0],
        )
        self._consumer().leave()
        self._join()
        return True

    def _differs(self, told: str) -> bool:
        """Return whether others are misled by what the group tells."""
        if host_of(self._client_id) is None:
            return directory_of(told) not in {"", directory_of(self._client_id)}
        return told != self._client_id
