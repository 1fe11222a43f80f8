"""Java's class data archive for brokers, made before the first test; halves each one's start.

Only a broker that has ended in order leaves one, and the one that all tests share ends with the
last of them: on a new machine all others would start without. `python -m tests.broker_classes`
makes it where there is none.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pystreams.broker import DevelopmentBroker
from pystreams.broker.jars import KAFKA_VERSION
from pystreams.kernel.maven import default_cache_dir

_LIMIT_S = 300.0
"""Killed before it has written them all, it leaves none; a busy machine takes a minute for it."""


def made() -> bool:
    """Return whether there is one, of whichever Java."""
    return any((default_cache_dir() / "class-data").glob(f"kafka-{KAFKA_VERSION}-*.jsa"))


def make() -> None:
    """Start a broker and stop it."""
    with tempfile.TemporaryDirectory() as directory:
        broker = DevelopmentBroker.start(Path(directory) / "broker", timeout_s=_LIMIT_S)
        broker.stop(timeout_s=_LIMIT_S)


if __name__ == "__main__" and not made():
    make()
