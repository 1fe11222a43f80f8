"""The topology on the page: a figure for each sub-topology, with what flows through it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pystreams.http.page.edge_flows import edge_flows
from pystreams.http.page.markup import Markup, element, joined
from pystreams.http.page.quantities import count, per_second
from pystreams.http.page.topology_picture import Flow, picture
from pystreams.topology.graph.description import NodeDescription, SubtopologyDescription
from pystreams.topology.plan.topology_plan import TopologyPlan

Snapshot = dict[str, Any]

_HINT = (
    "What each node is given, and which is the slowest, is measured with "
    "metrics.recording.level=DEBUG."
)


class TopologySection:
    """Draws one topology."""

    def __init__(self, plan: TopologyPlan) -> None:
        self._parts = plan.topology.describe().subtopologies
        topics = {topic for part in self._parts for node in part.nodes for topic in node.topics}
        self._topic_names = {topic: plan.topic_name(topic) for topic in topics}
        changelogs = {plan.changelog_topic(store) for store in plan.topology.stores}
        self._operators = {
            name: getattr(node, "operator", None) for name, node in plan.topology.nodes.items()
        }
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
        shares = {
            (part, name): node["busy_share"]
            for part, row in known.items()
            for name, node in row["nodes"].items()
        }
        slowest = max(shares, key=lambda node: shares[node], default=None)
        if slowest is not None and not shares[slowest]:
            slowest = None
        figures = []
        for part in self._parts:
            here = slowest is not None and slowest[0] == part.id
            name = slowest[1] if slowest is not None and here else None
            share = shares[part.id, name] if name is not None else 0.0
            figures.append(self._figure(part, known.get(part.id), name, share))
        hint = None if shares or not known else element("p", _HINT, class_="hint")
        return joined(figures, hint)

    def _figure(
        self,
        part: SubtopologyDescription,
        row: Mapping[str, Any] | None,
        slowest: str | None,
        share: float,
    ) -> Markup:
        flow = Flow() if row is None else self._flow(part, row, slowest)
        told = None
        if slowest is not None:
            told = element("span", f"slowest: {slowest}, {share:.0%}", class_="slow")
        return element(
            "figure",
            element(
                "figcaption",
                element("strong", f"Sub-topology {part.id}"),
                element("span", _told(part, row)),
                told,
            ),
            element(
                "div",
                picture(part.nodes, flow, self._topic_names),
                class_="scrolled",
                tabindex="0",
                role="group",
                aria_label=f"Picture of sub-topology {part.id}",
            ),
        )

    def _flow(
        self, part: SubtopologyDescription, row: Mapping[str, Any], slowest: str | None
    ) -> Flow:
        """Return what moves in a sub-topology."""
        known = {name: node["records_per_s"] for name, node in row["nodes"].items()}
        for node in part.nodes:
            counted = row["in"] if node.kind == "source" else row["out"]
            rates = [rate for topic, rate in counted.items() if self._is_of(node, topic)]
            if node.kind != "processor" and rates:
                known[node.name] = sum(rates)
        flows = edge_flows(part.nodes, self._operators, known)
        lags: dict[str, int] = {}
        for node in part.nodes:
            waiting = [lag for topic, lag in row["lags"].items() if self._is_of(node, topic)]
            if node.kind == "source" and waiting:
                lags[node.name] = sum(waiting)
        return Flow(
            rates={edge: per_second(rate) for edge, rate in flows.items()},
            lags={source: f"lag {count(lag)}" for source, lag in lags.items()},
            slowest=slowest,
        )

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
