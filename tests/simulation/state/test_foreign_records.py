"""Records that a process which stood still writes behind those of the new owner of its task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    TimeWindows,
    Topology,
    serdes,
)
from pystreams.errors import (
    RetriableClientError,
    StateStoreCorruptedError,
    TransactionAbortableError,
)
from tests.simulation.applications import (
    CHANGELOG,
    PATIENCE,
    Application,
    counting,
    running_tasks,
)
from tests.stores.custom import CustomStore

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.record import ProducedRecord
    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

NOTICED = (
    "another process has written to the changelog of a task that runs here, after it stood still"
)
WENT_BACK = (
    "the changelog of a task that went back to its last commit has records of before that, or of "
    "another process"
)
PERHAPS = "another process may have written to the changelog of a task that runs here"
UNDONE = "the present values are logged again"
NOTHING = "nothing: the store is damaged, and what it is rebuilt from may be old"
LEFT = "nothing: the task has left, and who gets it restores them"
GOES_BACK = "a store is damaged, going on from the last commit"
REBUILT = "state store is damaged and rebuilt from its changelog"


def counting_windows() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    windows = stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(1 << 40))
    counts = windows.count(name="counts").to_stream(key_mapper=lambda key, _: key.key)
    counts.to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


def logged(app: Application) -> list[ProducedRecord]:
    records = app.broker.log(CHANGELOG).committed_records()
    return [
        (each.message_key, each.message_value, each.timestamp_ms, each.message_headers)
        for each in records
    ]


def started(app: Application, topology: Topology, *keys: str) -> SimulatedProcess:
    process = app.process(topology=topology)
    process.start()
    app.feed(*keys)
    app.run_until_processed(process)
    return process


def done(logs: list[Any]) -> list[str]:
    return [each["done"] for each in logs if each["event"] == NOTICED]


def noticed(logs: list[Any]) -> list[int]:
    return [each["records"] for each in logs if each["event"] == NOTICED]


def run_until_undone(app: Application, process: SimulatedProcess, logs: list[Any]) -> None:
    """Step a process without input until late records are undone."""
    for _ in range(PATIENCE):
        if UNDONE in done(logs):
            return
        app.clock.advance_ms(50)
        process.step()
    raise AssertionError("they are not undone")


def warnings(logs: list[Any]) -> list[str]:
    return [each["event"] for each in logs if each["log_level"] == "warning"]


@pytest.mark.parametrize("topology", [counting, counting_windows])
def test_old_counts_that_come_behind_newer_ones_are_undone(tmp_path: Path, topology: Any) -> None:
    app = Application(tmp_path, "at_least_once")
    process = started(app, topology(), "a", "b", "a", "a")
    old = logged(app)[:2]
    app.broker.append(*CHANGELOG, old)
    with capture_logs() as logs:
        app.feed("c")
        app.run_until_processed(process)
        app.feed("c")
        app.run_until_processed(process)
    process.crash()

    assert noticed(logs) == [2]
    other = app.process("p1", topology())
    other.start()
    app.feed("a", "b", "c")
    app.run_until_processed(other)
    assert app.outputs()[-3:] == [("a", 4), ("b", 2), ("c", 3)]
    other.stop()


class CountingReads(dict[bytes, bytes]):
    """What an engine holds; counts the entries that are read."""

    reads = 0

    def get(self, key: bytes, default: Any = None) -> Any:
        self.reads += 1
        return super().get(key, default)

    def items(self) -> Any:
        self.reads += len(self)
        return super().items()


def test_to_undo_them_reads_no_more_of_a_store_that_holds_more(tmp_path: Path) -> None:
    reads = []
    for count in (10, 300):
        app = Application(tmp_path / str(count), "at_least_once")
        process = started(app, counting(), *map(str, range(count)))
        [(_, _, files)] = process.disk.stores()
        files.data = data = CountingReads(files.data)
        app.broker.append(*CHANGELOG, logged(app)[:3])
        app.feed("1")
        with capture_logs() as logs:
            app.run_until_processed(process)
        assert noticed(logs) == [3]
        assert files.data is data
        reads.append(data.reads)
        process.stop()

    assert 0 < reads[0] == reads[1]


def test_a_task_that_leaves_undoes_them_only_where_that_takes_no_time(tmp_path: Path) -> None:
    """A store of windows would be read whole: who gets the task restores them, which is told."""
    for topology, tells, newest in (
        (counting, "the present values are logged again", 2),
        (counting_windows, LEFT, 1),
    ):
        app = Application(tmp_path / topology.__name__, "at_least_once", commit_interval_ms=5000)
        process = app.process(topology=topology())
        process.start()
        app.feed("a", "a")
        app.run_until_processed(process)
        app.broker.append(*CHANGELOG, logged(app)[:1])
        app.feed("b")
        for _ in range(5):
            process.step()
        assert app.committed() == 2
        with capture_logs() as logs:
            process.stop()

        assert done(logs) == [tells]
        assert noticed(logs) == [1]
        held = app.broker.log(CHANGELOG).compacted()
        assert [value[-1] for key, value in held.items() if key[:1] == b"a"] == [newest]


@pytest.mark.parametrize("incremental", [True, False])
def test_a_task_that_stays_while_others_leave_undoes_them_at_its_next_commit(
    tmp_path: Path, *, incremental: bool
) -> None:
    """Without any input; once, and that is told once."""
    app = Application(
        tmp_path, "at_least_once", partitions=2, incremental=incremental, commit_interval_ms=5000
    )
    topology = counting_windows()
    process, other = app.process(topology=topology), app.process("p1", topology)
    keys = "abcdefgh"
    process.start()
    app.feed(*keys, *keys)
    app.run_until_processed(process)
    changelogs = [CHANGELOG, CHANGELOG._replace(partition=1)]
    late = set()
    for changelog in changelogs:
        old = app.broker.log(changelog).committed_records()[0]
        late.add((old.message_key or b"")[:1].decode())
        record = (old.message_key, old.message_value, old.timestamp_ms, old.message_headers)
        app.broker.append(*changelog, [record])
    app.feed(*sorted(set(keys) - late))
    for _ in range(5):
        process.step()
    with capture_logs() as logs:
        other.start()
        for _ in range(PATIENCE):
            if running_tasks(other):
                break
            process.step()
            other.step()
        assert sum(app.committed(number) or 0 for number in range(2)) == 3 * len(keys) - len(late)
        for _ in range(PATIENCE):
            if UNDONE in done(logs):
                break
            app.clock.advance_ms(50)
            process.step()
            other.step()

    told = [(each["task"], each["done"]) for each in logs if each["event"] == NOTICED]
    (stays,), (left,) = running_tasks(process), running_tasks(other)
    assert sorted(told) == sorted([(stays, UNDONE), (left, LEFT)])
    held = app.broker.log(changelogs[int(stays[-1])]).compacted()
    assert {key[:1].decode(): value[-1] for key, value in held.items()} == {
        key[:1].decode(): 2 if key[:1].decode() in late else 3 for key in held
    }
    process.stop()
    other.stop()


def test_a_task_that_stays_through_a_rebalance_undoes_them_once(tmp_path: Path) -> None:
    """One that restores what it has logged again, as the group asked for all partitions back."""
    app = Application(tmp_path, "at_least_once", partitions=2, commit_interval_ms=5000)
    topology = counting()
    process, other = app.process(topology=topology), app.process("p1", topology)
    process.start()
    app.feed(*"abcdefgh", *"abcdefgh")
    app.run_until_processed(process)
    changelogs = [CHANGELOG, CHANGELOG._replace(partition=1)]
    for changelog in changelogs:
        old = app.broker.log(changelog).committed_records()[0]
        record = (old.message_key, old.message_value, old.timestamp_ms, old.message_headers)
        app.broker.append(*changelog, [record])
    app.feed(*"abcdefgh")
    for _ in range(5):
        process.step()
    with capture_logs() as logs:
        other.start()
        for _ in range(2):
            app.run_until_processed(process, other)
            app.feed(*"abcdefgh")
        app.run_until_processed(process, other)

    assert (len(running_tasks(process)), done(logs)) == (1, [UNDONE, UNDONE])
    process.stop()
    other.stop()


def test_a_key_that_the_store_does_not_have_is_deleted_again(tmp_path: Path) -> None:
    app = Application(tmp_path, "at_least_once")
    process = started(app, counting(), "a")
    [(_, value, time_ms, headers)] = logged(app)
    app.broker.append(*CHANGELOG, [(b"gone", value, time_ms, headers)])
    app.feed("a")
    app.run_until_processed(process)
    process.stop()

    assert set(app.broker.log(CHANGELOG).compacted()) == {b"a"}


def test_a_thread_that_stands_still_before_it_undoes_them_logs_nothing(tmp_path: Path) -> None:
    """What it holds is old by then, as the task has another owner."""
    app = Application(tmp_path, "at_least_once")
    process, other = started(app, counting(), "a", "a"), app.process("p1")
    app.broker.append(*CHANGELOG, logged(app)[:1])
    newest: list[ProducedRecord] = []

    def meanwhile() -> None:
        app.clock.advance_ms(6000)
        other.start()
        app.feed("a")
        app.run_until_processed(other)
        newest.extend(logged(app))

    app.feed("b")
    process.stand_still("foreign-records poll", meanwhile)
    while not newest:
        process.step()

    assert logged(app) == newest
    other.stop()
    process.stop()


def test_a_thread_that_stands_still_after_its_last_commit_does_not_tell_that_it_failed(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, "at_least_once", commit_interval_ms=5000)
    process, other = started(app, counting(), "a", "a"), app.process("p1")
    app.broker.append(*CHANGELOG, logged(app)[:1])
    counts: list[tuple[str, int]] = []

    def meanwhile() -> None:
        app.clock.advance_ms(6000)
        other.start()
        app.feed("b")
        app.run_until_processed(other)
        counts.extend(app.outputs())

    app.feed("b")
    for _ in range(5):
        process.step()
    assert app.committed() == 2
    process.stand_still("foreign-records poll", meanwhile)
    with capture_logs() as logs:
        process.stop()

    assert counts == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert not [each for each in logs if "last commit failed" in each["event"]]
    other.stop()


class Damaged(dict[bytes, bytes]):
    """What an engine holds; an entry can't be read."""

    key = b"a"

    def get(self, key: bytes, default: Any = None) -> Any:
        if key == self.key:
            raise StateStoreCorruptedError("counts", "a checksum is wrong")
        return super().get(key, default)


