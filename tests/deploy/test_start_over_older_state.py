"""A start over the state that another topology has left: what is refused, told, and remembered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from pystreams import StreamsConfig
from pystreams.cli.commands.development.describe import describe
from pystreams.deploy.verdicts import Verdict
from pystreams.errors import TopologyError
from pystreams.ids import TaskId
from pystreams.runtime.adapters.state_directory import StateDirectory
from pystreams.runtime.maintenance.earlier_topology import FINGERPRINT_FILE, EarlierTopology
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.deploy.pairs import (
    COUNT,
    GLOBAL,
    GLOBAL_OF_NUMBERS,
    HEAD,
    IN_MEMORY,
    ON_DISK,
    PAIRS,
    SESSIONS,
    SPREAD,
    TABLE,
    TUMBLING,
    UNLOGGED,
    topology_of,
    windowed,
)

CONFIG = StreamsConfig.of({"application.id": "app", "bootstrap.servers": "none:1"})
FILES_LIE_OTHERWISE = [
    name for name, pair in PAIRS.items() if [*pair.verdicts.values()] == [Verdict.REFUSED]
]
TOPICS = dict.fromkeys(("in", "out", "first", "copy", "others", "other", "rows", "a", "b"), 2)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StateDirectory]:
    found = StateDirectory(tmp_path, "app")
    yield found
    found.close()


def start(directory: StateDirectory, code: str) -> None:
    """Do what a start does, without the broker's part."""
    plan = TopologyPlan(topology_of(code), "app")
    earlier = EarlierTopology(directory, plan, CONFIG)
    earlier.check()
    earlier.learn(plan_partitions(plan, TOPICS))
    earlier.keep()


def told(directory: StateDirectory, code: str) -> list[tuple[str, str]]:
    with capture_logs() as logs:
        start(directory, code)
    return [(line["log_level"], line.get("name", "")) for line in logs]


def test_the_same_topology_starts_again_in_silence(directory: StateDirectory) -> None:
    start(directory, COUNT)
    written = (directory.directory / FINGERPRINT_FILE).stat().st_mtime_ns

    assert told(directory, COUNT) == []
    assert (directory.directory / FINGERPRINT_FILE).stat().st_mtime_ns == written


@pytest.mark.parametrize("windows", ["TimeWindows.of_size_with_no_grace(20_000)", SESSIONS])
def test_windows_under_a_name_that_held_others_are_refused_until_the_cure_is_followed(
    directory: StateDirectory, windows: str
) -> None:
    start(directory, windowed(TUMBLING))
    changed = windowed(windows)

    for _ in range(2):
        with pytest.raises(TopologyError, match="store 'counts'") as refused:
            start(directory, changed)

    assert "orders.py:8" in str(refused.value)
    assert "Give the store another name" in str(refused.value)
    start(directory, changed.replace("counts", "anew"))


@pytest.mark.parametrize("name", FILES_LIE_OTHERWISE)
def test_a_store_whose_files_lie_otherwise_is_refused_until_they_are_deleted(
    directory: StateDirectory, name: str
) -> None:
    pair = PAIRS[name]
    (store,) = pair.verdicts
    start(directory, pair.old)
    part = TopologyPlan(topology_of(pair.new), "app").subtopology_of_store(store)
    assert part is not None
    files = directory.lock_task(TaskId(part.id, 1)) / "rocksdb" / store
    files.mkdir(parents=True)

    for _ in range(2):
        with pytest.raises(TopologyError, match=f"store '{store}'") as refused:
            start(directory, pair.new)

    (told_files,) = re.findall(f"  (\\S+): store '{store}'", str(refused.value))
    assert list(Path("/").glob(told_files.removeprefix("/"))) == [files]
    files.rmdir()
    start(directory, pair.new)


def test_files_of_a_store_that_no_task_opens_any_more_are_no_reason_to_refuse(
    directory: StateDirectory,
) -> None:
    pair = PAIRS["final results asked for"]
    start(directory, pair.old)
    (directory.lock_task(TaskId(7, 0)) / "rocksdb" / "counts").mkdir(parents=True)

    start(directory, pair.new)


def test_who_knows_better_than_a_refusal_says_so_as_it_tells(
    directory: StateDirectory, tmp_path: Path
) -> None:
    new = tmp_path / "orders.py"
    new.write_text(f"{HEAD}{windowed(SESSIONS)}")
    start(directory, windowed(TUMBLING))
    with pytest.raises(TopologyError) as refused:
        start(directory, windowed(SESSIONS))

    file = directory.directory / FINGERPRINT_FILE
    command = f"pystreams describe NEW --json > {file}.new && mv {file}.new {file}"
    assert f"`{command}`" in str(refused.value)
    file.write_text(CliRunner().invoke(describe, [str(new), "--json"]).stdout)
    start(directory, windowed(SESSIONS))


def test_what_is_orphaned_is_told_once(directory: StateDirectory) -> None:
    start(directory, COUNT)
    renamed = COUNT.replace("counts", "totals")

    assert told(directory, renamed) == [("warning", "counts")]
    assert told(directory, renamed) == []


