"""Sinks whose partitioner has to know how many partitions a topic has, while no broker tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pystreams import Processor, Record, StreamsBuilder, serdes
from pystreams.errors import BrokerNotAvailableError, FatalStreamsError
from tests.simulation.applications import Application, running_tasks, stored_counts
from tests.variants import first_of

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams import ProcessorContext, Topology
    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

SILENT = BrokerNotAvailableError("no broker answered (simulated)")


def _by_length(_topic: str, key: Any, _value: Any, num_partitions: int) -> int:
    return len(key) % num_partitions


def counting_to(topic: str, *, caching: bool = False) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    counts = stream.group_by_key().count(name="counts", caching=caching).to_stream()
    counts.to(topic, key_serde=serdes.STRING, value_serde=serdes.LONG, partitioner=_by_length)
    return builder.build()


def _run(process: SimulatedProcess) -> None:
    process.start()
    while not running_tasks(process):
        process.step()


def _asked(app: Application) -> int:
    return sum(line.endswith(" partition_counts") for line in app.faults.trace)


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "exactly_once", "at_least_once"))
def test_what_no_broker_tells_for_a_moment_is_asked_again_from_the_last_commit_on(
    tmp_path: Path, guarantee: str, caching: bool
) -> None:
    cache_bytes = 1_000_000 if caching else 0
    app = Application(tmp_path, guarantee, statestore_cache_max_bytes=cache_bytes)
    process = app.process(topology=counting_to("out", caching=caching))
    _run(process)
    for _ in range(5):
        app.faults.fail_next("partition_counts", SILENT)
    app.feed(*"aab")
    app.run_until_processed(process)
    process.stop()

    assert stored_counts(process) == {"a": 2, "b": 1}
    counted = [("a", 2), ("b", 1)] if caching else [("a", 1), ("a", 2), ("b", 1)]
    assert sorted(app.outputs()) == counted
    assert not app.faults.forget_scripted("partition_counts")


def test_it_is_asked_once_and_remembered(tmp_path: Path) -> None:
    app = Application(tmp_path, "exactly_once_v2")
    process = app.process(topology=counting_to("out"))
    _run(process)
    before = _asked(app)
    for _ in range(3):
        app.feed(*"aab")
        app.run_until_processed(process)

    assert _asked(app) == before + 1


@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "at_least_once"))
def test_what_is_not_told_for_the_task_timeout_ends_the_thread_with_topic_and_cause(
    tmp_path: Path, guarantee: str
) -> None:
    app = Application(tmp_path, guarantee, task_timeout_ms=5000)
    process = app.process(topology=counting_to("out"))
    _run(process)
    for _ in range(10_000):
        app.faults.fail_next("partition_counts", SILENT)
    app.feed("a")
    began_ms = app.clock.monotonic_ms()

    expected = r"task 0_0: .*5000 ms \(task\.timeout\.ms\).*'out'.*no broker answered"
    with pytest.raises(BrokerNotAvailableError, match=expected):
        app.run_until_processed(process)

    assert app.clock.monotonic_ms() - began_ms > 5000
    assert app.committed() is None


def test_a_topic_that_is_not_there_ends_the_thread_at_once_with_the_cure(tmp_path: Path) -> None:
    app = Application(tmp_path, "exactly_once_v2")
    process = app.process(topology=counting_to("gone"))
    _run(process)
    app.feed("a")

    expected = (
        r"output topic 'gone' does not exist .*correct its name.*pystreams topics create gone"
    )
    with pytest.raises(FatalStreamsError, match=expected):
        app.run_until_processed(process)


class Greets(Processor[str, str, str, int]):
    """Writes as soon as it is there, and passes the length of values on."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self._context = context
        context.forward(Record("hello", 0, 0))

    def process(self, record: Record[str, str]) -> None:
        self._context.forward(Record(record.key, len(record.value), record.timestamp))


def greeting() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    answers = stream.process(Greets)
    answers.to("out", key_serde=serdes.STRING, value_serde=serdes.LONG, partitioner=_by_length)
    return builder.build()


def test_a_processor_that_writes_when_it_is_made_waits_to_start(tmp_path: Path) -> None:
    app = Application(tmp_path, "exactly_once_v2")
    process = app.process(topology=greeting())
    for _ in range(3):
        app.faults.fail_next("partition_counts", SILENT)
    _run(process)
    app.feed("a")
    app.run_until_processed(process)

    assert app.outputs() == [("hello", 0), ("a", 1)]
