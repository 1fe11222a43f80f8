"""What the stores of a thread are made, opened and measured with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pystreams.config import ChangelogLossPolicy
from pystreams.metrics import AT_INFO, Recording
from pystreams.runtime.state.bytes_ledger import BytesLedger
from pystreams.stores.contracts.key_value import StateStore
from pystreams.stores.contracts.state_store import StoreEnvironment
from pystreams.stores.store_builder import StoreBuilder


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """What the stores of a thread are made, opened and measured with.

    Attributes:
        build: Makes a store from its builder; the test driver puts memory in RocksDB's place.
        changelog_loss_policy: `changelog.loss.policy`.
        ledger: Where it is kept what the stores of one thread hold together.
        additional_retention_ms: `windowstore.changelog.additional.retention.ms`.
        damage_cure: What to do about a damaged store where no changelog is at hand; None: one that
            is logged is rebuilt.
    """

    environment: StoreEnvironment
    build: Callable[[StoreBuilder], StateStore] = lambda builder: builder.build()
    recording: Recording = AT_INFO
    changelog_loss_policy: ChangelogLossPolicy = ChangelogLossPolicy.STOP
    ledger: BytesLedger = field(default_factory=BytesLedger)
    additional_retention_ms: int = 86_400_000
    damage_cure: str | None = None

    @property
    def cure(self) -> str:
        """What to do about a damaged store that nothing rebuilds."""
        return self.damage_cure or (
            "It has no changelog to be rebuilt from: delete its directory and start again, it is "
            "then empty"
        )
