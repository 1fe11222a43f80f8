"""The topology on the page: a figure for each sub-topology, with what flows through it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pystreams.http.page.edge_flows import edge_flows
from pystreams.http.page.markup import Markup, element, joined
from pystreams.http.page.quantities import UNKNOWN, count, per_second
from pystreams.http.page.tables import table
from pystreams.http.page.topology_picture import Flow, picture
from pystreams.topology.graph.description import NodeDescription, SubtopologyDescription
from pystreams.topology.plan.topology_plan import TopologyPlan

Snapshot = dict[str, Any]

_HINT = "What each node is given is counted with metrics.recording.level=DEBUG."
_ROWS = 5


class _Node(NamedTuple):
    """What is known of a node.

    Attributes:
        records_per_s: What it is given, if that is counted.
        busy_share: Its share of the time that all take, if that is known.
    """

    subtopology: int
    name: str
    records_per_s: float | None
    busy_share: float | None


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
        nodes = [
            _Node(part, name, node["records_per_s"], node["busy_share"])
            for part, row in known.items()
            for name, node in row["nodes"].items()
        ]
        busiest = [node for node in nodes if node.busy_share]
        busiest.sort(key=lambda node: (-(node.busy_share or 0.0), node.name))
        slowest = busiest[0] if busiest else None
        figures = [
            self._figure(
                part,
                known.get(part.id),
                slowest if slowest is not None and slowest.subtopology == part.id else None,
            )
            for part in self._parts
        ]
        counted = any(node.records_per_s is not None for node in nodes)
        hint = None if counted or not known else element("p", _HINT, class_="hint")
        return joined(figures, _shares(busiest[:_ROWS]), hint)

    def _figure(
        self,
        part: SubtopologyDescription,
        row: Mapping[str, Any] | None,
        slowest: _Node | None,
    ) -> Markup:
        flow = Flow() if row is None else self._flow(part, row, slowest)
        told = None
        if slowest is not None:
            text = f"slowest: {slowest.name}, {slowest.busy_share:.0%}"
            told = element("span", text, class_="slow")
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
        self, part: SubtopologyDescription, row: Mapping[str, Any], slowest: _Node | None
    ) -> Flow:
        """Return what moves in a sub-topology."""
        rates_known = {name: node["records_per_s"] for name, node in row["nodes"].items()}
        known = {name: rate for name, rate in rates_known.items() if rate is not None}
        for node in part.nodes:
            counted = row["in"] if node.kind == "source" else row["out"]
            rates = [rate for topic, rate in counted.items() if self._is_of(node, topic)]
            if node.kind != "processor" and rates:
                known[node.name] = sum(rates)
        given = {name: node["records_per_s_from"] for name, node in row["nodes"].items()}
        flows = edge_flows(part.nodes, self._operators, known, given)
        lags: dict[str, int] = {}
        for node in part.nodes:
            waiting = [lag for topic, lag in row["lags"].items() if self._is_of(node, topic)]
            if node.kind == "source" and waiting:
                lags[node.name] = sum(waiting)
        return Flow(
            rates={edge: per_second(rate) for edge, rate in flows.items()},
            lags={source: f"lag {count(lag)}" for source, lag in lags.items()},
            slowest=None if slowest is None else slowest.name,
        )

    def _is_of(self, node: NodeDescription, topic: str) -> bool:
        if node.pattern is not None:
            return re.fullmatch(node.pattern, topic) is not None
        return any(self._topic_names[name] == topic for name in node.topics)


def _shares(busiest: list[_Node]) -> Markup | None:
    """Return the table of the nodes that take the most time; nothing if none is known."""
    if not busiest:
        return None
    rows = [
        (
            node.name,
            str(node.subtopology),
            f"{node.busy_share:.1%}",
            UNKNOWN if node.records_per_s is None else per_second(node.records_per_s),
        )
        for node in busiest
    ]
    titles = ("Slowest nodes", "Sub-topology", "Share of the time", "Records in")
    return table(titles, rows, numeric=(1, 2, 3))


def _told(part: SubtopologyDescription, row: Mapping[str, Any] | None) -> str:
    if part.is_global:
        return "global store, in every process"
    if row is None:
        return "no task in this process"
    tasks = row["tasks"]
    told = f"{tasks} task{'' if tasks == 1 else 's'}"
    return told if row["lag_records"] is None else f"{told} · lag {count(row['lag_records'])}"