def test_a_store_that_is_found_damaged_as_they_are_undone_is_rebuilt(tmp_path: Path) -> None:
    app = Application(tmp_path, "at_least_once")
    process = started(app, counting(), "a", "a")
    [(_, _, files)] = process.disk.stores()
    files.data = Damaged(files.data)
    app.broker.append(*CHANGELOG, logged(app)[:1])
    with capture_logs() as logs:
        for key in ("b", "b", "a"):
            app.feed(key)
            app.run_until_processed(process)

    assert [line["store"] for line in logs if line["event"] == REBUILT] == ["counts"]
    assert done(logs) == [NOTHING]
    assert GOES_BACK in warnings(logs)
    assert not [each for each in warnings(logs) if "commit failed" in each], "all was committed"
    assert app.outputs()[-3:-1] == [("b", 1), ("b", 2)]
    process.stop()


@pytest.mark.parametrize("went_back", [True, False])
def test_a_damaged_store_is_told_whoever_may_have_written_to_its_changelog(
    tmp_path: Path, *, went_back: bool
) -> None:
    """The task itself before it went back, or a producer that writes records twice."""
    settings: dict[str, Any] = {} if went_back else {"producer_acks": "1"}
    app = Application(tmp_path, "at_least_once", **settings)
    process = started(app, counting(), "a", "a", "b")
    with capture_logs() as logs:
        if went_back:
            app.faults.fail_next("flush", TransactionAbortableError("a record was lost"))
            app.feed("b")
            while not [each for each in logs if each["event"] == "restored"]:
                process.step()
        [(_, _, files)] = process.disk.stores()
        files.data = Damaged(files.data)
        app.broker.append(*CHANGELOG, logged(app)[:1])
        app.feed("b")
        app.run_until_processed(process)

    event = WENT_BACK if went_back else NOTICED
    assert [each["done"] for each in logs if each["event"] == event] == [NOTHING]
    process.stop()


