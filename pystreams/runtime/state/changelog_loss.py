"""Whether a changelog can continue a store, and what is done when it can't.

    store     ...........|next                     the store holds all before its next offset
    changelog       [beginning ........ end)       `next` lies within: the delta is restored
    changelog  [..)                                it lies beyond: the topic was made again, as
                                                   its id tells too, however long it is by now
    changelog                 [beginning .. end)   it lies before: what is between is gone

Compaction never moves the beginning of a log: it is moved by retention, or by hand. Changelogs of
windows and sessions have a retention, so that theirs moves as time goes by: what is gone there has
expired, and the store is restored from the beginning. Elsewhere a store that its changelog can't
continue is the last copy of what that has lost. It is not touched until somebody decides.
"""

from __future__ import annotations

from pystreams.config import ChangelogLossPolicy
from pystreams.errors import ChangelogLossError, RetriableClientError
from pystreams.ids import TopicPartition
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.state.loss_decisions import forget_decision, read_decision, write_decision
from pystreams.runtime.state.managed_store import ManagedStore
from pystreams.runtime.state.state_manager import ProcessorStateManager
from pystreams.runtime.state.told_losses import is_told, note_told

ANOTHER_TOPIC = "its offset is of another topic of that name: it was deleted and created again"

_log = get_logger("pystreams.restore")


def first_offset_to_restore(
    manager: ProcessorStateManager, changelog: TopicPartition, held: OffsetRange
) -> int:
    """Return where a store is restored from, after what has to be done to it before.

    Args:
        manager: The stores of the task.
        changelog: The store's changelog.
        held: What the broker holds of it.

    Raises:
        RetriableClientError: The store's last transaction can't be read yet; ask again.
        ChangelogLossError: The store is the last copy, and nobody has decided about it.
    """
    managed = manager.logged()[changelog]
    position = managed.next_offset()
    store, directory = managed.builder.name, manager.directory
    decision = read_decision(directory, store)
    if decision is None:
        if position is None:
            _tell_what_is_gone(manager, managed, held)
            return held.beginning
        reason = _why_not_continued(manager, managed, position, held)
        if reason is None:
            return max(position, held.beginning)
        if managed.expires and position < held.beginning:
            manager.rebuild(changelog)
            _tell_rebuilt(manager, managed, reason)
            return held.beginning
        decision = manager.settings.changelog_loss_policy
        if decision is ChangelogLossPolicy.STOP:
            raise _last_copy(manager, managed, reason, held)
        write_decision(directory, store, decision)
    else:
        reason = f"so it was decided ({decision.value})"
    note_told(directory, store, held.beginning, managed.identity, lost=True)
    if decision is ChangelogLossPolicy.KEEP:
        managed.logs_anew = decision
        _log.warning(
            "state store is kept and will be logged anew",
            task=str(manager.task_id),
            store=store,
            changelog=str(changelog),
            reason=reason,
        )
        return held.beginning
    manager.rebuild(changelog)
    _tell_rebuilt(manager, managed, reason)
    if decision is ChangelogLossPolicy.EMPTY:
        managed.logs_anew = decision
    else:
        forget_decision(directory, store)
    return held.beginning


def why_not_continued(next_offset: int, held: OffsetRange, *, exactly_once: bool) -> str | None:
    """Return why a changelog can't continue a store; None when it can.

    Args:
        next_offset: The offset at which the store's changelog would go on.
        held: What the broker holds of it.
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


def _why_not_continued(
    manager: ProcessorStateManager, managed: ManagedStore, next_offset: int, held: OffsetRange
) -> str | None:
    """Return the same, and tell of a changelog that has lost what the store holds."""
    if managed.identity.is_another:
        return ANOTHER_TOPIC
    if held.end < next_offset <= held.high_watermark:
        # The store holds a transaction whose markers the broker has not written yet.
        message = f"{managed.changelog}: a committed transaction is not readable yet"
        raise RetriableClientError(message)
    reason = why_not_continued(next_offset, held, exactly_once=manager.settings.exactly_once)
    if reason is None and _is_news(manager, managed, held, lost=False):
        _log.warning(
            "changelog has lost its beginning, the state store here is whole: log it anew",
            task=str(manager.task_id),
            store=managed.builder.name,
            changelog=str(managed.changelog),
            offsets_gone=held.beginning,
            cure=f"stop, then {_command(manager, managed, ChangelogLossPolicy.KEEP)}",
        )
    return reason


def _is_news(
    manager: ProcessorStateManager, managed: ManagedStore, held: OffsetRange, *, lost: bool
) -> bool:
    """Return whether a changelog has lost its beginning since that was last told."""
    if held.beginning == 0 or managed.expires:
        return False
    place = (manager.directory, managed.builder.name, held.beginning, managed.identity)
    if is_told(*place, lost=lost):
        return False
    note_told(*place, lost=lost)
    return True


def _tell_what_is_gone(
    manager: ProcessorStateManager, managed: ManagedStore, held: OffsetRange
) -> None:
    """Tell of a changelog without its beginning whose store is not here either."""
    if _is_news(manager, managed, held, lost=True):
        _log.error(
            "state is lost: the changelog has lost its beginning, and there is no state store here",
            task=str(manager.task_id),
            store=managed.builder.name,
            changelog=str(managed.changelog),
            offsets_gone=held.beginning,
            reason="compaction never deletes the beginning: retention did, or somebody by hand. "
            "What the changelog still holds is restored: all, if a store was logged anew since; "
            "else the rest may be in the task's directory of another host, or come from the input "
            "by a backfill",
        )


def _tell_rebuilt(manager: ProcessorStateManager, managed: ManagedStore, reason: str) -> None:
    _log.warning(
        "state store is rebuilt from its changelog",
        task=str(manager.task_id),
        store=managed.builder.name,
        changelog=str(managed.changelog),
        reason=reason,
    )


def _last_copy(
    manager: ProcessorStateManager, managed: ManagedStore, reason: str, held: OffsetRange
) -> ChangelogLossError:
    last_offset = managed.committed_offset()
    found = (
        f"only the offsets {held.beginning} to {held.high_watermark - 1}"
        if held.high_watermark > held.beginning
        else "nothing any more"
    )
    return ChangelogLossError(
        managed.builder.name,
        f"task {manager.task_id}: it holds all up to offset {last_offset} of {managed.changelog}, "
        f"which holds {found}; {reason}. The store is the last copy of what is missing there, and "
        "was not touched. Decide what becomes of it: "
        f"{_command(manager, managed, ChangelogLossPolicy.KEEP)} keeps it and logs it anew (what "
        "the changelog holds goes over it); --choose restore wipes it and restores what the "
        "changelog holds; --choose empty starts empty. Then start again. Or start once with "
        "changelog.loss.policy=keep, restore or empty, for all such stores",
    )


def _command(
    manager: ProcessorStateManager, managed: ManagedStore, decision: ChangelogLossPolicy
) -> str:
    return (
        f"pystreams recover TOPOLOGY --task {manager.task_id} --store {managed.builder.name} "
        f"--choose {decision.value} --execute"
    )
