"""A store that is damaged is rebuilt, that one alone, wherever the damage is noticed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    StateStoreCorruptedError,
    StateStoreError,
    Stores,
    StreamsBuilder,
    Topology,
    serdes,
)
from pystreams.stores.engines.rocksdb import MEMORY
from tests.simulation.applications import Application, running_tasks, stored_counts
from tests.simulation.state.damaging import (
    DAMAGES,
    KEYS,
    Damage,
    OnDisk,
    flip_data,
    joined,
    read_everywhere,
)

pytestmark = pytest.mark.simulation

READ = ["duplicates", "plain", "session", "timestamped", "timestamped-window", "window"]
REBUILT = "state store is damaged and rebuilt from its changelog"
JOINED = sorted(joined().stores)
EACH = [(read_everywhere, store) for store in [*READ, "versioned"]]
EACH += [(joined, store) for store in JOINED]


def run_with_damage(
    root: Path, topology: Callable[[], Topology], guarantee: str, damage: Callable[[OnDisk], None]
) -> tuple[OnDisk, list[str]]:
    """Run twice, with damage in between; return the stores that were found damaged."""
    root.mkdir()
    application = OnDisk(root, topology, guarantee)
    application.feed()
    application.run()
    damage(application)
    with capture_logs() as logs:
        application.feed()
        application.run()
    return application, [line["store"] for line in logs if line["event"] == REBUILT]


def nothing(_: OnDisk) -> None:
    pass


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., OnDisk]:
    """Applications that were never damaged, by topology and guarantee."""

    @cache
    def run(topology: Callable[[], Topology], guarantee: str) -> OnDisk:
        root = tmp_path_factory.mktemp("whole") / "app"
        return run_with_damage(root, topology, guarantee, nothing)[0]

    return run


def damaged(
    root: Path, topology: Callable[[], Topology], guarantee: str, damage: Damage, store: str
) -> tuple[OnDisk, list[str]]:
    """Run with damage to one store."""
    return run_with_damage(
        root / "damaged",
        topology,
        guarantee,
        lambda application: damage(application.directory(store)),
    )


@pytest.mark.parametrize(("topology", "store"), EACH, ids=[store for _, store in EACH])
def test_damaged_data_of_every_kind_is_met_and_the_results_are_those_of_a_whole_store(
    tmp_path: Path,
    whole: Callable[..., OnDisk],
    topology: Callable[[], Topology],
    store: str,
) -> None:
    application, rebuilt = damaged(tmp_path, topology, "exactly_once_v2", flip_data, store)

    assert rebuilt == [store]
    assert application.changelogs() == whole(topology, "exactly_once_v2").changelogs()
    assert application.results() == whole(topology, "exactly_once_v2").results()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_it_is_so_with_every_guarantee(
    tmp_path: Path, whole: Callable[..., OnDisk], guarantee: str
) -> None:
    application, rebuilt = damaged(tmp_path, read_everywhere, guarantee, flip_data, "plain")

    assert rebuilt == ["plain"]
    assert application.changelogs() == whole(read_everywhere, guarantee).changelogs()
    assert application.results() == whole(read_everywhere, guarantee).results()


@pytest.mark.parametrize("case", DAMAGES)
def test_each_row_of_the_table_of_damage_is_mended_and_no_other_store_touched(
    tmp_path: Path, whole: Callable[..., OnDisk], case: str
) -> None:
    application, rebuilt = damaged(
        tmp_path, read_everywhere, "exactly_once", DAMAGES[case], "window"
    )

    all_of_it = case == "a file is in the place of `rocksdb`"
    assert set(rebuilt) <= {"window"} or all_of_it
    assert rebuilt or case == "the directory of a store is gone"
    assert application.changelogs() == whole(read_everywhere, "exactly_once").changelogs()
    assert application.results() == whole(read_everywhere, "exactly_once").results()


@pytest.fixture
def without_block_cache() -> Iterator[None]:
    """Let every read go to the disk: no block of before is remembered."""
    before = MEMORY.block_cache_bytes
    MEMORY.configure(0, MEMORY.write_buffer_bytes)
    yield
    MEMORY.configure(before, MEMORY.write_buffer_bytes)


@pytest.mark.usefixtures("without_block_cache")
@pytest.mark.parametrize(("topology", "store"), EACH, ids=[store for _, store in EACH])
def test_a_store_of_every_kind_that_is_damaged_while_it_runs_is_rebuilt_without_a_restart(
    tmp_path: Path,
    whole: Callable[..., OnDisk],
    topology: Callable[[], Topology],
    store: str,
) -> None:
    """What opening reads is whole still."""
    application = OnDisk(tmp_path, topology, "exactly_once_v2")
    application.feed()
    application.run()
    process = application.process
    process.start()
    while not running_tasks(process):
        process.step()
    thread = process.threads[0]
    flip_data(application.directory(store))
    application.feed()
    with capture_logs() as logs:
        application.run()

    assert thread.error is None
    assert [line["store"] for line in logs if line["event"] == REBUILT] == [store]
    # Joins number what they hold back; after a rollback they go on with higher numbers.
    if topology is not joined:
        assert application.changelogs() == whole(topology, "exactly_once_v2").changelogs()
    assert application.results() == whole(topology, "exactly_once_v2").results()


class ReadsAt(Processor[str, str, str, int]):
    """Counts all records in one store, and reads another, `plain`, at one moment of its life."""

    moment = ""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context
        self.plain: Any = context.get_state_store("plain")
        self.counts: Any = context.get_state_store("counts")
        context.schedule(
            1000, PunctuationType.WALL_CLOCK_TIME, lambda _: self.read_at("wall clock")
        )
        context.schedule(10, PunctuationType.STREAM_TIME, lambda _: self.read_at("stream time"))
        self.read_at("init")

    def process(self, record: Record[str, str]) -> None:
        self.plain.put(record.key, record.timestamp)
        count = (self.counts.get("all") or 0) + 1
        self.counts.put("all", count)
        self.context.forward(Record(record.key, count, record.timestamp))

    def close(self) -> None:
        self.read_at("close")

    def read_at(self, moment: str) -> None:
        if moment == self.moment:
            list(self.plain.all())


def reading_at(moment: str) -> Topology:
    topology = Topology()
    topology.add_source("source", "in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    reads = type("Reads", (ReadsAt,), {"moment": moment})
    topology.add_processor("reads", reads, "source")
    for name in ("plain", "counts"):
        store = Stores.persistent_key_value_store(name)
        topology.add_state_store(
            Stores.key_value_store_builder(store, serdes.STRING, serdes.LONG), "reads"
        )
    topology.add_sink("sink", "out", "reads", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return topology


@pytest.mark.parametrize(
    ("moment", "guarantee"),
    [
        ("init", "at_least_once"),
        ("init", "exactly_once_v2"),
        ("wall clock", "exactly_once_v2"),
        ("stream time", "at_least_once"),
        ("stream time", "exactly_once_v2"),
        ("close", "exactly_once_v2"),
    ],
)
def test_damage_may_be_met_at_any_moment_of_a_processors_life(
    tmp_path: Path, moment: str, guarantee: str
) -> None:
    application, rebuilt = damaged(
        tmp_path, partial(reading_at, moment), guarantee, flip_data, "plain"
    )

    counts = [int.from_bytes(count or b"", "big") for _, count in application.results()]
    assert rebuilt == ([] if moment == "close" else ["plain"])
    if guarantee == "at_least_once":  # What was sent since the last commit is counted again.
        assert counts[-1] >= 16
    else:
        assert counts == list(range(1, 17))


class ReadsAndPasses(Processor[str, int, str, int]):
    """Reads all of `plain` and adds to it, then passes the record on."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context
        self.plain: Any = context.get_state_store("plain")

    def process(self, record: Record[str, int]) -> None:
        list(self.plain.all())
        self.plain.put(record.key, record.value)
        self.context.forward(record)


