"""When a record between the tables of a join by a foreign key was written: its turn.

Such a join asks in one topic and is answered in another, by the sub-topology that has asked. An
answer that is read before the row it answers is taken for one that has come too late, and dropped.
Timestamps do not tell the order: a row that is late, and its answer, have one that has long passed.

So who writes these topics keeps with each record the time to which its own order had come, and who
reads them takes it then, behind what others have of that time, and what these have left in caches
goes on first. The turn is a header, the last one, of staged rows only: these topics are not
published, and a task is given its records without it.

    a turn of 1000 -> pystreams-turn: 00000000000003e8
"""

from __future__ import annotations

import struct

from pystreams.errors import StreamsError
from pystreams.record import Headers, ProducedRecord
from pystreams.topology.graph.nodes import ProcessorNode
from pystreams.topology.operators.joins.foreign_key_join import (
    ForeignTableOperator,
    SubscriptionAnswerOperator,
    SubscriptionSendOperator,
)
from pystreams.topology.plan.topology_plan import TopologyPlan

TURN_HEADER = "pystreams-turn"
_TURN = struct.Struct(">q")


def topics_in_turn(plan: TopologyPlan) -> frozenset[str]:
    """Return the topics of joins by foreign keys, by real name."""
    nodes = plan.topology.nodes
    writers = {
        name
        for name, node in nodes.items()
        if isinstance(node, ProcessorNode)
        and isinstance(
            node.operator,
            SubscriptionSendOperator | SubscriptionAnswerOperator | ForeignTableOperator,
        )
    }
    return frozenset(
        topic
        for topic, sinks in plan.written_topics().items()
        if any(writers.intersection(sink.parents) for sink in sinks)
    )


def with_turn(record: ProducedRecord, turn_ms: int) -> ProducedRecord:
    """Return a record with its turn (ms)."""
    key, value, timestamp, headers = record
    return key, value, timestamp, (*headers, (TURN_HEADER, _TURN.pack(turn_ms)))


def turn_in(headers: Headers | list[tuple[str, bytes | None]] | None) -> int:
    """Return the turn (ms) among a record's headers.

    Raises:
        StreamsError: There is none.
    """
    name, turn = headers[-1] if headers else ("", None)
    if name != TURN_HEADER or turn is None:
        raise StreamsError(
            "a record between the tables of a join by a foreign key does not say when it was "
            "written: another version of pystreams has staged it, so run the backfill in another "
            "directory"
        )
    found: int = _TURN.unpack(turn)[0]
    return found
