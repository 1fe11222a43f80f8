"""A sub-topology as a picture: its sources left, its sinks right, an SVG that we lay out ourselves.

A node's *column* is the longest way to it from a source; its *lane* is that of the first node that
leads to it, or a lane of its own where that one's is taken by an elder sibling. So a chain is
a straight line, and branches lie below each other. An edge that passes columns goes along a lane
that is free there, or just below its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pystreams.http.page.markup import Markup, element
from pystreams.topology.graph.description import NodeDescription

_GAP = 70
_SHRINKS_FROM, _SHRINKS_TO = 900, 1450
"""How wide a picture is that a screen may make smaller; wider ones would not be readable."""
_LANE_GAP = 22
_MARGIN = 8
_PADDING = 12
_LINE = 17
_MAX_LENGTH = 34
_NAME_WIDTH, _DETAIL_WIDTH = 7.3, 6.2
_GENERATED = re.compile(r"(?:KSTREAM|KTABLE)-(.+)-\d{10}")


@dataclass(slots=True)
class _Box:
    """A node, laid out."""

    node: NodeDescription
    name: str
    detail: str
    column: int
    lane: int
    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0

    @property
    def middle(self) -> float:
        """Where its edges meet it; stores hang below."""
        return self.y + _box_height(self.detail, 0) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What moves in a sub-topology, as texts.

    Attributes:
        rates: What goes along edges, where it is known.
        lags: What waits before sources, by their names.
        slowest: The node that takes the most time, if that is measured.
    """

    rates: Mapping[tuple[str, str], str] = field(default_factory=dict)
    lags: Mapping[str, str] = field(default_factory=dict)
    slowest: str | None = None


def picture(nodes: Iterable[NodeDescription], flow: Flow, topic_names: Mapping[str, str]) -> Markup:
    """Return a sub-topology's picture.

    Args:
        topic_names: The real names of topics, where they have others than the nodes say.
    """
    boxes = _laid_out(list(nodes), topic_names)
    width = max((box.x + box.width for box in boxes.values()), default=0) + _MARGIN
    height = max((box.y + box.height for box in boxes.values()), default=0) + _MARGIN
    free = _FreeLanes(boxes)
    edges = [
        element("path", class_="edge", d=free.way(box, boxes[successor]))
        for box in boxes.values()
        for successor in box.node.successors
    ]
    return element(
        "svg",
        edges,
        [_drawn(box, is_slowest=name == flow.slowest) for name, box in boxes.items()],
        [free.rate(boxes[edge[0]], boxes[edge[1]], rate) for edge, rate in flow.rates.items()],
        [_lag(boxes[name], lag) for name, lag in flow.lags.items()],
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=round(width),
        height=round(height),
        class_="shrinks" if _SHRINKS_FROM < width <= _SHRINKS_TO else None,
        role="img",
        aria_label="Nodes from sources to sinks",
    )


def _laid_out(nodes: list[NodeDescription], topic_names: Mapping[str, str]) -> dict[str, _Box]:
    by_name = {node.name: node for node in nodes}
    columns = _columns(by_name)
    lanes = _lanes(nodes, by_name)
    boxes = {}
    for node in nodes:
        name, detail = _texts(node, topic_names)
        boxes[node.name] = _Box(node, name, detail, columns[node.name], lanes[node.name])
    for box in boxes.values():
        of_stores = [len(_clipped(store)) * _DETAIL_WIDTH + 17 for store in box.node.stores]
        longest = max(len(box.name) * _NAME_WIDTH, len(box.detail) * _DETAIL_WIDTH, *of_stores)
        box.width = round(longest + 2 * _PADDING)
        box.height = _box_height(box.detail, len(box.node.stores))
    x: float = _MARGIN
    for column in range(max(columns.values(), default=0) + 1):
        here = [box for box in boxes.values() if box.column == column]
        width = max(box.width for box in here)
        for box in here:
            box.x, box.width = x, width
        x += width + _GAP
    y: float = _MARGIN
    for lane in range(max(lanes.values(), default=0) + 1):
        here = [box for box in boxes.values() if box.lane == lane]
        for box in here:
            box.y = y
        y += max((box.height for box in here), default=0) + _LANE_GAP
    return boxes


def _columns(by_name: Mapping[str, NodeDescription]) -> dict[str, int]:
    """Return the length of the longest way to each node; a graph has no circles."""
    columns = dict.fromkeys(by_name, 0)
    waiting = {name: len(node.predecessors) for name, node in by_name.items()}
    ready = [name for name, number in waiting.items() if not number]
    while ready:
        name = ready.pop()
        for successor in by_name[name].successors:
            columns[successor] = max(columns[successor], columns[name] + 1)
            waiting[successor] -= 1
            if not waiting[successor]:
                ready.append(successor)
    return columns


