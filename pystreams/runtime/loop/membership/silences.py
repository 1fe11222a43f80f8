"""Which members of a group may have died, by how long each has been silent."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from pystreams.runtime.cluster.group_description import GroupMember

_UNSEEN_MS = 3000
"""For how long before it was seen a member counts as silent, at most."""


class _Silence(NamedTuple):
    """That a member was seen to be silent, with breaks shorter than a session.

    Attributes:
        total_ms: For how long, without the breaks.
        last_ms: When most lately.
    """

    total_ms: float
    last_ms: float


_NEVER = _Silence(0.0, -math.inf)


class Silences:
    """Who may have died: one that is silent for longer than its session, and a member, lives.

    What counts is for how long it was silent in all: one that works for long at each record is so
    now and then. Where that is another one each time, they live after two sessions.

    Args:
        session_ms: After how long a group puts out who has died (ms).
    """

    def __init__(self, session_ms: float) -> None:
        self._session_ms = session_ms
        self._known: dict[str, _Silence] = {}
        self._noted_ms: float | None = None
        self._since_ms: float | None = None

    def note(self, now_ms: float, silent: Iterable[GroupMember]) -> None:
        """Note which members are silent; the others are not.

        Args:
            now_ms: The monotonic clock's time (ms).
        """
        before_ms = now_ms if self._noted_ms is None else self._noted_ms
        passed_ms = now_ms - before_ms
        lately_ms = before_ms - self._session_ms
        known = {name: each for name, each in self._known.items() if each.last_ms >= lately_ms}
        for name in map(_name_of, silent):
            total_ms, last_ms = known.get(name, _NEVER)
            is_still = last_ms == before_ms
            total_ms += passed_ms if is_still else min(passed_ms, _UNSEEN_MS)
            known[name] = _Silence(total_ms, now_ms)
        self._known, self._noted_ms = known, now_ms
        if not self._silent(now_ms):
            self._since_ms = None
        elif self._since_ms is None:
            self._since_ms = now_ms

    def dead(self, now_ms: float, members: Iterable[GroupMember]) -> set[str]:
        """Return the ids of those that may have died.

        Time without an answer of the brokers counts, or the wait would last as long as that.

        Args:
            now_ms: The monotonic clock's time (ms).
        """
        if self._since_ms is None or now_ms - self._since_ms >= 2 * self._session_ms:
            return set()
        silent = self._silent(now_ms)
        return {member.member_id for member in members if _name_of(member) in silent}

    def _silent(self, now_ms: float) -> set[str]:
        noted_ms = now_ms if self._noted_ms is None else self._noted_ms
        limit_ms = self._session_ms - (now_ms - noted_ms)
        return {
            name
            for name, silence in self._known.items()
            if silence.last_ms == noted_ms and silence.total_ms < limit_ms
        }


def _name_of(member: GroupMember) -> str:
    """Return what stays the same where its process or thread is started again."""
    return member.group_instance_id or member.member_id
