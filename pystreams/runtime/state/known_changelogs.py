"""Of which topic a store's data is, noted beside the store: its own metadata may be damaged.

`<task directory>/.changelog_<store>` holds the identity of the changelog (see `ChangelogIdentity`).
It is read only of a store that is damaged, to learn whether its changelog is still the same.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from pystreams.stores.contracts.state_store import ChangelogIdentity

_IDENTITY_BYTES = 8


def known_changelog(task_directory: Path, store: str) -> bytes | None:
    """Return the identity of the topic that a store's data is of; None if it is not known."""
    try:
        identity = bytes.fromhex(_file(task_directory, store).read_text())
    except (OSError, ValueError):
        return None
    return identity if len(identity) == _IDENTITY_BYTES else None


def note_changelog(task_directory: Path, store: str, identity: ChangelogIdentity) -> None:
    """Take note of the topic that is a store's changelog now, as far as that can be written."""
    current = identity.current
    if current is None or known_changelog(task_directory, store) == current:
        return
    with contextlib.suppress(OSError):
        _file(task_directory, store).write_text(current.hex())


def _file(task_directory: Path, store: str) -> Path:
    return task_directory / f".changelog_{store}"
