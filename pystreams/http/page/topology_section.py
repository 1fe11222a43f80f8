"""The topology on the page: a figure for each sub-topology, with what flows through it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pystreams.http.page.markup import Markup, element, joined
from pystreams.http.page.quantities import count, per_second
from pystreams.http.page.topology_picture import picture
from pystreams.topology.graph.description import NodeDescription, SubtopologyDescription
from pystreams.topology.plan.topology_plan import TopologyPlan

Snapshot = dict[str, Any]


class TopologySection:
    """Draws one topology.

    Args:
        plan: The topology, with the real names of its topics.
    """

    def __init__(self, plan: TopologyPlan) -> None:
        self._parts = plan.topology.describe().subtopologies
        topics = {topic for part in self._parts for node in part.nodes for topic in node.topics}
        self._topic_names = {topic: plan.topic_name(topic) for topic in topics}
        changelogs = {plan.changelog_topic(store) for store in plan.topology.stores}
        self._internal = changelogs | plan.repartition_topics().keys()

    def flow(self, now: Snapshot) -> tuple[float, float]:
        """Return the records a second that come in and go out, internal topics left out."""
        rates = {"in": 0.0, "out": 0.0}
        for row in now["topics"]:
            if row["topic"] not in self._internal:
                rates[row["direction"]] += row["records_per_s"]
        return rates["in"], rates["out"]

    def draw(self, now: Snapshot) -> Markup:
        """Return the figures, in the order of the sub-topologies."""
        known = {row["subtopology"]: row for row in now["subtopologies"]}
        return joined(self._figure(part, known.get(part.id)) for part in self._parts)

    def _figure(self, part: SubtopologyDescription, row: Mapping[str, Any] | None) -> Markup:
        rates = {} if row is None else self._rates(part, row)
        return element(
            "figure",
            element(
                "figcaption",
                element("strong", f"Sub-topology {part.id}"),
                element("span", _told(part, row)),
            ),
            element(
                "div",
                picture(part.nodes, rates, self._topic_names),
                class_="scrolled",
                tabindex="0",
                role="group",
                aria_label=f"Picture of sub-topology {part.id}",
            ),
        )

    def _rates(self, part: SubtopologyDescription, row: Mapping[str, Any]) -> dict[str, str]:
        """Return what flows from sources and to sinks, by node, where it is known."""
        found = {}
        for node in part.nodes:
            flows = row["in"] if node.kind == "source" else row["out"]
            known = [rate for topic, rate in flows.items() if self._is_of(node, topic)]
            if node.kind != "processor" and known:
                found[node.name] = per_second(sum(known))
        return found

    def _is_of(self, node: NodeDescription, topic: str) -> bool:
        if node.pattern is not None:
            return re.fullmatch(node.pattern, topic) is not None
        return any(self._topic_names[name] == topic for name in node.topics)


def _told(part: SubtopologyDescription, row: Mapping[str, Any] | None) -> str:
    if part.is_global:
        return "global store, in every process"
    if row is None:
        return "no task in this process"
    tasks = row["tasks"]
    told = f"{tasks} task{'' if tasks == 1 else 's'}"
    return told if row["lag_records"] is None else f"{told} · lag {count(row['lag_records'])}"