def test_a_store_found_damaged_at_a_stop_does_not_tell_that_the_commit_failed(
    tmp_path: Path,
) -> None:
    """All is committed; only what is late is not undone."""
    app = Application(tmp_path, "at_least_once", commit_interval_ms=5000)
    process = started(app, counting(), "a", "a")
    [(_, _, files)] = process.disk.stores()
    files.data = Damaged(files.data)
    app.broker.append(*CHANGELOG, logged(app)[:1])
    app.feed("b")
    for _ in range(5):
        process.step()
    with capture_logs() as logs:
        process.stop()

    assert (app.committed(), done(logs)) == (3, [NOTHING])
    assert not [each for each in logs if "commit failed" in each["event"]]


def test_a_store_that_is_rebuilt_before_they_are_undone_is_told_to_hold_them(
    tmp_path: Path,
) -> None:
    """It may: none of them was read."""
    app = Application(tmp_path, "at_least_once", commit_interval_ms=5000)
    process = started(app, counting(), "a", "a", "b")
    app.broker.append(*CHANGELOG, logged(app)[:1])
    app.broker.fetched_in_vain.add(CHANGELOG)
    with capture_logs() as logs:
        app.feed("b")
        app.run_until_processed(process)
        app.broker.fetched_in_vain.clear()
        [(_, _, files)] = process.disk.stores()
        files.data = damaged = Damaged(files.data)
        damaged.key = b"c"
        for key in ("c", "b"):
            app.feed(key)
            app.run_until_processed(process)

    assert [line["store"] for line in logs if line["event"] == REBUILT] == ["counts"]
    told = [(each["records"], each["done"]) for each in logs if each["event"] == PERHAPS]
    assert (told, noticed(logs)) == ([(1, NOTHING)], [])
    process.stop()


