"""What each node of a task takes in, and how long it works.

At DEBUG something stands around each step, which costs a record about a microsecond a node. At INFO
nothing does, until somebody asks: then some runs are measured likewise, a tenth of the work at most
([ADR 19](docs/adr/0019-nodes-are-measured-in-some-runs.md)).

    runs for 20 ms are measured --> rest: ten times as long as nodes have worked --> measured ...

What belongs to a node beside its step is measured with it: its source's reading, what it has
scheduled, held back, or left for later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from pystreams.metrics import Recording
from pystreams.record import Headers
from pystreams.runtime.core.exchangeable_step import ExchangeableStep, exchangeable
from pystreams.topology.contracts.operator import Step, TraceStep

_MEASURED_MS = 20.0
"""Several runs, where they are short: one kind of them may always come after the other."""
_RESTS_TIMES = 10
_RESTS_AT_MOST_MS = 10_000.0


class CallOfNode(Protocol):
    """Calls something of a node that is not its step."""

    def __call__(self, node: str, function: Callable[..., None], *given: Any) -> None:
        """Call a function with what is given."""


class NodeMeter:
    """One node's numbers. The task's thread writes; any may read.

    Attributes:
        records: Records it was given while that was measured.
        given_by: How many of them which node gave it, by names; "" where no node was at work, as
            when a cache is written out.
        busy_ms: How long it worked on them itself: what it calls of other nodes is theirs (ms).
    """

    __slots__ = ("busy_ms", "given_by", "records")

    def __init__(self) -> None:
        self.records = 0
        self.given_by: dict[str, int] = {}
        self.busy_ms = 0.0


class NodeMeters:
    """The meters of a task's nodes.

    Args:
        recording: How metrics are recorded.

    Attributes:
        by_node: The meters by the nodes' names; they stay when the task goes back to a commit.
        always: Whether all is measured: at DEBUG.
    """

    def __init__(self, recording: Recording) -> None:
        self.by_node: dict[str, NodeMeter] = {}
        self.always = recording.debug
        self._on_demand = recording.nodes
        self._now_ms = recording.monotonic_ms
        self._steps: dict[int, ExchangeableStep] = {}
        self._measuring = self.always
        # At INFO: when measuring may end, or begin again.
        self._turn_ms = 0.0
        # How long those have worked that the present call has called; outside of calls, that all
        # have since measuring began.
        self._inside_ms = 0.0
        self._at_work = ""

    def around_new_steps(self) -> TraceStep:
        """Return what the steps of a life of the task are to go through; those before are gone."""
        self._steps, self._measuring, self._inside_ms = {}, self.always, 0.0
        self._at_work = ""
        return self._around

    def busy_ms(self) -> dict[str, float]:
        """Return how long each node has worked while it was measured (ms); from any thread."""
        if not (self.always or self._on_demand.until_ms):
            return {}
        return {name: meter.busy_ms for name, meter in self.by_node.copy().items()}

    def records_by_edge(self) -> dict[tuple[str, str], int]:
        """Return how many records each node gave which other one, at DEBUG; from any thread."""
        if not self.always:
            return {}
        return {
            (giver, name): records
            for name, meter in self.by_node.copy().items()
            for giver, records in meter.given_by.copy().items()
        }

    def begin_run(self) -> None:
        """Say that a run comes: what follows, up to the next run, is measured or not."""
        if self.always or not (self._measuring or self._on_demand.until_ms):
            return
        now_ms = self._now_ms()
        if now_ms < self._turn_ms:
            return
        if self._measuring:
            self._turn_ms = now_ms + min(_RESTS_TIMES * self._inside_ms, _RESTS_AT_MOST_MS)
            self._measure(instead=False)
        if self._turn_ms <= now_ms < self._on_demand.until_ms:
            self._turn_ms, self._inside_ms = now_ms + _MEASURED_MS, 0.0
            self._measure(instead=True)

    def call(self, node: str, function: Callable[..., None], *given: Any) -> None:
        """Call something of a node that is not its step."""
        if not self._measuring:
            function(*given)
            return
        meter = self.by_node.setdefault(node, NodeMeter())
        before_ms, self._inside_ms = self._inside_ms, 0.0
        before, self._at_work = self._at_work, node
        began_ms = self._now_ms()
        try:
            function(*given)
        finally:
            self._at_work = before
            took_ms = self._now_ms() - began_ms
            meter.busy_ms += took_ms - self._inside_ms
            self._inside_ms = before_ms + took_ms

    def _measure(self, *, instead: bool) -> None:
        self._measuring = instead
        for step in self._steps.values():
            step.exchange(instead=instead)

    def _around(self, name: str, step: Step) -> Step:
        meter = self.by_node.setdefault(name, NodeMeter())
        if self.always:
            return self._measured(name, meter, step)
        function = exchangeable(step)
        # A node that does nothing is its child.
        if function is None or id(step) in self._steps:
            return step
        found = ExchangeableStep(function, partial(self._measured, name, meter))
        self._steps[id(found.step)] = found
        return found.step

    def _measured(self, name: str, meter: NodeMeter, step: Step) -> Step:
        """Return a step that measures another one."""
        now_ms, given_by = self._now_ms, meter.given_by

        def measured(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            meter.records += 1
            giver, self._at_work = self._at_work, name
            given_by[giver] = given_by.get(giver, 0) + 1
            before_ms, self._inside_ms = self._inside_ms, 0.0
            began_ms = now_ms()
            try:
                step(key, value, timestamp, headers)
            finally:
                self._at_work = giver
                took_ms = now_ms() - began_ms
                meter.busy_ms += took_ms - self._inside_ms
                self._inside_ms = before_ms + took_ms

        return measured


def directly(node: str, function: Callable[..., None], *given: Any) -> None:  # noqa: ARG001
    """Call something of a node, as `NodeMeters.call` does, where nothing is measured."""
    function(*given)
