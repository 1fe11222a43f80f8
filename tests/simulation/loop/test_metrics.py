"""The metrics of stream threads: numbers that add up, through rollbacks, crashes and restores."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from pystreams import (
    BufferConfig,
    MetricName,
    Processor,
    ProcessorContext,
    Record,
    StoreEngine,
    Stores,
    StreamsBuilder,
    Suppressed,
    Window,
    Windowed,
    serdes,
)
from pystreams.metrics import DEFINITIONS, MetricValue, RecordingLevel
from pystreams.metrics.definitions import (
    CLIENT_GROUP,
    GROUP_TAGS,
    OPERATIONS,
    STATE_GROUP,
    STATE_UPDATER_GROUP,
    TASK_GROUP,
    THREAD_GROUP,
    TOPIC_GROUP,
    definition_of,
)
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import Application
from tests.simulation.members.keeping_warm import application, keys, settle
from tests.stores.custom import CustomStore, SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams import StateStoreContext, Topology

pytestmark = pytest.mark.simulation


def metrics_of(process: SimulatedProcess) -> dict[MetricName, MetricValue]:
    found: dict[MetricName, MetricValue] = {}
    for thread in process.threads:
        found.update(thread.metrics())
    return found


def total(process: SimulatedProcess, group: str, name: str, **tags: str) -> float:
    """The sum of one metric over all its tags that fit."""
    values = [
        value
        for metric, value in metrics_of(process).items()
        if (metric.group, metric.name) == (group, name)
        and all(metric.tag(tag.replace("_", "-")) == wanted for tag, wanted in tags.items())
    ]
    assert values, f"{group} has no {name} with {tags}"
    return sum(float(value) for value in values)


def started(app: Application, **config: Any) -> SimulatedProcess:
    process = app.process(config={name.replace("_", "."): value for name, value in config.items()})
    process.start()
    return process


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_records_in_and_out_add_up(guarantee: str, tmp_path: Path) -> None:
    app = Application(tmp_path, guarantee, partitions=3)
    process = started(app)
    app.feed(*"abcabcaabbccxyz")
    app.run_until_processed(process)

    assert total(process, THREAD_GROUP, "process-total") == 15
    assert total(process, TASK_GROUP, "process-total") == 15
    assert total(process, TOPIC_GROUP, "records-consumed-total", topic_name="in") == 15
    assert total(process, TOPIC_GROUP, "records-produced-total", topic_name="out") == 15
    assert (
        total(process, TOPIC_GROUP, "records-produced-total", topic_name="app-counts-changelog")
        == 15
    )
    assert total(process, TASK_GROUP, "dropped-records-total") == 0
    assert total(process, THREAD_GROUP, "task-created-total") == 3
    assert total(process, THREAD_GROUP, "commit-total") >= 1


def test_how_old_records_are_when_they_are_processed_is_measured(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = started(app)
    app.run_until_processed(process)
    app.feed("a")
    app.clock.advance_ms(700)
    app.feed("b", "c")
    fed_ms = app.clock.now_ms()
    app.run_until_processed(process)
    took_ms = app.clock.now_ms() - fed_ms

    def measured(name: str) -> float:
        return total(process, TASK_GROUP, f"record-e2e-latency-{name}")

    assert 700 <= measured("max") <= 700 + took_ms
    assert 0 <= measured("min") <= took_ms
    assert measured("min") < measured("avg") < measured("max")


def test_what_waits_in_a_task_is_as_old_as_its_oldest_record(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    text = serdes.STRING
    seldom, often = (
        builder.stream(topic, key_serde=text, value_serde=text) for topic in ("seldom", "in")
    )
    often.merge(seldom).to("out", key_serde=text, value_serde=text)
    app = Application(tmp_path)
    app.broker.create_topic("seldom", 1)
    process = app.process(topology=builder.build(), config={"max.task.idle.ms": 60_000})
    process.start()
    app.run_until_processed(process)
    app.clock.advance_ms(1_000)
    process.step()
    assert total(process, TASK_GROUP, "records-lag-time") == 0

    app.feed("a")
    fed_ms = app.clock.now_ms()
    app.clock.advance_ms(2_000)
    app.feed("b")
    while total(process, TASK_GROUP, "records-lag") < 2:
        process.step()
        app.clock.advance_ms(100)

    assert total(process, TASK_GROUP, "records-lag-time") == app.clock.now_ms() - fed_ms
    (task,) = process.threads[0].metadata().active_tasks
    assert dict(task.lag_by_topic) == {"in": 2, "seldom": 0}


def test_uncommitted_bytes_wait_for_the_commit(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = started(app, commit_interval_ms=5_000)
    while total(process, THREAD_GROUP, "process-total") < 1:
        if not app.broker.committed_records("in"):
            app.feed("abc")
        process.step()

    uncommitted = len("abc") + 8 + 8
    assert total(process, STATE_GROUP, "uncommitted-bytes") == uncommitted
    app.run_until_processed(process)
    assert total(process, STATE_GROUP, "uncommitted-bytes") == 0


class OneThreadsStore(SqliteStore):
    """Refuses to be asked by another thread than the one that opened it, as SQLite does."""

    _owner: int | None = None

    def init(self, context: StateStoreContext) -> None:
        self._owner = threading.get_ident()
        super().init(context)

    @property
    def persistent(self) -> bool:
        return False

    @property
    def transactional(self) -> bool:
        self._refuse_others()
        return False

    def approximate_num_uncommitted_bytes(self) -> int:
        self._refuse_others()
        return 23

    def cached_bytes(self) -> int:
        self._refuse_others()
        return 42

    def _refuse_others(self) -> None:
        assert self._owner in {None, threading.get_ident()}, "the store is another thread's"


class Remember(Processor[str, str, str, str]):
    """Puts what comes into the store `texts`."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._store = context.get_state_store("texts")

    def process(self, record: Record[str, str]) -> None:
        self._store.put(record.key, record.value)


