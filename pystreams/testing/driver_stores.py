"""The stores of a topology under test, each asked for as what it is.

The store of a ready aggregation is given as queries see it: with results, for reading.

Source: Kafka Streams' `TopologyTestDriver.getKeyValueStore` and its siblings. Differs from Kafka: a
store that does not exist, or is of another kind, is refused by name; there it is null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pystreams.config.guarantee import IsolationLevel
from pystreams.errors import TopologyError
from pystreams.record import ProducedRecord, StaticMessage
from pystreams.runtime.state.state_manager import ProcessorStateManager
from pystreams.serdes import StateSerde
from pystreams.stores.contracts.state_store import StateStore
from pystreams.stores.store_builder import StoreBuilder
from pystreams.testing.plain_values import PlainValues, PlainWindows
from pystreams.testing.told_damage import TellingStore


@dataclass(frozen=True, slots=True)
class DriverStores:
    """Gives a topology's stores by name, each in the form that its kind has (`StoreKind.form`)."""

    builders: Mapping[str, StoreBuilder]
    stores: Callable[[], Mapping[str, StateStore]]

    def of_form(self, name: str, *forms: str) -> Any:
        """Return a store of one of some forms.

        Raises:
            TopologyError: There is none of that name, or it is of another form.
        """
        stores = self.stores()
        store = stores.get(name)
        if store is None:
            raise TopologyError(f"there is no state store {name!r}; there are: {sorted(stores)}")
        form = self._form(name)
        if form in forms:
            return self._as_queries_see(name, store)
        found, method = f"a {store.__class__.__name__}", "get_state_store"
        if form:
            found, method = f"a {_words(form)}", f"get_{form}"
        wanted = _words(forms[0])
        raise TopologyError(f"state store {name!r} is {found}, no {wanted}: use {method}")

    def plain_values(self, name: str) -> PlainValues:
        """Return a key-value store, plain or timestamped, ours or a user's own, as plain values.

        Raises:
            TopologyError: There is none of that name, or it is of another form.
        """
        store = self.of_form(name, "key_value_store", "timestamped_key_value_store", "")
        return PlainValues(store, timestamped=self._is_timestamped(name))

    def plain_windows(self, name: str) -> PlainWindows:
        """Return a window store, plain or timestamped, as plain values.

        Raises:
            TopologyError: There is none of that name, or it is of another form.
        """
        store = self.of_form(name, "window_store", "timestamped_window_store")
        return PlainWindows(store, timestamped=self._is_timestamped(name))

    def as_read(self, stores: Mapping[str, StateStore]) -> dict[str, Any]:
        """Return stores by name as tests read them: those of ours that have files tell of damage.

        A store of a user's own is given as it is.
        """
        return {
            name: TellingStore(store)
            if store.persistent and self.builders[name].engine is not None
            else store
            for name, store in stores.items()
        }

    def _as_queries_see(self, name: str, store: Any) -> Any:
        """Return the store; of a ready aggregation its results, for reading only."""
        if isinstance(self.builders[name].spec.value_serde, StateSerde):
            return store.read_only(IsolationLevel.READ_UNCOMMITTED)
        return store

    def _form(self, name: str) -> str:
        builder = self.builders[name]
        return builder.store_kind.form(builder.spec)

    def _is_timestamped(self, name: str) -> bool:
        return self._form(name).startswith("timestamped_")


def _words(form: str) -> str:
    return form.replace("key_value", "key-value").replace("_", " ")


def restore_stores(
    state: ProcessorStateManager, changelogs: Mapping[str, Sequence[ProducedRecord]]
) -> None:
    """Apply changelog records, by store, to the stores of a task that have a changelog."""
    for changelog in state.changelogs():
        messages = [
            StaticMessage(changelog.topic, changelog.partition, offset, *record)
            for offset, record in enumerate(changelogs.get(state.store_of(changelog), ()))
        ]
        state.restore(changelog, messages)