def test_damage_that_a_flush_of_a_record_cache_meets_loses_nothing_of_the_cache(
    tmp_path: Path,
) -> None:
    """What is below the cached store is called by the flush, at the commit."""

    def topology() -> Topology:
        builder = StreamsBuilder()
        plain = Stores.persistent_key_value_store("plain")
        builder.add_state_store(Stores.key_value_store_builder(plain, serdes.STRING, serdes.LONG))
        stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
        counts = stream.group_by_key().count(name="counts", caching=True).to_stream()
        read = counts.process(ReadsAndPasses, stores=["plain"])
        read.to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
        return builder.build()

    application = OnDisk(tmp_path, topology)
    application.new_process(statestore_cache_max_bytes=1 << 20)
    application.feed()
    application.run()
    flip_data(application.directory("plain"))
    with capture_logs() as logs:
        application.feed()
        application.run()

    twice = {key.encode(): (2).to_bytes(8, "big") for key in KEYS}
    assert [line["store"] for line in logs if "damaged" in line["event"]] == ["plain"]
    assert application.changelogs() == {"counts": twice, "plain": twice}
    assert dict(application.results()) == twice


def test_a_store_that_is_damaged_again_and_again_stops_the_application_with_a_cure(
    tmp_path: Path,
) -> None:
    """As on a disk that does not keep what is written."""
    app = Application(tmp_path)
    process = app.process()
    process.start()
    app.feed("a")
    app.run_until_processed(process)
    for _ in range(4):
        app.faults.fail_next("write", StateStoreCorruptedError("counts", "damaged"))
    app.feed("a")

    with pytest.raises(StateStoreError, match="check the disk and the memory"):
        app.run_until_processed(process)


