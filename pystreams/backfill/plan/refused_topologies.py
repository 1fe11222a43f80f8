"""Topologies whose results a backfill could not give or hand over, refused before it runs.

A backfill gives its state as changelog records, when a task has read its whole history. A store of
a user's own that has a changelog and can't be given so would end it there, hours later. Idle
timeouts it can't honour: they are refused, unless they are to be ignored.
"""

from __future__ import annotations

from pystreams.config import StreamsConfig
from pystreams.errors import TopologyError
from pystreams.stores.contracts.state_store import can_be_dumped
from pystreams.topology.graph.nodes import ProcessorNode
from pystreams.topology.plan.topology_plan import TopologyPlan


def refuse_stores(plan: TopologyPlan) -> None:
    """Refuse stores with a changelog whose class does not write `changelog_records`.

    Builds each store once, and opens none.

    Raises:
        TopologyError: There is such a store; names it, its class, and what to do.
    """
    for builder in plan.changelogs().values():
        store = builder.build()
        if can_be_dumped(store):
            continue
        raise TopologyError(
            f"store {builder.name!r} has a changelog, and its class {type(store).__qualname__} "
            "does not write changelog_records(), by which a backfill hands state over: write it "
            "(it gives what restore() would take, as key, value, time and headers); or make the "
            "builder's `logging` False, where the store may be empty after the backfill; or start "
            "the application live, from the beginning of its topics, without a backfill"
        )


def refuse_idle_timeouts(plan: TopologyPlan, config: StreamsConfig) -> None:
    """Refuse a topology whose results depend on when its input was silent: the log does not say.

    Args:
        config: Says whether idle timeouts are to be ignored.

    Raises:
        TopologyError: It has such operations; names them, and what to do.
    """
    if config.backfill_ignore_idle_timeouts:
        return
    timed = sorted(
        name
        for name, node in plan.topology.nodes.items()
        if isinstance(node, ProcessorNode)
        and getattr(node.operator, "idle_timeout_ms", None) is not None
    )
    if timed:
        raise TopologyError(
            f"{', '.join(timed)}: idle_timeout_ms lets stream time go on while the input is "
            "silent, and a backfill can't know when that was. Set "
            "backfill.ignore.idle.timeouts=true for the results that the records alone give (what "
            "still waits at the end of the history goes on live); or start the application live, "
            "from the beginning of its topics, without a backfill"
        )
