"""What the nodes of a topology do: records a second, and their shares of the time of all.

Records are counted at `metrics.recording.level=DEBUG`. Shares are of the last half minute, of what
was measured of it: below DEBUG that is a part of the runs, of some seconds apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pystreams.metrics.definitions import NODE_GROUP
from pystreams.runtime.loop.reports.thread_metadata import TaskMetadata

_RATES_OVER_S = 5.0
_SHARES_OVER_S = 30.0
_APART_S = 0.5

_Key = TypeVar("_Key")
NodeKey = tuple[int, str]
"""The sub-topology and the node's name."""


class _Look(NamedTuple):
    """What has grown up to a moment."""

    at_s: float
    records: dict[NodeKey, float]
    given: dict[tuple[int, str, str], float]
    busy_ms: dict[NodeKey, float]


class NodeFigures:
    """Looks at the nodes now and then."""

    def __init__(self) -> None:
        self._looks: deque[_Look] = deque()

    def look(
        self, at_s: float, tasks: Sequence[TaskMetadata], metrics: Mapping[Any, Any]
    ) -> dict[int, dict[str, dict[str, Any]]]:
        """Return what each node does, by sub-topology and name, of those of which it is known.

        What it was given by which others is by their names, "" for what came from none.

        Args:
            at_s: The time of the look (s), on a clock that never goes back.
            tasks: The tasks of the process.
            metrics: What is measured of them.
        """
        looks = self._looks
        if not looks or at_s - looks[-1].at_s >= _APART_S:
            looks.append(_Look(at_s, _records(metrics), _given(tasks), _busy_ms(tasks)))
        now = looks[-1]
        while len(looks) > 2 and at_s - looks[1].at_s >= _SHARES_OVER_S:
            looks.popleft()
        lately = looks[0]
        for look in looks:
            if at_s - look.at_s >= _RATES_OVER_S:
                lately = look
        seconds = max(now.at_s - lately.at_s, 1e-9)
        busy_ms = _grown(now.busy_ms, looks[0].busy_ms)
        all_ms = sum(busy_ms.values())
        records = _grown(now.records, lately.records)
        given = _grown(now.given, lately.given)
        found: dict[int, dict[str, dict[str, Any]]] = {}
        for part, name in sorted({*(busy_ms if all_ms else ()), *records}):
            key = part, name
            found.setdefault(part, {})[name] = {
                "records_per_s": round(records[key] / seconds, 1) if key in records else None,
                "busy_share": round(busy_ms.get(key, 0.0) / all_ms, 3) if all_ms else None,
                "records_per_s_from": {},
            }
        for (part, giver, name), number in given.items():
            if (row := found.get(part, {}).get(name)) is not None:
                row["records_per_s_from"][giver] = round(number / seconds, 1)
        return found


def _records(metrics: Mapping[Any, Any]) -> dict[NodeKey, float]:
    """Return how many records nodes were given; nothing at INFO."""
    found: dict[NodeKey, float] = {}
    for name, value in metrics.items():
        if name.group == NODE_GROUP and name.name == "process-total":
            part, _, _ = name.tag("task-id").partition("_")
            key = int(part), name.tag("processor-node-id")
            found[key] = found.get(key, 0) + value
    return found


def _given(tasks: Iterable[TaskMetadata]) -> dict[tuple[int, str, str], float]:
    found: dict[tuple[int, str, str], float] = {}
    for task in tasks:
        for (giver, name), records in task.records_by_edge.items():
            key = task.task_id.subtopology, giver, name
            found[key] = found.get(key, 0.0) + records
    return found


def _busy_ms(tasks: Iterable[TaskMetadata]) -> dict[NodeKey, float]:
    found: dict[NodeKey, float] = {}
    for task in tasks:
        for name, busy_ms in task.busy_ms_by_node.items():
            key = task.task_id.subtopology, name
            found[key] = found.get(key, 0.0) + busy_ms
    return found


def _grown(now: dict[_Key, float], before: dict[_Key, float]) -> dict[_Key, float]:
    """Return what has come since, not less than 0: a task may have left."""
    return {key: max(0.0, value - before.get(key, 0.0)) for key, value in now.items()}