def test_a_store_without_a_changelog_stops_the_application_and_is_empty_once_it_is_deleted(
    tmp_path: Path,
) -> None:
    def topology() -> Topology:
        builder = StreamsBuilder()
        plain = Stores.persistent_key_value_store("plain")
        of_plain = Stores.key_value_store_builder(plain, serdes.STRING, serdes.LONG)
        builder.add_state_store(of_plain.with_logging_disabled())
        stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
        lengths = stream.map_values(len).process(ReadsAndPasses, stores=["plain"])
        lengths.to("out", value_serde=serdes.LONG)
        return builder.build()

    application = OnDisk(tmp_path, topology)
    application.feed()
    application.run()
    directory = application.directory("plain")
    flip_data(directory)
    application.feed()
    with pytest.raises(StateStoreCorruptedError) as told:
        application.run()

    cure = "It has no changelog to be rebuilt from: delete its directory and start again"
    assert f"its files are damaged ({directory}: Corruption: " in str(told.value)
    assert cure in str(told.value)
    shutil.rmtree(directory)
    application.new_process()
    application.run()
    assert len(application.results()) == 2 * len(KEYS)


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once", "exactly_once_v2"])
def test_damage_that_a_commit_or_a_restore_meets_is_mended(
    tmp_path: Path, guarantee: str, times: int
) -> None:
    """RocksDB tells a write what a flush or a compaction has met; first of all a commit."""
    app = Application(tmp_path, guarantee)
    process = app.process()
    process.start()
    for _ in range(3):
        app.feed("a", "b")
        app.run_until_processed(process)
    for _ in range(times):
        app.faults.fail_next("write", StateStoreCorruptedError("counts", "damaged"))
    app.feed("a", "b")
    with capture_logs() as logs:
        app.run_until_processed(process)
        process.stop()

    assert stored_counts(process) == {"a": 4, "b": 4}
    assert app.outputs() == [(key, count) for count in range(1, 5) for key in "ab"]
    told = "transaction aborted" if guarantee != "at_least_once" else "a store is damaged"
    failures = [each["event"] for each in logs if "going on from" in each["event"]]
    assert failures == [f"{told}, going on from the last commit"]
