"""One store of a task with what belongs to it: its changelog, its meters, its checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pystreams.config import ChangelogLossPolicy
from pystreams.errors import StateStoreCorruptedError, StateStoreError, StreamsError
from pystreams.exception_texts import named_exception
from pystreams.ids import TaskId, TopicPartition
from pystreams.record import ConsumedMessage, OutputBuffer, offset_of
from pystreams.runtime.state.files.checkpointed_offsets import StoreCheckpoint
from pystreams.runtime.state.store_settings import StoreSettings
from pystreams.runtime.state.unexpected_offsets import Tries, UnexpectedOffsets
from pystreams.stores.accounting.metered import StoreMeters, as_processors_see_it
from pystreams.stores.contracts.state_store import ChangelogIdentity
from pystreams.stores.store_builder import StoreBuilder

ReadsSource = Callable[[Sequence[ConsumedMessage]], Sequence[ConsumedMessage]]
"""Returns what a store would have been given of a batch of its source topic."""


@dataclass(frozen=True, slots=True)
class StoreSource:
    """The topic that a table is read from, which may be the changelog of its store.

    Attributes:
        other: What the store has offsets of if it was restored the other way: from a changelog of
            its own, or from the topic.
        reads: How it is restored from the topic; None where it has a changelog.
    """

    other: TopicPartition
    reads: ReadsSource | None


@dataclass(frozen=True, slots=True)
class RebuildReason:
    """Why a store is to be wiped and restored.

    Attributes:
        what: What it is, after "it is".
        why: What was found.
        last_offset: Up to where it held its changelog; None if that is not known.
        damaged: Whether its files are damaged, or nothing of them can be trusted.
        holds_nothing: Whether it is known that it holds nothing, and never did.
    """

    what: str
    why: str
    last_offset: int | None = None
    damaged: bool = False
    holds_nothing: bool = False

    @classmethod
    def damage(
        cls, error: StateStoreCorruptedError, last_offset: int | None = None
    ) -> RebuildReason:
        """Return that of a store that is damaged, as an error says."""
        why, holds_nothing = str(error), error.holds_nothing
        return cls("damaged", why, last_offset, damaged=True, holds_nothing=holds_nothing)

    @classmethod
    def distrust(cls, why: str, last_offset: int | None = None) -> RebuildReason:
        """Return that of a store that may hold what was never committed."""
        return cls("not to be trusted", why, last_offset)


class ManagedStore:
    """One store and its changelog.

    Args:
        changelog_topic: Topic its serdes are bound to: that of its changelog, if it is logged.
        logged: Whether it has a changelog of its own.
        source: The topic it is filled from, if that could be what it is restored from.

    Attributes:
        store: The store, not yet open.
        changelog: What it is restored from, or None when there is nothing.
        reads_source: Makes changelog records of those of a source topic; None unless it is
            restored from that.
        output: Where it appends changelog records, or None when it is not logged.
        meters: What is measured on it.
        processors_store: The store as processors see it: its methods timed at DEBUG.
        checkpoint: Keeps the offset of a logged store that does not manage its own, else None.
        ahead: Whether a store that is not transactional was written to since the last commit, as
            far as its changelog records were sent.
        damages: How often it was found damaged since the last commit.
        rebuild_reason: Why it is to be rebuilt, if so: it is closed until its changelog was looked
            at.
        logs_anew: Whether, once it is restored, all that it holds is to be logged anew (KEEP), or
            deleted from its changelog (EMPTY).
        identity: Which topic its offset is of.
        unexpected: Where somebody else has written to its changelog, until that is undone.
        logged_again: Whether what undoes it was sent, and is not yet committed.
        deleted: Which offsets, from and to, retention had deleted from its changelog before it
            could have them; None for none.
    """

    def __init__(
        self,
        builder: StoreBuilder,
        changelog_topic: str,
        task_id: TaskId,
        settings: StoreSettings,
        *,
        logged: bool,
        source: StoreSource | None = None,
    ) -> None:
        self.builder = builder
        self.changelog_topic = changelog_topic
        self.store = settings.build(builder)
        self.meters = StoreMeters(builder.metrics_scope, settings.recording)
        self.processors_store: Any = as_processors_see_it(self.store, self.meters)
        self.changelog: TopicPartition | None = None
        self.output: OutputBuffer | None = None
        self.checkpoint: StoreCheckpoint | None = None
        self.ahead = False
        self.damages = 0
        self.rebuild_reason: RebuildReason | None = None
        self.logs_anew: ChangelogLossPolicy | None = None
        self.identity = ChangelogIdentity()
        self.unexpected: UnexpectedOffsets | None = None
        self.logged_again = self._went_back = False
        self.deleted: tuple[int, int] | None = None
        self._sent_before = 0
        self.source = source
        self.reads_source = None if source is None else source.reads
        if not logged and self.reads_source is None:
            return
        self.changelog = TopicPartition(changelog_topic, task_id.partition)
        if logged:
            self.output = OutputBuffer(*self.changelog, is_changelog=True, task_id=task_id)
        if not self.store.manages_offsets():
            self.checkpoint = StoreCheckpoint(
                builder.name,
                self.changelog,
                persistent=self.store.persistent,
                exactly_once=settings.environment.exactly_once,
            )

    def close(self) -> None:
        """Close the store; its checkpoint says whether all was committed and it closed in order.

        Raises:
            StateStoreError: It raised, one of the user's, say.
        """
        clean = False
        try:
            self.store.close()
            clean = self.rebuild_reason is None and not self.holds_uncommitted()
        except StreamsError:
            raise
        except Exception as error:
            raise StateStoreError(
                self.builder.name, f"its close raised {named_exception(error)}"
            ) from error
        finally:
            if self.checkpoint is not None:
                self.checkpoint.close(clean=clean)

    @property
    def expires(self) -> bool:
        """Whether its changelog has a retention, after which it forgets records by itself."""
        return expires(self.builder)

    @property
    def from_source(self) -> bool:
        """Whether it is restored from a source topic, which holds more than it has seen."""
        return self.reads_source is not None

    def committed_offset(self) -> int | None:
        """Return the offset of the last changelog record in the store's data, or None."""
        if self.rebuild_reason is not None:
            return None
        if self.checkpoint is not None:
            return self.checkpoint.offset
        return None if self.changelog is None else self.store.committed_offset(self.changelog)

    def next_offset(self) -> int | None:
        """Return the offset after it, at which the store's changelog goes on."""
        last_offset = self.committed_offset()
        return None if last_offset is None else last_offset + 1

    def restore(self, messages: Sequence[ConsumedMessage]) -> None:
        """Apply a batch of what it is restored from; one of a source topic as it was processed."""
        if self.reads_source is None or not messages:
            self.store.restore(messages)
            return
        records = self.reads_source(messages)
        if records:
            self.store.restore(records)
            return
        assert self.changelog is not None, "it is restored from a topic"
        self.store.commit({self.changelog: offset_of(messages[-1])})

    def reached_offset(self, next_offsets: Mapping[TopicPartition, int]) -> int | None:
        """Return the offset that its data will hold with the next commit; None for nothing new.

        Args:
            next_offsets: Of the input, as they were committed.
        """
        if self.output is not None:
            assert not self.output.records, "changelog records must be sent before a store commits"
            if self.output.last_offset is not None:
                return self.output.last_offset
            return self.committed_offset() if self.may_be_written_unlogged() else None
        assert self.changelog is not None, "it is restored from a topic"
        next_offset = next_offsets.get(self.changelog)
        return next_offset - 1 if next_offset else self.committed_offset()

    def committed(self, last_offset: int) -> None:
        """Take note that its data was committed, with an offset."""
        if self.output is not None:
            self.output.last_offset = None
        self.ahead = False
        self.damages = 0
        if self.checkpoint is not None:
            self.checkpoint.moved(last_offset)

    def count_anew(self, *, went_back: bool = False) -> None:
        """Expect of the changelog only what is sent from now on.

        What was logged again is in the changelog, and so committed or restored.
        """
        if self.logged_again:
            self.unexpected = None
        if self.output is not None:
            self._sent_before = self.output.sent_records
            self._went_back |= went_back
            self.logged_again = False

    def look_for_others(self, last_offset: int) -> None:
        """Note offsets up to that of the last record sent, which is about to be committed.

        Without transactions those of one writer follow each other.
        """
        before, output = self.committed_offset(), self.output
        assert output is not None, "a store that is logged has a buffer"
        before = -1 if before is None else before  # It held nothing to restore.
        sent, went_back = output.sent_records - self._sent_before, self._went_back
        self.count_anew()
        self._went_back = False
        if last_offset - before <= sent:
            return
        first, known, tries = before + 1, self.unexpected, Tries()
        if known is not None:
            # What lies between is its own, and was counted.
            first, went_back = known.first, went_back or known.perhaps_own
            tries = known.tries
            sent += before - known.last + known.own_records
        self.unexpected = UnexpectedOffsets(first, last_offset, sent, went_back, tries=tries)

    def was_restored_otherwise(self) -> bool:
        """Return whether it is of a time when `topology.optimization` said something else.

        Raises:
            StateStoreError: It has a changelog now, which lacks what is in the store.
        """
        source = self.source
        if source is None or self.store.committed_offset(source.other) is None:
            return False
        if self.from_source:
            return True
        raise StateStoreError(
            self.builder.name,
            f"it was restored from topic {source.other.topic!r} so far, and now has a changelog, "
            f"{self.changelog_topic!r}, which lacks what it holds: topology.optimization has lost "
            "reuse.ktable.source.topics. Set that again; or run `pystreams reset`, or take another "
            "application.id, and process the input anew",
        )

    def holds_uncommitted(self) -> bool:
        """Return whether a store that is not transactional was written to since the commit."""
        waiting = self.output is not None and bool(self.output.records)
        return not self.store.transactional and (self.ahead or waiting)

    def may_be_written_unlogged(self) -> bool:
        """Return whether there may be writes since the commit, of a store that logged none of them.

        A cached key came and went; or what was restored let segments expire, which a store that is
        not transactional drops at once. It then counts as ahead until a commit covers that.
        """
        if self.store.approximate_num_uncommitted_bytes():
            return True
        return not self.store.transactional and self.checkpoint is None and not self.ahead


def expires(builder: StoreBuilder) -> bool:
    """Return whether the changelog of a store has a retention, as those of windows have."""
    settings = {**builder.changelog_defaults(0), **builder.changelog_config}
    return "delete" in settings["cleanup.policy"]
