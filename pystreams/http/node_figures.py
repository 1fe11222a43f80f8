"""What the nodes of a topology do: records a second, and their shares of the time of all.

Records are counted at `metrics.recording.level=DEBUG`. Shares are of the last half minute, of what
was measured of it: below DEBUG that is a part of the runs, of some seconds apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pystreams.metrics.definitions import NODE_GROUP
from pystreams.runtime.loop.reports.thread_metadata import TaskMetadata

_RATES_OVER_S = 5.0
_SHARES_OVER_S = 30.0

NodeKey = tuple[int, str]
"""The sub-topology and the node's name."""


class _Look(NamedTuple):
    """What has grown up to a moment."""

    at_s: float
    records: dict[NodeKey, float]
    busy_ms: dict[NodeKey, float]


class NodeFigures:
    """Looks at the nodes now and then."""

    def __init__(self) -> None:
        self._looks: deque[_Look] = deque()

    def look(
        self, at_s: float, tasks: Iterable[TaskMetadata], metrics: Mapping[Any, Any]
    ) -> dict[int, dict[str, dict[str, float | None]]]:
        """Return what each node does, by sub-topology and name, of those of which it is known.

        Args:
            at_s: The time of the look (s), on a clock that never goes back.
            tasks: The tasks of the process.
            metrics: What is measured of them.
        """
        now = _Look(at_s, _records(metrics), _busy_ms(tasks))
        looks = self._looks
        looks.append(now)
        while len(looks) > 2 and at_s - looks[1].at_s >= _SHARES_OVER_S:
            looks.popleft()
        lately = looks[0]
        for look in looks:
            if at_s - look.at_s >= _RATES_OVER_S:
                lately = look
        seconds = max(at_s - lately.at_s, 1e-9)
        busy_ms = _grown(now.busy_ms, looks[0].busy_ms)
        all_ms = sum(busy_ms.values())
        records = _grown(now.records, lately.records)
        found: dict[int, dict[str, dict[str, float | None]]] = {}
        for part, name in sorted({*(busy_ms if all_ms else ()), *records}):
            key = part, name
            found.setdefault(part, {})[name] = {
                "records_per_s": round(records[key] / seconds, 1) if key in records else None,
                "busy_share": round(busy_ms.get(key, 0.0) / all_ms, 3) if all_ms else None,
            }
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


def _busy_ms(tasks: Iterable[TaskMetadata]) -> dict[NodeKey, float]:
    found: dict[NodeKey, float] = {}
    for task in tasks:
        for name, busy_ms in task.busy_ms_by_node.items():
            key = task.task_id.subtopology, name
            found[key] = found.get(key, 0.0) + busy_ms
    return found


def _grown(now: dict[NodeKey, float], before: dict[NodeKey, float]) -> dict[NodeKey, float]:
    """Return what has come since, not less than 0: a task may have left."""
    return {key: max(0.0, value - before.get(key, 0.0)) for key, value in now.items()}
