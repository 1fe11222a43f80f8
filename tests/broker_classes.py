"""Java's class data archive for brokers, made before the first test; halves each one's start.

Only a broker that has ended in order leaves one, and the one that all tests share ends with the
last of them: on a new machine all others would start without. `python -m tests.broker_classes`
makes it where there is none.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from pystreams.broker import DevelopmentBroker, class_archive
from pystreams.broker.jars import class_path
from pystreams.errors import StreamsError
from pystreams.kernel.java import find_java

_LIMIT_S = 300.0
"""Killed before it has written them all, it leaves none; a busy machine takes a minute for it."""


def make() -> None:
    """Start a broker and stop it, unless its Java has an archive of these jars."""
    if class_archive.options_to_use(class_archive.archive_name(find_java(), class_path())):
        return
    with tempfile.TemporaryDirectory() as directory:
        broker = DevelopmentBroker.start(Path(directory) / "broker", timeout_s=_LIMIT_S)
        broker.stop(timeout_s=_LIMIT_S)


if __name__ == "__main__":
    with contextlib.suppress(StreamsError):  # What is missing, the tests tell.
        make()
