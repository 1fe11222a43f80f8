"""The same random operations on our stores and on Kafka Streams': answers, changelogs, databases.

A failure names the first operation that was answered otherwise. What Kafka Streams answered is
printed by the program `parity.stores.StoreTrace`, see the README.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rocksdict import AccessType, Options, Rdict
from structlog.testing import capture_logs

from pystreams import Stores, serdes
from tests.parity import store_calls as calls
from tests.parity.store_operations import (
    KeyValueScript,
    Script,
    SessionScript,
    VersionedScript,
    WindowScript,
    hex_of,
)
from tests.parity.store_replay import (
    OPERATIONS_A_MARK,
    Doing,
    Replay,
    Transcript,
    read_golden,
    short_sum,
    shown,
)
from tests.stores.support import CHANGELOG, Home, Message

if TYPE_CHECKING:
    from pystreams.stores.contracts.spec import StoreSupplier
    from pystreams.stores.spec_builder import StoreSpecBuilder

pytestmark = pytest.mark.parity

STORE = "s"
RESTORED_AT_ONCE = 700
OPERATIONS = 100_000


@dataclass(frozen=True)
class Kind:
    """One kind of store: how to make it, and what to do with it."""

    script: Callable[[], Script]
    doing: Doing
    on_disk: Callable[[], StoreSpecBuilder]
    in_memory: Callable[[], StoreSpecBuilder]
    few: int = 5_000


def _versioned(supplier: Callable[..., Any]) -> StoreSpecBuilder:
    return Stores.versioned_key_value_store_builder(
        supplier(STORE, VersionedScript.RETENTION_MS, VersionedScript.SEGMENT_INTERVAL_MS)
    )


def _window(supplier: Callable[..., Any], *, retain_duplicates: bool = False) -> StoreSupplier:
    made: StoreSupplier = supplier(
        STORE,
        WindowScript.RETENTION_MS,
        WindowScript.WINDOW_MS,
        retain_duplicates=retain_duplicates,
    )
    return made


def _session(supplier: Callable[[str, int], StoreSupplier]) -> StoreSpecBuilder:
    return Stores.session_store_builder(supplier(STORE, SessionScript.RETENTION_MS))


KINDS = {
    "key_value": Kind(
        lambda: KeyValueScript(timestamped=False),
        Doing(calls.apply_key_value, calls.dropped_nothing),
        lambda: Stores.key_value_store_builder(Stores.persistent_key_value_store(STORE)),
        lambda: Stores.key_value_store_builder(Stores.in_memory_key_value_store(STORE)),
    ),
    "timestamped_key_value": Kind(
        lambda: KeyValueScript(timestamped=True),
        Doing(calls.apply_timestamped_key_value, calls.dropped_nothing),
        lambda: Stores.timestamped_key_value_store_builder(
            Stores.persistent_timestamped_key_value_store(STORE)
        ),
        lambda: Stores.timestamped_key_value_store_builder(Stores.in_memory_key_value_store(STORE)),
    ),
    "versioned": Kind(
        VersionedScript,
        Doing(calls.apply_versioned, calls.dropped_version),
        lambda: _versioned(Stores.persistent_versioned_key_value_store),
        lambda: _versioned(Stores.in_memory_versioned_key_value_store),
        few=10_000,
    ),
    "window": Kind(
        lambda: WindowScript(seed=4, duplicates=False),
        Doing(calls.apply_window, calls.dropped_window),
        lambda: Stores.window_store_builder(_window(Stores.persistent_window_store)),
        lambda: Stores.window_store_builder(_window(Stores.in_memory_window_store)),
    ),
    "timestamped_window": Kind(
        lambda: WindowScript(seed=5, duplicates=False),
        Doing(calls.apply_timestamped_window, calls.dropped_timestamped_window),
        lambda: Stores.timestamped_window_store_builder(
            _window(Stores.persistent_timestamped_window_store)
        ),
        lambda: Stores.timestamped_window_store_builder(_window(Stores.in_memory_window_store)),
    ),
    "window_with_duplicates": Kind(
        lambda: WindowScript(seed=6, duplicates=True),
        Doing(calls.apply_window, calls.dropped_duplicate),
        lambda: Stores.window_store_builder(
            _window(Stores.persistent_window_store, retain_duplicates=True)
        ),
        lambda: Stores.window_store_builder(
            _window(Stores.in_memory_window_store, retain_duplicates=True)
        ),
    ),
    "session": Kind(
        SessionScript,
        Doing(calls.apply_session, calls.dropped_session),
        lambda: _session(Stores.persistent_session_store),
        lambda: _session(Stores.in_memory_session_store),
    ),
}

NEVER_DROPPING = {"key_value", "timestamped_key_value"}
each_kind = pytest.mark.parametrize("name", KINDS)
each_engine = pytest.mark.parametrize("engine", ["on_disk", "in_memory"])
golden = functools.cache(lambda name: read_golden(f"{name}.json.gz"))


Run = Callable[[str, str], tuple[Transcript, Path]]


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What a store did in the first operations, by kind and engine, and its directory."""

    @functools.cache
    def one(name: str, engine: str) -> tuple[Transcript, Path]:
        directory = tmp_path_factory.mktemp(name)
        return run(name, engine, KINDS[name].few, directory), directory

    return one


