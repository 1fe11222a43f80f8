"""How a command that works in its main thread is interrupted by a signal.

`run` has threads that work while its main thread waits. `backfill`, `export` and `rescale` work in
the main thread: in Spark, in the Kafka client, in files. There the first signal becomes an
exception, so that each step cleans up behind it: the Spark session ends, an open transaction is
aborted, the terminal gets its cursor back. The second signal ends the process at once.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

from pystreams.cli.processes.stop_request import StopRequest, end_at_once


class Interrupted(KeyboardInterrupt):
    """A signal asked the command to stop.

    A `KeyboardInterrupt` for py4j, which closes a connection with an open question at one, and at
    nothing else: the session could not be stopped before the job has ended.

    Attributes:
        exit_code: What the process ends with: 128 + the signal's number.
    """

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number
        super().__init__(signal.Signals(number).name)


class InterruptBySignal(StopRequest):
    """Raises `Interrupted` in the main thread at the first stop signal within `by_signals`."""

    def request(self) -> None:
        """Ask for it from any thread."""
        if not self.requested:
            os.kill(os.getpid(), signal.SIGTERM)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        asks_again = self._asks_again(number)
        if self.requested:
            if asks_again:
                end_at_once(number)
            return
        self._hung_up = number == signal.SIGHUP
        super().request()
        raise Interrupted(number)


@contextmanager
def exit_when_interrupted(stop: InterruptBySignal, then: str | None) -> Iterator[None]:
    """End the command with the exit code of the signal that came within the block.

    Args:
        then: What a start after it does, for the message; None for no message.
    """
    logging.getLogger().addFilter(_is_no_interrupt)
    try:
        with stop.by_signals():
            yield
    except Interrupted as interrupted:
        if then is not None:
            click.echo(f"Stopped ({interrupted}); {then}", err=True)
        click.get_current_context().exit(interrupted.exit_code)
    finally:
        logging.getLogger().removeFilter(_is_no_interrupt)


def _is_no_interrupt(line: logging.LogRecord) -> bool:
    """Whether a line is not the one by which py4j tells of each interrupt."""
    return line.msg != "KeyboardInterrupt while sending command."
