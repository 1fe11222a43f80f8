"""Whether the group tells of a member what the member tells now.

A client id says where a process answers, and which topology it runs (`streams_metadata`). A broker
keeps that of a static member for as long as it is one: who takes its place, as a process that is
started again does, is told of under the client id of the one before. At a new address, or as
another one of several processes, which has another port, it would be asked where nobody, or
somebody else, answers; with an edited topology it would pass for one that runs the former. So it
leaves the group, and joins it again. Where no address is told, nothing is.
"""

from __future__ import annotations

from collections.abc import Callable

from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.group_description import GroupDescription
from pystreams.runtime.cluster.streams_metadata import host_of
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
        if host_of(self._client_id) is None or self._joined_again:
            return False
        member_id = self._consumer().member_id()
        told = [member.client_id for member in group.members if member.member_id == member_id]
        if told in ([], [self._client_id]):
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
