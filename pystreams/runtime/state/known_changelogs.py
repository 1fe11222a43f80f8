"""Of which topic the data of each store is, noted beside the stores: theirs may not be readable.

`<task directory>/.changelogs` has a line a store: the identity of the topic (`ChangelogIdentity`)
that its changelog was when the store was last restored from it, `?` if brokers did not tell; and
its name. The line is written before the store is given anything. So in a directory that has the
file, a store without a line has never held anything; one without the file is of an earlier version,
and nothing is known of its stores.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Mapping
from pathlib import Path

from pystreams.errors import StateStoreError
from pystreams.stores.files.checkpoint_file import sync_directory, write_synced

FILE = ".changelogs"
_UNKNOWN = "?"


class KnownChangelogs:
    """What is known of the stores of one task, closed or damaged as they may be.

    Args:
        topics: The identity of the topic of each that has held something, None if it is not known;
            None for a directory of an earlier version.
    """

    def __init__(self, topics: Mapping[str, bytes | None] | None = None) -> None:
        self._file: Path | None = None
        self._of_earlier_version = topics is None
        self._topics = dict(topics or {})

    def open(self, task_directory: Path, *, had_state: bool) -> None:
        """Read the file; begin anew where there is nothing.

        Args:
            had_state: Whether there is anything of the stores in the directory.
        """
        self._file = task_directory / FILE
        topics = _read(self._file) if had_state else {}
        if not had_state:
            with contextlib.suppress(OSError):  # It is written with the first line.
                self._file.write_text("", encoding="utf-8")
        self._of_earlier_version = topics is None
        self._topics = dict(topics or {})

    @property
    def of_earlier_version(self) -> bool:
        """Whether stores may have held something of which nothing was noted."""
        return self._of_earlier_version

    def is_new(self, store: str) -> bool:
        """Return whether a store has never held anything."""
        return not self._of_earlier_version and store not in self._topics

    def topic_of(self, store: str) -> bytes | None:
        """Return the identity of the topic that a store's data is of; None if it is not known."""
        return self._topics.get(store)

    def note(self, store: str, topic: bytes | None) -> None:
        """Take note that a store is about to be given data of its changelog, as it is now.

        Args:
            topic: The identity of the topic, None if brokers did not tell.

        Raises:
            StateStoreError: It can't be written.
        """
        if store in self._topics and topic in {None, self._topics[store]}:
            return
        self._topics[store] = topic
        self._write(store)

    def adopt(self, topics: Mapping[str, bytes | None]) -> None:
        """Begin in a directory of an earlier version.

        Args:
            topics: Those of the stores that may hold something, None if not known.

        Raises:
            StateStoreError: It can't be written.
        """
        self._topics, self._of_earlier_version = dict(topics), False
        self._write(next(iter(topics), ""))

    def _write(self, store: str) -> None:
        file = self._file
        assert file is not None, "only of an open task"
        lines = [
            f"{_UNKNOWN if topic is None else topic.hex()} {name}\n"
            for name, topic in self._topics.items()
        ]
        unfinished = file.with_name(f"{file.name}.tmp")
        try:
            write_synced(unfinished, "".join(lines))
            unfinished.replace(file)
            sync_directory(file.parent)
        except OSError as error:
            full = error.errno in {errno.ENOSPC, errno.EDQUOT}
            why = "the disk is full: free some space" if full else f"{error.strerror}: mend that"
            raise StateStoreError(
                store,
                f"which topic its changelog is can't be written to {file}: {why}, then start again",
            ) from error


def known_changelogs(task_directory: Path) -> KnownChangelogs:
    """Return what was noted of a task's stores, to be looked at."""
    return KnownChangelogs(_read(task_directory / FILE))


def _read(file: Path) -> dict[str, bytes | None] | None:
    """Return what a file says; None if there is none, or it can't be understood."""
    topics: dict[str, bytes | None] = {}
    try:
        for line in file.read_text("utf-8").splitlines():
            topic, store = line.split(maxsplit=1)
            topics[store] = None if topic == _UNKNOWN else bytes.fromhex(topic)
    except (OSError, ValueError):
        return None
    return topics
