"""Records that are tried again: commits, stops and crashes while they wait, on any guarantee."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import Retry, StreamsBuilder, Topology, serdes
from pystreams.errors import TransactionAbortableError
from pystreams.metrics.definitions import THREAD_GROUP
from pystreams.record import ConsumedMessage
from pystreams.runtime.core.failures.dead_letters import HEADER_ATTEMPTS
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import PATIENCE, Application, stored_counts

pytestmark = pytest.mark.simulation

DROPPING = {
    "processing.exception.handler": "continue",
    "errors.dead.letter.queue.topic.name": "dead",
}
GUARANTEES = ["at_least_once", "exactly_once", "exactly_once_v2"]


class Service:
    """Does not answer while it is down; the broker looks at its transactions meanwhile."""

    def __init__(self, app: Application) -> None:
        self.down = False
        self.calls = 0
        self._broker = app.broker

    def __call__(self, value: str) -> str:
        self.calls += 1
        self._broker.tick()
        if self.down:
            raise TimeoutError("no answer")
        return value


def counting_behind(service: Service, *, max: int = 6) -> Topology:  # noqa: A002
    """Count records before and behind the service: of each as many."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.group_by_key().count(name="before", caching=False)
    answered = stream.map_values(service, retry=Retry(on=TimeoutError, max=max))
    counts = answered.group_by_key().count(name="counts", caching=False)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


def attempts_of(letter: ConsumedMessage) -> int:
    """One that was not tried again does not say how often it was."""
    return int(dict(letter.headers() or ()).get(HEADER_ATTEMPTS) or b"1")


