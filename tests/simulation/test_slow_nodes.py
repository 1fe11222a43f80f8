"""Which node takes the time, at the default recording level: measured in some runs, on demand."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams import StreamsBuilder, Topology, serdes
from pystreams.errors import TransactionAbortableError
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import Application
from tests.simulation.slow_nodes import PARTS, WINDOW_MS, Spend, topology_of

pytestmark = pytest.mark.simulation

SPENT_MS = 7


def busy_ms(process: SimulatedProcess) -> dict[str, float]:
    found: dict[str, float] = {}
    for thread in process.threads:
        for task in thread.metadata().active_tasks:
            for name, spent_ms in task.busy_ms_by_node.items():
                found[name] = found.get(name, 0.0) + spent_ms
    return found


class Slow:
    """An application of which one part is slow."""

    def __init__(
        self, root: Path, part: str, made_of: Callable[[Spend], Topology] = topology_of
    ) -> None:
        self.app = Application(root)
        self.app.broker.create_topic("right", 1)
        self._part = part
        self.spent_ms = 0
        self.process = self.app.process(topology=made_of(self._spend))

    def _spend(self, part: str) -> None:
        if part == self._part:
            self.spent_ms += SPENT_MS
            self.app.clock.advance_ms(SPENT_MS)

    def look(self) -> None:
        """Want to know for ever from now on."""
        self.process.nodes.until_ms = float("inf")

    def work(self, rounds: int = 12) -> None:
        """Process records that are joined and counted, those of a round in one window."""
        for number in range(rounds):
            now_ms = self.app.clock.now_ms()
            for topic, at_ms in (("right", now_ms), ("in", now_ms + 1), ("in", now_ms + 2)):
                self.app.broker.produce(topic, b"k", b"%d" % number, at_ms)
            self.app.run_until_processed(self.process)
            self.app.clock.advance_ms(2 * WINDOW_MS)

    def written(self) -> list[tuple[bytes | None, bytes | None]]:
        committed = self.app.broker.committed_records("out")
        return [(message.message_key, message.message_value) for message in committed]


@pytest.mark.parametrize("part", PARTS)
def test_the_slow_node_is_found_whatever_of_it_is_slow(part: str, tmp_path: Path) -> None:
    slow = Slow(tmp_path, part)
    slow.look()
    slow.process.start()
    slow.work()

    measured = busy_ms(slow.process)
    spent_ms = measured.pop(PARTS[part])
    assert 0 < spent_ms < slow.spent_ms
    assert sum(measured.values()) < spent_ms, measured


OPERATIONS: dict[str, Callable[[Any, Callable[[Any], Any], str], Any]] = {
    "filter": lambda stream, call, name: stream.filter(
        lambda _, value: call(value) or True, name=name
    ),
    "map": lambda stream, call, name: stream.map(
        lambda key, value: (key, call(value) or value), name=name
    ),
    "map_values": lambda stream, call, name: stream.map_values(call, name=name),
    "flat_map_values": lambda stream, call, name: stream.flat_map_values(
        lambda value: [call(value)] * 2, name=name
    ),
    "peek": lambda stream, call, name: stream.peek(lambda _, value: call(value), name=name),
    "merge": lambda stream, call, name: stream.merge(
        stream.map_values(call, name=name), name=f"{name}-merged"
    ),
    "batch": lambda stream, call, name: stream.map_values_batch(
        lambda values: [call(value) for value in values], name=name
    ),
}


@given(data=st.data())
@settings(max_examples=15)
def test_the_slow_node_of_any_topology_is_found(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(sorted(OPERATIONS)), min_size=1, max_size=5))
    number = data.draw(st.integers(0, len(chosen) - 1))

    def made_of(spend: Spend) -> Topology:
        builder = StreamsBuilder()
        text = serdes.STRING
        stream: Any = builder.stream(["in", "right"], key_serde=text, value_serde=text)

        def call_of(name: str) -> Callable[[Any], Any]:
            def call(value: Any) -> Any:
                spend(name)
                return value

            return call

        for at, operation in enumerate(chosen):
            stream = OPERATIONS[operation](stream, call_of(f"n{at}"), f"n{at}")
        stream.to("out", key_serde=text, value_serde=text)
        return builder.build()

    with tempfile.TemporaryDirectory() as directory:
        slow = Slow(Path(directory), f"n{number}", made_of)
        slow.look()
        slow.process.start()
        slow.work(3)

        measured = busy_ms(slow.process)
        assert measured.pop(f"n{number}") > 0
        assert not any(measured.values()), measured


def test_what_is_written_is_the_same_while_nodes_are_measured(tmp_path: Path) -> None:
    written = []
    for looks in (False, True):
        slow = Slow(tmp_path / str(looks), "nothing")
        if looks:
            slow.look()
        slow.process.start()
        slow.work()
        written.append(slow.written())
        assert bool(busy_ms(slow.process)) is looks

    assert len(written[0]) == 24
    assert written[0] == written[1]


def test_nothing_is_measured_before_and_after_somebody_wants_to_know(tmp_path: Path) -> None:
    slow = Slow(tmp_path, "map")
    slow.process.start()
    slow.work()
    assert busy_ms(slow.process) == {}

    slow.process.nodes.until_ms = slow.app.clock.monotonic_ms() + 10 * WINDOW_MS
    slow.work()
    measured = busy_ms(slow.process)
    assert measured["map"] > 0
    slow.work()
    assert busy_ms(slow.process) == measured


def test_nodes_are_measured_after_the_task_has_gone_back_to_a_commit(tmp_path: Path) -> None:
    slow = Slow(tmp_path, "map")
    slow.look()
    slow.process.start()
    slow.work()
    before = busy_ms(slow.process)["map"]
    slow.app.faults.fail_next("commit_transaction", TransactionAbortableError("refused"))
    slow.work()

    assert busy_ms(slow.process)["map"] > before