def test_metrics_are_read_without_a_call_into_a_store(tmp_path: Path) -> None:
    """All calls of a store come from its task's thread."""
    builder = StreamsBuilder()
    builder.add_state_store(CustomStore("texts", OneThreadsStore))
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.process(Remember, stores=["texts"])
    app = Application(tmp_path, "at_least_once")
    process = app.process(topology=builder.build())
    process.start()
    app.feed("abc")
    app.run_until_processed(process)

    with ThreadPoolExecutor(1) as scraper:
        uncommitted, cached = (
            scraper.submit(total, process, group, name).result()
            for group, name in (
                (STATE_GROUP, "uncommitted-bytes"),
                (TASK_GROUP, "cache-size-bytes-total"),
            )
        )

    assert (uncommitted, cached) == (23, 42)


def test_nothing_is_uncommitted_after_a_rollback(tmp_path: Path) -> None:
    app = Application(tmp_path, "exactly_once_v2")
    process = started(app, commit_interval_ms=5_000)
    app.feed("abc")
    while total(process, THREAD_GROUP, "process-total") < 1:
        process.step()
    before = total(process, STATE_GROUP, "uncommitted-bytes")
    thread = process.threads[0]
    thread._revive(thread._manager.running())

    assert before > 0
    assert total(process, STATE_GROUP, "uncommitted-bytes") == 0


