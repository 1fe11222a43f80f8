"""When a record that a sub-topology has made for itself was written: its turn.

A sub-topology may read a topic that it feeds, itself or through others: a stream joined by another
key with a table of its own, a topic of yours in the middle, both sides of a join by a foreign key.
Live, such a record comes after the one it was made of. Timestamps do not tell that: most have the
same one, and what is made of a late record has a time that has long passed.

So who writes these topics keeps with each record the time to which its own order had come, and who
reads them takes it then, behind what others have of that time: a record of an earlier stage before
one that was made of it.

    orders: 1000 1010 1005      alerts of 1005, with a turn of 1010
    taken:  orders 1000, 1010, 1005, then the alert

The topics are those between sub-topologies of which each leads to the other. The turn is a header,
the last one, of staged rows only: a task is given its records without it, and they are published
without it.

    a turn of 1000 -> pystreams-turn: 00000000000003e8
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from pystreams.backfill.plan.stages import Stage
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
    """Return the topics whose records have a turn, by real name."""
    leads: dict[int, dict[int, set[str]]] = {part.id: {} for part in plan.subtopologies}
    for part in plan.subtopologies:
        for topic in plan.written_topics(part.nodes):
            reader = plan.subtopology_of_topic(topic)
            if reader is not None and reader.id in leads:
                leads[part.id].setdefault(reader.id, set()).add(topic)
    return frozenset(
        topic
        for writer, readers in leads.items()
        for reader, topics in readers.items()
        if writer in _reached(leads, reader)
        for topic in topics
    )


def _reached(leads: dict[int, dict[int, set[str]]], start: int) -> set[int]:
    """Return the sub-topologies to which one leads, itself included."""
    found, coming = {start}, [start]
    while coming:
        new = leads[coming.pop()].keys() - found
        found |= new
        coming += new
    return found


def topics_between_tables(plan: TopologyPlan) -> frozenset[str]:
    """Return the topics in which joins by foreign keys ask and are answered, by real name.

    An answer that is read before the row it answers is taken for one that has come too late, and
    dropped: so what caches hold back of the table goes on before it.
    """
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


def in_order_of_stages(plan: TopologyPlan, stages: Iterable[Stage]) -> list[str]:
    """Return the topics whose records have a turn, each after those its records are made of."""
    in_turn = topics_in_turn(plan)
    last: dict[str, int] = {}
    for position, stage in enumerate(stages):
        for topic in in_turn.intersection(given_topics(plan, stage)):
            last[topic] = position
    return sorted(last, key=lambda topic: (last[topic], topic))


def given_topics(plan: TopologyPlan, stage: Stage) -> frozenset[str]:
    """Return the topics of a fixed name whose records a stage gives."""
    if stage.only_topic is not None:
        return frozenset({stage.only_topic})
    return frozenset(plan.written_topics(stage.subtopology.nodes)) - stage.written_before


def with_turn(record: ProducedRecord, turn_ms: int) -> ProducedRecord:
    """Return a record with its turn (ms)."""
    key, value, timestamp, headers = record
    return key, value, timestamp, (*headers, (TURN_HEADER, _TURN.pack(turn_ms)))


def has_turn(headers: Sequence[tuple[str, bytes | None]] | None) -> bool:
    """Return whether there is a turn among a record's headers."""
    return headers is not None and len(headers) > 0 and headers[-1][0] == TURN_HEADER


def without_turn(headers: Headers) -> Headers:
    """Return a record's headers without its turn, if it has one."""
    return headers[:-1] if has_turn(headers) else headers


def turn_in(headers: Sequence[tuple[str, bytes | None]] | None) -> int:
    """Return the turn (ms) among a record's headers.

    Raises:
        StreamsError: There is none.
    """
    name, turn = headers[-1] if headers else ("", None)
    if name != TURN_HEADER or turn is None:
        raise StreamsError(
            "a record that a sub-topology has made for itself does not say when it was written: "
            "another version of pystreams has staged it, so run the backfill in another directory"
        )
    found: int = _TURN.unpack(turn)[0]
    return found
