"""`pystreams state`: what lies in a state directory, while its application runs or not."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pystreams import TaskId, TopicPartition, ValueAndTimestamp, Window, Windowed, serdes
from pystreams.cli.application.topology_loader import load_topology
from pystreams.cli.commands.applications.state import state
from pystreams.record import OutputBuffer
from pystreams.runtime.state.global_state import GLOBAL_TASK_ID
from pystreams.stores.contracts.state_store import StateStoreContext, StoreEnvironment
from pystreams.topology.operators.joins.held_back_serdes import (
    LeftOrRightValue,
    TimestampedKeyAndJoinSide,
)

CODE = """
from pystreams import *

config = {"default.key.serde": "string", "default.value.serde": "json"}
builder = StreamsBuilder()
stream = builder.stream("in")
grouped = stream.group_by_key()
grouped.count(name="counts")
grouped.windowed_by(TimeWindows.of_size_with_no_grace(10)).count(name="windows")
grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(10)).count(name="sessions")
rows = builder.stream("rows")
rows.to_table(materialized=Materialized(name="versions", history_retention_ms=100_000))
left, right = builder.stream("left"), builder.stream("right")
windows = JoinWindows.of_time_difference_with_no_grace(10)
left.outer_join(right, lambda one, other: one, windows, store_name="meeting")
"""
HELD_BACK = "meeting-outer-shared-join-store"
WITH_A_GLOBAL_TABLE = f'{CODE}builder.global_table("zones-topic", name="zones")'


class Host:
    """A state directory and the topology that wrote it."""

    def __init__(self, place: Path, code: str = CODE) -> None:
        self.directory = place / "state"
        self.file = place / "topology.py"
        self.file.write_text(code)
        self._topology = load_topology(str(self.file)).topology

    @contextmanager
    def opened(self, name: str, task: str = "0_0") -> Iterator[Any]:
        """Open a store as a running application has it."""
        topic = f"app-{name}-changelog"
        place = self.directory / "app" / task
        place.mkdir(parents=True, exist_ok=True)
        store: Any = self._topology.stores[name].build()
        context = StateStoreContext(
            environment=StoreEnvironment(
                application_id="app",
                default_key_serde=serdes.STRING,
                default_value_serde=serdes.JSON,
            ),
            task_id=GLOBAL_TASK_ID if task == "global" else TaskId.parse(task),
            task_directory=place,
            changelog=None if task == "global" else OutputBuffer(topic),
            changelog_topic=topic,
        )
        store.init(context)
        yield store
        store.commit({TopicPartition(topic, 0): 41})
        store.close()

    def fill(self, name: str, write: Callable[[Any], object], task: str = "0_0") -> None:
        with self.opened(name, task) as store:
            write(store)

    def ask(self, *words: str, directory: Path | None = None, behind: Sequence[str] = ()) -> Result:
        command, *rest = words
        arguments = [command, str(directory or self.directory), *rest]
        if command in {"get", "scan"}:
            arguments += ["--topology", str(self.file)]
        return CliRunner().invoke(state, [*arguments, *behind])


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def put_counts(**counts: int) -> Callable[[Any], object]:
    def write(store: Any) -> None:
        for key, count in counts.items():
            store.put(key, ValueAndTimestamp(count, 7))

    return write


def test_stores_are_listed_from_wherever_one_looks(host: Host) -> None:
    host.fill("counts", put_counts(a=1), "0_0")
    host.fill("counts", put_counts(b=2), "0_1")

    for directory in (host.directory, host.directory / "app"):
        lines = host.ask("list", directory=directory).stdout.splitlines()
        assert [line.split()[:3] for line in lines[1:]] == [
            ["app", "counts", "0_0"],
            ["app", "counts", "0_1"],
        ]
    (line,) = host.ask("list", directory=host.directory / "app" / "0_1").stdout.splitlines()[1:]
    assert "41" in line.split()


def test_stores_are_listed_and_verified_for_programs(host: Host) -> None:
    host.fill("counts", put_counts(a=1))
    host.fill("counts", put_counts(**{f"key-{number}": number for number in range(1000)}), "0_1")
    for file in (host.directory / "app/0_1/rocksdb/counts").glob("*.sst"):
        file.write_bytes(file.read_bytes()[::-1])
    store = {"application": "app", "store": "counts"}

    listed, verified = host.ask("list", "--json"), host.ask("verify", "--json")

    read, damaged = map(json.loads, listed.stdout.splitlines())
    assert read["size_bytes"] > 0
    assert {**read, "size_bytes": 1} == {
        **store,
        "task": "0_0",
        "state": "read",
        "size_bytes": 1,
        "changelog_offsets": {"app-counts-changelog-0": 41},
        "position": {},
    }
    assert (damaged["task"], damaged["state"]) == ("0_1", "damaged")
    whole, broken = map(json.loads, verified.stdout.splitlines())
    assert whole == {**store, "task": "0_0", "state": "whole", "entries": 1}
    assert (broken["task"], broken["state"], "error" in broken) == ("0_1", "damaged", True)
    assert listed.exit_code == verified.exit_code == 1
    assert "1 damaged. " in verified.stderr


def test_global_stores_are_shown_and_checked_beside_those_of_tasks(tmp_path: Path) -> None:
    host = Host(tmp_path, WITH_A_GLOBAL_TABLE)
    host.fill("counts", put_counts(a=1))
    host.fill("zones", put_counts(EWR=3, JFK=4), "global")

    *_, line = host.ask("list").stdout.splitlines()
    # It keeps where it goes on; others the last record that they have.
    assert line.split()[:4] == ["app", "zones", "global", "stores"]
    assert "40" in line.split()
    assert host.ask("scan", "zones").stdout == "EWR\t3\nJFK\t4\n"
    assert host.ask("get", "zones", "JFK", directory=tmp_path / "state/app/global").stdout == (
        "JFK\t4\n"
    )
    (entry,) = host.ask("get", "zones", "EWR", "--json").stdout.splitlines()
    assert json.loads(entry)["task"] == "global stores"
    assert "app zones global stores: whole, 2 stored entries" in host.ask("verify").stdout
    for file in (host.directory / "app/global/rocksdb/zones").glob("*.sst"):
        file.write_bytes(file.read_bytes()[::-1])
    damaged = host.ask("verify")
    assert damaged.exit_code == 1
    assert "app zones global stores: DAMAGED" in damaged.stdout
    assert "A global store is read anew from its topic" in damaged.stderr


SPELLED_AS_KEYWORDS = """
config = {
    "application_id": "of-the-module",
    "bootstrap_servers": "kafka:9092",
    "default_key_serde": "string",
    "default_value_serde": "json",
}
"""


def test_a_module_s_configuration_may_be_spelled_with_underscores(host: Host) -> None:
    host.fill("counts", put_counts(a=1))
    host.file.write_text(CODE + SPELLED_AS_KEYWORDS)

    scanned = host.ask("scan", "counts")

    assert (scanned.exit_code, scanned.stdout) == (0, "a\t1\n")


def test_entries_are_printed_over_all_tasks(host: Host) -> None:
    host.fill("counts", put_counts(a=1), "0_0")
    host.fill("counts", put_counts(b=2, c=3), "0_1")

    assert host.ask("scan", "counts").stdout == "a\t1\nb\t2\nc\t3\n"
    assert host.ask("scan", "counts", "--limit", "2").stdout == "a\t1\nb\t2\n"
    assert json.loads(host.ask("get", "counts", "b", "--json").stdout) == {
        "task": "0_1",
        "key": "b",
        "value": 2,
        "timestamp": 7,
    }


def test_windows_sessions_and_versions_have_their_times(host: Host) -> None:
    host.fill("windows", lambda store: store.put("a", ValueAndTimestamp(5, 12), 10))
    host.fill("sessions", lambda store: store.put(Windowed("a", Window(3, 9)), 6))
    host.fill("versions", lambda store: [store.put("a", {"n": n}, n) for n in (1, 2)], "1_0")

    assert host.ask("get", "windows", "a").stdout == "a\t10\t20\t5\n"
    assert host.ask("get", "sessions", "a").stdout == "a\t3\t9\t6\n"
    assert host.ask("get", "versions", "a").stdout == 'a\t1\t2\t{"n":1}\na\t2\tnull\t{"n":2}\n'


def test_the_time_of_the_record_that_wrote_an_entry_is_told_where_the_store_keeps_it(
    host: Host,
) -> None:
    host.fill("windows", lambda store: store.put("a", ValueAndTimestamp(5, 12), 10))
    host.fill("sessions", lambda store: store.put(Windowed("a", Window(3, 9)), 6))

    def timestamp_in(store: str) -> object:
        return json.loads(host.ask("get", store, "a", "--json").stdout)["timestamp"]

    assert timestamp_in("windows") == 12
    assert timestamp_in("sessions") is None


def test_a_key_of_which_there_is_only_a_deletion_is_not_printed(host: Host) -> None:
    host.fill(
        "versions", lambda store: [store.put("a", {"n": 1}, 1), store.put("b", None, 2)], "1_0"
    )

    assert host.ask("scan", "versions").stdout == 'a\t1\tnull\t{"n":1}\n'
    codes = [host.ask("get", "versions", key).exit_code for key in ("b", "c")]
    assert codes == [4, 4]
    assert host.ask("get", "versions", "a").stdout == 'a\t1\tnull\t{"n":1}\n'


def test_what_an_outer_join_holds_back_has_its_time_and_side(host: Host) -> None:
    def hold_back(store: Any) -> None:
        for time, is_left, key, value in (
            (5, False, "customer-1", "a"),
            (5, False, "customer-1", "b"),
            (7, True, "k", None),
        ):
            waiting = TimestampedKeyAndJoinSide(time, is_left, key)
            store.put(waiting, LeftOrRightValue(is_left, value))

    host.fill(HELD_BACK, hold_back)

    customer = '{"timestamp":5,"left":false,"key":"customer-1"}'
    values = '[{"left":false,"value":"a"},{"left":false,"value":"b"}]'
    k = '{"timestamp":7,"left":true,"key":"k"}\t[{"left":true,"value":null}]'
    assert host.ask("scan", HELD_BACK).stdout == f"{customer}\t{values}\n{k}\n"
    assert host.ask("get", HELD_BACK, "k").stdout == f"{k}\n"
    told = json.loads(host.ask("get", HELD_BACK, "customer-1", "--json").stdout)
    assert (told["key"], told["value"]) == (json.loads(customer), json.loads(values))
    assert host.ask("get", HELD_BACK, "customer").exit_code == 4


def test_a_running_application_is_read_as_of_its_last_flush_and_not_disturbed(host: Host) -> None:
    host.fill("counts", put_counts(a=1))
    with host.opened("counts") as store:
        put_counts(b=2)(store)
        before = sorted(path.name for path in host.directory.rglob("*"))
        assert host.ask("scan", "counts").stdout == "a\t1\n"
        assert host.ask("verify").exit_code == 0
        assert sorted(path.name for path in host.directory.rglob("*")) == before
    assert host.ask("scan", "counts").stdout == "a\t1\nb\t2\n"


def test_reading_changes_no_file(host: Host) -> None:
    host.fill("counts", put_counts(a=1))
    files = {path: path.read_bytes() for path in host.directory.rglob("*") if path.is_file()}
    for words in (("scan", "counts"), ("get", "counts", "a"), ("verify",), ("list",)):
        assert host.ask(*words).exit_code == 0

    after = {path: path.read_bytes() for path in host.directory.rglob("*") if path.is_file()}
    assert after == files


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A store in a directory that any user may read, and none but root may write."""
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    with tempfile.TemporaryDirectory() as name:
        host = Host(Path(name))
        host.fill("counts", put_counts(a=1))
        for path in (Path(name), *Path(name).rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield host
        for path in Path(name).rglob("*/"):
            path.chmod(0o755)


@contextmanager
def as_a_user() -> Iterator[None]:
    """Be somebody whom modes hold for: root may read and write anywhere."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize("words", [("list",), ("verify",), ("scan", "counts")])
def test_a_directory_that_may_only_be_read_is_read(shown: Host, words: tuple[str, ...]) -> None:
    with as_a_user():
        answer = shown.ask(*words)

    assert answer.exit_code == 0, answer.output
    assert "counts" in answer.stdout or answer.stdout == "a\t1\n"
    assert "DAMAGED" not in answer.output


@pytest.mark.parametrize("words", [("list",), ("verify",), ("scan", "counts")])
def test_no_file_is_written_anew(host: Host, words: tuple[str, ...]) -> None:
    host.fill("counts", put_counts(a=1))
    before = {path: path.stat().st_mtime_ns for path in host.directory.rglob("*")}

    assert host.ask(*words).exit_code == 0

    assert {path: path.stat().st_mtime_ns for path in host.directory.rglob("*")} == before


@pytest.mark.parametrize("words", [("list",), ("verify",), ("scan", "counts")])
@pytest.mark.parametrize("kept", ["*.sst", "MANIFEST-*", "CURRENT"])
def test_a_file_that_may_not_be_read_is_named_and_is_no_damage(
    shown: Host, words: tuple[str, ...], kept: str
) -> None:
    file = next(shown.directory.rglob(kept))
    file.chmod(0)
    with as_a_user():
        answer = shown.ask(*words)

    assert answer.exit_code == 1
    assert f"may not read {file}" in answer.output
    assert "amage" not in answer.output


@pytest.mark.parametrize("words", [("list",), ("verify",), ("scan", "counts")])
@pytest.mark.parametrize("kept", [".", "app", "app/0_0", "app/0_0/rocksdb/counts"])
@pytest.mark.parametrize("mode", [0, 0o444])
def test_a_directory_that_may_not_be_read_is_named(
    shown: Host, words: tuple[str, ...], kept: str, mode: int
) -> None:
    (shown.directory / kept).chmod(mode)
    with as_a_user():
        answer = shown.ask(*words)

    assert answer.exit_code == 1
    assert f"may not read the directory {shown.directory / kept};" in answer.output
    assert "amage" not in answer.output


def test_damage_is_found_and_named(host: Host) -> None:
    host.fill("counts", put_counts(**{f"key-{number}": number for number in range(1000)}))
    host.fill("windows", lambda store: store.put("a", ValueAndTimestamp(5, 12), 10))
    assert "app counts 0_0: whole, 1,000 stored entries" in host.ask("verify").stdout
    (largest,) = sorted(
        (host.directory / "app" / "0_0" / "rocksdb" / "counts").glob("*.sst"),
        key=lambda path: path.stat().st_size,
    )[-1:]
    data = bytearray(largest.read_bytes())
    data[100] ^= 0xFF
    largest.write_bytes(data)
    answer = host.ask("verify")

    assert answer.exit_code == 1
    assert "app counts 0_0: DAMAGED: " in answer.stdout
    assert "checksum" in answer.stdout
    assert "app windows 0_0: whole" in answer.stdout
    becomes = "damaged store from its changelog when it meets the damage; at one without"
    assert becomes in answer.stderr
    assert "start again" not in answer.output


@pytest.mark.parametrize("words", [("scan", "counts"), ("get", "counts", "key-1"), ("list",)])
def test_damage_that_is_met_is_told_with_the_stores_files_and_what_becomes_of_it(
    host: Host, words: tuple[str, ...]
) -> None:
    host.fill("counts", put_counts(**{f"key-{number}": number for number in range(1000)}))
    directory = host.directory / "app" / "0_0" / "rocksdb" / "counts"
    for file in directory.glob("*.sst"):
        content = file.read_bytes()
        file.write_bytes(bytes(255 - byte for byte in content[:-60]) + content[-60:])
    answer = host.ask(*words)

    assert answer.exit_code == 1
    assert f"its files are damaged ({directory}: Corruption: " in answer.stderr
    assert "damaged store from its changelog when it meets the damage" in answer.stderr
    assert "start again" not in answer.stderr
    assert "pystreams-state-" not in answer.stderr


def test_a_damaged_store_is_listed_with_its_error_and_hides_no_other(host: Host) -> None:
    host.fill("counts", put_counts(a=1), "0_0")
    host.fill("counts", put_counts(b=2), "0_1")
    host.fill("windows", lambda store: store.put("a", ValueAndTimestamp(5, 12), 10))
    directory = host.directory / "app" / "0_0" / "rocksdb" / "counts"
    for file in directory.glob("*.sst"):
        file.write_bytes(bytes(255 - byte for byte in file.read_bytes()))
    answer = host.ask("list")

    rows = [line.split() for line in answer.stdout.splitlines()[1:]]
    assert [(row[1], row[2], row[5]) for row in rows] == [
        ("counts", "0_0", "damaged"),
        ("counts", "0_1", "41"),
        ("windows", "0_0", "41"),
    ]
    assert f"DAMAGED: state store 'counts': can't be read: its files are damaged ({directory}" in (
        answer.stderr
    )
    assert answer.stderr.count("DAMAGED") == 1
    assert "1 damaged. The application rebuilds a damaged store" in answer.stderr
    assert answer.exit_code == host.ask("verify").exit_code == 1


def test_what_is_not_there_is_told_with_what_is(host: Host, tmp_path: Path) -> None:
    host.fill("counts", put_counts(a=1))
    nothing, unknown, absent, empty = (
        host.ask("get", "counts", "x"),
        host.ask("scan", "countss"),
        host.ask("scan", "windows"),
        host.ask("list", directory=tmp_path / "nowhere"),
    )

    assert (nothing.exit_code, nothing.stdout) == (4, "")
    assert "store 'counts' has nothing of 'x'" in nothing.stderr
    assert unknown.exit_code == 2
    assert "it has: counts, meeting-outer-other-join-store, " in unknown.stderr
    assert "sessions, versions, windows)" in unknown.stderr
    assert absent.exit_code == 1
    assert "no store 'windows' in the directory (there is: counts)" in absent.stderr
    assert empty.exit_code == 1
    assert "there are no stores in" in empty.stderr
