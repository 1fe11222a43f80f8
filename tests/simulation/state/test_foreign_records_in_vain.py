"""Records of others in a changelog that can't be undone for now: the rest goes on beside that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from pystreams import Retry, StreamsBuilder, TopicPartition, serdes
from pystreams.errors import RetriableClientError, StateStoreError
from tests.simulation.applications import CHANGELOG, Application
from tests.simulation.state.test_foreign_records import UNDONE, done

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pystreams import Topology
    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

IN_VAIN = "records of others in a changelog are not undone yet"
STEP_MS = 100
READ_MS = 13 * 200
"""How long a read takes that brings nothing."""


def counting(change: Callable[[str], str] = str) -> Topology:
    """Count, and count again what a function makes of the values, which may ask to be retried."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    counts = stream.group_by_key().count(name="counts", caching=False)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    retry = Retry(on=TimeoutError, max=3, backoff_ms=20_000)
    changed = stream.map_values(change, retry=retry)
    changed.group_by_key().count(name="changed", caching=False)
    return builder.build()


def with_late_ones(app: Application, topology: Topology, *partitions: int) -> SimulatedProcess:
    """Return a process in whose changelogs of some partitions there are late records.

    Its next commit looks at them.
    """
    process = app.process(topology=topology)
    process.start()
    for number in range(app.broker.partition_counts()["in"]):
        feed(app, number, 2)
    app.run_until_processed(process)
    for number in partitions:
        changelog = CHANGELOG._replace(partition=number)
        old = app.broker.log(changelog).committed_records()[0]
        record = (old.message_key, old.message_value, old.timestamp_ms, old.message_headers)
        app.broker.append(*changelog, [record])
    return process


def feed(app: Application, partition: int, count: int = 1, value: bytes = b"x") -> None:
    key = f"key{partition}".encode()
    records: Any = [(key, value, app.clock.now_ms(), ())] * count
    app.broker.append("in", partition, records)


def run_for(app: Application, process: SimulatedProcess, seconds: float) -> None:
    end_ms = app.clock.monotonic_ms() + seconds * 1000
    while app.clock.monotonic_ms() < end_ms:
        app.clock.advance_ms(STEP_MS)
        process.step()


def reads(app: Application) -> int:
    return sum("foreign-records assign" in line for line in app.faults.trace)


def in_vain(logs: list[Any]) -> list[str]:
    return [each["changelog"] for each in logs if each["event"] == IN_VAIN]


def test_it_is_tried_less_and_less_often_and_told_once_a_minute(tmp_path: Path) -> None:
    """After 1 s, 2 s, ... 60 s; other tasks go on, and it is done once that is possible."""
    app = Application(tmp_path, "at_least_once", partitions=2)
    process = with_late_ones(app, counting(), 0)
    late = CHANGELOG._replace(partition=0)
    app.broker.fetched_in_vain.add(late)
    feed(app, 0)
    before = len(app.outputs())
    with capture_logs() as logs:
        for _ in range(300):
            feed(app, 1)
            run_for(app, process, 2)
        tries = reads(app)
        assert (len(app.outputs()) - before, app.committed(1)) == (301, 302)
        assert 10 <= tries <= 17
        assert 9 <= len(in_vain(logs)) <= 10
        assert not done(logs)

        app.broker.fetched_in_vain.clear()
        run_for(app, process, 61)
        assert done(logs) == [UNDONE]
        feed(app, 0)
        app.run_until_processed(process)
    process.stop()
    assert reads(app) == tries + 1


class Unreadable(dict[bytes, bytes]):
    """What an engine holds; an entry can't be read for now."""

    def get(self, key: bytes, default: Any = None) -> Any:
        if key == b"key0":
            raise StateStoreError("counts", "the disk does not answer")
        return super().get(key, default)


def test_a_store_that_can_not_be_read_is_put_off_likewise(tmp_path: Path) -> None:
    app = Application(tmp_path, "at_least_once")
    process = with_late_ones(app, counting(), 0)
    [files] = [files for _, name, files in process.disk.stores() if name == "counts"]
    files.data = Unreadable(files.data)
    with capture_logs() as logs:
        for _ in range(300):
            app.feed("other")
            run_for(app, process, 1)
    process.stop()

    assert 8 <= reads(app) <= 12
    assert 4 <= len(in_vain(logs)) <= 6


