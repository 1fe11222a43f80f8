"""Each edge of the topology's picture in Chromium, against what the application has counted."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from pystreams import StreamsBuilder, Topology, serdes
from tests.broker.conftest import CreateTopic
from tests.broker.reading import produce
from tests.broker.waiting import wait_until
from tests.http.page.chromium import Chromium
from tests.http.page.gated import Gated

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker

Edge = tuple[str, str]

MANY, FEW = 900, 300
KEPT = 200
"""Of the few."""
FLOWS = """
(() => {
  const svg = document.querySelector('#topology svg');
  const boxes = [...svg.querySelectorAll('g')].map(group => {
    const box = group.querySelector('rect').getBBox();
    return {name: group.querySelector('title').textContent.split(', ')[0], box};
  });
  const boxAt = (point, side) => boxes.find(({box}) =>
    Math.abs(box.x + side * box.width - point.x) < 1
    && box.y <= point.y && point.y <= box.y + box.height).name;
  const edges = [...svg.querySelectorAll('path.edge')].map(path => {
    const length = path.getTotalLength();
    const points = [];
    for (let at = 0; at <= length; at += 2) points.push(path.getPointAtLength(at));
    return {
      ends: [boxAt(path.getPointAtLength(0), 1), boxAt(path.getPointAtLength(length), 0)],
      points,
    };
  });
  const nearest = (x, y) => {
    const away = edge =>
      Math.min(...edge.points.map(point => Math.hypot(point.x - x, point.y - y)));
    return edges.reduce((one, other) => (away(other) < away(one) ? other : one)).ends;
  };
  const texts = (name, bottom) => [...svg.querySelectorAll('.' + name)].map(text => {
    const box = text.getBBox();
    return [nearest(box.x + box.width / 2, box.y + bottom * box.height), text.textContent];
  });
  return {edges: edges.map(edge => edge.ends), rates: texts('rate', 1), lags: texts('lag', 0)};
})()
"""
"""The edges by the boxes they touch, and the texts by the edges they are written beside."""


class TwoSources(Gated):
    """An application whose edges have rates of their own.

    Attributes:
        few: The other topic that it reads.
    """

    settings: ClassVar[dict[str, Any]] = {
        "metrics.recording.level": "DEBUG",
        "statestore.cache.max.bytes": 0,
    }

    def __init__(
        self, broker: DevelopmentBroker, name: str, topics: tuple[str, str, str], state: Path
    ) -> None:
        self.few = topics[2]
        super().__init__(broker, name, topics[:2], state)

    def topology(self) -> Topology:
        builder = StreamsBuilder()
        many, few = (
            builder.stream(topic, key_serde=serdes.STRING, value_serde=serdes.STRING)
            for topic in (self.words, self.few)
        )
        thrice = many.map_values(self.let_through).flat_map_values(lambda word: [word] * 3)
        kept = few.filter(lambda _, word: word == "kept").map_values(str.upper)
        merged = thrice.map_values(str.lower).merge(kept)
        merged.to(self.counts, key_serde=serdes.STRING, value_serde=serdes.STRING)
        merged.group_by_key().count(name="counts")
        return builder.build()

    def write_all(self) -> None:
        produce(self._servers, self.words, [(b"k", b"w")] * MANY)
        words = [b"kept"] * KEPT + [b"dropped"] * (FEW - KEPT)
        produce(self._servers, self.few, [(b"k", word) for word in words])

    def given(self) -> Counter[str]:
        """Return how many records each node was given, as its metric has it."""
        given: Counter[str] = Counter()
        for name, value in self.streams.metrics().items():
            if (name.group, name.name) == ("stream-processor-node-metrics", "process-total"):
                assert isinstance(value, int)
                given[name.tag("processor-node-id") or ""] += value
        return given

    def counts_of_edges(self) -> dict[Edge, int]:
        """Return how many records went along each edge."""
        given, (part,) = self.given(), self.streams.topology.describe().subtopologies
        alone = {node.name for node in part.nodes if len(node.predecessors) == 1}
        # Those that lead to a node with several come from operations that are one for one.
        return {
            (node.name, successor): given[successor if successor in alone else node.name]
            for node in part.nodes
            for successor in node.successors
        }


@pytest.fixture
def two_sources(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> TwoSources:
    topics = create_topic("many"), create_topic("counts"), create_topic("few")
    return TwoSources(broker, unique_name, topics, tmp_path / "state")


def flows_shown(chromium: Chromium, kind: str) -> dict[Edge, str]:
    """Return the rates, or lags, of edges; each edge has one at most."""
    found = chromium.evaluate(FLOWS)[kind]
    shown = {(start, end): text for (start, end), text in found}
    assert len(shown) == len(found), found
    return shown


def may_be_of_one_time(rates: dict[Edge, str], counts: dict[Edge, int]) -> bool:
    """Return whether in some span of time counts come to rates, which are rounded."""
    shortest_s, longest_s = 0.0, float("inf")
    for edge, text in rates.items():
        found = re.fullmatch(r"([\d,]+(\.\d)?)/s", text)
        assert found, text
        rate, half = float(found[1].replace(",", "")), 0.05 if found[2] else 0.5
        if rate <= half:
            return False
        shortest_s = max(shortest_s, counts[edge] / (rate + half + 0.05))
        longest_s = min(longest_s, counts[edge] / (rate - half - 0.05))
    return shortest_s <= longest_s


def test_each_edge_has_the_rate_of_what_went_along_it(
    two_sources: TwoSources, chromium: Chromium
) -> None:
    two_sources.open()
    with two_sources.served() as url:
        chromium.open(url)
        chromium.wait_for_text("#head .state", "RUNNING")
        written = 0
        seen: list[Any] = []

        def all_agree() -> bool:
            """Return whether all rates are right; write all once more when they are gone by."""
            nonlocal written
            rates, counts = flows_shown(chromium, "rates"), two_sources.counts_of_edges()
            seen[:] = [rates, counts]
            are_all_through = two_sources.streams.statistics().processed_records == (
                written * (MANY + FEW)
            )
            if are_all_through and set(rates.values()) <= {"0/s"}:
                two_sources.write_all()
                written += 1
            return rates.keys() == counts.keys() and may_be_of_one_time(rates, counts)

        wait_until(all_agree, "the rates of all edges", told=lambda: str(seen))
        rates, counts = seen
        edges = {tuple(edge) for edge in chromium.evaluate(FLOWS)["edges"]}
        assert edges == rates.keys()
        passed = {KEPT, FEW, MANY, 3 * MANY, 3 * MANY + KEPT}
        assert {count / written for count in counts.values()} == passed
        assert len(set(rates.values())) >= len(passed) - 1
        assert chromium.complaints == []


def test_each_source_has_its_own_lag(two_sources: TwoSources, chromium: Chromium) -> None:
    with two_sources.served() as url:
        two_sources.write_all()
        chromium.open(url)
        chromium.wait_for_text("#head .state", "RUNNING")

        def both_wait() -> bool:
            """Let a word through; return whether the loop has told that others of both wait."""
            lags = two_sources.task().lag_by_topic
            if lags.get(two_sources.words) and lags.get(two_sources.few):
                return True
            two_sources.let_one_through()
            return False

        wait_until(both_wait, "records of both wait")
        # From here on it stands still, in a record.
        (part,) = two_sources.streams.topology.describe().subtopologies
        first_edges = {
            node.topics[0]: (node.name, node.successors[0])
            for node in part.nodes
            if node.kind == "source"
        }

        def expected() -> dict[Edge, str]:
            lags = two_sources.task().lag_by_topic
            return {edge: f"lag {lags[topic]}" for topic, edge in first_edges.items()}

        wait_until(
            lambda: flows_shown(chromium, "lags") == expected(),
            "both lags",
            told=lambda: f"{flows_shown(chromium, 'lags')} {expected()}",
        )
        lags = two_sources.task().lag_by_topic
        assert lags[two_sources.words] != lags[two_sources.few]
        assert chromium.complaints == []
