"""Which loss of a changelog's beginning is known: it was told, or decided about.

`<task directory>/.told_<store>` holds the first offset that was left of the changelog then, which
topic that was, and whether the store had it (`held`). That need not be told again at each start;
but that the store is gone as well, or that more of the changelog is.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from pystreams.stores.contracts.state_store import ChangelogIdentity

_HELD, _LOST = "held", "lost"


def is_told(
    task_directory: Path, store: str, beginning: int, identity: ChangelogIdentity, *, lost: bool
) -> bool:
    """Return whether a loss is known.

    Args:
        beginning: The first offset that is left of its changelog.
        lost: Whether the store does not hold either what is gone.
    """
    try:
        noted, topic, what = _file(task_directory, store).read_text().split()
        covered = what == _LOST or not lost
        return covered and topic == _topic(identity) and beginning <= int(noted)
    except (OSError, ValueError):
        return False


def note_told(
    task_directory: Path, store: str, beginning: int, identity: ChangelogIdentity, *, lost: bool
) -> None:
    """Take note that a loss is known; where it can't be written down, it is told again."""
    what = _LOST if lost else _HELD
    with contextlib.suppress(OSError):
        _file(task_directory, store).write_text(f"{beginning} {_topic(identity)} {what}")


def _topic(identity: ChangelogIdentity) -> str:
    return "-" if identity.current is None else identity.current.hex()


def _file(task_directory: Path, store: str) -> Path:
    return task_directory / f".told_{store}"
