"""What a `TopologyTestDriver` is given: refused where a broker or a client would refuse it."""

from __future__ import annotations

from typing import Any

from pystreams.errors import TopologyError
from pystreams.record import ProducedRecord
from pystreams.topology.contracts.record_parts import checked_headers, checked_time
from pystreams.topology.graph.declaration_checks import check_values
from pystreams.topology.plan.topology_plan import TopologyPlan


def checked_advance(where: str, advance_ms: Any) -> int:
    """Return how far a clock goes on (ms).

    Raises:
        TypeError: It is no whole number.
        ValueError: It would go back.
    """
    number = checked_time(where, advance_ms)
    if number < 0:
        raise ValueError(f"{where} is 0 ms or more, not {number}: no clock goes back here")
    return number


def check_serdes(where: str, **serdes: object) -> None:
    """Refuse what is no serde.

    Raises:
        TopologyError: One is none, or is missing.
    """
    check_values(where, **serdes)
    for name, serde in serdes.items():
        if serde is None:
            raise TopologyError(
                f"{where} needs a {name}, whoever writes or reads it: serdes.BYTES where all are "
                "None"
            )


def check_is_read(plan: TopologyPlan, topic: str) -> None:
    """Refuse a topic that a topology does not read.

    Raises:
        TopologyError: It does not; names those that it reads.
    """
    if plan.source_of_topic(topic) is None:
        read = ", ".join((*plan.source_topics(), *plan.global_topics()))
        raise TopologyError(f"the topology does not read topic {topic!r}; it reads: {read}")


def checked_record(
    topic: str, key: Any, value: Any, timestamp: Any, headers: Any
) -> ProducedRecord:
    """Return a serialized record, as a consumer would give it.

    Raises:
        TypeError: A part of it is something else.
        ValueError: The timestamp is a number that Kafka has no room for.
    """
    where = f"a record for topic {topic!r}"
    return (
        _checked_bytes(f"{where}: key", key),
        _checked_bytes(f"{where}: value", value),
        checked_time(f"{where}: timestamp", timestamp),
        checked_headers(f"{where}: headers", headers),
    )


def checked_entry(where: str, entry: Any) -> tuple[Any, Any]:
    """Return a pair of key and value.

    Raises:
        TypeError: It is none.
    """
    if isinstance(entry, tuple | list) and len(entry) == 2:
        return entry[0], entry[1]
    raise TypeError(
        f"{where} takes pairs of key and value, not {entry!r}; mapping.items() has those of a "
        "mapping"
    )


def _checked_bytes(where: str, data: Any) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    raise TypeError(
        f"{where} is bytes, or None, not {data!r}: create_input_topic has a topic with serdes"
    )