@each_kind
@each_engine
def test_a_store_answers_and_logs_as_kafka_streams_does(
    name: str, engine: str, run_once: Run
) -> None:
    transcript, _ = run_once(name, engine)

    assert_same(golden(name), transcript, KINDS[name].few)


@each_kind
@each_engine
def test_a_store_drops_and_counts_what_kafka_streams_does(
    name: str, engine: str, run_once: Run
) -> None:
    transcript, _ = run_once(name, engine)

    dropped = golden(name)["dropped"][: len(transcript.dropped)]
    assert transcript.dropped == dropped
    assert (dropped[-1] > 0) == (name not in NEVER_DROPPING)


@each_kind
def test_a_database_holds_the_same_bytes(name: str, run_once: Run) -> None:
    _, directory = run_once(name, "on_disk")

    assert databases(directory) == java_databases(name, KINDS[name].few)


@each_kind
def test_a_store_restored_from_the_changelog_holds_the_same_bytes(
    name: str, run_once: Run, tmp_path: Path
) -> None:
    transcript, _ = run_once(name, "on_disk")
    store = open_store(name, "on_disk", Home(tmp_path))

    messages = [message_of(number, line) for number, line in enumerate(transcript.changelog.all)]
    for first in range(0, len(messages), RESTORED_AT_ONCE):
        store.restore(messages[first : first + RESTORED_AT_ONCE])
    store.commit({CHANGELOG: len(messages) - 1})  # Segments that expired go with it.
    store.close()

    assert databases(tmp_path) == java_databases(name, KINDS[name].few)


@pytest.mark.sweep
@pytest.mark.timeout(3600)
@each_kind
@each_engine
def test_a_store_stays_the_same_through_all_operations(
    name: str, engine: str, tmp_path: Path
) -> None:
    with capture_logs():  # Thousands of warnings of empty ranges.
        transcript = run(name, engine, OPERATIONS, tmp_path)

    assert_same(golden(name), transcript, OPERATIONS)
    assert transcript.dropped == golden(name)["dropped"]
    if engine == "on_disk":
        assert databases(tmp_path) == java_databases(name, OPERATIONS)
    print(
        f"{name} {engine}: {OPERATIONS} operations, {len(transcript.changelog.all)} changelog "
        f"records, {transcript.dropped[-1]} writes dropped"
    )


@pytest.mark.sweep
@each_kind
def test_a_store_that_writes_through_does_the_same(name: str, tmp_path: Path) -> None:
    transcript = run(name, "written_through", KINDS[name].few, tmp_path)

    assert_same(golden(name), transcript, KINDS[name].few)
    assert databases(tmp_path) == java_databases(name, KINDS[name].few)


@pytest.mark.sweep
@pytest.mark.parametrize("name", sorted(KINDS.keys() - {"versioned"}))
def test_a_store_with_a_record_cache_answers_and_holds_the_same(name: str, tmp_path: Path) -> None:
    transcript = run(name, "cached", KINDS[name].few, tmp_path)

    assert_same_answers(golden(name), transcript, KINDS[name].few)
    assert databases(tmp_path) == java_databases(name, KINDS[name].few)


