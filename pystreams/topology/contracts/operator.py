"""How a node becomes a function: steps, operators, and what an operator is given.

A topology is compiled once a task, from the sinks up. Each node's `Operator` is handed the
function that feeds its children and returns the function that handles one record:

    source -> [filter] -> [map] -> [sink]      compiles to      step = filter_step
                                                                filter_step calls map_step
                                                                map_step calls sink_step

Invariants:
- A node with one child calls that child's step itself: a chain costs one Python call a node,
  and nothing else (no dispatch, no context, no allocation).
- An operator is an immutable description; everything mutable lives in the closures and stores
  of one task, so that an operator may serve many tasks at once.
- User code runs inside `try`; what it raises goes to `report_error` with the node's name. The
  forwarding call stands outside of that `try`: an error belongs to the node that raised it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol

from pystreams.errors import SerializationError
from pystreams.ids import TaskId
from pystreams.record import Headers, OutputBuffer, PresentRecord, TaskTime
from pystreams.serdes import Serde
from pystreams.stores.contracts.spec import StoreKind
from pystreams.topology.contracts.held_records import AsyncCalls, HeldByTask, HoldsRecords
from pystreams.topology.contracts.processor import Cancellable, PunctuationType, Punctuator

Step = Callable[[Any, Any, int, Headers], None]
"""Handles one record: (key, value, timestamp in ms, headers)."""

TraceStep = Callable[[str, Step], Step]
"""Given a node's name and step, returns the step that stands in its place: one that tells of each
record before it hands it on."""

Details = Callable[[], Mapping[str, object]]
"""Returns fields of a line of the log, where there is one."""

LogLevel = Literal["debug", "info", "warning"]
"""How loud the log says something."""

STREAM_TIME_PREFIX = "stream-time "
"""Begins the names under which stream times are committed: where there is no room for all numbers,
these are left out first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """What operators need of the configuration.

    Attributes:
        outer_join_emit_interval_ms: How long, on the wall clock, a left or outer join of two
            streams waits until it looks again for what has found no match.
        window_emit_interval_ms: How long, likewise, an aggregation that sends final results waits
            until it looks again for windows that have closed.
        answers_in_turn: Whether what a record asks of another sub-topology is answered before the
            next record is processed: in a backfill.
        max_call_ms: How long a call may take that a commit waits for (ms).
        max_call_key: The key of the configuration that says so.
        max_retry_ms: How long a record may take from the first call of its function to the end of
            the last (ms), so that there is time for the commit, and for what it has been put
            off before.
    """

    outer_join_emit_interval_ms: int = 1000
    window_emit_interval_ms: int = 1000
    answers_in_turn: bool = False
    max_call_ms: int = 300_000
    max_call_key: str = "consumer.max.poll.interval.ms"
    max_retry_ms: int = 240_000


