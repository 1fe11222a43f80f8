"""Stores that a backfill could not hand over, refused before it runs.

A backfill gives its state as changelog records, when a task has read its whole history. A store of
a user's own that has a changelog and can't be given so would end it there, hours later.
"""

from __future__ import annotations

from pystreams.errors import TopologyError
from pystreams.stores.contracts.state_store import StateStore
from pystreams.stores.store_builder import StoreBuilder
from pystreams.topology.plan.topology_plan import TopologyPlan


def refuse_stores(plan: TopologyPlan) -> None:
    """Refuse stores with a changelog whose class does not write `changelog_records`.

    Builds each store once, and opens none.

    Raises:
        TopologyError: There is such a store; names it, its class, and what to do.
    """
    for subtopology in plan.subtopologies:
        for builder in plan.logged_stores(subtopology):
            _check(builder)


def _check(builder: StoreBuilder) -> None:
    store = builder.build()
    if type(store).changelog_records is StateStore.changelog_records:
        raise TopologyError(
            f"store {builder.name!r} has a changelog, and its class {type(store).__qualname__} "
            "does not write changelog_records(), by which a backfill hands state over: write it "
            "(it gives what restore() would take, as key, value, time and headers); or make the "
            "builder's `logging` False, where the store may be empty after the backfill; or start "
            "the application live, from the beginning of its topics, without a backfill"
        )