def run(name: str, engine: str, count: int, directory: Path) -> Transcript:
    """Do a kind's first operations on a new store, and close it."""
    home = Home(directory)
    store = open_store(name, engine, home)
    doing = KINDS[name].doing
    if engine == "cached":
        doing = replace(doing, dropped=calls.logged_later)
    replayed = Replay(store, home, doing)
    replayed.run(KINDS[name].script(), count)
    store.close()
    return replayed.transcript


def open_store(name: str, engine: str, home: Home) -> Any:
    """Return a new store of a kind, open."""
    kind = KINDS[name]
    builder = kind.in_memory() if engine == "in_memory" else kind.on_disk()
    if engine == "written_through":
        builder = builder.with_transactional_disabled()
    if engine == "cached":
        builder = builder.with_caching_enabled()
        home.cache_enabled = True
    store = builder.build()
    store.init(home.context(default_key_serde=serdes.BYTES, default_value_serde=serdes.BYTES))
    return store


def message_of(offset: int, line: str) -> Message:
    """Return a line of a changelog as the record it stands for."""
    key, value, timestamp = line.split(" ")
    return Message(bytes_of(key), bytes_of(value), offset, int(timestamp))


def bytes_of(text: str) -> bytes | None:
    """Return what `hex_of` was given."""
    return None if text == "-" else bytes.fromhex(text[1:])


def assert_same(java: dict[str, Any], ours: Transcript, count: int) -> None:
    """Compare the transcripts of `count` operations."""
    assert_same_answers(java, ours, count)
    for number, (logged, known) in enumerate(
        zip(ours.changelog.all, java["changelog"], strict=False)
    ):
        assert shown(logged) == known, f"changelog record {number}"
    for mark, known_mark in zip(ours.marks, marks(java, count), strict=True):
        last = mark[0]
        assert mark == known_mark, (
            f"answers or changelog differ somewhere in operations {last - OPERATIONS_A_MARK} to "
            f"{last}; StoreTrace prints what Kafka Streams answered"
        )


def assert_same_answers(java: dict[str, Any], ours: Transcript, count: int) -> None:
    """Compare what was answered to `count` operations, one by one as far as there are sums."""
    done = [(number, operations) for number, operations, *_ in ours.marks]
    assert done == [(number, operations) for number, operations, *_ in marks(java, count)], (
        "the operations themselves differ"
    )
    sums = java["answer_sums"]
    for number, answer in enumerate(ours.answers.all[: min(count, len(sums) // 4)]):
        assert short_sum(answer) == sums[4 * number : 4 * number + 4], difference(
            java, ours, number
        )


def marks(java: dict[str, Any], count: int) -> list[Any]:
    """Return the hashes after each 1,000 of `count` operations."""
    return [mark for mark in java["hashes"] if mark[0] <= count]


def difference(java: dict[str, Any], ours: Transcript, number: int) -> str:
    """Return what is known of an operation that was answered otherwise."""
    answers = java["answers"]
    known = answers[number] if number < len(answers) else "(see StoreTrace)"
    return (
        f"operation {number}: {ours.operations.all[number]}\n"
        f"Kafka Streams: {known}\n"
        f"pystreams:     {ours.answers.all[number]}"
    )


def java_databases(name: str, count: int) -> dict[str, list[str]]:
    """Return the entries of Java's databases by the segment's first millisecond, or ""."""
    return {
        segment: _data_of(families)
        for segment, families in golden(name)["databases"][str(count)].items()
    }


def databases(directory: Path) -> dict[str, list[str]]:
    """Return the entries of our database in the same form, read with RocksDB alone."""
    path = str(directory / "rocksdb" / STORE)
    names = Rdict.list_cf(path)
    database = Rdict(
        path,
        Options(raw_mode=True),
        {name: Options(raw_mode=True) for name in names if name != "default"},
        access_type=AccessType.read_only(),
    )
    families: dict[str, list[str]] = {}
    for name in names:
        family: Any = database if name == "default" else database.get_column_family(name)
        families[name] = [f"{hex_of(key)} {hex_of(value)}" for key, value in family.items()]
    database.close()
    segments = {name: lines for name, lines in families.items() if name.isdecimal() and lines}
    return segments or {"": _data_of(families)}


def _data_of(families: dict[str, list[str]]) -> list[str]:
    """Return the column family that holds data; values with timestamps have one of their own."""
    return families.get("keyValueWithTimestamp", families["default"])