def test_commits_of_stores_are_counted_at_info(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = started(app)
    for key in "abc":
        app.feed(key)
        app.run_until_processed(process)

    name = next(name for name in metrics_of(process) if name.name == "uncommitted-bytes")
    assert name.tags == (
        ("thread-id", process.threads[0].name),
        ("task-id", "0_0"),
        ("rocksdb-state-id", "counts"),
    )
    # Three commits within the first window of two: over the 30 s that one window takes.
    assert total(process, STATE_GROUP, "commit-rate") == pytest.approx(3 / 30)


def test_what_was_restored_is_told_and_what_remains(tmp_path: Path) -> None:
    app = Application(tmp_path)
    first = started(app)
    app.feed(*"abcde")
    app.run_until_processed(first)
    first.stop()
    second = app.process("p1")
    second.start()
    app.feed("f")
    app.run_until_processed(second)

    assert total(second, TASK_GROUP, "restore-total") == 5
    assert total(second, TASK_GROUP, "restore-remaining-records-total") == 0
    assert total(second, TASK_GROUP, "process-total") == 1


def test_totals_never_fall_when_a_transaction_is_rolled_back(tmp_path: Path) -> None:
    app = Application(tmp_path, "exactly_once_v2")
    process = started(app)
    app.feed(*"abc")
    app.run_until_processed(process)
    thread = process.threads[0]
    before = metrics_of(process)
    thread._revive(thread._manager.running())
    rolled_back = metrics_of(process)
    app.feed(*"de")
    app.run_until_processed(process)
    after = metrics_of(process)

    counters = [name for name in before if definition_of(name).kind.value == "counter"]
    assert counters
    for name in counters:
        assert float(before[name]) <= float(rolled_back[name]) <= float(after[name]), name
    assert total(process, TOPIC_GROUP, "records-produced-total", topic_name="out") == 5


def test_a_thread_keeps_the_records_of_tasks_that_left(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = started(app)
    app.feed(*"abc")
    app.run_until_processed(process)
    thread = process.threads[0]
    thread.shut_down()

    left = thread.metrics()
    assert not any(name.group == TASK_GROUP for name in left)
    tags = (("thread-id", thread.name),)
    assert left[MetricName("process-total", THREAD_GROUP, tags)] == 3
    assert left[MetricName("task-closed-total", THREAD_GROUP, tags)] == 1


def test_metered_stores_count_as_the_others_do(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = started(app, metrics_recording_level="DEBUG")
    app.feed(*"aab")
    app.run_until_processed(process)

    assert app.outputs() == [("a", 1), ("a", 2), ("b", 1)]
    assert total(process, STATE_GROUP, "get-rate") == pytest.approx(3 / 30)
    assert total(process, STATE_GROUP, "put-rate") == pytest.approx(3 / 30)


class Busy(Processor[str, str, str, str]):
    """Calls a method of each operation that each kind of store has."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._store = context.get_state_store("busy")
        self._windows = context.get_state_store("windows")
        self._sessions = context.get_state_store("sessions")

    def process(self, record: Record[str, str]) -> None:
        store = self._store
        store.put(record.key, record.value)
        store.put_if_absent(record.key, record.value)
        store.put_all([(record.key, record.value)])
        list(store.range(None, None))
        list(store.all())
        list(store.prefix_scan(b"a"))
        assert store.get(record.key) == record.value
        store.delete(record.key)
        self._windows.put(record.key, record.value, record.timestamp)
        assert self._windows.fetch(record.key, record.timestamp) == record.value
        session = Windowed(record.key, Window(record.timestamp, record.timestamp))
        self._sessions.put(session, record.value)
        assert list(self._sessions.fetch(record.key)) == [(session, record.value)]
        self._sessions.remove(session)


KEY_VALUE_OPERATIONS = set(OPERATIONS) - {"fetch", "remove", "restore"}
OPERATIONS_OF = {
    ("in-memory", "busy"): KEY_VALUE_OPERATIONS,
    ("in-memory-window", "windows"): {"put", "fetch"},
    ("in-memory-session", "sessions"): {"put", "fetch", "remove"},
}
"""What processors call on each store, by its type and name."""


def busy() -> Topology:
    builder = StreamsBuilder()
    both = serdes.STRING, serdes.STRING
    hour_ms = 3_600_000
    for store in (
        Stores.key_value_store_builder(Stores.in_memory_key_value_store("busy"), *both),
        Stores.window_store_builder(Stores.in_memory_window_store("windows", hour_ms, 10), *both),
        Stores.session_store_builder(Stores.in_memory_session_store("sessions", hour_ms), *both),
    ):
        builder.add_state_store(store)
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.process(Busy, stores=[name for _, name in OPERATIONS_OF])
    return builder.build()


def run_busy(root: Path, level: str) -> SimulatedProcess:
    """Return a process that has restored its stores and then processed three records."""
    app = Application(root)
    for name in ("p0", "p1"):
        process = app.process(name, topology=busy(), config={"metrics.recording.level": level})
        process.start()
        app.feed(*"abc")
        app.run_until_processed(process)
        if name == "p0":
            process.stop()
    return process


@pytest.mark.parametrize("store", OPERATIONS_OF, ids=str)
def test_operations_of_stores_are_measured_at_debug(store: tuple[str, str], tmp_path: Path) -> None:
    process = run_busy(tmp_path, "DEBUG")

    store_type, name = store
    measured = {
        metric.name: value
        for metric, value in metrics_of(process).items()
        if metric.tag(f"{store_type}-state-id") == name
    }
    calls = dict.fromkeys(OPERATIONS_OF[store], 3) | {"restore": 1}
    rates = {name.removesuffix("-rate") for name in measured if name.endswith("-rate")}
    assert rates - {"commit", "restored-records"} == calls.keys()
    for operation, count in calls.items():
        assert measured[f"{operation}-rate"] == pytest.approx(count / 30), operation
        assert measured[f"{operation}-latency-avg"] == 0
        assert measured[f"{operation}-latency-max"] == 0
    assert measured["num-open-iterators"] == 0


def test_no_operation_is_measured_at_info(tmp_path: Path) -> None:
    process = run_busy(tmp_path, "INFO")

    measured = {name.name for name in metrics_of(process) if name.group == STATE_GROUP}
    assert measured == {
        definition.name
        for definition in DEFINITIONS
        if definition.group == STATE_GROUP and definition.level is RecordingLevel.INFO
    }


def run_suppressing(root: Path, level: str) -> SimulatedProcess:
    """Return a process that holds back the changes of two keys on disk and of one in memory."""
    builder = StreamsBuilder()
    table = builder.table("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    unbounded = BufferConfig.unbounded()
    table.suppress(Suppressed.until_time_limit(10**9, unbounded).with_name("long"))
    one = BufferConfig.max_records(1, store_type=StoreEngine.IN_MEMORY)
    table.suppress(Suppressed.until_time_limit(10**9, one).with_name("short"))
    app = Application(root)
    config = {"metrics.recording.level": level}
    process = app.process("suppressing", topology=builder.build(), config=config)
    process.start()
    app.feed(*"ab")
    app.run_until_processed(process)
    return process


def test_what_suppressions_hold_back_is_sampled_at_debug(tmp_path: Path) -> None:
    process = run_suppressing(tmp_path, "DEBUG")

    for store_type, store, count in (
        ("rocksdb-suppression", "long-store", 2),
        ("in-memory-suppression", "short-store", 1),
    ):
        measured = {
            metric.name: value
            for metric, value in metrics_of(process).items()
            if metric.tag(f"{store_type}-state-id") == store
        }
        assert measured["suppression-buffer-count-max"] == count
        assert float(measured["suppression-buffer-size-max"]) > 25 * count


def test_what_suppressions_hold_back_is_not_sampled_at_info(tmp_path: Path) -> None:
    process = run_suppressing(tmp_path, "INFO")

    assert not any("suppression" in metric.name for metric in metrics_of(process))


def run_warm(root: Path) -> SimulatedProcess:
    """Return a process that keeps two tasks of another one warm."""
    app = application(root)
    first, second = app.process("p0"), app.process("p1")
    first.start()
    second.start()
    app.feed(*keys(20))
    settle(app, first, second)
    return second


def test_what_standbys_apply_is_counted_and_what_they_lack_told(tmp_path: Path) -> None:
    process = run_warm(tmp_path)
    kept = [task for thread in process.threads for task in thread.metadata().standby_tasks]

    assert total(process, STATE_UPDATER_GROUP, "standby-updating-tasks") == 2
    assert total(process, STATE_UPDATER_GROUP, "active-restoring-tasks") == 0
    assert total(process, TASK_GROUP, "update-total") == process.restored_records() > 0
    assert total(process, TASK_GROUP, "update-remaining-records-total") == 0
    assert [(str(task.task_id), task.state, task.lag_records) for task in kept] == [
        ("0_0", "standby", 0),
        ("0_1", "standby", 0),
    ]
    assert [*kept[0].stores] == ["counts"]


def test_what_is_defined_is_measured_and_nothing_else(tmp_path: Path) -> None:
    process = run_busy(tmp_path / "busy", "DEBUG")
    suppressing = run_suppressing(tmp_path / "suppressing", "DEBUG")
    warm = run_warm(tmp_path / "warm")

    found = {**metrics_of(process), **metrics_of(suppressing), **metrics_of(warm)}
    measured = {(name.group, name.name) for name in found}
    defined = {
        (metric.group, metric.name) for metric in DEFINITIONS if metric.group != CLIENT_GROUP
    }
    assert measured == defined


def test_tags_are_those_of_the_group(tmp_path: Path) -> None:
    process = run_busy(tmp_path, "DEBUG")

    store_types = {name: store_type for store_type, name in OPERATIONS_OF}
    for name in metrics_of(process):
        store_type = store_types.get(name.tags[-1][1], "")
        expected = [tag.replace("<store type>", store_type) for tag in GROUP_TAGS[name.group]]
        assert [tag for tag, _ in name.tags] == expected


def test_the_rate_of_a_total_follows_the_clock(tmp_path: Path) -> None:
    app = Application(tmp_path)
    process = started(app, metrics_sample_window_ms=1_000, metrics_num_samples=2)
    app.feed(*"abcdef")
    app.run_until_processed(process)
    young = total(process, THREAD_GROUP, "process-rate")
    for _ in range(3):
        app.clock.advance_ms(1_000)
        process.step()

    assert young == pytest.approx(6, rel=0.5)
    assert total(process, THREAD_GROUP, "process-rate") == 0
    assert total(process, THREAD_GROUP, "process-total") == 6
