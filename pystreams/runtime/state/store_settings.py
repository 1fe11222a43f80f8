"""What all stores of a thread are opened with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pystreams.config import ChangelogLossPolicy
from pystreams.metrics import AT_INFO, Recording
from pystreams.runtime.state.bytes_ledger import BytesLedger
from pystreams.serdes import Serde
from pystreams.stores.accounting.read_cache import ReadCacheBudget
from pystreams.stores.contracts.key_value import StateStore
from pystreams.stores.store_builder import StoreBuilder


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """What all stores of a thread are opened with.

    Attributes:
        application_id: The application's id.
        cache_enabled: Whether the record cache has any bytes to give.
        read_cache_budget: What the read caches of the thread share, or None for no cache.
        default_key_serde: For stores without a key serde of their own, or None.
        default_value_serde: For stores without a value serde of their own, or None.
        rocksdb_config_setter: The user's hook on RocksDB options, or None.
        build: Makes a store from its builder; the test driver puts memory in RocksDB's place.
        recording: How metrics are recorded.
        exactly_once: Whether what is not committed must leave no trace in a store.
        changelog_loss_policy: `changelog.loss.policy`.
        ledger: Where it is kept what the stores of one thread hold together.
    """

    application_id: str
    cache_enabled: bool
    read_cache_budget: ReadCacheBudget | None = None
    default_key_serde: Serde[Any] | None = None
    default_value_serde: Serde[Any] | None = None
    rocksdb_config_setter: Any = None
    build: Callable[[StoreBuilder], StateStore] = lambda builder: builder.build()
    recording: Recording = AT_INFO
    exactly_once: bool = False
    changelog_loss_policy: ChangelogLossPolicy = ChangelogLossPolicy.STOP
    ledger: BytesLedger = field(default_factory=BytesLedger)
