"""Which loss of a changelog's beginning is known: it was told, or decided about.

`<task directory>/.told_<store>` holds the first offset that was left of the changelog then, and
which topic that was. The same is not told again at each start; what is lost after that is.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from pystreams.stores.contract import ChangelogIdentity


def is_told(task_directory: Path, store: str, beginning: int, identity: ChangelogIdentity) -> bool:
    """Return whether it is known that a store's changelog begins as late as this."""
    try:
        noted, topic = _file(task_directory, store).read_text().split()
        return topic == _topic(identity) and beginning <= int(noted)
    except (OSError, ValueError):
        return False


def note_told(
    task_directory: Path, store: str, beginning: int, identity: ChangelogIdentity
) -> None:
    """Take note that it is known; where it can't be written down, it is told again."""
    with contextlib.suppress(OSError):
        _file(task_directory, store).write_text(f"{beginning} {_topic(identity)}")


def _topic(identity: ChangelogIdentity) -> str:
    return "-" if identity.current is None else identity.current.hex()


def _file(task_directory: Path, store: str) -> Path:
    return task_directory / f".told_{store}"
