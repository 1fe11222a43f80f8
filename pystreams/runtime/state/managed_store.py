"""One store of a task with what belongs to it: its changelog, its meters, its checkpoint."""

from __future__ import annotations

from typing import Any

from pystreams.config import ChangelogLossPolicy
from pystreams.ids import TaskId, TopicPartition
from pystreams.record import OutputBuffer
from pystreams.runtime.state.checkpointed_offsets import StoreCheckpoint
from pystreams.runtime.state.store_settings import StoreSettings
from pystreams.stores.accounting.metered import StoreMeters, as_processors_see_it
from pystreams.stores.contracts.state_store import ChangelogIdentity
from pystreams.stores.store_builder import StoreBuilder


class ManagedStore:
    """One store and its changelog.

    Args:
        builder: What the user asked for.
        changelog_topic: Topic its serdes are bound to: that of its changelog, if it is logged.
        task_id: Whose store it is.
        settings: What it is made and measured with.
        logged: Whether it has a changelog.

    Attributes:
        store: The store, not yet open.
        changelog: Its changelog partition, or None when it is not logged.
        output: Where it appends changelog records, or None when it is not logged.
        meters: What is measured on it.
        processors_store: The store as processors see it: its methods timed at DEBUG.
        checkpoint: Keeps the offset of a logged store that does not manage its own, else None.
        ahead: Whether a store that is not transactional was written to since the last commit, as
            far as its changelog records were sent.
        damages: How often it was found damaged since the last commit.
        logs_anew: Whether, once it is restored, all that it holds is to be logged anew (KEEP), or
            deleted from its changelog (EMPTY).
        identity: Which topic its offset is of.
    """

    def __init__(
        self,
        builder: StoreBuilder,
        changelog_topic: str,
        task_id: TaskId,
        settings: StoreSettings,
        *,
        logged: bool,
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
        self.logs_anew: ChangelogLossPolicy | None = None
        self.identity = ChangelogIdentity()
        if not logged:
            return
        self.changelog = TopicPartition(changelog_topic, task_id.partition)
        self.output = OutputBuffer(*self.changelog, is_changelog=True, task_id=task_id)
        if not self.store.manages_offsets():
            self.checkpoint = StoreCheckpoint(
                builder.name,
                self.changelog,
                persistent=self.store.persistent,
                exactly_once=settings.environment.exactly_once,
            )

    @property
    def expires(self) -> bool:
        """Whether its changelog has a retention, after which it forgets records by itself."""
        return expires(self.builder)

    def committed_offset(self) -> int | None:
        """Return the offset of the last changelog record in the store's data, or None."""
        if self.checkpoint is not None:
            return self.checkpoint.offset
        return None if self.changelog is None else self.store.committed_offset(self.changelog)

    def next_offset(self) -> int | None:
        """Return the offset after it, at which the store's changelog goes on."""
        last_offset = self.committed_offset()
        return None if last_offset is None else last_offset + 1

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
