"""What is done where a changelog can't continue a store, or rebuild it: see `changelog_gaps`.

A store that its changelog can't continue is the last copy of what that has lost. It is not touched
until somebody decides. So is one that can't be used, unless its changelog holds all of it; but that
one can't be kept.

Changelogs of windows and sessions have a retention: what is gone there is taken to have expired,
and the store is restored from the beginning, unless the topic is another.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from pystreams.config import ChangelogLossPolicy
from pystreams.errors import ChangelogLossError, RetriableClientError
from pystreams.ids import TaskId
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.state.changelog_gaps import (
    ANOTHER_TOPIC,
    is_of_another,
    why_not_continued,
    why_not_rebuilt,
)
from pystreams.runtime.state.files.loss_decisions import (
    BECOMES,
    decisions_but,
    forget_decision,
    in_words,
    read_decision,
    refused_decisions,
    write_decision,
)
from pystreams.runtime.state.files.told_losses import is_told, note_told
from pystreams.runtime.state.managed_store import ManagedStore, RebuildReason
from pystreams.runtime.state.store_rebuilds import StoreRebuilds
from pystreams.runtime.state.store_settings import StoreSettings

_DONE = {
    ChangelogLossPolicy.KEEP: "keeps it and logs it anew (what the changelog holds goes over it)",
    ChangelogLossPolicy.RESTORE: "wipes it and restores what the changelog holds",
    ChangelogLossPolicy.EMPTY: "starts empty",
}

_log = get_logger("pystreams.restore")


@dataclass(frozen=True, slots=True)
class ChangelogCheck:
    """Looks at one store and what the broker holds of its changelog.

    Attributes:
        settings: What the store was opened with.
        rebuilds: Wipes it, to be restored from the changelog's beginning.
    """

    task_id: TaskId
    directory: Path
    settings: StoreSettings
    managed: ManagedStore
    rebuilds: StoreRebuilds

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
        first_offset = self._first_to_restore(held)
        self.rebuilds.note_topic(self.managed, held)
        return first_offset

    def first_offset_to_follow(self, held: OffsetRange) -> int:
        """Return where a store goes on that is kept for others, who decide what becomes of it.

        Raises:
            RetriableClientError: The store's last transaction can't be read yet; ask again.
            ChangelogLossError: The changelog can't continue it, or somebody has decided about it.
        """
        first_offset = self._first_to_follow(held)
        self.rebuilds.note_topic(self.managed, held)
        return first_offset

    def _first_to_restore(self, held: OffsetRange) -> int:
        managed, directory, store = self.managed, self.directory, self.managed.builder.name
        if managed.from_source:
            return self._first_of_source(held)
        decision = read_decision(directory, store)
        if decision is None:
            goes_on, reason = self._undecided(held)
            if goes_on is not None:
                if managed.next_offset() is None:
                    self._tell_what_is_gone(held)
                return goes_on
            decision = self.settings.changelog_loss_policy
            if decision is ChangelogLossPolicy.STOP:
                raise self._last_copy(reason, held)
            self._check_is_possible(decision, held)
            write_decision(directory, store, decision)
        else:
            reason = f"so it was decided ({decision.value})"
            self._check_is_possible(decision, held)
        note_told(directory, store, held.beginning, managed.identity, lost=True)
        if decision is ChangelogLossPolicy.KEEP:
            managed.logs_anew = decision
            _log.warning(
                "state store is kept and will be logged anew", **self._where, reason=reason
            )
            return held.beginning
        self._rebuild_from_changelog(reason)
        if decision is ChangelogLossPolicy.EMPTY and not held.is_empty:
            managed.logs_anew = decision
        else:
            self.rebuilds.note_topic(managed, held)
            forget_decision(directory, store)
        return held.beginning

    def _first_to_follow(self, held: OffsetRange) -> int:
        if self.managed.from_source:
            return self._first_of_source(held)
        decision = read_decision(self.directory, self.managed.builder.name)
        if decision is not None:
            raise self._last_copy(f"it was decided ({decision.value})", held)
        goes_on, reason = self._undecided(held)
        if goes_on is None:
            raise self._last_copy(reason, held)
        if self.managed.next_offset() is None and held.beginning > 0:
            # It will not hold either what is gone, and may be rebuilt from what is left.
            store, identity = self.managed.builder.name, self.managed.identity
            note_told(self.directory, store, held.beginning, identity, lost=True)
        return goes_on

    def _undecided(self, held: OffsetRange) -> tuple[int | None, str]:
        """Return where a store goes on of which nobody has decided anything.

        Returns:
            None, and the reason, if it is a last copy.
        """
        managed = self.managed
        if managed.rebuild_reason is not None:
            reason = self._why_not_rebuilt(managed.rebuild_reason, held)
            if reason is not None:
                return None, reason
            self.rebuilds.rebuild(managed)
        position = managed.next_offset()
        if position is None:
            self._note_deleted(0, held)
            return held.beginning, ""
        reason = self._why_not_continued(position, held)
        if reason is None:
            return max(position, held.beginning), ""
        if self._has_expired(position, held):
            self._note_deleted(position, held)
            self._rebuild_from_changelog(reason)
            return held.beginning, ""
        return None, reason

    def _why_not_rebuilt(self, rebuild: RebuildReason, held: OffsetRange) -> str | None:
        """Return why a store that can't be used is not rebuilt from its changelog."""
        managed, store = self.managed, self.managed.builder.name
        return why_not_rebuilt(
            self.rebuilds.known,
            store,
            managed.identity,
            held,
            rebuild,
            may_begin_later=managed.expires
            # What was decided about, or gone together with the store, is not in the store either.
            or is_told(self.directory, store, held.beginning, managed.identity, lost=True),
        )

    def _check_is_possible(self, decision: ChangelogLossPolicy, held: OffsetRange) -> None:
        """Refuse what can't be done, before anything of the store is touched."""
        rebuild = self.managed.rebuild_reason
        if rebuild is not None and decision is ChangelogLossPolicy.KEEP:
            raise self.cannot_be_kept(rebuild.why, rebuild.what, held)
        refused = self._refused(held, None if rebuild is None else rebuild.what)
        if decision in refused:
            raise self._loss(
                f"it was to be {BECOMES[decision]}, and can't be: {refused[decision]}. It was not "
                "touched. Write that method and start again, or decide anew: "
                f"{self._choices(refused)}"
            )

    def cannot_be_kept(
        self, why: object, what: str = "damaged", held: OffsetRange | None = None
    ) -> ChangelogLossError:
        """Return what is told of a store that was to be kept and logged anew, and can't be."""
        changelog = self.managed.changelog
        told = f"it was to be kept, and can't be logged anew to {changelog}: it is {what}"
        return self._useless_copy(told, RebuildReason(what, str(why)), held)

    def _useless_copy(
        self, told: str, rebuild: RebuildReason, held: OffsetRange | None
    ) -> ChangelogLossError:
        return self._loss(
            f"{told}. It is the last copy of what the changelog has lost, and was not touched. "
            "Copy its directory first if you want to look for what can still be read. Then decide: "
            f"{self._choices(self._refused(held, rebuild.what))}. What is wrong with it: "
            f"{rebuild.why}"
        )

    def _refused(
        self, held: OffsetRange | None, what: str | None
    ) -> dict[ChangelogLossPolicy, str]:
        return refused_decisions(self.managed.store, held, what=what)

    def _choices(self, refused: Collection[ChangelogLossPolicy]) -> str:
        """Return what can be decided, with the commands."""
        first, *others = possible = decisions_but(refused)
        commands = [self._command(first), *(f"--choose {other.value}" for other in others)]
        done = [
            f"{command} {_DONE[each]}" for command, each in zip(commands, possible, strict=True)
        ]
        return (
            f"{'; '.join(done)}. Then start again. Or start once with changelog.loss.policy="
            f"{in_words(possible)}, for all such stores"
        )

    def _loss(self, message: str) -> ChangelogLossError:
        error = ChangelogLossError(self.managed.builder.name, f"task {self.task_id}: {message}")
        error.changelog = self.managed.changelog
        return error

    def _first_of_source(self, held: OffsetRange) -> int:
        """Return where a store is restored from a source topic: it is what that topic is now."""
        position = self.managed.next_offset()
        if position is None:
            return held.beginning
        if self.managed.identity.is_another or position > held.high_watermark:
            self.rebuilds.wipe(self.managed)
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
        return self.managed.expires and not self._is_another and next_offset < held.beginning

    def _note_deleted(self, next_offset: int, held: OffsetRange) -> None:
        """Take note, once, of what retention has deleted: the task knows whether it had expired."""
        managed = self.managed
        if not managed.expires or next_offset >= held.beginning:
            return
        place = (self.directory, managed.builder.name, held.beginning, managed.identity)
        if not is_told(*place, lost=True):
            note_told(*place, lost=True)
            managed.deleted = next_offset, held.beginning

    @property
    def _is_another(self) -> bool:
        """Whether the store's offset is known to be of a topic that is gone."""
        managed = self.managed
        return is_of_another(self.rebuilds.known, managed.builder.name, managed.identity)

    def _why_not_continued(self, next_offset: int, held: OffsetRange) -> str | None:
        """Return why its changelog can't continue the store; tell if it has lost its beginning."""
        if self._is_another:
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
        self.rebuilds.wipe(self.managed)
        _log.warning("state store is rebuilt from its changelog", **self._where, reason=reason)

    def _last_copy(self, reason: str, held: OffsetRange) -> ChangelogLossError:
        managed, rebuild = self.managed, self.managed.rebuild_reason
        if rebuild is not None:
            lost = f"{managed.changelog} may not hold all of it: {reason}"
            return self._useless_copy(f"it is {rebuild.what}, and {lost}", rebuild, held)
        last_offset = managed.committed_offset()
        found = (
            "nothing any more"
            if held.is_empty
            else f"only the offsets {held.beginning} to {held.high_watermark - 1}"
        )
        refused = self._refused(held, None)
        not_kept = refused.get(ChangelogLossPolicy.KEEP)
        hint = "" if not_kept is None else f". It can't be kept as it is: {not_kept}"
        return self._loss(
            f"it holds all up to offset {last_offset} of {managed.changelog}, which holds {found}; "
            f"{reason}. The store is the last copy of what is missing there, and was not touched. "
            f"Decide what becomes of it: {self._choices(refused)}{hint}"
        )

    def _command(self, decision: ChangelogLossPolicy) -> str:
        return (
            f"pystreams recover TOPOLOGY --task {self.task_id} --store {self.managed.builder.name} "
            f"--choose {decision.value} --execute"
        )