def counted_commits(process: SimulatedProcess) -> float:
    return sum(
        float(value)
        for thread in process.threads
        for name, value in thread.metrics().items()
        if (name.group, name.name) == (THREAD_GROUP, "commit-total")
    )


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_what_waits_is_counted_once_it_goes_on(guarantee: str, tmp_path: Path) -> None:
    app = Application(tmp_path, guarantee, partitions=2)
    service = Service(app)
    process = app.process(topology=counting_behind(service))
    process.start()
    app.feed("a", "b", "c", "a")
    app.run_until_processed(process)
    service.down = True
    app.feed("a", "b", "c", "d")
    for _ in range(30):
        process.step()
    service.down = False
    app.run_until_processed(process)
    process.stop()

    assert stored_counts(process) == {"a": 3, "b": 2, "c": 2, "d": 1}
    assert stored_counts(process, "before") == {"a": 3, "b": 2, "c": 2, "d": 1}
    assert max(Counter(app.outputs()).values()) == 1


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_commits_that_come_due_meanwhile_cover_nothing_that_waits(
    guarantee: str, tmp_path: Path
) -> None:
    """And the thread goes on polling: it is not put out, though it waits longer than a session."""
    app = Application(tmp_path, guarantee)
    service = Service(app)
    process = app.process(topology=counting_behind(service, max=5))
    process.start()
    app.feed("a")
    app.run_until_processed(process)
    service.down = True
    app.feed("b")
    commits = counted_commits(process)
    began_ms = app.clock.now_ms()
    while app.clock.now_ms() < began_ms + 3000:
        process.step()
        assert app.committed() == 1
        assert app.outputs() == [("a", 1)]
        assert counted_commits(process) == commits
    calls = service.calls
    service.down = False
    app.run_until_processed(process)
    assert counted_commits(process) > commits

    assert calls == 1 + 5
    assert app.outputs() == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_stop_meanwhile_waits_for_nothing_and_loses_nothing(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    service = Service(app)
    process = app.process(topology=counting_behind(service))
    process.start()
    app.feed("a")
    app.run_until_processed(process)
    service.down = True
    app.feed("b", "c")
    while service.calls < 3:
        process.step()
    stopped_ms = app.clock.now_ms()
    process.stop()
    took_ms = app.clock.now_ms() - stopped_ms
    service.down = False
    again = app.process(topology=counting_behind(service), disk=process.disk)
    again.start()
    app.run_until_processed(again)
    again.stop()

    assert took_ms <= 100
    assert service.calls == 3 + 2
    counts = stored_counts(again)
    before = stored_counts(again, "before")
    if guarantee == "at_least_once":
        assert counts == {"a": 1, "b": 1, "c": 1}
        assert before.keys() == counts.keys()
    else:
        assert counts == before == {"a": 1, "b": 1, "c": 1}
        assert app.outputs() == [("a", 1), ("b", 1), ("c", 1)]


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_partitions_that_go_to_another_member_meanwhile_are_read_there(
    guarantee: str, incremental: bool, tmp_path: Path
) -> None:
    """What was counted before the service is taken back, though other tasks share its producer."""
    app = Application(tmp_path, guarantee, partitions=2, incremental=incremental)
    service = Service(app)
    first = app.process("p0", topology=counting_behind(service))
    first.start()
    app.feed(*"abcdef")
    app.run_until_processed(first)
    service.down = True
    app.feed(*"abcdef")
    while service.calls < 8:
        first.step()
    second = app.process("p1", topology=counting_behind(service))
    second.start()
    for _ in range(20):
        first.step()
        second.step()
    service.down = False
    app.run_until_processed(first, second)
    first.stop()
    second.stop()

    highest: dict[str, int] = {}
    for key, count in app.outputs():
        highest[key] = max(count, highest.get(key, 0))
    assert highest == dict.fromkeys("abcdef", 2)
    if guarantee != "at_least_once":
        assert max(Counter(app.outputs()).values()) == 1
        before = stored_counts(first, "before") | stored_counts(second, "before")
        assert before == dict.fromkeys("abcdef", 2)


def test_a_service_that_stays_down_lets_commits_through_between_records(tmp_path: Path) -> None:
    """Else the transaction would last as long as the outage, and the broker would end it."""
    app = Application(tmp_path, "exactly_once_v2")
    service = Service(app)
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.map_values(service, retry=Retry(on=TimeoutError, max=3, backoff_ms=400)).to(
        "out", key_serde=serdes.STRING, value_serde=serdes.STRING
    )
    app.broker.create_topic("dead", 1)
    process = app.process(topology=builder.build(), config=DROPPING)
    process.start()
    service.down = True
    app.feed(*"abcdef")
    app.run_until_processed(process)

    assert service.calls == 6 * 4
    letters = app.broker.committed_records("dead")
    assert [letter.message_key for letter in letters] == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_calls_again_are_counted_and_told_now_and_then(tmp_path: Path) -> None:
    app = Application(tmp_path, "exactly_once_v2")
    service = Service(app)
    process = app.process(topology=counting_behind(service, max=2))
    process.start()
    app.feed("a")
    app.run_until_processed(process)
    service.down = True
    app.feed("b")
    with capture_logs() as lines:
        for _ in range(30):
            process.step()
            app.clock.advance_ms(20)
            service.down = service.calls < 2
        app.feed("c")
        app.run_until_processed(process)
    [thread] = process.threads
    totals = {name.name: value for name, value in thread.metrics().items()}
    app.faults.fail_next("commit_transaction", TransactionAbortableError("aborted (simulated)"))
    app.feed("d")
    app.run_until_processed(process)

    assert service.calls == 6
    assert totals["calls-again-total"] == 1
    assert thread.statistics().calls_again == 1
    [told] = [line for line in lines if "called again" in line["event"]]
    assert (told["reason"], told["error"], told["calls"]) == ("TimeoutError", "no answer", 1)
    assert (told["topic"], told["partition"], told["offset"]) == ("in", 0, 1)


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
def test_a_wall_clock_that_jumps_neither_puts_a_retry_off_nor_hurries_it(
    jump_ms: int, tmp_path: Path
) -> None:
    app = Application(tmp_path, "exactly_once_v2")
    service = Service(app)
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.map_values(service, retry=Retry(on=TimeoutError, max=3, backoff_ms=500)).to(
        "out", key_serde=serdes.STRING, value_serde=serdes.STRING
    )
    process = app.process(topology=builder.build())
    process.start()
    service.down = True
    app.feed("a", "b")
    while not service.calls:
        process.step()
    failed_ms = app.clock.monotonic_ms()
    app.clock.jump_ms(jump_ms)
    service.down = False
    while service.calls == 1 and app.clock.monotonic_ms() < failed_ms + 2000:
        process.step()
    waited_ms = app.clock.monotonic_ms() - failed_ms
    app.run_until_processed(process)

    assert 400 <= waited_ms <= 700
    assert service.calls == 3
    assert len(app.broker.committed_records("out")) == 2


def test_many_records_of_one_wait_no_longer_than_a_transaction_may(tmp_path: Path) -> None:
    """A transaction may last 5 s, and each of them would wait for nearly 3."""
    app = Application(tmp_path, "exactly_once_v2", producer_transaction_timeout_ms=5000)
    service = Service(app)
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    many = stream.flat_map_values(lambda _: [str(number) for number in range(20)])
    many.map_values(service, retry=Retry(on=TimeoutError, max=3, backoff_ms=400)).to(
        "out", key_serde=serdes.STRING, value_serde=serdes.STRING
    )
    app.broker.create_topic("dead", 1)
    process = app.process(topology=builder.build(), config=DROPPING)
    process.start()
    service.down = True
    app.feed("a")
    began_ms = app.clock.monotonic_ms()
    app.run_until_processed(process)

    attempts = [attempts_of(letter) for letter in app.broker.committed_records("dead")]
    assert (len(attempts), attempts[0], attempts[-1]) == (20, 4, 1)
    assert service.calls == sum(attempts)
    assert app.clock.monotonic_ms() - began_ms < 5000


@pytest.mark.parametrize("guarantee", ["exactly_once", "exactly_once_v2"])
@pytest.mark.parametrize(("call_ms", "attempts"), [(50, 4), (1_300, 2), (2_500, 1)])
def test_calls_that_take_their_time_are_made_as_often_as_the_transaction_lasts(
    call_ms: int, attempts: int, guarantee: str, tmp_path: Path
) -> None:
    """Else the broker would end it, and all of that would come again, for ever."""
    app = Application(tmp_path, guarantee, producer_transaction_timeout_ms=5000)
    app.broker.create_topic("dead", 1)
    calls = []

    def ask(value: str) -> str:
        calls.append(value)
        app.clock.advance_ms(call_ms)
        raise TimeoutError("no answer")

    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.map_values(ask, retry=Retry(on=TimeoutError, max=3, backoff_ms=100)).to(
        "out", key_serde=serdes.STRING, value_serde=serdes.STRING
    )
    process = app.process(topology=builder.build(), config=DROPPING)
    process.start()
    app.feed("a", "b", "c")
    with capture_logs() as lines:
        app.run_until_processed(process)

    letters = app.broker.committed_records("dead")
    assert [attempts_of(letter) for letter in letters] == [attempts] * 3
    assert len(calls) == 3 * attempts
    told = [line for line in lines if "no time to call it again" in line["event"]]
    assert [line["attempts"] for line in told] == ([] if attempts == 4 else [f"{attempts} of 4"])
    assert all("producer.transaction.timeout.ms=5000" in line["within"] for line in told)


@pytest.mark.parametrize("guarantee", ["exactly_once", "exactly_once_v2"])
def test_operations_in_a_row_share_the_time_that_a_record_has(
    guarantee: str, tmp_path: Path
) -> None:
    """Each answers the third call: together that is longer than the transaction may last."""
    app = Application(tmp_path, guarantee, producer_transaction_timeout_ms=5000)
    app.broker.create_topic("dead", 1)
    calls: Counter[str] = Counter()

    def asking(name: str) -> Callable[[str], str]:
        def ask(value: str) -> str:
            app.clock.advance_ms(1100)
            app.broker.tick()
            calls[name] += 1
            if calls[name] % 3:
                raise TimeoutError("no answer")
            return value

        return ask

    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.group_by_key().count(name="before", caching=False)
    retry = Retry(on=TimeoutError, max=3, backoff_ms=100)
    first = stream.map_values(asking("first"), retry=retry)
    first.map_values(asking("second"), retry=retry).to(
        "out", key_serde=serdes.STRING, value_serde=serdes.STRING
    )
    process = app.process(topology=builder.build(), config=DROPPING)
    process.start()
    app.feed("a")
    with capture_logs() as lines:
        for _ in range(PATIENCE):
            process.step()
            if app.broker.committed_records("dead") or calls["first"] > 3:
                break

    assert calls == {"first": 3, "second": 1}
    assert [attempts_of(letter) for letter in app.broker.committed_records("dead")] == [1]
    assert [line["attempts"] for line in lines if "no time to call" in line["event"]] == ["1 of 4"]


@pytest.mark.parametrize("guarantee", ["exactly_once", "exactly_once_v2"])
def test_calls_that_wait_for_answers_take_no_time_from_a_record_that_fails_later(
    guarantee: str, tmp_path: Path
) -> None:
    """A second is left for tries from the first call of what fails, not of what is held."""
    app = Application(
        tmp_path, guarantee, producer_transaction_timeout_ms=5000, commit_interval_ms=3000
    )
    app.broker.create_topic("dead", 1)
    service = Service(app)

    async def answered(value: str) -> str:
        return value

    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    tried = stream.map_values(service, retry=Retry(on=TimeoutError, max=3, backoff_ms=100))
    tried.map_values_async(answered).to("out", key_serde=serdes.STRING, value_serde=serdes.STRING)
    process = app.process(topology=builder.build(), config=DROPPING)
    process.start()
    while not process.threads[0].statistics().tasks_running:
        process.step()
    app.feed("a", "b")  # A simulated process makes every other call only when it waits.
    while service.calls < 2:
        process.step()
    app.clock.advance_ms(1500)
    service.down = True
    app.feed("c")
    while service.calls < 3:
        process.step()
    service.down = False
    for _ in range(PATIENCE):
        process.step()
        app.clock.advance_ms(20)

    assert service.calls == 4
    assert app.broker.committed_records("dead") == []
    assert len(app.broker.committed_records("out")) == 3


@pytest.mark.parametrize("guarantee", ["exactly_once", "exactly_once_v2"])
def test_a_record_that_fails_while_a_commit_waits_for_answers_has_what_the_commit_has_left(
    guarantee: str, tmp_path: Path
) -> None:
    """Of 3.1 s an answer takes 1.5, and each call 0.9."""
    app = Application(tmp_path, guarantee, producer_transaction_timeout_ms=4000)
    app.broker.create_topic("dead", 1)
    calls: Counter[str] = Counter()

    async def answered(value: str) -> str:
        calls["answered"] += 1
        app.clock.advance_ms(1500 if value == "slow" else 0)
        return value

    def refused(value: str) -> str:
        if value == "slow":
            calls["refused"] += 1
            app.clock.advance_ms(900)
            raise TimeoutError("no answer")
        return value

    builder = StreamsBuilder()
    strings: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
    answers = builder.stream("in", **strings).map_values_async(answered, timeout_ms=2000)
    retry = Retry(on=TimeoutError, max=3, backoff_ms=100)
    answers.map_values(refused, retry=retry).to("out", **strings)
    process = app.process(topology=builder.build(), config=DROPPING)
    process.start()
    for value in (b"quick", b"slow"):  # The second is asked for when a commit waits for it.
        app.broker.produce("in", b"k", value, app.clock.now_ms())
    app.run_until_processed(process)

    assert calls == {"answered": 2, "refused": 1}
    assert [attempts_of(letter) for letter in app.broker.committed_records("dead")] == [1]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_retry_behind_a_full_limit_has_the_other_tasks_wait_and_the_clock_go_on(
    guarantee: str, tmp_path: Path
) -> None:
    """What waits is not committed, so that no room is made: to poll without a pause is in vain."""
    limit_bytes = 64_000
    app = Application(
        tmp_path, guarantee, partitions=2, statestore_uncommitted_max_bytes=limit_bytes
    )
    service = Service(app)
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    large = stream.map_values(lambda value: value * limit_bytes)
    large.group_by_key(key_serde=serdes.STRING, value_serde=serdes.STRING).reduce(
        lambda _, new: new, name="before", caching=False
    )
    retry = Retry(on=TimeoutError, max=6)
    answered = stream.map_values(
        lambda value: service(value) if value == "slow" else value, retry=retry
    )
    grouped = answered.group_by_key(key_serde=serdes.STRING, value_serde=serdes.STRING)
    grouped.count(name="counts", caching=False).to_stream().to(
        "out", key_serde=serdes.STRING, value_serde=serdes.LONG
    )
    process = app.process(topology=builder.build())
    process.start()
    app.feed(*"abcdef")
    app.run_until_processed(process)
    service.down = True
    app.broker.produce("in", b"a", b"slow", app.clock.now_ms())
    while not service.calls:
        process.step()
    app.feed(*"bcdef")

    began_ms = app.clock.now_ms()
    for _ in range(20):
        process.step()
    assert app.clock.now_ms() > began_ms
    service.down = False
    app.run_until_processed(process)
    assert stored_counts(process) == dict.fromkeys("abcdef", 2)
