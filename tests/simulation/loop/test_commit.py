"""The order of a commit, and what a failure at each of its steps leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pystreams import (
    BrokerNotAvailableError,
    FatalStreamsError,
    ProcessingError,
    Processor,
    ProductionError,
    Record,
    StreamsBuilder,
    StreamsError,
    TaskId,
    serdes,
)
from pystreams.errors import RetriableClientError, TaskMigratedError, TransactionAbortableError
from pystreams.testing.simulation.clock import InlineExecutor
from tests.simulation.applications import Application, counting, running_tasks, stored_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

EOS = ["exactly_once", "exactly_once_v2"]
ALL = ["at_least_once", *EOS]


def lines(app: Application, *calls: str) -> list[str]:
    """Those lines of the trace that contain one of the calls, reduced to it."""
    return [call for line in app.faults.trace for call in calls if call in line]


@pytest.mark.parametrize("guarantee", EOS)
def test_stores_commit_after_the_transaction(guarantee: str, tmp_path: Path) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process()
    process.start()
    app.feed("a")
    app.run_until_processed(process)

    steps = ["flush", "offsets added", "prepare commit", "write counts"]
    assert lines(app, *steps) == steps


def test_stores_commit_after_the_offsets(tmp_path: Path) -> None:
    app = Application(tmp_path, "at_least_once")
    process = app.process()
    process.start()
    app.feed("a")
    app.run_until_processed(process)

    assert lines(app, "flush", "commit in-0@1", "write counts") == [
        "flush",
        "commit in-0@1",
        "write counts",
    ]


def test_caches_are_flushed_before_anything_is_sent(tmp_path: Path) -> None:
    app = Application(tmp_path, statestore_cache_max_bytes=10_000)
    process = app.process(topology=counting(caching=True))
    process.start()
    app.feed("a", "a", "a", "b")
    app.run_until_processed(process)

    assert sorted(app.outputs()) == [("a", 3), ("b", 1)]
    assert lines(app, "send app-counts-changelog 2") == ["send app-counts-changelog 2"]


@pytest.mark.parametrize("guarantee", EOS)
@pytest.mark.parametrize("call", ["send", "flush", "commit_transaction"])
@pytest.mark.parametrize("error", [TransactionAbortableError, RetriableClientError])
def test_a_failed_transaction_is_aborted_and_its_records_are_read_again(
    guarantee: str, call: str, error: type[StreamsError], tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process()
    process.start()
    app.feed("a", "a", "b")
    app.faults.fail_next(call, error("not now"))
    app.run_until_processed(process)
    process.stop()

    assert app.outputs() == [("a", 1), ("a", 2), ("b", 1)]
    assert stored_counts(process) == {"a": 2, "b": 1}
    assert process.restored_records() == 0, "the store was rolled back, not rebuilt"


def test_an_abort_is_tried_until_the_broker_answers(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = app.process()
    process.start()
    app.feed("a")
    app.faults.fail_next("flush", TransactionAbortableError("lost"))
    for _ in range(5):
        app.faults.fail_next("abort_transaction", RetriableClientError("no answer"))
    app.run_until_processed(process)

    assert app.outputs() == [("a", 1)]


@pytest.mark.parametrize("guarantee", EOS)
def test_an_abort_that_meets_a_fence_drops_the_tasks_and_joins_again(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process()
    process.start()
    app.feed("a")
    app.run_until_processed(process)
    app.feed("a", "b")
    app.faults.fail_next("flush", TransactionAbortableError("a record was not delivered"))
    app.faults.fail_next("abort_transaction", TaskMigratedError("fenced"))
    app.run_until_processed(process)

    assert app.outputs() == [("a", 1), ("a", 2), ("b", 1)]
    assert len(lines(app, " subscribe")) == 2
    assert process.restored_records() == 0, "stores were kept"
    process.stop()


class Noting(InlineExecutor):
    """Runs what is to run side by side; keeps what that asked of the broker."""

    def __init__(self, app: Application) -> None:
        self._trace = app.faults.trace
        self.asked: list[str] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        before = len(self._trace)
        future = super().submit(fn, *args, **kwargs)
        self.asked += self._trace[before:]
        return future


def of_producers(call: str, trace: Sequence[str]) -> list[str]:
    return [line for line in trace if line.endswith(f"-producer {call}")]


def two_open_transactions(app: Application, side_by_side: Noting) -> SimulatedProcess:
    """Return a process both of whose tasks have sent something that is not committed."""
    process = app.process()
    process.make_waiting_pool = lambda: side_by_side
    process.start()
    while len(running_tasks(process)) < 2:
        process.step()
    app.feed("a", "b", "c", "d", "e", "f")
    return process


@pytest.mark.parametrize("unanswered", [0, 3])
def test_transactions_of_several_tasks_are_aborted_side_by_side(
    unanswered: int, tmp_path: Path
) -> None:
    """Behind an outage each waits for half a minute."""
    app = Application(tmp_path, "exactly_once", partitions=2)
    side_by_side = Noting(app)
    process = two_open_transactions(app, side_by_side)
    for _ in range(2):
        app.faults.fail_next("flush", TransactionAbortableError("lost"))
    for _ in range(unanswered):
        app.faults.fail_next("abort_transaction", RetriableClientError("no answer"))
    app.run_until_processed(process)

    aborts = of_producers("abort_transaction", side_by_side.asked)
    assert len(set(aborts)) == 2
    assert len(aborts) >= 2 + unanswered - 1, "the last one waits for nobody"
    assert sorted(app.outputs()) == [(key, 1) for key in "abcdef"]


def test_a_thread_that_ends_with_an_error_aborts_side_by_side(tmp_path: Path) -> None:
    app = Application(tmp_path, "exactly_once", partitions=2)
    side_by_side = Noting(app)
    process = two_open_transactions(app, side_by_side)
    app.faults.fail_next("commit_transaction", FatalStreamsError("no"))
    app.faults.fail_next("commit_transaction", FatalStreamsError("no"))
    with pytest.raises(FatalStreamsError):
        app.run_until_processed(process)
    process.stop()

    aborts = of_producers("abort_transaction", side_by_side.asked)
    assert len(aborts) == 2
    assert aborts == of_producers("abort_transaction", app.faults.trace)


@pytest.mark.parametrize("fenced", [False, True])
def test_producers_are_released_side_by_side(fenced: bool, tmp_path: Path) -> None:
    """Each aborts what it has open, which takes seconds where no broker answers."""
    app = Application(tmp_path, "exactly_once", partitions=2)
    side_by_side = Noting(app)
    process = two_open_transactions(app, side_by_side)
    if fenced:
        app.faults.fail_next("flush", TaskMigratedError("fenced"))
    app.run_until_processed(process)
    process.stop()

    closed = of_producers("close", side_by_side.asked)
    assert len(closed) == (4 if fenced else 2)
    assert closed == of_producers("close", app.faults.trace)


def test_producers_of_tasks_that_are_revoked_are_released_side_by_side(tmp_path: Path) -> None:
    app = Application(tmp_path, "exactly_once", partitions=4)
    side_by_side = Noting(app)
    process, other = two_open_transactions(app, side_by_side), app.process("p1")
    other.start()
    app.run_until_processed(process, other)

    closed = of_producers("close", side_by_side.asked)
    assert len(closed) == 2
    assert closed == of_producers("close", app.faults.trace)


def test_only_the_task_whose_transaction_failed_is_revived(tmp_path: Path) -> None:
    app = Application(tmp_path, "exactly_once", partitions=2)
    process = app.process()
    process.start()
    while len(running_tasks(process)) < 2:
        process.step()
    app.feed("a", "b", "c", "d", "e", "f")
    app.faults.fail_next("commit_transaction", TransactionAbortableError("lost"))
    while not lines(app, "abort_transaction"):
        process.step()

    assert len(lines(app, "abort_transaction")) == 1
    assert len(lines(app, "prepare commit")) == 1
    app.run_until_processed(process)
    assert sorted(app.outputs()) == [(key, 1) for key in "abcdef"]


@pytest.mark.parametrize("call", ["send", "flush", "commit"])
def test_without_transactions_a_commit_is_tried_again_and_nothing_is_processed_twice(
    call: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, "at_least_once")
    process = app.process()
    process.start()
    app.feed("a", "a", "b")
    app.faults.fail_next(call, RetriableClientError("no answer"))
    app.run_until_processed(process)
    process.stop()

    assert app.outputs() == [("a", 1), ("a", 2), ("b", 1)]
    assert stored_counts(process) == {"a": 2, "b": 1}


def test_without_transactions_lost_records_are_produced_again(tmp_path: Path) -> None:
    app = Application(tmp_path, "at_least_once")
    process = app.process()
    process.start()
    app.feed("a")
    app.faults.fail_next("flush", TransactionAbortableError("a record was not delivered"))
    app.run_until_processed(process)

    assert {key for key, _ in app.outputs()} == {"a"}


@pytest.mark.parametrize("guarantee", ALL)
def test_failures_for_longer_than_the_task_timeout_end_the_thread(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee, task_timeout_ms=2000)
    process = app.process()
    process.start()
    app.feed("a")
    for _ in range(1000):
        app.faults.fail_next("flush", RetriableClientError("no answer"))

    with pytest.raises(BrokerNotAvailableError, match=r"task\.timeout\.ms"):
        app.run_until_processed(process)
    assert not app.broker.transactions.open_ids() or guarantee == "at_least_once"


@pytest.mark.parametrize("guarantee", ALL)
@pytest.mark.parametrize(
    "error", [FatalStreamsError("fatal"), ProductionError("too large", topic="out")]
)
def test_other_errors_end_the_thread_and_leave_no_transaction_open(
    guarantee: str, error: StreamsError, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process()
    process.start()
    app.feed("a")
    app.faults.fail_next("flush", error)

    with pytest.raises(type(error)):
        app.run_until_processed(process)
    app.broker.settle()
    assert not app.broker.transactions.open_ids()
    assert app.outputs() == [] or guarantee == "at_least_once"
    assert app.committed() is None


@pytest.mark.parametrize("guarantee", EOS)
def test_a_fenced_producer_drops_its_tasks_and_joins_again(guarantee: str, tmp_path: Path) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process()
    process.start()
    app.feed("a")
    app.faults.fail_next("commit_transaction", TaskMigratedError("fenced"))
    app.run_until_processed(process)

    assert app.outputs() == [("a", 1)]
    assert len(lines(app, " subscribe")) == 2


@pytest.mark.parametrize("guarantee", ALL)
@pytest.mark.parametrize(
    "call", ["flush", "deliver app", "commit", "offsets added", "write counts", "written counts"]
)
def test_a_crash_at_any_step_of_a_commit_is_made_good_by_the_next_start(
    guarantee: str, call: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process()
    process.start()
    app.feed("a", "b")
    app.run_until_processed(process)
    app.feed("a", "a")
    process.crash_at(call)
    for _ in range(20):
        if process.running:
            process.step()
    if process.crashes == 0:
        pytest.skip("this guarantee has no such step")
    process.start()
    app.run_until_processed(process)
    process.stop()

    if guarantee == "at_least_once":
        assert stored_counts(process)["a"] >= 3
        assert ("a", 3) in app.outputs()
    else:
        assert app.outputs() == [("a", 1), ("b", 1), ("a", 2), ("a", 3)]
        assert stored_counts(process) == {"a": 3, "b": 1}


@pytest.mark.parametrize("guarantee", EOS)
def test_a_member_that_is_fenced_while_it_stops_has_not_failed(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process()
    process.start()
    app.feed("a")
    process.step()
    process.step()
    [thread] = process.threads
    app.faults.fail_next("commit_transaction", TaskMigratedError("fenced"))
    process.stop()

    assert thread.error is None


def test_a_processor_that_fails_to_close_keeps_no_other_task_open(tmp_path: Path) -> None:
    class Stuck(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            pass

        def close(self) -> None:
            raise ValueError("stuck")

    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.group_by_key().count(name="counts")
    stream.process(Stuck)
    app = Application(tmp_path, partitions=3)
    process = app.process(topology=builder.build())
    process.start()
    app.feed("a", "b", "c", "d")
    app.run_until_processed(process)
    [thread] = process.threads
    process.stop()

    assert isinstance(thread.error, ProcessingError)
    stores = list(process.disk.stores())
    assert len(stores) == 3
    assert not any(files.is_open for _, _, files in stores)
    for number in range(3):
        process.disk.lock(TaskId(0, number), "free for anybody")


@pytest.mark.parametrize("guarantee", ALL)
def test_commits_are_counted_when_they_are_made(guarantee: str, tmp_path: Path) -> None:
    app = Application(tmp_path, guarantee)
    process = app.process()
    process.start()
    for _ in range(50):
        process.step()
    [thread] = process.threads
    assert thread._committer.commits == 0
    app.feed("a")
    app.run_until_processed(process)
    assert thread._committer.commits == 1


@pytest.mark.parametrize(
    ("guarantee", "producers"),
    [
        ("at_least_once", set()),
        ("exactly_once", {"0_0-producer", "0_1-producer", "0_2-producer"}),
        ("exactly_once_v2", {"producer"}),
    ],
)
def test_each_task_has_a_transactional_producer_or_all_tasks_of_a_thread_share_one(
    guarantee: str, producers: set[str], tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee, partitions=3)
    process = app.process()
    process.start()
    app.feed("a", "b", "c", "d", "e", "f")
    app.run_until_processed(process)

    fencing = [line for line in app.faults.trace if line.endswith(" init_transactions")]
    assert {line.split()[1].partition("StreamThread-1-")[2] for line in fencing} == producers
    assert len(fencing) == len(producers)


@pytest.mark.parametrize("guarantee", ALL)
def test_an_application_becomes_exactly_once_by_its_configuration_alone(
    guarantee: str, tmp_path: Path
) -> None:
    """It has run at least once. Killed before its offsets, it counts again, or it does not."""
    app = Application(tmp_path, "at_least_once")
    before = app.process()
    before.start()
    app.feed("a", "b")
    app.run_until_processed(before)
    before.stop()
    process = app.process(config={"processing.guarantee": guarantee}, disk=before.disk)
    process.start()
    while not running_tasks(process):
        process.step()
    app.feed("a", "a")
    process.crash_at(" commit in-0@4" if guarantee == "at_least_once" else " commit_transaction")
    while process.running:
        process.step()
    process.start()
    app.run_until_processed(process)
    process.stop()

    counts_of_a = [count for key, count in app.outputs() if key == "a"]
    repeated = [4, 5] if guarantee == "at_least_once" else []
    assert counts_of_a == [1, 2, 3, *repeated]
