"""Of which topic the data of each store is, noted beside the stores: theirs may not be readable.

`<task directory>/.changelogs` has a line a store: the identity of the topic (`ChangelogIdentity`)
that its changelog was when the store was last restored from it; and its name. The line is written
before the store is given anything. So in a directory that has the file, a store without a line has
never held anything; one without the file is of an earlier version, and nothing is known of its
stores.

Where brokers do not tell topics apart (before Kafka 2.8), `?` stands for the topic, and behind it
how far the changelog went, `?1200`: one that ends before that is another. It is written when the
store is restored, and by commits, each time that it has doubled.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pystreams.errors import StateStoreError
from pystreams.stores.contracts.state_store import identity_noted
from pystreams.stores.files.checkpoint_file import sync_directory, write_synced

FILE = ".changelogs"
_UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class KnownChangelog:
    """What is known of the changelog of a store that has held something of it.

    Attributes:
        topic: The identity of its topic; None if it is not known.
        end: Offsets that it had at least; 0 if that is not known, or the topic is.
    """

    topic: bytes | None
    end: int = 0


_NOTHING = KnownChangelog(None)


class KnownChangelogs:
    """What is known of the stores of one task, closed or damaged as they may be.

    Args:
        changelogs: Of each store that has held something; None for a directory of an earlier
            version.
    """

    def __init__(self, changelogs: Mapping[str, KnownChangelog] | None = None) -> None:
        self._file: Path | None = None
        self._of_earlier_version = changelogs is None
        self._changelogs = dict(changelogs or {})
        self._without_id: set[str] = set()

    def open(self, task_directory: Path, *, had_state: bool) -> None:
        """Read the file; begin anew where there is nothing.

        Args:
            had_state: Whether there is anything of the stores in the directory.
        """
        self._file = task_directory / FILE
        found = _read(self._file) if had_state else {}
        if not had_state:
            with contextlib.suppress(OSError):  # It is written with the first line.
                self._file.write_text("", encoding="utf-8")
        self._of_earlier_version = found is None
        self._changelogs = dict(found or {})

    @property
    def of_earlier_version(self) -> bool:
        """Whether stores may have held something of which nothing was noted."""
        return self._of_earlier_version

    def is_new(self, store: str) -> bool:
        """Return whether a store has never held anything."""
        return not self._of_earlier_version and store not in self._changelogs

    def of(self, store: str) -> KnownChangelog:
        """Return what is known of the changelog that a store's data is of."""
        return self._changelogs.get(store, _NOTHING)

    def note(self, store: str, topic: bytes | None, end: int) -> None:
        """Take note that a store is about to be given data of its changelog, as it is now.

        Args:
            topic: The identity of the topic, None if brokers did not tell.
            end: The offset after its last record.

        Raises:
            StateStoreError: It can't be written.
        """
        known = self.of(store)
        if topic is not None:
            self._without_id.discard(store)
            found = KnownChangelog(topic)
        elif known.topic is None:
            self._without_id.add(store)
            found = KnownChangelog(None, end)
        else:
            return
        # An empty one without an id is noted when the store is given something.
        if found != self._changelogs.get(store, _NOTHING):
            self._changelogs[store] = found
            self._write(store)

    def reached(self, store: str, next_offset: int) -> None:
        """Take note of how far a changelog goes which no id tells from others, if that is due.

        Args:
            next_offset: The offset after the last record that the store is about to hold.

        Raises:
            StateStoreError: It can't be written.
        """
        if store in self._without_id and next_offset >= max(1, 2 * self.of(store).end):
            self._changelogs[store] = KnownChangelog(None, next_offset)
            self._write(store)

    def adopt(self, topics: Mapping[str, bytes | None]) -> None:
        """Begin in a directory of an earlier version.

        Args:
            topics: Those of the stores that may hold something, None if not known.

        Raises:
            StateStoreError: It can't be written.
        """
        self._changelogs = {store: KnownChangelog(topic) for store, topic in topics.items()}
        self._of_earlier_version = False
        self._write(next(iter(topics), ""))

    def _write(self, store: str) -> None:
        file = self._file
        assert file is not None, "only of an open task"
        lines = [f"{_as_text(found)} {name}\n" for name, found in self._changelogs.items()]
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


def _as_text(known: KnownChangelog) -> str:
    return f"{_UNKNOWN}{known.end or ''}" if known.topic is None else known.topic.hex()


def _read(file: Path) -> dict[str, KnownChangelog] | None:
    """Return what a file says; None if there is none, or it can't be understood."""
    changelogs: dict[str, KnownChangelog] = {}
    try:
        for line in file.read_text("utf-8").splitlines():
            topic, store = line.split(maxsplit=1)
            if topic.startswith(_UNKNOWN):
                changelogs[store] = KnownChangelog(None, int(topic.removeprefix(_UNKNOWN) or 0))
            else:
                changelogs[store] = KnownChangelog(identity_noted(bytes.fromhex(topic)))
    except (OSError, ValueError):
        return None
    return changelogs
