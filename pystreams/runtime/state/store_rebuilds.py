"""Stores that are to be wiped and restored: damaged ones, and those that can't be trusted.

    found --> closed, and left as it is --> its changelog is looked at --> wiped --> restored
                                                  +--> it is the last copy: somebody decides

A store may be the last copy of what its changelog has lost, whether it can be used or not. So it is
wiped only by `ChangelogCheck`, which asks. Wiped at once are those that can be no last copy: what
does not outlive the process, what is restored from a topic that others write, and what is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from pystreams.errors import StateStoreCorruptedError, StateStoreError
from pystreams.ids import TaskId
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.state.files.known_changelogs import KnownChangelogs
from pystreams.runtime.state.managed_store import ManagedStore, RebuildReason
from pystreams.runtime.state.store_settings import StoreSettings
from pystreams.runtime.state.unexpected_offsets import REBUILT_FROM_IT

NOT_CLOSED = "it is not known how far it is: it is new, or was not closed in order"
WITHOUT_OFFSET = "it holds data without an offset"

_DAMAGES_MAX = 3  # So often a store is rebuilt before a commit.

_log = get_logger("pystreams.stores")


class StoreRebuilds:
    """The stores of one task that are to be rebuilt.

    Args:
        settings: What all stores are opened with.
        init: Opens a store.

    Attributes:
        known: Of which topics the stores are.
    """

    def __init__(
        self, task_id: TaskId, settings: StoreSettings, init: Callable[[ManagedStore], None]
    ) -> None:
        self.known = KnownChangelogs()
        self._task_id = task_id
        self._settings = settings
        self._init = init

    def open(
        self, task_directory: Path, stores: Iterable[ManagedStore], *, had_state: bool
    ) -> None:
        """Learn what is known of the stores, before they are opened.

        Args:
            stores: Those that are restored from something.
        """
        if any(_may_be_last_copy(managed) for managed in stores):
            self.known.open(task_directory, had_state=had_state)

    def ask_for(self, managed: ManagedStore, why: str) -> None:
        """Have a store rebuilt that is not to be trusted: at once, or when that loses nothing."""
        self._ask_for(managed, RebuildReason.distrust(why, _last_offset(managed)))

    def found_damaged(self, managed: ManagedStore, error: StateStoreCorruptedError) -> None:
        """Have a store rebuilt that is damaged, as an error says.

        Raises:
            StateStoreCorruptedError: It has no changelog, or none is at hand.
            StateStoreError: It was found damaged again and again; or can't be wiped.
        """
        if managed.changelog is None or self._settings.damage_cure:
            raise error.with_cure(self._settings.cure)
        managed.damages += 1
        if managed.damages > _DAMAGES_MAX:
            message = (
                f"task {self._task_id}: damaged {managed.damages} times before a commit: check the "
                f"disk and the memory, or set another state.dir. The last time: {error}"
            )
            raise StateStoreError(error.store, message) from error
        self._ask_for(managed, RebuildReason.damage(error, _last_offset(managed)))

    def note_topic(self, managed: ManagedStore, held: OffsetRange) -> None:
        """Take note of the topic that a store is about to be restored from.

        Raises:
            StateStoreError: It can't be written.
        """
        if _may_be_last_copy(managed):
            self.known.note(managed.builder.name, managed.identity.current, held.high_watermark)

    def note_offset(self, managed: ManagedStore, last_offset: int) -> None:
        """Take note of how far a store is about to hold that topic, where that is needed.

        Raises:
            StateStoreError: It can't be written.
        """
        self.known.reached(managed.builder.name, last_offset + 1)

    def rebuild(self, managed: ManagedStore) -> None:
        """Wipe a store that is to be rebuilt, and say so."""
        reason = managed.rebuild_reason
        assert reason is not None, "only a store that is to be"
        _log.warning(
            f"state store is {reason.what} and rebuilt from its changelog",
            task=str(self._task_id),
            store=managed.builder.name,
            changelog=str(managed.changelog),
            reason=reason.why,
        )
        self.wipe(managed)

    def wipe(self, managed: ManagedStore) -> None:
        """Wipe a store, to be restored from the changelog's beginning.

        What others have written there can't be undone any more: the store will hold it.
        """
        if managed.unexpected is not None and not managed.logged_again:
            managed.unexpected.tell(self._task_id, managed.changelog, REBUILT_FROM_IT)
        managed.unexpected = None
        if managed.checkpoint is not None:
            managed.checkpoint.forget()
        managed.store.destroy()
        managed.ahead, managed.rebuild_reason = False, None
        self._init(managed)

    def holds_data(self, managed: ManagedStore) -> bool | None:
        """Return whether a store holds anything that can be used, None if it can't tell."""
        if managed.rebuild_reason is not None:
            return False
        try:
            return managed.store.holds_data()
        except StateStoreCorruptedError as error:
            self.found_damaged(managed, error)
            return False

    def check_opened(self, managed: ManagedStore) -> None:
        """Have a store rebuilt, which is open, if what is beside it is of another one."""
        if managed.rebuild_reason is not None:
            return
        if managed.was_restored_otherwise():
            self.ask_for(managed, "it had a changelog, which is its source topic now")
        known = managed.checkpoint is not None and managed.checkpoint.offset is not None
        if known and self.holds_data(managed) is False:
            why = "it is empty, and its checkpoint file tells of data"
            self._ask_for(managed, RebuildReason.distrust(why), is_empty=True)

    def check_trust(self, stores: Iterable[ManagedStore]) -> None:
        """Have stores rebuilt that may hold data of which nobody knows where it ends."""
        for managed in stores:
            if managed.checkpoint is not None:
                if managed.checkpoint.suspect:
                    self.ask_for(managed, NOT_CLOSED)
            elif (
                self._settings.environment.exactly_once
                and managed.store.persistent
                and managed.committed_offset() is None
                and self._may_hold_data(managed)
            ):
                self.ask_for(managed, WITHOUT_OFFSET)

    def adopt(self, stores: Iterable[ManagedStore]) -> None:
        """Take note of the topics of stores that an earlier version left, if they are of one."""
        here = list(filter(_may_be_last_copy, stores))
        if not here or not self.known.of_earlier_version:
            return
        holds = {managed: self.holds_data(managed) for managed in here}
        self.known.adopt(
            {
                managed.builder.name: managed.identity.stored
                for managed in here
                if holds[managed] is not False
                or _may_have_held(managed.rebuild_reason)
                or managed.committed_offset() is not None
            }
        )

    def _ask_for(
        self, managed: ManagedStore, reason: RebuildReason, *, is_empty: bool = False
    ) -> None:
        assert managed.changelog is not None, "without a changelog there is nothing to build from"
        if managed.rebuild_reason is not None:
            return
        managed.rebuild_reason = reason
        if is_empty or not _may_be_last_copy(managed):
            self.rebuild(managed)
            return
        with suppress(Exception):  # It is of no use any more, whatever its close says.
            managed.store.close()

    def _may_hold_data(self, managed: ManagedStore) -> bool:
        """Return whether there may be data in a store, which has no offset."""
        known = self.holds_data(managed)
        # The data of one that is transactional comes with an offset.
        return not managed.store.transactional if known is None else known


def _may_have_held(rebuild: RebuildReason | None) -> bool:
    return rebuild is not None and not rebuild.holds_nothing


def _last_offset(managed: ManagedStore) -> int | None:
    """Return up to where a store that can't be used held its changelog; None if not known."""
    with suppress(Exception):  # One of a user's own may not tell when it is not open.
        return managed.committed_offset()
    return None


def _may_be_last_copy(managed: ManagedStore) -> bool:
    return managed.store.persistent and managed.changelog is not None and not managed.from_source
