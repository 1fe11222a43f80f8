"""What a program that embeds the client asks of it, beside the processing itself.

Waiting and stop signals, listeners, pausing, and removing what it has on the disk.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing

from pystreams.config import StreamsConfig
from pystreams.errors import StateDirectoryError, StreamsError
from pystreams.exception_texts import named_exception
from pystreams.kernel.clock import Clock, SystemClock
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.adapters.state_directory import StateDirectory
from pystreams.runtime.application.client_state import State
from pystreams.runtime.application.dead_letter_causes import DeadLetterCauses, DeadLetters
from pystreams.runtime.application.stop_signals import StopSignals
from pystreams.runtime.application.uncaught_errors import UncaughtExceptionHandler
from pystreams.runtime.tasks.restore_listener import StateRestoreListener, check_listener
from pystreams.topology.contracts.user_functions import checked_callback

StateListener = Callable[[State, State], object]
"""Called with (new state, old state)."""

_SIGNAL_INTERVAL_S = 0.1
_STATE_INTERVAL_S = 0.05
_PROGRAM_INTERVAL_S = 0.25
_AT_REST = (State.CREATED, State.NOT_RUNNING, State.ERROR)

_log = get_logger("pystreams.client")


class EmbeddedClient(ABC):
    """A client as its program sees it; `KafkaStreams` is the only one."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._dead_letters = DeadLetterCauses(self._clock.now_ms)
        self._started = False
        self._started_in = 0
        self._finished = threading.Event()
        self._paused = threading.Event()
        self._state_listener: StateListener | None = None
        self._restore_listener: StateRestoreListener | None = None
        self._uncaught_handler: UncaughtExceptionHandler | None = None

    @property
    @abstractmethod
    def config(self) -> StreamsConfig:
        """The configuration."""

    @property
    @abstractmethod
    def state(self) -> State:
        """Where the application is in its life."""

    @property
    def dead_letters(self) -> tuple[DeadLetters, ...]:
        """What became dead letters since the start, by topic, with the last causes."""
        return self._dead_letters.latest()

    @abstractmethod
    def close(self, timeout_s: float | None = None, *, leave_group: bool | None = None) -> bool:
        """Commit and stop; return whether that is done."""

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the application has stopped; return whether it has.

        Without a timeout, in the main thread, the first SIGTERM or Ctrl-C meanwhile closes it: it
        commits, and this returns. Signals that the program handles itself are left to it, and all
        are as they were when this returns, or when the first has come: a second Ctrl-C raises
        KeyboardInterrupt, a second SIGTERM ends the process.

        Args:
            timeout_s: How long to wait at most (s); None for ever.
        """
        if self._is_forked:
            return False
        if timeout_s is not None or threading.current_thread() is not threading.main_thread():
            return self._finished.wait(timeout_s)
        with StopSignals() as signals:
            while not self._finished.wait(_SIGNAL_INTERVAL_S):
                if signals.came:
                    signals.restore()
                    self.close(0)
        return True

    def set_state_listener(self, listener: StateListener | None) -> None:
        """Have a function called with (new state, old state) at each change; before `start`.

        It is called by a thread of its own, one call after the other, and may take its time; what
        it raises is logged. A state that lasts less than 50 ms may be passed over.

        Raises:
            TopologyError: It is async, or no function of these two.
            StreamsError: The application was started.
        """
        self._check_not_started("set_state_listener")
        if listener is not None:
            checked_callback(listener, "set_state_listener: listener", ("new_state", "old_state"))
        self._state_listener = listener

    def set_global_state_restore_listener(self, listener: StateRestoreListener | None) -> None:
        """Have a listener told of all restores, those of each store; before `start`.

        Raises:
            TopologyError: It is no `StateRestoreListener`, or a method of it is async.
            StreamsError: The application was started.
        """
        self._check_not_started("set_global_state_restore_listener")
        if listener is not None:
            check_listener(listener, "set_global_state_restore_listener: listener")
        self._restore_listener = listener

    def set_uncaught_exception_handler(self, handler: UncaughtExceptionHandler | None) -> None:
        """Have a function say what is done when an error has ended a stream thread.

        It is called with the error, by the thread that ends, and returns
        `StreamThreadExceptionResponse.REPLACE_THREAD`, `SHUTDOWN_APPLICATION` or `SHUTDOWN_CLIENT`,
        which is also what is done without one. Before `start`. Spec: KIP-671.

        Raises:
            TopologyError: It is async, or no function of an error.
            StreamsError: The application was started.
        """
        self._check_not_started("set_uncaught_exception_handler")
        if handler is not None:
            checked_callback(handler, "set_uncaught_exception_handler: handler", ("error",))
        self._uncaught_handler = handler

    def pause(self) -> None:
        """Stop processing, punctuation and restores; stay in the group, and keep what is assigned.

        What was processed is committed. May be called before `start`. Spec: KIP-834.
        """
        self._paused.set()

    def resume(self) -> None:
        """Go on after `pause`."""
        self._paused.clear()

    def is_paused(self) -> bool:
        """Return whether it is paused."""
        return self._paused.is_set()

    def clean_up(self) -> None:
        """Remove this host's state of the application, which is then restored from its changelogs.

        Raises:
            StreamsError: It runs: call this before `start`, or after it has stopped.
            StateDirectoryError: Another process has the state of a task, which stays.
        """
        if self.state not in _AT_REST:
            raise StreamsError(f"clean_up removes state, and the application is {self.state.value}")
        config = self.config
        with closing(StateDirectory(config.state_dir, config.application_id)) as directory:
            held = [str(task) for task in directory.task_ids() if not directory.remove(task)]
            shared = directory.global_directories()
            held += [path.name for path in shared if not directory.remove_global(path)]
        if held:
            raise StateDirectoryError(
                f"another process has {', '.join(held)} in {directory.directory}: stop it first"
            )

    @property
    def _is_forked(self) -> bool:
        """Whether a child of the process that started it asks: none of its threads are here."""
        return self._started and os.getpid() != self._started_in

    def _check_not_started(self, method: str) -> None:
        if self._started:
            raise StreamsError(f"{method} comes before start()")

    def _watch_program(self) -> None:
        """Close when the program's main thread ends without that: its signals and pools end, too.

        The stream threads would keep the process alive, and nobody could stop it.
        """

        def watch() -> None:
            while not self._finished.wait(_PROGRAM_INTERVAL_S):
                if not main.is_alive():
                    _log.warning(
                        "the program's main thread has ended without close(): commits and stops; "
                        "wait() at its end keeps the application running"
                    )
                    self.close(0)
                    return

        main = threading.main_thread()
        threading.Thread(target=watch, name="pystreams-program-watch", daemon=True).start()

    def _begin_listening(self) -> None:
        """Tell the state listener from now on, if there is one."""
        if self._state_listener is not None:
            listening = threading.Thread(
                target=self._listen, args=(self._state_listener,), name="pystreams-state-listener"
            )
            listening.start()

    def _listen(self, listener: StateListener) -> None:
        told = State.CREATED
        ended = False
        while not ended:
            ended = self._finished.wait(_STATE_INTERVAL_S)
            for state in _way(told, self.state):
                try:
                    listener(state, told)
                except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                    _log.error(
                        "the state listener failed", error=named_exception(error), state=state.value
                    )
                told = state


def _way(old: State, new: State) -> Iterator[State]:
    """Give the states that lead from one to another."""
    if old is new:
        return
    if old is State.CREATED and new is not State.REBALANCING:
        yield State.REBALANCING
    if new is State.NOT_RUNNING and old is not State.PENDING_SHUTDOWN:
        yield State.PENDING_SHUTDOWN
    if new is State.ERROR and old is not State.PENDING_ERROR:
        yield State.PENDING_ERROR
    yield new
