"""A store that can't be used is not wiped where its changelog may not hold all of it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from pystreams import ChangelogLossError, Materialized, StreamsBuilder, Topology, serdes
from pystreams.errors import TransactionAbortableError
from pystreams.runtime.state.files import known_changelogs
from pystreams.runtime.state.files.loss_decisions import read_decision
from pystreams.stores.engines.rocksdb import RocksDBEngine
from pystreams.stores.files.metadata import OPEN, STATUS, pack_long
from pystreams.testing.simulation import SimulatedProcess
from tests.simulation.applications import CHANGELOG, Application, counting, stored_counts
from tests.simulation.members.following import Follower
from tests.simulation.state.damaging import (
    Damage,
    OnDisk,
    delete_current,
    delete_data,
    delete_store,
    flip_data,
    flip_manifest,
)
from tests.simulation.state.recovering import recover, recovered
from tests.simulation.state.test_lost_changelogs import (
    Loss,
    away_while_others_count,
    choose,
    counted,
    cut_off,
    delete_changelog,
    in_the_changelog,
)
from tests.variants import first_of

pytestmark = pytest.mark.simulation

LOSSES = pytest.mark.parametrize("lose", [delete_changelog, cut_off])


def forget_the_topics(application: OnDisk) -> None:
    """As in a state directory of an earlier version."""
    (application.state / "0_0" / known_changelogs.FILE).unlink()


def refused(application: OnDisk, policy: str = "stop") -> str:
    """Start; return the error that it stops with."""
    choose(application, policy)
    with pytest.raises(ChangelogLossError) as caught:
        application.run()
    return str(caught.value)


@LOSSES
@pytest.mark.parametrize("damage", [flip_manifest, delete_data])
@pytest.mark.parametrize("cure", ["restore", "empty"])
def test_a_damaged_store_whose_changelog_is_gone_as_well_stops_until_the_command_of_the_message_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Damage, lose: Loss, cure: str
) -> None:
    application = counted(tmp_path)
    lose(application)
    damage(application.directory("counts"))
    files = {file.name: file.read_bytes() for file in application.directory("counts").glob("*.sst")}
    told = [refused(application, policy) for policy in ("stop", "keep", "stop")]

    assert "it is damaged, and app-counts-changelog-0 may not hold all of it" in told[0]
    assert "was not touched" in told[0]
    assert "it was to be kept, and can't be logged anew to app-counts-changelog-0" in told[1]
    assert told[2] == told[0]
    left = {file.name: file.read_bytes() for file in application.directory("counts").glob("*.sst")}
    assert left == files

    command = re.search(r"pystreams recover TOPOLOGY (.* --choose )restore --execute", told[0])
    assert command is not None
    options = shlex.split(f"{command[1]}{cure} --execute")
    recovered(application, monkeypatch, counting, *options)
    choose(application, "stop")
    application.feed(["a"])
    application.run()
    others = {"c": 5} if lose is cut_off and cure == "restore" else {}
    assert in_the_changelog(application) == {"a": 1} | others
    application.feed(["a"])
    application.run()
    assert in_the_changelog(application) == {"a": 2} | others


@LOSSES
@pytest.mark.parametrize("cure", first_of("empty", "restore"))
def test_changelog_loss_policy_decides_about_a_damaged_store_too(
    tmp_path: Path, lose: Loss, cure: str
) -> None:
    application = counted(tmp_path)
    lose(application)
    flip_manifest(application.directory("counts"))
    choose(application, cure)
    application.feed(["a"])
    application.run()

    assert in_the_changelog(application)["a"] == 1


def test_a_damaged_store_whose_changelog_others_have_written_anew_is_not_wiped(
    tmp_path: Path,
) -> None:
    application = away_while_others_count(tmp_path)
    flip_manifest(application.directory("counts"))

    assert "its offset is of another topic of that name" in refused(application)


def test_a_damaged_store_of_an_earlier_version_is_not_wiped_when_its_changelog_is_empty(
    tmp_path: Path,
) -> None:
    application = counted(tmp_path)
    forget_the_topics(application)
    delete_changelog(application)
    flip_manifest(application.directory("counts"))

    assert "may be another topic than the one of before" in refused(application)
    assert "may be another topic than the one of before" in refused(application)


def test_a_store_of_an_earlier_version_that_this_one_has_opened_is_not_wiped_later(
    tmp_path: Path,
) -> None:
    application = counted(tmp_path)
    forget_the_topics(application)
    application.run()
    delete_changelog(application)
    flip_manifest(application.directory("counts"))

    assert "its offset is of another topic of that name" in refused(application)


@pytest.mark.parametrize("damage", [flip_data, flip_manifest])
@pytest.mark.parametrize("earlier", [False, True])
def test_a_damaged_store_whose_changelog_is_whole_is_rebuilt_and_needs_no_decision(
    tmp_path: Path, damage: Damage, earlier: bool
) -> None:
    application = counted(tmp_path)
    if earlier:
        forget_the_topics(application)
    damage(application.directory("counts"))
    application.feed(["a"])
    application.run()

    assert in_the_changelog(application) == {"a": 3, "b": 1}


def test_a_damaged_store_is_rebuilt_from_a_changelog_that_it_was_logged_to_anew(
    tmp_path: Path,
) -> None:
    application = counted(tmp_path)
    cut_off(application)
    choose(application, "keep")
    application.run()
    flip_manifest(application.directory("counts"))
    choose(application, "stop")
    application.feed(["a"])
    application.run()

    assert in_the_changelog(application) == {"a": 3, "b": 1, "c": 5}


def test_a_damaged_store_that_held_no_more_than_its_changelog_is_rebuilt_without_a_question(
    tmp_path: Path,
) -> None:
    """The beginning was gone already when the store was restored."""
    application = counted(tmp_path)
    cut_off(application)
    delete_store(application.directory("counts"))
    application.run()
    flip_manifest(application.directory("counts"))
    application.feed(["a"])
    application.run()

    assert in_the_changelog(application) == {"a": 1, "c": 5}


def test_a_store_that_never_held_anything_is_rebuilt_without_a_question(tmp_path: Path) -> None:
    application = OnDisk(tmp_path, counting)
    application.run()
    delete_changelog(application)
    flip_manifest(application.directory("counts"))
    (application.state / "0_0" / known_changelogs.FILE).write_text("", encoding="utf-8")
    application.feed(["a"])
    application.run()

    assert in_the_changelog(application) == {"a": 1}


@pytest.mark.parametrize("lose", [None, delete_changelog, cut_off])
@pytest.mark.parametrize("damage", [flip_manifest, delete_current])
def test_recover_shows_a_damaged_store_as_last_copy_where_its_changelog_lacks_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Damage, lose: Loss | None
) -> None:
    application = counted(tmp_path)
    damage(application.directory("counts"))
    if lose is not None:
        lose(application)

    said = recovered(application, monkeypatch, counting, "--choose", "restore", "--execute")

    assert "its files are damaged" in said
    assert ("LAST COPY" in said) == (lose is not None)
    choose(application, "stop")
    application.feed(["a"])
    application.run()
    assert in_the_changelog(application)["a"] == (3 if lose is None else 1)


@LOSSES
def test_recover_refuses_to_keep_a_store_that_it_finds_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lose: Loss
) -> None:
    application = counted(tmp_path)
    flip_manifest(application.directory("counts"))
    lose(application)

    for execute in ([], ["--execute"]):
        answer = recover(application, monkeypatch, counting, "--choose", "keep", *execute)
        assert answer.exit_code == 1
        assert "task 0_0: it can't be kept, and nothing was written: it is damaged" in answer.output
        assert "Choose restore or empty for it" in answer.output
    assert read_decision(application.state / "0_0", "counts") is None


# Stores that write through


def counting_through() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    counts = stream.group_by_key().count(materialized=Materialized("counts", transactional=False))
    counts.to_stream().to("out", value_serde=serdes.LONG)
    return builder.build()


def counted_through(root: Path) -> tuple[Application, SimulatedProcess]:
    """Return an application that has counted `a` twice and runs, and its process."""
    app = Application(root, "exactly_once_v2")
    process = app.process(topology=counting_through())
    process.start()
    app.feed("a", "a")
    app.run_until_processed(process)
    return app, process


def again(app: Application, process: SimulatedProcess, policy: str = "stop") -> SimulatedProcess:
    """Start on the disk of a process that is gone, and run until all input is counted."""
    config = {"changelog.loss.policy": policy}
    started = app.process("p1", counting_through(), config, process.disk)
    started.start()
    app.run_until_processed(started)
    return started


def test_a_store_that_writes_through_is_rebuilt_after_a_kill_while_its_changelog_is_whole(
    tmp_path: Path,
) -> None:
    app, process = counted_through(tmp_path)
    process.crash()
    app.feed("a")
    again(app, process)

    assert app.outputs() == [("a", 1), ("a", 2), ("a", 3)]


@pytest.mark.parametrize("written", [False, True])
def test_a_store_that_writes_through_is_not_wiped_after_a_kill_when_its_changelog_is_gone_as_well(
    tmp_path: Path, written: bool
) -> None:
    app, process = counted_through(tmp_path)
    process.crash()
    app.broker.delete_topic(CHANGELOG.topic)
    if written:
        again(app, app.process("elsewhere")).crash()
    before = stored_counts(process)
    for policy in ("stop", "keep"):
        with pytest.raises(ChangelogLossError, match="was not closed after its last use"):
            again(app, process, policy)

    assert stored_counts(process) == before
    app.feed("a")
    again(app, process, "empty")
    assert app.outputs()[-1] == ("a", 1)


@pytest.mark.parametrize("crash_at", ["open 0_0 counts", "written counts", "offset_ranges"])
def test_a_store_that_writes_through_may_be_killed_before_it_held_anything(
    tmp_path: Path, crash_at: str
) -> None:
    app = Application(tmp_path, "exactly_once_v2")
    process = app.process(topology=counting_through())
    process.start()
    process.crash_at(crash_at)
    app.feed("a")
    for _ in range(20):
        if process.running:
            process.step()
    assert not process.running, "it was to crash"
    again(app, process)

    assert app.outputs() == [("a", 1)]


def test_a_store_that_writes_through_and_never_held_anything_is_no_loss_after_an_upgrade(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path, "exactly_once_v2")
    process = app.process(topology=counting_through())
    process.start()
    app.run_until_processed(process)
    for _, _, files in process.disk.stores():
        files.flush()
    process.crash()
    (tmp_path / "p0" / "0_0" / known_changelogs.FILE).unlink()
    app.feed("a")
    again(app, process)

    assert app.outputs() == [("a", 1)]


@pytest.mark.parametrize("held", [False, True])
def test_recover_shows_a_store_that_writes_through_and_was_not_closed_as_the_start_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    application = OnDisk(tmp_path, counting_through, "exactly_once_v2")
    application.feed(["a"] * held)
    application.run()
    delete_changelog(application)
    forget_the_topics(application)
    engine = RocksDBEngine("counts", timestamped=True)
    engine.open(application.directory("counts"))
    engine.write({}, {STATUS: pack_long(OPEN)})
    engine.close()

    said = recovered(application, monkeypatch, counting_through)

    assert ("LAST COPY" in said) == held
    assert ("was not closed after its last use" in said) == held
    application.feed(["a"])
    choose(application, "stop")
    if held:
        assert "was not closed after its last use" in refused(application)
        assert "LAST COPY" in recovered(application, monkeypatch, counting_through)
    else:
        application.run()


def test_a_rollback_does_not_wipe_a_store_whose_changelog_was_made_again_meanwhile(
    tmp_path: Path,
) -> None:
    app, process = counted_through(tmp_path)
    before = stored_counts(process)
    app.feed("a")

    app.broker.delete_topic(CHANGELOG.topic)
    app.broker.create_topic(CHANGELOG.topic, 1)
    app.faults.fail_next("commit_transaction", TransactionAbortableError("aborted"))
    with pytest.raises(ChangelogLossError, match="it can't go back to the last commit"):
        app.run_until_processed(process)
    assert set(stored_counts(process)) == set(before)


# Standbys


def test_a_standby_leaves_a_damaged_last_copy_as_it_is(tmp_path: Path) -> None:
    app = Application(tmp_path, "exactly_once_v2")
    process = app.process(topology=counting_through())
    process.start()
    app.feed("a", "a")
    app.run_until_processed(process)
    process.crash()
    before = stored_counts(process)
    app.broker.delete_topic(CHANGELOG.topic)
    app.broker.create_topic(CHANGELOG.topic, 1)
    follower = app.process("p1", counting_through(), disk=process.disk)
    follower.start()

    with pytest.raises(ChangelogLossError, match="its offset is of another topic"):
        Follower(app, follower)
    assert stored_counts(process) == before


def test_a_standby_of_a_store_that_was_logged_anew_may_be_rebuilt_when_it_takes_over(
    tmp_path: Path,
) -> None:
    app, owner = counted_through(tmp_path)
    owner.stop()
    app.broker.settle()
    changelog = app.broker.log(CHANGELOG)
    app.broker.append(CHANGELOG.topic, 0, [(b"z", (1).to_bytes(8, "big"), 0, ())])
    changelog.delete_before(changelog.high_watermark)
    owner = again(app, owner, "keep")
    app.feed("a")
    app.run_until_processed(owner)
    assert changelog.beginning > 0
    other = app.process("p1", counting_through())
    follower = Follower(app, other)
    follower.catch_up()
    follower.stop()
    owner.stop()
    app.broker.settle()

    successor = app.process("p2", counting_through(), disk=other.disk)
    successor.start()
    app.feed("a")
    app.run_until_processed(successor)
    app.feed("a")
    app.faults.fail_next("commit_transaction", TransactionAbortableError("aborted"))
    app.run_until_processed(successor)
    assert [count for key, count in app.outputs() if key == "a"][-3:] == [3, 4, 5]
