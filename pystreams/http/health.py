"""`/livez` and `/readyz`: whether to restart a process, and whether it does its work.

| | alive | ready |
|---|---|---|
| it starts, warms up, or joins the group | yes | no |
| its stores are restored | yes | no |
| all its tasks process | yes | yes |
| a thread has not gone round its loop for `max.poll.interval.ms` | no | no |
| a thread has not gone round its loop for 10 s | yes | no |
| it stops | yes | no |
| an error has ended it | no | no |
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pystreams.http.responses import as_json
from pystreams.runtime.application.client_state import State
from pystreams.runtime.application.kafka_streams import KafkaStreams
from pystreams.runtime.application.troubles import TroubleKind

_DEAD = (State.ERROR, State.PENDING_ERROR, State.NOT_RUNNING)


class Health:
    """The health of one application."""

    def __init__(self, streams: KafkaStreams) -> None:
        self._streams = streams

    async def livez(self, _: Request) -> Response:
        """Answer whether the process should go on: 200, or 503 with the reason."""
        trouble = self.not_alive()
        return as_json({"alive": not trouble, "why": trouble}, 503 if trouble else 200)

    async def readyz(self, _: Request) -> Response:
        """Answer whether all tasks of the process do their work: 200, or 503 with the reason.

        What stands still is told either way: no restart helps a task that waits for something.
        """
        trouble = self.not_ready()
        answer = {"ready": not trouble, "why": trouble, "troubles": self.troubles()}
        return as_json(answer, 503 if trouble else 200)

    def not_alive(self) -> str:
        """Return why the process is not alive, nothing if it is."""
        streams = self._streams
        if streams.state in _DEAD:
            error = streams.error
            return f"{streams.state.value}: {error}" if error else streams.state.value
        for thread in streams.metadata_for_local_threads():
            if thread.silent_ms > thread.max_poll_interval_ms:
                return (
                    f"{thread.thread_name} has not gone round its loop for {thread.silent_ms:.0f} "
                    "ms: the group gives its partitions to others (max.poll.interval.ms)"
                )
        return ""

    def troubles(self) -> list[str]:
        """Return what stands still, and what nobody reads: what, and which."""
        streams = self._streams
        told = [f"{seen.kind.value}: {seen.of}" for seen in streams.troubles]
        if unread := streams.statistics().unread_partitions:
            told.append(f"partitions are read by nobody: {unread}")
        return told

    def not_ready(self) -> str:
        """Return why the process is not ready, nothing if it is."""
        if trouble := self.not_alive():
            return trouble
        streams = self._streams
        numbers = streams.statistics()
        if numbers.tasks_restoring:
            return (
                f"{numbers.tasks_restoring} tasks restore their stores: "
                f"{numbers.restore_remaining_records} changelog records left at most"
            )
        if (state := streams.state) is not State.RUNNING:
            return self._waits_for() or self._warming_up() or str(state.value)
        if warming := self._warming_up():
            return warming
        for seen in streams.troubles:
            if seen.kind is TroubleKind.BLOCKED_THREAD:
                return f"{seen.of} stands still: {seen.text}"
        return ""

    def _waits_for(self) -> str:
        """Return for which members of the group it waits; nothing if for nobody."""
        threads = self._streams.metadata_for_local_threads()
        return next((thread.waits_for for thread in threads if thread.waits_for), "")

    def _warming_up(self) -> str:
        """Return what is restored before the process joins its group; nothing if nothing is."""
        warming = [each for each in self._streams.metadata_for_local_threads() if each.warms_up]
        if not warming:
            return ""
        told = "it warms up its tasks before it joins the group; others process them"
        if self._streams.is_paused():
            told = f"{told}; it is paused, and goes on when it is resumed"
        lefts = [each.warm_up_records for each in warming]
        if None in lefts:
            return told
        left = sum(records for records in lefts if records is not None)
        return f"{told}: {left} changelog records left at most"
