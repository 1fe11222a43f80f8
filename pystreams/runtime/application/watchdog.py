"""Looks now and then whether an application gets on, and tells of what stands still.

    thread        silent -----> stands still (with its stack) -----> its poll interval ends soon
    task          running, records wait, none is processed -----> stalled
    partition     read by a task that goes on, holds more, of which nothing comes -----> stalled
    restore       nothing comes of a changelog, or the task waits to begin -----> stalled
    standby       behind in a changelog of which nothing comes -----> stalled
    global store  nothing comes of its topic, which holds more -----> stalled

Nothing comes of a partition whose broker does not answer fetches, and of one whose broker does not
even say where it ends. While a consumer hands on others' records without end, that is told only of
the latter.

A trouble is logged when it begins, again each time it has lasted twice as long, and when it is
over. Nothing is done about one: the group takes partitions away from who does not poll, and
`/livez` tells a platform when to restart a process. The loops pay nothing for it: what is looked
at they publish anyway.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Protocol

from pystreams.kernel.clock import Clock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.application.stalled_work import StalledWork
from pystreams.runtime.application.troubles import Trouble, TroubleKind
from pystreams.runtime.loop.reports.thread_metadata import ThreadMetadata
from pystreams.runtime.tasks.concurrent_calls import helpers_of

_log = get_logger("pystreams.watchdog")

_LOOK_EVERY_S = 2.0
_STANDS_STILL_MS = 10_000.0
_POLL_INTERVAL_LEFT = 0.2
"""With so much of `max.poll.interval.ms` left a thread is about to lose its partitions."""
_FRAMES = 16
_IDLE = "_worker"
"""Where a thread of an executor waits for a call."""


class WatchedThread(Protocol):
    """A thread that says how it gets on."""

    def metadata(self) -> ThreadMetadata:
        """Return what it is at; from any thread."""


def stack_of(thread_name: str) -> str:
    """Return where a thread is, innermost call last; nothing if there is no such thread.

    Behind it come the calls that it has made side by side and that have not returned, as commits
    of several producers.
    """
    frames = sys._current_frames()  # noqa: SLF001
    # Its own would hold itself, and with it what all frames hold, until a garbage collection.
    frames.pop(threading.get_ident(), None)
    idents = {each.name: each.ident or 0 for each in threading.enumerate()}
    own = frames.get(idents.get(thread_name, 0))
    if own is None:
        return ""
    helpers = [ident for name, ident in idents.items() if name.startswith(helpers_of(thread_name))]
    calls = Counter(
        _formatted(frames[ident])
        for ident in helpers
        if ident in frames and frames[ident].f_code.co_name != _IDLE
    )
    parts = [f"{count} x side by side:\n{stack}" for stack, count in calls.items()]
    return "".join([_formatted(own), *parts])


def _formatted(frame: FrameType) -> str:
    return "".join(traceback.format_stack(frame)[-_FRAMES:])


class Watchdog:
    """Watches the stream threads of one application, and the one of its global stores.

    Args:
        paused: Whether the application is: then nothing is expected of its tasks.
        stack: Returns where a thread is, by its name; nothing of one that has ended.

    Attributes:
        troubles: Those of the last look; from any thread.
        begun: How many there were, by kind.
    """

    def __init__(
        self,
        clock: Clock,
        paused: threading.Event,
        stack: Callable[[str], str] = stack_of,
    ) -> None:
        self.troubles: tuple[Trouble, ...] = ()
        self.begun: Counter[TroubleKind] = Counter()
        self._clock = clock
        self._paused = paused
        self._stack = stack
        self._told_ms: dict[tuple[TroubleKind, str], float] = {}
        self._stalled = StalledWork()
        self._failures: set[type[Exception]] = set()

    def start(self, threads: Callable[[], Iterable[WatchedThread]], ended: threading.Event) -> None:
        """Look at the threads there are, in a thread of its own, until the application has ended.

        Args:
            threads: Returns them; those that do not run are passed over.
            ended: Set when it has.
        """

        def watch() -> None:
            while not ended.wait(_LOOK_EVERY_S):
                self._look_at(threads)

        threading.Thread(target=watch, name="pystreams-watchdog", daemon=True).start()

    def _look_at(self, threads: Callable[[], Iterable[WatchedThread]]) -> None:
        """Look, whatever goes wrong: the next look may be right again."""
        try:
            self.look([thread.metadata() for thread in threads()])
        except Exception as error:  # noqa: BLE001 - or nobody watches from then on.
            kind = type(error)
            if kind not in self._failures:
                self._failures.add(kind)
                text = "".join(traceback.format_exception(error))
                _log.warning("look failed, the next comes soon", why=str(error), traceback=text)

    def look(self, threads: Sequence[ThreadMetadata]) -> None:
        """Look at what threads say of themselves, and tell what is new."""
        now_ms = self._clock.monotonic_ms()
        self.troubles = tuple(self._found(threads, now_ms))
        present = {(trouble.kind, trouble.of) for trouble in self.troubles}
        for kind, of in self._told_ms.keys() - present:
            del self._told_ms[kind, of]
            _log.info("over", trouble=kind.value, of=of)
        for trouble in self.troubles:
            self._tell(trouble, now_ms)

    def _tell(self, trouble: Trouble, now_ms: float) -> None:
        key, lasted_ms = (trouble.kind, trouble.of), now_ms - trouble.since_ms
        told_ms = self._told_ms.get(key)
        if told_ms is not None and lasted_ms < 2 * told_ms:
            return
        if told_ms is None:
            self.begun[trouble.kind] += 1
        self._told_ms[key] = lasted_ms
        _log.warning(
            trouble.kind.value,
            of=trouble.of,
            seconds=round(lasted_ms / 1000),
            why=trouble.text,
            **({"stack": trouble.stack} if trouble.stack else {}),
        )

    def _found(self, threads: Sequence[ThreadMetadata], now_ms: float) -> Iterator[Trouble]:
        moving = []
        for thread in threads:
            limit_ms = min(_STANDS_STILL_MS, thread.max_poll_interval_ms / 2)
            if thread.silent_ms < limit_ms:
                moving.append(thread)
            # Of what a thread does that stands still its tasks know nothing new.
            elif stack := self._stack(thread.thread_name):
                yield from _of_thread(thread, now_ms, stack)
        yield from self._stalled.found([] if self._paused.is_set() else moving, now_ms)


def _of_thread(thread: ThreadMetadata, now_ms: float, stack: str) -> Iterator[Trouble]:
    since_ms, limit_ms = now_ms - thread.silent_ms, thread.max_poll_interval_ms
    at_work = thread.at_work or (
        "it processes nothing: it starts or closes tasks, or waits for a broker or a disk"
    )
    yield Trouble(
        TroubleKind.BLOCKED_THREAD,
        thread.thread_name,
        f"{at_work}; what it does is in the stack. Nothing else of the thread goes on meanwhile",
        since_ms,
        stack,
    )
    if thread.silent_ms >= limit_ms * (1 - _POLL_INTERVAL_LEFT):
        yield Trouble(
            TroubleKind.LATE_POLL,
            thread.thread_name,
            f"{at_work}; after consumer.max.poll.interval.ms={limit_ms} without a poll the group "
            "gives its partitions to others, and the work is done again: set that higher, or let "
            "functions that wait be called by map_values_async",
            since_ms,
            stack,
        )