def test_what_can_not_be_undone_at_once_is_undone_after_a_later_commit(tmp_path: Path) -> None:
    app = Application(tmp_path, "at_least_once")
    process = started(app, counting(), "a", "a", "a")
    app.broker.append(*CHANGELOG, logged(app)[:1])
    app.broker.fetched_in_vain.add(CHANGELOG)
    with capture_logs() as logs:
        app.feed("b")
        app.run_until_processed(process)
        app.broker.append(*CHANGELOG, logged(app)[1:2])
        app.feed("b")
        app.run_until_processed(process)
        app.broker.fetched_in_vain.clear()
        assert not noticed(logs)
        run_until_undone(app, process, logs)
    process.crash()

    assert noticed(logs) == [2]
    counts = app.broker.log(CHANGELOG).compacted()
    assert {key: value[-1] for key, value in counts.items()} == {b"a": 3, b"b": 2}


@pytest.mark.parametrize("deleted", [0, 7])
def test_old_counts_that_come_before_the_first_commit_are_undone(
    tmp_path: Path, deleted: int
) -> None:
    """Also where the changelog no longer began with its first offset when the task started."""
    app = Application(tmp_path, "at_least_once")
    source = Application(tmp_path / "other", "at_least_once")
    started(source, counting(), "a", "b")
    old = logged(source)
    process = app.process()
    process.start()
    app.run_until_processed(process)
    app.broker.append(*CHANGELOG, old[:1] * deleted)
    app.broker.log(CHANGELOG).delete_before(deleted)
    app.broker.append(*CHANGELOG, old)
    with capture_logs() as logs:
        app.feed("a", "a", "c")
        app.run_until_processed(process)
        app.feed("c")
        app.run_until_processed(process)
    process.crash()

    assert noticed(logs) == [2]
    counts = app.broker.log(CHANGELOG).compacted()
    assert {key: value[-1] for key, value in counts.items()} == {b"a": 2, b"c": 2}


def test_a_changelog_that_has_lost_its_beginning_is_not_taken_for_another_s(tmp_path: Path) -> None:
    source = Application(tmp_path / "other", "at_least_once")
    started(source, counting(), "a")
    app = Application(tmp_path, "at_least_once")
    process = started(app, counting())
    app.broker.append(*CHANGELOG, logged(source) * 7)
    app.broker.log(CHANGELOG).delete_before(7)
    with capture_logs() as logs:
        app.feed("a", "b", "b")
        app.run_until_processed(process)
        app.feed("c")
        app.run_until_processed(process)
        process.stop()

    assert not noticed(logs)
    assert app.outputs() == [("a", 1), ("b", 1), ("b", 2), ("c", 1)]


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("topology", [counting, counting_windows])
def test_nor_is_it_where_the_first_commit_is_the_last(
    tmp_path: Path, topology: Any, late: int
) -> None:
    """A task that leaves tells how many others there are, also where the store is read whole."""
    source = Application(tmp_path / "other", "at_least_once")
    started(source, topology(), "a")
    app = Application(tmp_path, "at_least_once", commit_interval_ms=5000)
    process = app.process(topology=topology())
    process.start()
    app.run_until_processed(process)
    app.broker.append(*CHANGELOG, logged(source) * 7)
    app.broker.log(CHANGELOG).delete_before(7)
    app.broker.append(*CHANGELOG, logged(source) * late)
    app.feed("a", "b", "b")
    for _ in range(5):
        process.step()
    assert app.committed() is None
    with capture_logs() as logs:
        process.stop()

    assert app.committed() == 3
    assert (warnings(logs), noticed(logs)) == ([NOTICED] * late, [1] * late)


