"""Brokers that do not tell, when partitions are assigned, which tasks these make."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from pystreams.errors import BrokerNotAvailableError, RetriableClientError
from tests.simulation.applications import Application, running_tasks
from tests.simulation.members.test_topics_of_patterns import (
    SOON_MS,
    counting_tenants,
    feed,
    step_for,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.errors import StreamsError

pytestmark = pytest.mark.simulation

SILENCES = [
    BrokerNotAvailableError("no broker answered (simulated)"),
    RetriableClientError("description of topic: no answer (simulated)"),
]


def _with_a_topic(tmp_path: Path, guarantee: str, **config: Any) -> Application:
    app = Application(tmp_path, guarantee, partitions=2, **config)
    app.broker.create_topic("tenant-a", 2)
    return app


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("silence", SILENCES)
def test_an_assignment_waits_for_a_broker_that_is_silent_for_a_moment(
    tmp_path: Path, incremental: bool, silence: StreamsError
) -> None:
    """Where tasks go on meanwhile (KIP-848), what they have not committed is not done twice."""
    app = _with_a_topic(
        tmp_path, "exactly_once_v2", incremental=incremental, commit_interval_ms=700
    )
    process = app.process(topology=counting_tenants())
    process.start()
    feed(app, "tenant-a", *"ab")
    step_for(app, SOON_MS, process)
    for _ in range(20):
        app.faults.fail_next("partition_counts", silence)

    app.broker.create_topic("tenant-b", 2)
    feed(app, "tenant-b", *"ab")
    with capture_logs() as lines:
        for _ in range(200):
            feed(app, "tenant-a", "c")
            app.clock.advance_ms(150)
            process.step()
        step_for(app, SOON_MS, process)

    assert sorted(running_tasks(process)) == ["0_0", "0_1"]
    told = [line for line in lines if line["event"] == "assigned partitions wait for the broker"]
    assert 2 <= len(told) <= 3
    assert {line["log_level"] for line in told} == {"warning"}
    assert told[0]["why"] == str(silence)
    troubles = {line["event"] for line in lines if line["log_level"] in ("warning", "error")}
    assert troubles == {"assigned partitions wait for the broker"}
    counts = sorted(app.outputs())
    assert counts == sorted([(key, count) for key in "ab" for count in (1, 2)] + _counts("c", 200))


def _counts(key: str, most: int) -> list[tuple[str, int]]:
    return [(key, count) for count in range(1, most + 1)]


def test_brokers_that_are_asked_for_longer_than_a_transaction_lasts_fence_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = _with_a_topic(tmp_path, "exactly_once_v2", incremental=True, commit_interval_ms=3000)
    app.broker.group.session_timeout_ms = 600_000
    process = app.process(topology=counting_tenants())
    process.start()
    feed(app, "tenant-a", *"ab")
    step_for(app, SOON_MS, process)
    asked_ms: list[float] = []
    fail = app.faults.maybe_fail

    def maybe_fail(operation: str) -> None:
        if operation == "partition_counts" and len(asked_ms) < 8:
            asked_ms.append(app.clock.monotonic_ms())
            for _ in range(30):
                app.clock.advance_ms(500)
                app.broker.tick()
            raise SILENCES[0]
        fail(operation)

    monkeypatch.setattr(app.faults, "maybe_fail", maybe_fail)
    app.broker.create_topic("tenant-b", 2)
    with capture_logs() as lines:
        for _ in range(300):
            feed(app, "tenant-a", *"cdef")
            app.clock.advance_ms(50)
            process.step()
        step_for(app, 8 * 2 * 15_000, process)

    assert len(asked_ms) == 8
    pauses_ms = [later - earlier - 15_000 for earlier, later in pairwise(asked_ms)]
    assert min(pauses_ms) >= 15_000, "tasks that run have as long as they stood still"
    assert "joining the group again" not in {line["event"] for line in lines}
    counted = [count for key in "cdef" for count in _counts(key, 300)]
    assert sorted(app.outputs()) == sorted([("a", 1), ("b", 1), *counted])


def test_tasks_whose_assignment_waits_do_not_count_as_running(tmp_path: Path) -> None:
    app = _with_a_topic(tmp_path, "exactly_once_v2")
    process = app.process(topology=counting_tenants())
    process.start()
    step_for(app, SOON_MS, process)
    thread = process.threads[0]
    assert thread.settled
    for _ in range(20):
        app.faults.fail_next("partition_counts", SILENCES[0])

    app.broker.create_topic("tenant-b", 2)
    settled = []
    for _ in range(1000):
        process.step()
        settled.append(thread.settled)

    assert not all(settled)
    assert settled[-1]
    assert sorted(running_tasks(process)) == ["0_0", "0_1"]


def test_an_assignment_that_waits_for_too_long_ends_the_thread_with_its_cause(
    tmp_path: Path,
) -> None:
    app = _with_a_topic(tmp_path, "exactly_once_v2", task_timeout_ms=20_000)
    process = app.process(topology=counting_tenants())
    process.start()
    step_for(app, SOON_MS, process)
    for _ in range(1000):
        app.faults.fail_next("partition_counts", SILENCES[0])
    app.broker.create_topic("tenant-b", 2)
    began_ms = app.clock.monotonic_ms()

    expected = r"'tenant-b': \[0, 1\].* for 20000 ms \(task.timeout.ms\).*no broker answered"
    with pytest.raises(BrokerNotAvailableError, match=expected):
        step_for(app, SOON_MS, process)

    assert app.clock.monotonic_ms() - began_ms >= 20_000


def test_an_assignment_that_waits_may_be_taken_back(tmp_path: Path) -> None:
    app = _with_a_topic(tmp_path, "exactly_once_v2")
    first, second = (app.process(name, counting_tenants()) for name in ("p0", "p1"))
    first.start()
    step_for(app, SOON_MS, first)
    for _ in range(200):
        app.faults.fail_next("partition_counts", SILENCES[0])
    app.broker.create_topic("tenant-b", 2)
    feed(app, "tenant-b", *"abcd")
    step_for(app, 5000, first)
    second.start()
    step_for(app, 5000, first, second)
    app.faults.forget_scripted("partition_counts")
    step_for(app, SOON_MS, first, second)

    assert sorted(running_tasks(first) + running_tasks(second)) == ["0_0", "0_1"]
    assert sorted(app.outputs()) == [(key, 1) for key in "abcd"]
