"""Finds the names that were generated for internal topics and stores: those a change may move.

A generated name counts the operations before it. Insert one, and the store or topic after it has
another name: its state starts empty, or finds that of another operation. A name that the user has
given is none, whatever it looks like: it may be one that was generated once, and is to stay.

Spec: KIP-1111. Differs from Kafka, which also names stores of tables that are never kept, and does
not name those of suppressions without a changelog, which are in memory there.
"""

from __future__ import annotations

from collections.abc import Iterator

from pystreams.errors import TopologyError
from pystreams.kernel.user_tracebacks import UsersCall
from pystreams.topology.graph.nodes import SinkNode
from pystreams.topology.graph.topology import Topology


def check_names(topology: Topology) -> None:
    """Refuse a topology with internal topics or stores that its user has not named.

    Raises:
        TopologyError: There are some; names each, with the line that declares it.
    """
    found = list(_generated(topology))
    if not found:
        return
    listed = "\n".join(f"  {what} {name}{call.told()}" for what, name, call in found)
    raise TopologyError(
        "ensure.explicit.internal.resource.naming is set, and these have generated names, which "
        f"change when an operation is put in before them:\n{listed}\n"
        "Give a name to each call: name=... to an aggregation, table, join or suppression "
        "names its store and changelog; name=... to repartition, group_by or group_by_key "
        "before it, or to a join, names the repartition topic"
    )


def _generated(topology: Topology) -> Iterator[tuple[str, str, UsersCall]]:
    for name, builder in topology.stores.items():
        if name in topology.generated_names:
            has_changelog = (
                builder.logging
                and name not in topology.source_changelogs
                and name not in topology.global_stores
            )
            what = "store and changelog" if has_changelog else "store"
            yield what, name, topology.call_of_store(name)
    writers = {
        node.topic: node.name
        for node in reversed(topology.nodes.values())
        if isinstance(node, SinkNode) and isinstance(node.topic, str)
    }
    for topic in topology.repartition_topics:
        if topic in topology.generated_names:
            call = topology.call_of(writers[topic]) if topic in writers else UsersCall()
            yield "repartition topic", topic, call
