"""One store of a task with what belongs to it: its changelog, its meters, its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pystreams.config import ChangelogLossPolicy
from pystreams.ids import TopicPartition
from pystreams.record import OutputBuffer
from pystreams.runtime.state.checkpointed_offsets import StoreCheckpoint
from pystreams.stores.accounting.metered import StoreMeters
from pystreams.stores.contracts.key_value import StateStore
from pystreams.stores.contracts.state_store import ChangelogIdentity
from pystreams.stores.store_builder import StoreBuilder


@dataclass(slots=True)
class ManagedStore:
    """One store and its changelog.

    Attributes:
        builder: What the user asked for.
        store: The store.
        changelog: Its changelog partition, or None when it is not logged.
        output: Where it appends changelog records, or None when it is not logged.
        changelog_topic: Topic its serdes are bound to.
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

    builder: StoreBuilder
    store: StateStore
    changelog: TopicPartition | None
    output: OutputBuffer | None
    changelog_topic: str
    meters: StoreMeters
    processors_store: Any
    checkpoint: StoreCheckpoint | None
    ahead: bool = False
    damages: int = 0
    logs_anew: ChangelogLossPolicy | None = None
    identity: ChangelogIdentity = field(default_factory=ChangelogIdentity)

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
