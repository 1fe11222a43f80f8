"""Cycles among transactions that depend on each other."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple


class Dependency(NamedTuple):
    """One transaction comes before another.

    Attributes:
        kind: "ww", "wr" or "rw".
        before: The first of the two.
        after: The second.
        key: Of what both did something to.
    """

    kind: str
    before: str
    after: str
    key: str


class Cycle(NamedTuple):
    """Transactions of which each comes before the next, and the last before the first."""

    kind: str
    steps: tuple[Dependency, ...]

    def __str__(self) -> str:
        way = "".join(f"{step.before} -{step.kind} {step.key}-> " for step in self.steps)
        return way + self.steps[0].before


_Graph = Mapping[str, Sequence[Dependency]]


def cycles(dependencies: Iterable[Dependency]) -> Iterator[Cycle]:
    """Return a cycle of the worst kind for each set of transactions that are in cycles together."""
    graph: dict[str, list[Dependency]] = defaultdict(list)
    for dependency in dependencies:
        if dependency.before != dependency.after:
            graph[dependency.before].append(dependency)
    for component in _components(graph):
        members = set(component)
        inside = [
            step for name in component for step in graph.get(name, ()) if step.after in members
        ]
        yield _worst(inside)


def _worst(steps: Sequence[Dependency]) -> Cycle:
    """Return a cycle with as few kinds of dependencies as may be."""
    for kind, kinds, first in (
        ("G0", {"ww"}, "ww"),
        ("G1c", {"ww", "wr"}, "wr"),
        ("G-single", {"ww", "wr"}, "rw"),
        ("G2", {"ww", "wr", "rw"}, "rw"),
    ):
        graph: dict[str, list[Dependency]] = defaultdict(list)
        for step in steps:
            if step.kind in kinds:
                graph[step.before].append(step)
        found = [
            (step, *way)
            for step in steps
            if step.kind == first and (way := _way(graph, step.after, step.before)) is not None
        ]
        if found:
            return Cycle(kind, min(found, key=len))
    raise AssertionError("what is strongly connected has a cycle")


def _way(graph: _Graph, start: str, end: str) -> tuple[Dependency, ...] | None:
    """Return the shortest way from one transaction to another."""
    came_by: dict[str, Dependency | None] = {start: None}
    waiting = deque([start])
    while waiting:
        name = waiting.popleft()
        if name == end:
            way: list[Dependency] = []
            while (step := came_by[name]) is not None:
                way.append(step)
                name = step.before
            return tuple(reversed(way))
        for step in graph.get(name, ()):
            if step.after not in came_by:
                came_by[step.after] = step
                waiting.append(step.after)
    return None


def _components(graph: _Graph) -> list[list[str]]:
    """Return sets of two or more that can all be reached from each other (Tarjan)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []

    def enter(name: str) -> Iterator[Dependency]:
        index[name] = lowest[name] = len(index)
        stack.append(name)
        on_stack.add(name)
        return iter(graph.get(name, ()))

    def leave(name: str) -> None:
        if lowest[name] == index[name]:
            component = _popped(stack, name, on_stack)
            if len(component) > 1:
                found.append(component)

    for root in list(graph):
        if root in index:
            continue
        path = [(root, enter(root))]
        while path:
            name, steps = path[-1]
            for step in steps:
                if step.after not in index:
                    path.append((step.after, enter(step.after)))
                    break
                if step.after in on_stack:
                    lowest[name] = min(lowest[name], index[step.after])
            else:
                path.pop()
                leave(name)
                if path:
                    above = path[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
    return found


def _popped(stack: list[str], last: str, on_stack: Collection[str]) -> list[str]:
    position = stack.index(last)
    component = stack[position:]
    del stack[position:]
    assert isinstance(on_stack, set)
    on_stack.difference_update(component)
    return component
