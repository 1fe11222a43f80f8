"""What `add_state_store` takes: it names a store, says what kind it is of, and can build it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol

from pystreams.serdes import BYTES
from pystreams.stores.contracts.spec import EngineFactory, StoreEngine, StoreKind, StoreSpec
from pystreams.stores.kinds.custom.kind import CUSTOM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pystreams.stores.contracts.key_value import StateStore


class StoreBuilder(Protocol):
    """What `add_state_store` takes: names a store and can build it, once a task.

    A builder of a user's own subclasses it and writes `name` and `build`; the rest has defaults.
    """

    @property
    def store_kind(self) -> StoreKind:
        """What stores like it can do; by default what those of a user's own can."""
        return CUSTOM

    @property
    def spec(self) -> StoreSpec:
        """What the store is, as far as it is known outside of it: its keys and values are bytes."""
        return StoreSpec(
            self.name, self.store_kind, key_serde=BYTES, value_serde=BYTES, logging=self.logging
        )

    @property
    @abstractmethod
    def name(self) -> str:
        """The store's name."""

    @property
    def logging(self) -> bool:
        """Whether the store has a changelog topic; True by default."""
        return True

    @property
    def changelog_config(self) -> Mapping[str, str]:
        """Topic settings that override the library's and the configuration's; none by default."""
        return {}

    @property
    def metrics_scope(self) -> str:
        """The store's type in the tags of its metrics, as in `rocksdb-state-id`."""
        return "custom"

    def changelog_defaults(self, additional_retention_ms: int) -> Mapping[str, str]:
        """Return the changelog topic's settings by the store's kind, the weakest of all.

        A compacted topic by default.
        """
        return {"cleanup.policy": "compact"}

    @property
    def engine(self) -> StoreEngine | None:
        """Which of our engines keeps the store's bytes; None, the default, where none does."""
        return None

    def over(self, engine: StoreEngine | EngineFactory) -> StoreBuilder:
        """Return the builder of the same store over another engine: ours, or one made by name.

        A store that keeps its bytes in its own way is left as it is, by default.
        """
        return self

    @abstractmethod
    def build(self) -> StateStore:
        """Return a new store, not yet open."""