def test_a_store_that_comes_back_finds_what_it_was_remembered(directory: StateDirectory) -> None:
    start(directory, windowed(TUMBLING))
    start(directory, windowed(TUMBLING).replace("counts", "others"))

    with pytest.raises(TopologyError, match="windows have changed"):
        start(directory, windowed("TimeWindows.of_size_with_no_grace(20_000)"))
    assert ("warning", "counts") in told(directory, windowed(TUMBLING))


@pytest.mark.parametrize(
    "code",
    [
        'builder.global_table("rows", **text, name="table")',
        TABLE.format("reuse.ktable.source.topics"),
    ],
    ids=["global", "of its topic"],
)
def test_a_store_that_is_read_from_its_topic_comes_back_without_a_word_of_its_changelog(
    directory: StateDirectory, code: str
) -> None:
    start(directory, code)
    start(directory, COUNT)

    with capture_logs() as logs:
        start(directory, f"{COUNT}\n{code}")

    assert [(line["log_level"], line["stores"]) for line in logs] == [("info", ["table"])]


def test_a_global_table_of_other_values_is_refused_until_the_cure_is_followed(
    directory: StateDirectory,
) -> None:
    start(directory, GLOBAL)

    with pytest.raises(TopologyError, match="another name: it is read whole from its topic"):
        start(directory, GLOBAL_OF_NUMBERS)

    start(directory, GLOBAL_OF_NUMBERS.replace('"table"', '"numbers"'))


@pytest.mark.parametrize("between", [(GLOBAL,), (GLOBAL, GLOBAL.replace("rows", "other"))])
def test_what_tasks_left_of_a_store_before_it_was_global_is_remembered(
    directory: StateDirectory, between: tuple[str, ...]
) -> None:
    start(directory, windowed(TUMBLING).replace("counts", "table"))
    for code in between:
        start(directory, code)

    with pytest.raises(TopologyError, match="it held a window store and is to be a key-value"):
        start(directory, 'builder.table("rows", **text, name="table")')
    assert ("warning", "table") in told(directory, windowed(TUMBLING).replace("counts", "table"))


def test_a_store_in_memory_without_a_changelog_goes_and_comes_back_in_silence(
    directory: StateDirectory,
) -> None:
    start(directory, f"{COUNT}\n{UNLOGGED.format(IN_MEMORY).replace('counts', 'more')}")
    assert told(directory, COUNT) == []

    assert told(directory, f"{COUNT}\n{UNLOGGED.format(IN_MEMORY).replace('counts', 'more')}") == []


def test_a_store_on_disk_without_a_changelog_leaves_files_and_finds_them_again(
    directory: StateDirectory,
) -> None:
    start(directory, UNLOGGED.format(ON_DISK))

    with capture_logs() as logs:
        start(directory, COUNT.replace("counts", "totals"))

    (line,) = logs
    assert "The old directories are yours to delete" in line["cure"]
    with capture_logs() as logs:
        start(directory, f"{COUNT.replace('counts', 'totals')}\n{UNLOGGED.format(ON_DISK)}")
    (line,) = logs
    assert "delete its directory below each task's, on every host" in line["cure"]


def test_a_count_of_partitions_that_the_broker_told_is_remembered(
    directory: StateDirectory,
) -> None:
    start(directory, COUNT)

    kept = json.loads((directory.directory / FINGERPRINT_FILE).read_text())
    assert kept["stores"]["counts"]["partitions"] == 2


def test_a_repartition_topic_starts_again_in_silence_whether_its_number_is_declared_or_not(
    directory: StateDirectory,
) -> None:
    for number in ("", "num_partitions=2, "):
        code = SPREAD.format(number)
        start(directory, code)

        assert told(directory, code) == []
    assert told(directory, SPREAD.format("")) == [("warning", "spread-repartition")]


def test_state_that_nothing_is_known_of_is_told_and_gone_on_with(
    directory: StateDirectory,
) -> None:
    (directory.directory / "0_0").mkdir()

    with capture_logs() as logs:
        start(directory, COUNT)

    assert [line["event"] for line in logs] == [
        "the topology that made this state is not known, and is not compared"
    ]


def test_a_file_that_is_damaged_is_told_and_written_anew(directory: StateDirectory) -> None:
    file = directory.directory / FINGERPRINT_FILE
    file.write_text("{")

    assert [level for level, _ in told(directory, COUNT)] == ["warning"]
    assert json.loads(file.read_text())["stores"].keys() == {"counts"}


@pytest.mark.parametrize("name", PAIRS)
def test_only_wrong_results_are_refused(directory: StateDirectory, name: str) -> None:
    pair = PAIRS[name]
    start(directory, pair.old)

    if "wrong results" in {verdict.value for verdict in pair.verdicts.values()}:
        with pytest.raises(TopologyError, match="state that is not its own"):
            start(directory, pair.new)
    else:
        start(directory, pair.new)
