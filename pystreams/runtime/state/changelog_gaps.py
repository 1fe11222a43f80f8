"""Whether a changelog can continue a store, or rebuild one that can't be used.

    store     ...........|next                     the store holds all before its next offset
    changelog       [beginning ........ end)       `next` lies within: the delta is restored
    changelog  [..)                                it lies beyond: the topic was made again, as
                                                   its id tells too, however long it is by now
    changelog                 [beginning .. end)   it lies before: what is between is gone

Compaction never moves the beginning of a log: it is moved by retention, or by hand.

A store that is damaged, or can't be trusted, has no offset to hold against that. It is rebuilt if
its changelog is the same topic as before, from its beginning on. Where brokers do not tell topics
apart (before Kafka 2.8), a changelog is taken for the same unless it ends before what is known of
it: from the store itself, or as it was noted beside the store (`known_changelogs`). If nothing is
known of how far it went, an empty one is taken for another.
"""

from __future__ import annotations

from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.state.files.known_changelogs import KnownChangelogs
from pystreams.runtime.state.managed_store import RebuildReason
from pystreams.stores.contracts.state_store import ChangelogIdentity

ANOTHER_TOPIC = "its offset is of another topic of that name: it was deleted and created again"


def is_of_another(known: KnownChangelogs, store: str, identity: ChangelogIdentity) -> bool:
    """Return whether a store's offset is known to be of a topic that is gone.

    Args:
        known: What was noted beside the stores of its task: one of a user's own says nothing.
        identity: Which topic its offset is of, as far as it says that itself; and which it is now.
    """
    former = identity.stored or known.of(store).topic
    return None not in {former, identity.current} and former != identity.current


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


def why_not_rebuilt(
    known: KnownChangelogs,
    store: str,
    identity: ChangelogIdentity,
    held: OffsetRange,
    rebuild: RebuildReason,
    *,
    may_begin_later: bool,
) -> str | None:
    """Return why a changelog may not hold all of a store that can't be used; None if it does.

    Args:
        known: What was noted beside the stores of its task.
        identity: Which topic its data is of, as far as it says that itself; and which it is now.
        held: What the broker holds of the changelog.
        rebuild: Why it can't be used.
        may_begin_later: Whether the beginning of the changelog may be gone and was not lost.
    """
    if is_new(known, store, identity, rebuild):
        return None
    noted = known.of(store)
    topic = noted.topic or identity.stored
    if None not in {topic, identity.current}:
        if topic != identity.current:
            return ANOTHER_TOPIC
    elif (reason := _why_another(noted.end, held, rebuild)) is not None:
        return reason
    if held.beginning > 0 and not may_begin_later:
        return (
            f"the changelog now begins at {held.beginning}: what was before that was deleted, by "
            "retention or by hand"
        )
    return None


def is_new(
    known: KnownChangelogs, store: str, identity: ChangelogIdentity, rebuild: RebuildReason
) -> bool:
    """Return whether a store that can't be used has never held anything."""
    is_noted = not known.is_new(store)
    if known.of_earlier_version:
        is_noted = not rebuild.holds_nothing
    return not is_noted and identity.stored is None and rebuild.last_offset is None


def _why_another(noted_end: int, held: OffsetRange, rebuild: RebuildReason) -> str | None:
    """Return why a changelog may be another topic than before, where no id tells."""
    own_end = 0 if rebuild.last_offset is None else rebuild.last_offset + 1
    end = max(noted_end, own_end)
    if end > held.high_watermark:
        return (
            f"it had {end} offsets at least, and now ends at {held.high_watermark}: the topic was "
            "deleted and created again"
        )
    if rebuild.damaged and held.high_watermark == 0:
        return "the changelog is empty, and may be another topic than the one of before"
    return None
