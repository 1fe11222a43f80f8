"""Idle timeouts, which a backfill can't honour: refused, unless they are to be ignored."""

from __future__ import annotations

from pystreams.config import StreamsConfig
from pystreams.errors import TopologyError
from pystreams.topology.graph.nodes import ProcessorNode
from pystreams.topology.plan.topology_plan import TopologyPlan


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
