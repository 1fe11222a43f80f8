"""Signals as people send them who lose their patience."""

from __future__ import annotations

import signal
import subprocess

from tests.broker.waiting import wait_until


def signal_until_ended(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal again and again: one right behind the first is taken for the same."""

    def has_ended() -> bool:
        process.send_signal(number)
        return process.poll() is not None

    wait_until(has_ended, "the end of the process")