class TaskContext(Protocol):
    """What operators may ask of the task they are compiled for; the runtime implements it.

    Attributes:
        time: The task's stream time, and the wall clock's.
        app_configs: All of the configuration by Kafka's names.
        async_calls: Makes asynchronous calls beside the task's thread.
    """

    application_id: str
    task_id: TaskId
    async_calls: AsyncCalls
    record: PresentRecord
    time: TaskTime
    settings: OperatorSettings
    app_configs: Mapping[str, Any]
    state_directory: Path

    def store(self, name: str) -> Any:
        """Return an opened store of this task."""

    def global_store(self, name: str, reader: str) -> Any:
        """Return a node's view of a global store, which refuses writes; None if there is none.

        Raises:
            StoreNotAvailableError: It is not filled yet.
        """

    def store_kind(self, name: str) -> StoreKind:
        """Return what a store of this task can do."""

    def shared(self, key: str, make: Callable[[], Any]) -> Any:
        """Return what nodes of the task share under a key; made for the first that asks."""

    def committed_number(self, name: str, default: int) -> int:
        """Return what was committed under a name with the task's offsets; `default` if nothing."""

    def commit_number(self, name: str, present: Callable[[], int]) -> None:
        """Commit what `present` returns under a name with the task's offsets, unless below 0.

        It may only grow: of what several partitions' offsets tell the highest is taken.
        """

    def output(self, topic: str, partition: int | None = None) -> OutputBuffer:
        """Return the buffer of records going to a topic; one buffer a topic, so order is kept."""

    def topic_name(self, topic: str) -> str:
        """Return the real name of a topic: internal ones get the application's prefix."""

    def num_partitions(self, topic: str) -> int:
        """Return how many partitions a topic (by real name) has."""

    def key_serde(self, serde: Serde[Any] | None, node: str) -> Serde[Any]:
        """Return the serde given, else the configured default.

        Raises:
            ConfigError: Neither is set; names the node and both cures.
        """

    def value_serde(self, serde: Serde[Any] | None, node: str) -> Serde[Any]:
        """Return the serde given, else the configured default; raises as `key_serde` does."""

    def called_again(self, node: str, error: Exception | None, calls: int = 1) -> None:
        """Note that a node calls its function again with the present record, for an error."""

    def not_called_again(self, node: str, error: Exception, attempts: str, within: str) -> None:
        """Note that a node does not call its function again, for want of time.

        Args:
            error: What it raised last.
            attempts: How many calls of how many were made.
            within: The time there was, and what sets it.
        """

    def report_error(self, error: Exception, node: str, attempts: int = 1) -> None:
        """Give what went wrong with a record at a node to the processing handler.

        That is whatever the user's code raised, in so many attempts, and what did not fit the
        serdes of a store. Returns when the handler says to go on; the operator then drops the
        record.

        Raises:
            ProcessingError: The handler says to fail.
            StreamsError: The error itself, if it is not about the record: a store failed, no broker
                answers, or a handler further down the chain was asked already.
        """

    def report_serialization_error(self, error: SerializationError, node: str) -> None:
        """Give a record that can't be serialized for its topic to the production handler.

        Returns when the handler says to go on without the record.

        Raises:
            SerializationError: The handler says to fail.
        """

    def record_dropped(
        self,
        node: str,
        reason: str,
        details: Details | None = None,
        level: LogLevel = "warning",
    ) -> None:
        """Count a record that the operation's semantics drop (null key, ...); the log says why.

        Args:
            details: Returns what else the log shall say, when it does: not of each record.
            level: "info" for what sound input brings about now and then, "debug" for what it does
                all the time.
        """

    def schedule(
        self,
        node: str,
        interval_ms: int,
        kind: PunctuationType,
        punctuator: Punctuator,
        start_time_ms: int | None = None,
    ) -> Cancellable:
        """Schedule a punctuation of a node, anchored at a start time (ms) if there is one."""

    def on_idle_input(self, timeout_ms: int, go_on: Callable[[int, int], bool]) -> None:
        """Call `go_on` now and then while the task's input is silent, from when that is too long.

        Silent is an input none of whose partitions has a record that was not processed: not in the
        task, not at the broker.

        Args:
            timeout_ms: How long silence is to last first, on the wall clock (ms).
            go_on: Called with (since when it is silent, on the wall clock; how long, beyond the
                timeout), in ms. Returns whether it wants to be called again in this silence.
        """

    def go_on_later(self, node: str, go_on: Callable[[], None]) -> None:
        """Go on with something before the next record, and after a commit if one is due.

        So that what one record sets off, however much it is, takes bounded memory: an operator does
        a portion of it, and leaves the rest. A commit may come between, which covers the record; so
        the rest must be known by the store alone, and be left here again `on_init`.

        Args:
            node: The node.
            go_on: Called once.
        """

    @property
    def held(self) -> HeldByTask:
        """What its operators hold back."""

    def hold_records(self, node: str, holder: HoldsRecords) -> None:
        """Let what a node holds back go on: after each run, between runs, before a commit."""

    def monotonic_ms(self) -> int:
        """Return a time (ms) that never goes back, for what is rare: it is asked for each time.

        `time` has that of the iteration.
        """

    def end_run(self) -> None:
        """Let the run of records end with the present one."""

    def request_commit(self) -> None:
        """Ask for a commit after the current record."""

    def on_init(self, action: Callable[[], None]) -> None:
        """Run `action` when all nodes are attached and the stores restored."""

    def on_close(self, action: Callable[[], None]) -> None:
        """Run `action` when the task closes."""


class NodeContext:
    """What one operator is given when it is attached.

    Attributes:
        forward: Feeds all children; the child's own step when there is one.
        children: Step of each child by name.
        stores: The names of the stores connected to the node.
        restored_from: The topic of each connected store that is restored from one which others
            write, for nodes that do not fill it: what they wrote would be gone after a restore.
    """

    __slots__ = ("children", "forward", "name", "restored_from", "stores", "task")

    def __init__(
        self,
        name: str,
        task: TaskContext,
        children: Mapping[str, Step],
        stores: frozenset[str],
        restored_from: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self.task = task
        self.children = children
        self.forward = fan_out(list(children.values()))
        self.restored_from = restored_from
        self.stores = stores


class Operator(Protocol):
    """One node's logic, as a description that can be attached to many tasks."""

    def attach(self, node: NodeContext) -> Step:
        """Return the step of this node for one task.

        Called once a task, after the steps of all children exist and the stores are open.
        """


def fan_out(steps: list[Step]) -> Step:
    """Return one step that feeds all of `steps`, in order; the step itself when there is one."""
    steps = [step for step in steps if step is not nowhere]
    if not steps:
        return nowhere
    if len(steps) == 1:
        return steps[0]
    if len(steps) == 2:
        first, second = steps

        def feed_two(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            first(key, value, timestamp, headers)
            second(key, value, timestamp, headers)

        return feed_two
    several = tuple(steps)

    def feed_all(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for step in several:
            step(key, value, timestamp, headers)

    return feed_all


def nowhere(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
    """Take a record that nobody wants: the step of a child that a task leaves out."""
