"""The builder of our own stores. Was: StoreBuilder, AbstractStoreBuilder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pystreams.errors import TopologyError
from pystreams.stores.build import build_store
from pystreams.stores.builder_arguments import topic_settings
from pystreams.stores.contracts.spec import EngineFactory, StoreEngine, StoreKind, StoreSpec
from pystreams.stores.store_builder import StoreBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pystreams.stores.contracts.key_value import StateStore


@dataclass(frozen=True, slots=True)
class StoreSpecBuilder:
    """A store to be, of any kind: each `with_*` returns a new builder, nothing is changed in place.

    Differs from Kafka: Java's builders change themselves and return themselves; use the result.
    """

    spec: StoreSpec

    @property
    def name(self) -> str:
        """The store's name."""
        return self.spec.name

    @property
    def store_kind(self) -> StoreKind:
        """What stores like it can do."""
        return self.spec.kind

    @property
    def logging(self) -> bool:
        """Whether the store has a changelog topic."""
        return self.spec.logging

    @property
    def changelog_config(self) -> Mapping[str, str]:
        """Topic settings that override the library's and the configuration's."""
        return self.spec.changelog_config

    @property
    def metrics_scope(self) -> str:
        """The store's type in the tags of its metrics, as in `rocksdb-state-id`."""
        return self.spec.metrics_scope

    def with_caching_enabled(self) -> StoreSpecBuilder:
        """Log and forward only the last update of each key at a commit.

        Raises:
            TopologyError: Stores of this kind can't be cached.
        """
        kind = self.store_kind
        if not kind.caches:
            raise TopologyError(
                f"store {self.name!r}: {kind.name} stores can't be cached, the cache keeps one "
                "value a key; leave with_caching_enabled out"
            )
        return StoreSpecBuilder(replace(self.spec, caching=True))

    def with_caching_disabled(self) -> StoreSpecBuilder:
        """Log each update at once (the default)."""
        return StoreSpecBuilder(replace(self.spec, caching=False))

    def with_logging_enabled(self, config: Mapping[str, str] | None = None) -> StoreSpecBuilder:
        """Keep a changelog topic (the default).

        Args:
            config: Topic settings for it, such as `{"segment.bytes": "104857600"}`; None for none.

        Raises:
            TopologyError: They are no mapping.
        """
        settings = topic_settings(f"store {self.name!r}: config", config)
        return StoreSpecBuilder(replace(self.spec, logging=True, changelog_config=settings))

    def with_logging_disabled(self) -> StoreSpecBuilder:
        """Keep no changelog: the store's content is lost with its disk or its task's move."""
        return StoreSpecBuilder(replace(self.spec, logging=False, changelog_config={}))

    def with_transactional_enabled(self) -> StoreSpecBuilder:
        """Keep writes from the store's files until the commit (the default)."""
        return StoreSpecBuilder(replace(self.spec, transactional=True))

    def with_transactional_disabled(self) -> StoreSpecBuilder:
        """Write through at once, without holding a transaction in memory.

        Under exactly-once the store is then wiped and restored from its changelog after each
        aborted transaction and each end that is not a clean one. Queries see what is not
        committed.
        """
        return StoreSpecBuilder(replace(self.spec, transactional=False))

    def changelog_defaults(self, additional_retention_ms: int) -> Mapping[str, str]:
        """Return the changelog topic's settings by the store's kind, the weakest of all."""
        return self.spec.changelog_defaults(additional_retention_ms)

    @property
    def engine(self) -> StoreEngine | None:
        """Which of our engines keeps the store's bytes; None for one of the user's own."""
        return self.spec.engine if self.spec.engine_factory is None else None

    def over(self, engine: StoreEngine | EngineFactory) -> StoreSpecBuilder:
        """Keep the store's bytes in another engine: ours, or one that is made from its name."""
        if isinstance(engine, StoreEngine):
            return StoreSpecBuilder(replace(self.spec, engine=engine, engine_factory=None))
        return StoreSpecBuilder(replace(self.spec, engine_factory=engine))

    def build(self) -> StateStore:
        """Return a new store, not yet open."""
        return build_store(self.spec)


def without_changelog(builder: StoreBuilder) -> StoreBuilder:
    """Return the builder of the same store without a changelog; one of a user's own as it is."""
    if isinstance(builder, StoreSpecBuilder):
        return builder.with_logging_disabled()
    return builder
