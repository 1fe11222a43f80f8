"""What becomes of a user's own store that is the last copy of what its changelog has lost."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pystreams import (
    ChangelogLossError,
    Processor,
    ProcessorContext,
    Record,
    StreamsBuilder,
    TopicPartition,
    Topology,
    serdes,
)
from pystreams.config import ChangelogLossPolicy
from pystreams.record import ProducedRecord
from pystreams.runtime.state.files.loss_decisions import read_decision, write_decision
from tests.simulation.state.damaging import OnDisk
from tests.simulation.state.recovering import recover, recovered
from tests.stores.custom import CustomStore, OffsetKeepingStore, SqliteStore, files_of
from tests.variants import first_of

pytestmark = pytest.mark.simulation

CHANGELOG = TopicPartition("app-texts-changelog", 0)
NAMED = ("--task", "0_0", "--store", "texts")


class DumpedStore(SqliteStore):
    """Gives its records as well."""

    def changelog_records(self) -> Iterator[ProducedRecord]:
        for key, value in self.all():
            yield key.encode(), value.encode(), 0, ()


class Remember(Processor[str, str, None, None]):
    def init(self, context: ProcessorContext[None, None]) -> None:
        self._store: SqliteStore = context.get_state_store("texts")

    def process(self, record: Record[str, str]) -> None:
        self._store.put(record.key, record.value)


def remembered_by(kind: type[SqliteStore]) -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(CustomStore("texts", kind))
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.process(Remember, stores=["texts"])
    return builder.build()


def remembering() -> Topology:
    return remembered_by(SqliteStore)


def remembering_dumped() -> Topology:
    return remembered_by(DumpedStore)


def remembering_offsets() -> Topology:
    return remembered_by(OffsetKeepingStore)


def remembered(
    root: Path, topology: Callable[[], Topology] = remembering, guarantee: str = "exactly_once_v2"
) -> OnDisk:
    """Return an application that has remembered `a` and `b`, and runs."""
    application = OnDisk(root, topology, guarantee)
    application.process.start()
    application.feed(["a", "b"])
    application.app.run_until_processed(application.process)
    return application


def killed(root: Path) -> OnDisk:
    """Return one that was killed, so that its store is not to be trusted."""
    application = remembered(root)
    application.process.crash()
    application.new_process()
    return application


def made_again(application: OnDisk, *keys: str) -> None:
    """Its changelog was deleted and created again, and others have written keys to it."""
    application.app.broker.delete_topic(CHANGELOG.topic)
    application.app.broker.create_topic(CHANGELOG.topic, 1)
    records = [(key.encode(), b"of others", 0, ()) for key in keys]
    if records:
        application.app.broker.append(CHANGELOG.topic, 0, records)


def stopped(application: OnDisk, policy: str = "stop") -> str:
    """Start; return the error that it stops with."""
    application.new_process(changelog_loss_policy=policy)
    with pytest.raises(ChangelogLossError) as caught:
        application.run()
    return str(caught.value)


def in_the_store(application: OnDisk) -> list[str]:
    file = files_of(application.state / "0_0", "texts") / "store.db"
    with closing(sqlite3.connect(file)) as database:
        return [bytes(key).decode() for (key,) in database.execute("select k from entries")]


def in_the_changelog(application: OnDisk) -> list[str]:
    return sorted(key.decode() for key in application.app.broker.log(CHANGELOG).compacted())


@pytest.mark.parametrize("exists", [True, False])
def test_recover_shows_a_store_that_is_not_to_be_trusted_as_the_start_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    application = killed(tmp_path)
    made_again(application)
    if not exists:
        application.app.broker.delete_topic(CHANGELOG.topic)

    said = recovered(application, monkeypatch, remembering)

    assert "LAST COPY" in said
    assert "restore, empty" in said
    assert "it is not known how far it is" in said
    assert "it is not known how far it is" in stopped(application)
    recovered(application, monkeypatch, remembering, "--choose", "restore", "--execute")
    application.new_process()
    application.feed(["c"])
    application.run()
    assert in_the_changelog(application) == in_the_store(application) == ["c"]


def test_recover_says_that_a_store_which_is_not_to_be_trusted_is_rebuilt_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    application = killed(tmp_path)

    said = recovered(application, monkeypatch, remembering)

    assert "LAST COPY" not in said
    assert "it is not to be trusted, and the next start rebuilds it" in said
    application.new_process()
    application.run()
    assert in_the_store(application) == ["a", "b"]


def test_recover_says_of_a_store_that_keeps_its_offset_that_only_the_start_can_ask_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    application = remembered(tmp_path, remembering_offsets)
    application.process.stop()

    said = recovered(application, monkeypatch, remembering_offsets)

    assert "not known" in said
    assert "only a start can ask it how far it is" in said


@pytest.mark.parametrize("topology", [remembering, remembering_offsets])
@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "at_least_once"))
def test_a_store_whose_changelog_others_have_written_far_since_it_was_made_again_is_a_last_copy(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    guarantee: str,
    topology: Callable[[], Topology],
) -> None:
    """The store's offset lies within the new topic: only the id beside it tells of the former."""
    application = remembered(tmp_path, topology, guarantee)
    application.process.stop()
    made_again(application, *"cdefghij")

    for _ in range(2):
        assert "its offset is of another topic of that name" in stopped(application)
    assert in_the_store(application) == ["a", "b"]
    if topology is remembering:
        said = recovered(application, monkeypatch, topology)
        assert "LAST COPY" in said
        assert "its offset is of another topic of that name" in said

    recovered(application, monkeypatch, topology, *NAMED, "--choose", "restore", "--execute")
    for key in "kl":
        application.new_process()
        application.feed([key])
        application.run()
    assert in_the_changelog(application) == in_the_store(application) == list("cdefghijkl")