def _lanes(nodes: list[NodeDescription], by_name: Mapping[str, NodeDescription]) -> dict[str, int]:
    lanes: dict[str, int] = {}
    number = 0
    for source in nodes:
        if source.predecessors:
            continue
        # What is to be placed, and the lane of its elder; none for those that begin one.
        waiting: list[tuple[str, int | None]] = [(source.name, None)]
        while waiting:
            name, lane = waiting.pop()
            if name in lanes:
                continue
            if lane is None:
                lane, number = number, number + 1
            lanes[name] = lane
            left = [name for name in by_name[name].successors if name not in lanes]
            waiting += [(name, None) for name in reversed(left[1:])]
            waiting += [(name, lane) for name in left[:1]]
    return lanes


class _FreeLanes:
    """Finds ways that do not go through boxes."""

    def __init__(self, boxes: Mapping[str, _Box]) -> None:
        self._boxes = list(boxes.values())
        self._taken = {(box.column, box.lane) for box in self._boxes}

    def way(self, start: _Box, end: _Box) -> str:
        """Return the path of an edge."""
        x1, y1, x2, y2 = start.x + start.width, start.middle, end.x, end.middle
        if end.column == start.column + 1:
            return _curve(x1, y1, x2, y2)
        along = self._height_of_way(start, end)
        if along == y1:
            return _curve(x1, y1, x1, y1) + f"H{x2 - _GAP:.0f}" + _bend(x2 - _GAP, y1, x2, y2)
        first = _curve(x1, y1, x1 + _GAP, along)
        if along == y2:
            return first + f"H{x2:.0f}"
        return first + f"H{x2 - _GAP:.0f}" + _bend(x2 - _GAP, along, x2, y2)

    def rate(self, start: _Box, end: _Box, rate: str) -> Markup:
        """Draw what goes along an edge, above it, in the gap before the node that is given it."""
        along = self._height_of_way(start, end)
        # An edge that comes from another lane leaves the room right of it, up to the box there.
        is_bent = along != end.middle and (along != start.middle or start.lane != end.lane)
        x, anchor = (end.x - 4, "end") if is_bent else (end.x - _GAP / 2, "middle")
        y = (along + end.middle) / 2 - 6
        return element("text", rate, class_="rate", x=round(x), y=round(y), text_anchor=anchor)

    def _height_of_way(self, start: _Box, end: _Box) -> float:
        """Return at which height an edge passes columns, up to the gap before its end."""
        passed = range(start.column + 1, end.column)
        if all((column, start.lane) not in self._taken for column in passed):
            return start.middle
        if all((column, end.lane) not in self._taken for column in passed):
            return end.middle
        beside = [box for box in self._boxes if box.lane == start.lane]
        return max(box.y + box.height for box in beside) + _LANE_GAP / 2


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    return f"M{x1:.0f} {y1:.0f}" + _bend(x1, y1, x2, y2)


def _bend(x1: float, y1: float, x2: float, y2: float) -> str:
    half = (x1 + x2) / 2
    return f"C{half:.0f} {y1:.0f} {half:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"


def _drawn(box: _Box, *, is_slowest: bool) -> Markup:
    node = box.node
    text_x = box.x + _PADDING
    lines = [element("text", box.name, class_="name", x=text_x, y=box.y + 20)]
    if box.detail:
        lines.append(element("text", box.detail, class_="detail", x=text_x, y=box.y + 36))
    y = box.y + _box_height(box.detail, 0)
    for store in node.stores:
        lines.append(element("path", class_="cylinder", d=_cylinder(text_x, y - 4)))
        lines.append(element("text", _clipped(store), class_="store", x=text_x + 17, y=y + 5))
        y += _LINE
    title = ", ".join([node.name, *node.topics, *node.stores])
    shape = element(
        "rect",
        class_=f"{node.kind} slowest" if is_slowest else node.kind,
        x=box.x,
        y=box.y,
        width=box.width,
        height=box.height,
        rx=6 if node.kind == "processor" else 16,
    )
    return element("g", element("title", title), shape, lines)


def _lag(box: _Box, lag: str) -> Markup:
    """Draw what waits, below the edge of a source."""
    x = box.x + box.width + _GAP / 2
    y = box.middle + 15
    return element("text", lag, class_="lag", x=round(x), y=round(y), text_anchor="middle")


def _texts(node: NodeDescription, topic_names: Mapping[str, str]) -> tuple[str, str]:
    """Return a node's name for people, and what else it is called."""
    if node.kind != "processor":
        topics = [topic_names.get(topic, topic) for topic in node.topics]
        called = node.pattern or ", ".join(topics) or "topic chosen by record"
        return _clipped(called), _clipped(node.name)
    generated = _GENERATED.fullmatch(node.name)
    if generated is None:
        return _clipped(node.name), ""
    return _clipped(generated[1].lower().replace("-", " ")), _clipped(node.name)


def _clipped(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"


def _box_height(detail: str, stores: int) -> float:
    return (46 if detail else 32) + stores * _LINE + (4 if stores else 0)


def _cylinder(x: float, y: float) -> str:
    """Return the outline of a small drum."""
    x, y = round(x), round(y)
    top = f"M{x} {y + 2}a5 2 0 0 1 10 0a5 2 0 0 1 -10 0"
    return f"{top}v7a5 2 0 0 0 10 0v-7"
