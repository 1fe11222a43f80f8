"""Which topics sources read: patterns, and topics that two sources would read.

A topic has one source, because a task reads each of its partitions once.

Source: Kafka Streams' `InternalTopologyBuilder.validateTopicNotAlreadyRegistered` and
`SourceNodeFactory.getTopics`.
"""

from __future__ import annotations

import re

from pystreams.errors import TopologyError
from pystreams.topology.graph.nodes import SourceNode


def compiled_pattern(pattern: str | re.Pattern[str] | None, where: str) -> re.Pattern[str] | None:
    """Return the regular expression of a source that reads by pattern, None for None.

    Args:
        where: The operation or the node; begins the error's message.

    Raises:
        TopologyError: It is no regular expression for text.
    """
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        message = f"{where}: pattern {pattern!r} is no regular expression: {error}"
        raise TopologyError(message) from error
    if not isinstance(compiled.pattern, str):
        raise TopologyError(f"{where}: pattern {pattern!r} must be text, not bytes")
    return compiled


def refuse_overlap(first: SourceNode, second: SourceNode) -> None:
    """Refuse two sources that are known to read one topic, whatever topics there will be.

    Raises:
        TopologyError: They name one topic, the pattern of one matches a topic of the other, or
            their patterns are equal.
    """
    if first.pattern is not None and first.pattern == second.pattern:
        raise TopologyError(
            f"pattern {first.pattern.pattern!r} is read by two sources, {first.name!r} and "
            f"{second.name!r}: read it once and use the stream twice"
        )
    for topic in (*first.topics, *second.topics):
        if first.reads(topic) and second.reads(topic):
            raise read_by_two(topic, first, second)


def read_by_two(topic: str, first: SourceNode, second: SourceNode) -> TopologyError:
    """Return the error of a topic that two sources read; it names both, and the cure."""
    cure = "read it once and use the stream twice"
    if first.is_global or second.is_global:
        cure = (
            "a global store's topic is read by all processes, whole, and can't be read as a stream "
            "or a table, or twice: use the global store twice, or read a copy of the topic"
        )
    if first.pattern is not None or second.pattern is not None:
        cure += ", or let the pattern leave it out"
    message = (
        f"topic {topic!r} is read by two sources, {_described(first)} and {_described(second)}: "
        f"{cure}"
    )
    return TopologyError(message)


def _described(source: SourceNode) -> str:
    if source.pattern is None:
        return repr(source.name)
    return f"{source.name!r} (pattern {source.pattern.pattern!r})"