def test_what_was_not_read_is_not_told_as_a_fact(tmp_path: Path) -> None:
    app = Application(tmp_path, "at_least_once", commit_interval_ms=5000)
    process = started(app, counting_windows(), "a", "a", "b")
    app.broker.append(*CHANGELOG, logged(app)[:1])
    app.broker.fetched_in_vain.add(CHANGELOG)
    with capture_logs() as logs:
        app.feed("b")
        app.run_until_processed(process)
        process.stop()

    assert not noticed(logs)
    told = [each for each in logs if each["event"] == PERHAPS]
    assert [(each["records"], each["done"]) for each in told] == [(1, LEFT)]


@pytest.mark.parametrize(
    "settings", [{"producer_acks": "1"}, {"producer_enable_idempotence": "false"}]
)
def test_what_a_producer_has_written_twice_is_not_taken_for_another_s(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """One that is not idempotent; what it may have brought out of order is logged again."""
    app = Application(tmp_path, "at_least_once", **settings)
    process = started(app, counting(), "a", "a")
    app.broker.append(*CHANGELOG, logged(app)[:1])
    with capture_logs() as logs:
        app.feed("b")
        app.run_until_processed(process)
        process.stop()

    assert not noticed(logs)
    counts = app.broker.log(CHANGELOG).compacted()
    assert {key: value[-1] for key, value in counts.items()} == {b"a": 2, b"b": 1}


def test_what_is_undone_is_told_once_it_is(tmp_path: Path) -> None:
    app = Application(tmp_path, "at_least_once")
    process = started(app, counting(), "a", "a")
    app.broker.append(*CHANGELOG, logged(app)[:1])
    with capture_logs() as logs:
        app.feed("b")
        app.faults.fail_next("flush", RetriableClientError("no answer"), after=1)
        app.run_until_processed(process)
        assert not noticed(logs)
        run_until_undone(app, process, logs)
        process.stop()

    assert done(logs) == [UNDONE]


def test_the_records_of_one_process_are_not_taken_for_another_s(tmp_path: Path) -> None:
    """Not after a restart, nor after it went back to its last commit."""
    app = Application(tmp_path, "at_least_once")
    with capture_logs() as logs:
        process = started(app, counting(), "a", "b")
        app.faults.fail_next("flush", TransactionAbortableError("a record was lost"))
        app.feed("a", "c")
        app.run_until_processed(process)
        process.stop()
        process.start()
        app.feed("a", "c")
        app.run_until_processed(process)
        process.stop()

    assert not noticed(logs)


class Keeps(Processor[str, str, str, str]):
    def init(self, context: ProcessorContext[str, str]) -> None:
        self.store: Any = context.get_state_store("counts")

    def process(self, record: Record[str, str]) -> None:
        self.store.put(record.key, record.value)


def test_of_a_store_that_gives_no_records_a_task_s_own_are_not_told_as_another_s(
    tmp_path: Path,
) -> None:
    """Late ones of before the task went back; they can't be undone, which is told."""
    app = Application(tmp_path, "at_least_once")
    builder = StreamsBuilder()
    builder.add_state_store(CustomStore("counts"))
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.process(Keeps, stores=["counts"])
    with capture_logs() as logs:
        process = started(app, builder.build(), "a", "b")
        app.faults.fail_next("flush", TransactionAbortableError("a record was lost"))
        app.feed("a")
        while not [each for each in logs if each["event"] == "restored"]:
            process.step()
        app.broker.append(*CHANGELOG, logged(app)[:1])  # As one that was sent before, and is late.
        app.feed("c")
        app.run_until_processed(process)
        process.stop()

    assert not noticed(logs)
    told = [each["done"] for each in logs if each["event"] == WENT_BACK]
    assert told == ["nothing: write changelog_records() of the store, or restore may take them"]
