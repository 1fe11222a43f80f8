"""Whether a changelog can continue a store, and what is done when it can't.

    store     ...........|next                     the store holds all before its next offset
    changelog       [beginning ........ end)       `next` lies within: the delta is restored
    changelog  [..)                                it lies beyond: the topic was made again, as
                                                   its id tells too, however long it is by now
    changelog                 [beginning .. end)   it lies before: what is between is gone

Compaction never moves the beginning of a log: it is moved by retention, or by hand. Changelogs of
windows and sessions have a retention, so that theirs moves as time goes by: what is gone there has
expired, and the store is restored from the beginning, unless the topic is another. Elsewhere a
store that its changelog can't continue is the last copy of what that has lost. It is not touched
until somebody decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pystreams.config import ChangelogLossPolicy
from pystreams.errors import ChangelogLossError, RetriableClientError
from pystreams.ids import TaskId
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.state.loss_decisions import forget_decision, read_decision, write_decision
from pystreams.runtime.state.managed_store import ManagedStore
from pystreams.runtime.state.store_settings import StoreSettings
from pystreams.runtime.state.told_losses import is_told, note_told

ANOTHER_TOPIC = "its offset is of another topic of that name: it was deleted and created again"

_log = get_logger("pystreams.restore")


@dataclass(frozen=True, slots=True)
class ChangelogCheck:
    """Looks at one store and what the broker holds of its changelog.

    Attributes:
        settings: What the store was opened with.
        rebuild: Wipes it, to be restored from the changelog's beginning.
    """

    task_id: TaskId
    directory: Path
    settings: StoreSettings
    managed: ManagedStore
    rebuild: Callable[[], object]

    @property
    def _where(self) -> dict[str, str]:
        """What all lines in the log begin with."""
        managed = self.managed
        return {
            "task": str(self.task_id),
            "store": managed.builder.name,
            "changelog": str(managed.changelog),
        }

    def first_offset_to_restore(self, held: OffsetRange) -> int:
        """Return where a store is restored from, after what has to be done to it before.

        Raises:
            RetriableClientError: The store's last transaction can't be read yet; ask again.
            ChangelogLossError: The store is the last copy, and nobody has decided about it.
        """
        managed, directory = self.managed, self.directory
        if managed.from_source:
            return self._first_of_source(held)
        position, store = managed.next_offset(), managed.builder.name
        decision = read_decision(directory, store)
        if decision is None:
            if position is None:
                self._tell_what_is_gone(held)
                return held.beginning
            reason = self._why_not_continued(position, held)
            if reason is None:
                return max(position, held.beginning)
            if self._has_expired(position, held):
                self._rebuild_from_changelog(reason)
                return held.beginning
            decision = self.settings.changelog_loss_policy
            if decision is ChangelogLossPolicy.STOP:
                raise self._last_copy(reason, held)
            write_decision(directory, store, decision)
        else:
            reason = f"so it was decided ({decision.value})"
        note_told(directory, store, held.beginning, managed.identity, lost=True)
        if decision is ChangelogLossPolicy.KEEP:
            managed.logs_anew = decision
            _log.warning(
                "state store is kept and will be logged anew", **self._where, reason=reason
            )
            return held.beginning
        self._rebuild_from_changelog(reason)
        if decision is ChangelogLossPolicy.EMPTY:
            managed.logs_anew = decision
        else:
            forget_decision(directory, store)
        return held.beginning

    def first_offset_to_follow(self, held: OffsetRange) -> int:
        """Return where a store goes on that is kept for others, who decide what becomes of it.

        Raises:
            RetriableClientError: The store's last transaction can't be read yet; ask again.
            ChangelogLossError: The changelog can't continue it, or somebody has decided about it.
        """
        managed = self.managed
        if managed.from_source:
            return self._first_of_source(held)
        position, store = managed.next_offset(), managed.builder.name
        decision = read_decision(self.directory, store)
        if decision is not None:
            raise self._last_copy(f"it was decided ({decision.value})", held)
        if position is None:
            return held.beginning
        reason = self._why_not_continued(position, held)
        if reason is None:
            return max(position, held.beginning)
        if not self._has_expired(position, held):
            raise self._last_copy(reason, held)
        self._rebuild_from_changelog(reason)
        return held.beginning

    def cannot_be_kept(self, damage: object) -> ChangelogLossError:
        """Return what is told of a store that was to be kept and logged anew, and is damaged."""
        managed = self.managed
        error = ChangelogLossError(
            managed.builder.name,
            f"task {self.task_id}: it was to be kept, and can't be logged anew to "
            f"{managed.changelog}: its files are damaged. It is the last copy of what the "
            "changelog has lost, and was not touched. Copy its directory first if you want to "
            "look for what can still be read. Then decide anew: "
            f"{self._command(ChangelogLossPolicy.RESTORE)} wipes it and restores what the "
            "changelog holds; --choose empty starts empty. Then start again, without "
            f"changelog.loss.policy=keep. The damage: {damage}",
        )
        error.changelog = managed.changelog
        return error

    def _first_of_source(self, held: OffsetRange) -> int:
        """Return where a store is restored from a source topic: it is what that topic is now."""
        position = self.managed.next_offset()
        if position is None:
            return held.beginning
        if self.managed.identity.is_another or position > held.high_watermark:
            self.rebuild()
            _log.warning(
                "state store is rebuilt from its source topic",
                **self._where,
                reason="the topic was deleted and created again",
            )
            return held.beginning
        if position < held.beginning:
            _log.warning(
                "source topic has lost records that the state store has not seen",
                **self._where,
                offsets_gone=held.beginning,
                next_offset=position,
                reason="retention did it, or somebody by hand: a topic that is read as a table "
                "needs cleanup.policy=compact",
            )
        return max(position, held.beginning)

    def _has_expired(self, next_offset: int, held: OffsetRange) -> bool:
        """Return whether what the changelog lacks has expired, by the retention of its topic."""
        managed = self.managed
        return managed.expires and not managed.identity.is_another and next_offset < held.beginning

    def _why_not_continued(self, next_offset: int, held: OffsetRange) -> str | None:
        """Return why its changelog can't continue the store; tell if it has lost its beginning."""
        if self.managed.identity.is_another:
            return ANOTHER_TOPIC
        if held.end < next_offset <= held.high_watermark:
            # The store holds a transaction whose markers the broker has not written yet.
            message = f"{self.managed.changelog}: a committed transaction is not readable yet"
            raise RetriableClientError(message)
        reason = why_not_continued(
            next_offset, held, exactly_once=self.settings.environment.exactly_once
        )
        if reason is None and self._is_news(held, lost=False):
            _log.warning(
                "changelog has lost its beginning, the state store here is whole: log it anew",
                **self._where,
                offsets_gone=held.beginning,
                cure=f"stop, then {self._command(ChangelogLossPolicy.KEEP)}",
            )
        return reason

    def _is_news(self, held: OffsetRange, *, lost: bool) -> bool:
        """Return whether a changelog has lost its beginning since that was last told."""
        if held.beginning == 0 or self.managed.expires:
            return False
        place = (self.directory, self.managed.builder.name, held.beginning, self.managed.identity)
        if is_told(*place, lost=lost):
            return False
        note_told(*place, lost=lost)
        return True

    def _tell_what_is_gone(self, held: OffsetRange) -> None:
        """Tell of a changelog without its beginning whose store is not here either."""
        if not self._is_news(held, lost=True):
            return
        _log.error(
            "state is lost: the changelog has lost its beginning, and there is no state store here",
            **self._where,
            offsets_gone=held.beginning,
            reason="compaction never deletes the beginning: retention did, or somebody by hand. "
            "What the changelog still holds is restored: all, if a store was logged anew since; "
            "else the rest may be in the task's directory of another host, or come from the input "
            "by a backfill",
        )

    def _rebuild_from_changelog(self, reason: str) -> None:
        self.rebuild()
        _log.warning("state store is rebuilt from its changelog", **self._where, reason=reason)

    def _last_copy(self, reason: str, held: OffsetRange) -> ChangelogLossError:
        managed = self.managed
        last_offset = managed.committed_offset()
        found = (
            f"only the offsets {held.beginning} to {held.high_watermark - 1}"
            if held.high_watermark > held.beginning
            else "nothing any more"
        )
        error = ChangelogLossError(
            managed.builder.name,
            f"task {self.task_id}: it holds all up to offset {last_offset} of {managed.changelog}, "
            f"which holds {found}; {reason}. The store is the last copy of what is missing there, "
            "and was not touched. Decide what becomes of it: "
            f"{self._command(ChangelogLossPolicy.KEEP)} keeps it and logs it anew (what "
            "the changelog holds goes over it); --choose restore wipes it and restores what the "
            "changelog holds; --choose empty starts empty. Then start again. Or start once with "
            "changelog.loss.policy=keep, restore or empty, for all such stores",
        )
        error.changelog = managed.changelog
        return error

    def _command(self, decision: ChangelogLossPolicy) -> str:
        return (
            f"pystreams recover TOPOLOGY --task {self.task_id} --store {self.managed.builder.name} "
            f"--choose {decision.value} --execute"
        )


def why_not_continued(next_offset: int, held: OffsetRange, *, exactly_once: bool) -> str | None:
    """Return why a changelog can't continue a store; None when it can.

    Args:
        next_offset: The offset at which the store's changelog would go on.
        exactly_once: Whether the application writes in transactions.
    """
    if next_offset > held.high_watermark:
        return (
            f"its next offset {next_offset} is beyond the changelog's end {held.high_watermark}: "
            "the topic was deleted and created again"
        )
    # The last record of a transaction is followed by its marker, which no store has.
    all_gone = held.beginning == held.high_watermark
    only_a_marker = exactly_once and next_offset + 1 == held.beginning and all_gone
    if next_offset < held.beginning and not only_a_marker:
        return (
            f"the changelog now begins at {held.beginning}, after its next offset {next_offset}: "
            "what is between was deleted, by retention or by hand"
        )
    return None