@pytest.mark.parametrize("choice", ["keep", "empty"])
@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "at_least_once"))
def test_a_store_whose_records_nobody_knows_is_not_touched_by_what_would_take_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str, guarantee: str
) -> None:
    application = remembered(tmp_path, guarantee=guarantee)
    application.process.stop()
    made_again(application, "c")
    assert "SqliteStore has no changelog_records()" in stopped(application)

    for named in ((), NAMED):
        answer = recover(
            application, monkeypatch, remembering, *named, "--choose", choice, "--execute"
        )
        assert answer.exit_code == 1
        assert "nothing was written: SqliteStore has no changelog_records()" in answer.output
    assert "was not touched" in stopped(application, choice)
    assert read_decision(application.state / "0_0", "texts") is None
    write_decision(application.state / "0_0", "texts", ChangelogLossPolicy(choice))
    for _ in range(2):
        told = stopped(application)
        assert "SqliteStore has no changelog_records()" in told
    assert in_the_store(application) == ["a", "b"]

    command = told.split("pystreams recover TOPOLOGY ")[1].split(" wipes it")[0]
    recovered(application, monkeypatch, remembering, *shlex.split(command))
    application.new_process()
    application.feed(["d"])
    application.run()
    assert in_the_changelog(application) == in_the_store(application) == ["c", "d"]


@pytest.mark.parametrize("dies", [True, False])
def test_a_store_whose_records_nobody_knows_is_emptied_where_its_changelog_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    application = remembered(tmp_path)
    (application.process.crash if dies else application.process.stop)()
    made_again(application)

    recovered(application, monkeypatch, remembering, *NAMED, "--choose", "empty", "--execute")
    for key in "cd":
        application.new_process()
        application.feed([key])
        application.run()

    assert in_the_changelog(application) == in_the_store(application) == ["c", "d"]


@pytest.mark.parametrize(
    ("choice", "left"), [("keep", ["a", "b", "c", "d"]), ("restore", ["c", "d"]), ("empty", ["d"])]
)
def test_a_store_that_gives_its_records_can_be_all_that_ours_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str, left: list[str]
) -> None:
    application = remembered(tmp_path, remembering_dumped)
    application.process.stop()
    made_again(application, "c")

    said = recovered(application, monkeypatch, remembering_dumped, "--choose", choice, "--execute")
    application.new_process()
    application.feed(["d"])
    application.run()

    assert "keep, restore, empty" in said
    assert in_the_changelog(application) == in_the_store(application) == left