def test_one_commit_reads_no_more_than_one_changelog_in_vain(tmp_path: Path) -> None:
    app = Application(tmp_path, "at_least_once", partitions=4)
    process = with_late_ones(app, counting(), 0, 1, 2, 3)
    changelogs = [CHANGELOG._replace(partition=number) for number in range(4)]
    app.broker.fetched_in_vain |= set(changelogs)
    for number in range(4):
        feed(app, number)
    longest_ms = 0.0
    with capture_logs() as logs:
        for _ in range(1500):
            before_ms = app.clock.monotonic_ms()
            app.clock.advance_ms(STEP_MS)
            process.step()
            longest_ms = max(longest_ms, app.clock.monotonic_ms() - before_ms)
        told = in_vain(logs)
        app.broker.fetched_in_vain.clear()
        run_for(app, process, 61)
    process.stop()

    assert longest_ms < 2 * READ_MS
    assert set(told) == set(map(str, changelogs))
    assert done(logs) == [UNDONE] * 4


def test_however_many_changelogs_give_nothing_the_thread_has_its_time_for_other_tasks(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, "at_least_once", partitions=12)
    process = with_late_ones(app, counting(), *range(12))
    app.broker.fetched_in_vain |= {CHANGELOG._replace(partition=number) for number in range(12)}
    for number in range(12):
        feed(app, number)
    run_for(app, process, 240)

    assert 2 <= reads(app) <= 240_000 // (10 * READ_MS)
    app.broker.fetched_in_vain.clear()
    with capture_logs() as logs:
        run_for(app, process, 61)
    process.stop()
    assert done(logs) == [UNDONE] * 12


def test_a_task_that_has_only_late_records_left_ends_no_thread_while_commits_fail(
    tmp_path: Path,
) -> None:
    """It has nothing to commit, however little is known of what its input still brings."""
    app = Application(tmp_path, "at_least_once", task_timeout_ms=5000)
    process = with_late_ones(app, counting(), 0)
    app.broker.fetched_in_vain.add(CHANGELOG)
    feed(app, 0)
    app.run_until_processed(process)
    app.broker.fetched_in_vain.add(TopicPartition("in", 0))
    feed(app, 0)
    with capture_logs() as logs:
        run_for(app, process, 40)
        assert process.threads[0].statistics().lag_records == 1
        for _ in range(1000):
            app.faults.fail_next("flush", RetriableClientError("no answer"))
        run_for(app, process, 90)
        assert [each for each in logs if each["event"] == "commit will be tried again"]

        app.faults.forget_scripted("flush")
        app.broker.fetched_in_vain.clear()
        run_for(app, process, 61)
    process.stop()
    assert done(logs) == [UNDONE]


def test_a_thread_whose_room_waits_for_a_retry_waits_beside_it(tmp_path: Path) -> None:
    """No commit makes room: the other task has nothing to commit, but late records to undo."""
    app = Application(tmp_path, "at_least_once", partitions=2, statestore_uncommitted_max_bytes=45)

    down = True

    def change(value: str) -> str:
        if value == "slow" and down:
            raise TimeoutError("no answer")
        return value

    process = with_late_ones(app, counting(change), 1)
    app.broker.fetched_in_vain.add(CHANGELOG._replace(partition=1))
    feed(app, 1)
    app.run_until_processed(process)
    feed(app, 0, value=b"slow")
    feed(app, 1, 5)
    tries, began_ms, steps = reads(app), app.clock.monotonic_ms(), 0
    with capture_logs():
        while steps < 1000 and app.clock.monotonic_ms() < began_ms + 15_000:
            process.step()
            steps += 1
        [thread] = process.threads
        assert thread._processing.waits_for_a_retry
        assert app.clock.monotonic_ms() >= began_ms + 15_000, "it waits"
        assert reads(app) - tries <= 4
        down = False
        run_for(app, process, 30)
        assert (app.committed(0), app.committed(1)) == (3, 8)
        process.stop()
