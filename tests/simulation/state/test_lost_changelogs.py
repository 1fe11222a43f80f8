"""A store that holds more than its changelog is the last copy: nothing is done that was not chosen.

The changelog was deleted, or cut off beyond the store's offset, while the application was down.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    ChangelogLossError,
    Materialized,
    StreamsBuilder,
    TopicPartition,
    Topology,
    serdes,
)
from pystreams.config import ChangelogLossPolicy
from pystreams.errors import RetriableClientError, TransactionAbortableError
from pystreams.runtime.state.files.loss_decisions import read_decision, write_decision
from pystreams.runtime.tasks import changelog_rewrite as relogging
from tests.simulation.applications import CHANGELOG, Application, counting, running_tasks
from tests.simulation.state.damaging import OnDisk, flip_data, joined, read_everywhere
from tests.variants import first_of

pytestmark = pytest.mark.simulation

GUARANTEES = ("exactly_once_v2", "exactly_once", "at_least_once")
Loss = Callable[[OnDisk], None]


def counted(root: Path, guarantee: str = "exactly_once") -> OnDisk:
    """Return an application that has counted `a` twice and `b` once, and has stopped."""
    application = OnDisk(root, counting, guarantee)
    application.feed(["a", "a", "b"])
    application.run()
    return application


def away_while_others_count(root: Path) -> OnDisk:
    """Return one whose changelog was made again, and that others have written far meanwhile."""
    application = counted(root / "away")
    away = application.state
    delete_changelog(application)
    application.state = root / "meanwhile"
    application.new_process()
    application.feed(["a"] * 9)
    application.run()
    application.state = away
    return application


def delete_changelog(application: OnDisk) -> None:
    application.app.broker.delete_topic(CHANGELOG.topic)


def cut_off(application: OnDisk) -> None:
    """Somebody counted `c` five times after the store had stopped; only the fifth is left."""
    log = application.app.broker.log(CHANGELOG)
    counts = [(b"c", count.to_bytes(8, "big"), 0, ()) for count in range(1, 6)]
    application.app.broker.append(CHANGELOG.topic, 0, counts)
    log.delete_before(log.high_watermark - 1)


LOSSES = pytest.mark.parametrize("lose", [delete_changelog, cut_off])


def choose(application: OnDisk, policy: str) -> None:
    application.new_process(changelog_loss_policy=policy)


def in_the_changelog(application: OnDisk) -> dict[str, int]:
    values = application.app.broker.log(CHANGELOG).compacted()
    return {key.decode(): int.from_bytes(value, "big") for key, value in values.items()}


def last_counts(application: OnDisk) -> dict[str, int]:
    found = {}
    for key, value in application.results():
        found[(key or b"").decode()] = int.from_bytes(value or b"", "big")
    return found


@LOSSES
@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_by_default_the_application_stops_with_the_choices_at_every_start(
    tmp_path: Path, lose: Loss, guarantee: str
) -> None:
    application = counted(tmp_path, guarantee)
    lose(application)

    for _ in range(2):
        with pytest.raises(ChangelogLossError) as caught:
            application.run()

    message = str(caught.value)
    assert "task 0_0: it holds all up to offset 2 of app-counts-changelog-0, which" in message
    assert "was not touched" in message
    assert "pystreams recover TOPOLOGY --task 0_0 --store counts --choose keep" in message
    assert "changelog.loss.policy=keep, restore or empty" in message


@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
@pytest.mark.parametrize(
    ("policy", "lose", "expected"),
    [
        ("keep", delete_changelog, {"a": 3, "b": 1}),
        ("keep", cut_off, {"a": 3, "b": 1, "c": 5}),
        ("restore", delete_changelog, {"a": 1}),
        ("restore", cut_off, {"a": 1, "c": 5}),
        ("empty", delete_changelog, {"a": 1}),
        ("empty", cut_off, {"a": 1}),
    ],
)
def test_each_choice_makes_store_and_changelog_one_and_the_next_start_needs_none(
    tmp_path: Path, policy: str, lose: Loss, guarantee: str, expected: dict[str, int]
) -> None:
    application = counted(tmp_path / "first", guarantee)
    lose(application)
    choose(application, policy)
    application.feed(["a"])
    application.run()
    choose(application, "stop")
    application.run()

    assert in_the_changelog(application) == expected
    assert last_counts(application)["a"] == expected["a"]

    # Another host restores the same.
    application.state = tmp_path / "second"
    choose(application, "stop")
    application.feed(["a", "b", "c"])
    application.run()
    more = {key: expected.get(key, 0) + 1 for key in "abc"}
    assert in_the_changelog(application) == more


@pytest.mark.parametrize("topology", [read_everywhere, joined])
@pytest.mark.parametrize("guarantee", first_of("exactly_once_v2", "at_least_once"))
def test_stores_of_every_kind_that_are_kept_give_the_results_they_would_have_given(
    tmp_path: Path, topology: Callable[[], Topology], guarantee: str
) -> None:
    whole, bereft = (OnDisk(tmp_path / name, topology, guarantee) for name in ("whole", "bereft"))
    for application in (whole, bereft):
        application.feed()
        application.run()
    for changelog in map(bereft.process.plan.changelog_topic, bereft.stores()):
        bereft.app.broker.delete_topic(changelog)
    choose(bereft, "keep")
    for application in (whole, bereft):
        application.feed()
        application.run()
    # From here on a host without state, which has what was logged anew.
    for application in (whole, bereft):
        application.state = tmp_path / f"{application.state.parent.name}-elsewhere"
        application.new_process()
        application.feed()
        application.run()

    assert bereft.results() == whole.results()


@pytest.mark.parametrize("policy", ["keep", "empty"])
@pytest.mark.parametrize("call", ["send", "flush", "commit_transaction"])
def test_a_chunk_that_fails_is_written_again_with_all_that_came_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, policy: str
) -> None:
    monkeypatch.setattr(relogging, "_CHUNK_RECORDS", 1)
    application = counted(tmp_path)
    cut_off(application)
    choose(application, policy)
    faults = application.app.faults
    faults.fail_next(call, RetriableClientError("no answer"), after=1)
    faults.fail_next(call, TransactionAbortableError("aborted"))
    application.feed(["a"])
    application.run()

    expected = {"a": 3, "b": 1, "c": 5} if policy == "keep" else {"a": 1}
    assert in_the_changelog(application) == expected


@pytest.mark.parametrize("unanswered", [["flush"], ["flush", "abort_transaction"]])
def test_chunks_that_fail_take_nothing_from_a_task_that_shares_their_producer(
    tmp_path: Path, unanswered: list[str]
) -> None:
    app = Application(tmp_path, "exactly_once_v2", partitions=2, commit_interval_ms=2000)
    at = {app.broker.partition_for("in", key.encode()).partition: key for key in "abcdef"}
    process = app.process()
    process.start()
    app.feed(at[0], at[1])
    app.run_until_processed(process)
    process.stop()
    app.broker.settle()
    log = app.broker.log(TopicPartition(CHANGELOG.topic, 1))
    app.broker.append(CHANGELOG.topic, 1, [(b"x", bytes(8), 0, ())] * 5)
    log.delete_before(log.high_watermark - 1)

    process = app.process("p1", config={"changelog.loss.policy": "keep"}, disk=process.disk)
    process.start()
    for call in unanswered * 2:
        app.faults.fail_next(call, RetriableClientError("no answer"))
    while "0_0" not in running_tasks(process):
        process.step()
    for _ in range(30):
        app.feed(at[0])
        process.step()
    app.run_until_processed(process)
    app.broker.settle()

    assert not any(map(app.faults.forget_scripted, unanswered))
    assert [count for key, count in app.outputs() if key == at[0]] == list(range(1, 32))
    process.stop()


@pytest.mark.parametrize("policy", ["keep", "empty"])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_what_was_begun_is_finished_by_the_next_start_whatever_its_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, steps: int
) -> None:
    monkeypatch.setattr(relogging, "_CHUNK_RECORDS", 1)
    application = counted(tmp_path)
    cut_off(application)
    choose(application, policy)
    process = application.process
    process.start()
    decided = application.state / "0_0"
    while read_decision(decided, "counts") is None:
        process.step()
    for _ in range(steps):
        process.step()
    process.stop()
    choose(application, "stop")
    application.feed(["a"])
    application.run()

    expected = {"a": 3, "b": 1, "c": 5} if policy == "keep" else {"a": 1}
    assert in_the_changelog(application) == expected
    assert read_decision(decided, "counts") is None


def test_a_decision_about_one_store_counts_whatever_the_policy_and_once(tmp_path: Path) -> None:
    application = counted(tmp_path)
    delete_changelog(application)
    write_decision(application.state / "0_0", "counts", ChangelogLossPolicy.KEEP)
    application.feed(["a"])
    application.run()
    assert in_the_changelog(application) == {"a": 3, "b": 1}

    delete_changelog(application)
    with pytest.raises(ChangelogLossError):
        application.run()


def test_a_changelog_made_again_that_somebody_has_written_far_is_told_from_the_one_of_before(
    tmp_path: Path,
) -> None:
    """The store's offset lies within the new topic: only its id tells that it is another."""
    application = away_while_others_count(tmp_path)
    application.new_process()

    with pytest.raises(ChangelogLossError, match="its offset is of another topic of that name"):
        application.run()

    choose(application, "restore")
    application.feed(["a"])
    application.run()
    assert in_the_changelog(application) == {"a": 10}


def events(logs: list[Any], level: str) -> list[str]:
    return [line["event"] for line in logs if line["log_level"] == level]


def test_a_changelog_cut_off_whose_store_is_gone_as_well_is_told_as_loss(tmp_path: Path) -> None:
    application = counted(tmp_path / "first")
    cut_off(application)
    application.state = tmp_path / "second"
    application.new_process()
    application.feed(["a"])
    with capture_logs() as logs:
        application.run()

    (told,) = [line for line in logs if line["log_level"] == "error"]
    assert told["event"].startswith("state is lost: the changelog has lost its beginning")
    assert told["offsets_gone"] == application.app.broker.log(CHANGELOG).beginning > 0
    assert in_the_changelog(application) == {"a": 1, "c": 5}


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_store_whose_changelog_and_directory_were_deleted_together_starts_empty(
    tmp_path: Path, guarantee: str
) -> None:
    """As `pystreams check` advises for one that an earlier version has left."""
    application = counted(tmp_path, guarantee)
    delete_changelog(application)
    shutil.rmtree(application.directory("counts"))
    application.feed(["a"])
    with capture_logs() as logs:
        application.run()

    assert last_counts(application)["a"] == 1
    assert events(logs, "error") == []


@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_a_whole_store_whose_changelog_lost_what_the_store_holds_goes_on_and_says_so(
    tmp_path: Path, guarantee: str
) -> None:
    """Nobody wrote after it: nothing is missing in the store, all of it in the changelog."""
    application = counted(tmp_path, guarantee)
    log = application.app.broker.log(CHANGELOG)
    log.delete_before(log.high_watermark)
    application.feed(["a"])
    with capture_logs() as logs:
        application.run()

    assert any("is whole: log it anew" in event for event in events(logs, "warning"))
    assert last_counts(application) == {"a": 3, "b": 1}
    assert in_the_changelog(application) == {"a": 3}
    write_decision(application.state / "0_0", "counts", ChangelogLossPolicy.KEEP)
    application.run()
    assert in_the_changelog(application) == {"a": 3, "b": 1}


@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_a_loss_is_told_once_and_not_again_until_there_is_another(
    tmp_path: Path, guarantee: str
) -> None:
    application = counted(tmp_path, guarantee)
    log = application.app.broker.log(CHANGELOG)

    def told() -> bool:
        application.feed(["a"])
        with capture_logs() as logs:
            application.run()
        return any("changelog has lost its beginning" in line["event"] for line in logs)

    log.delete_before(log.high_watermark)
    assert [told(), told()] == [True, False]
    log.delete_before(log.high_watermark)
    assert [told(), told()] == [True, False]

    log.delete_before(log.high_watermark)
    write_decision(application.state / "0_0", "counts", ChangelogLossPolicy.KEEP)
    assert [told(), told()] == [False, False], "it was logged anew"
    log.delete_before(log.high_watermark)
    assert [told(), told()] == [True, False], "what was logged anew is gone as well"


def test_a_store_that_is_lost_after_its_changelog_s_beginning_was_is_told_as_well(
    tmp_path: Path,
) -> None:
    application = counted(tmp_path)
    log = application.app.broker.log(CHANGELOG)
    log.delete_before(log.high_watermark)
    application.run()
    shutil.rmtree(application.state / "0_0" / "rocksdb" / "counts")
    with capture_logs() as logs:
        application.run()
    (told,) = events(logs, "error")
    assert told.startswith("state is lost")


def test_a_loss_without_a_store_is_told_once(tmp_path: Path) -> None:
    application = counted(tmp_path / "first")
    cut_off(application)
    application.state = tmp_path / "second"
    application.new_process()
    with capture_logs() as first:
        application.run()
    with capture_logs() as second:
        application.run()
    assert len(events(first, "error")) == 1
    assert events(second, "warning") == events(second, "error") == []


def test_compaction_and_tombstones_are_no_loss(tmp_path: Path) -> None:
    application = counted(tmp_path)
    application.app.broker.compact(CHANGELOG.topic)
    application.feed(["a"])
    with capture_logs() as logs:
        application.run()

    assert events(logs, "warning") == events(logs, "error") == []
    assert last_counts(application) == {"a": 3, "b": 1}


def _go_on_elsewhere(application: OnDisk, state: Path, store: str) -> None:
    """Run on another disk until a store's changelog has lost its beginning."""
    application.state = state
    application.new_process()
    for _ in range(3):
        application.feed()
        application.run()
    changelog = application.process.plan.changelog_topic(store)
    log = application.app.broker.log(TopicPartition(changelog, 0))
    log.delete_before(log.high_watermark - 5)


@pytest.mark.parametrize("store", ["window", "session", "duplicates", "timestamped-window"])
def test_windows_whose_changelog_has_moved_on_are_restored_as_ever(
    tmp_path: Path, store: str
) -> None:
    """A host that comes back after long: what is gone there has expired."""
    application = OnDisk(tmp_path / "away", read_everywhere)
    application.feed()
    application.run()
    away = application.state
    _go_on_elsewhere(application, tmp_path / "meanwhile", store)
    application.state = away
    application.new_process()
    application.feed()
    with capture_logs() as logs:
        application.run()

    rebuilt = [line for line in logs if line["event"].startswith("state store is rebuilt")]
    assert [line["store"] for line in rebuilt] == [store]
    assert events(logs, "error") == []


@pytest.mark.parametrize("store", first_of("window", "session"))
def test_a_changelog_of_windows_made_again_and_cut_off_since_is_told_from_one_that_has_moved_on(
    tmp_path: Path, store: str
) -> None:
    """The store's offset lies before the new topic's beginning: only its id tells the two apart."""
    application = OnDisk(tmp_path / "away", read_everywhere)
    application.feed()
    application.run()
    away = application.state
    changelog = application.process.plan.changelog_topic(store)
    application.app.broker.delete_topic(changelog)
    _go_on_elsewhere(application, tmp_path / "meanwhile", store)
    application.state = away
    application.new_process()

    with pytest.raises(ChangelogLossError, match="its offset is of another topic of that name"):
        application.run()

    choose(application, "restore")
    with capture_logs() as logs:
        application.run()
    rebuilt = [line for line in logs if line["event"].startswith("state store is rebuilt")]
    assert store in {line["store"] for line in rebuilt}


@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_windows_that_nobody_wrote_to_since_their_changelog_ran_empty_are_kept(
    tmp_path: Path, guarantee: str
) -> None:
    """Retention goes by the clock of the brokers, windows expire by the time of records."""
    application = OnDisk(tmp_path, read_everywhere, guarantee)
    application.feed()
    application.run()
    log = application.app.broker.log(TopicPartition("app-window-changelog", 0))
    log.delete_before(log.high_watermark)
    with capture_logs() as logs:
        application.run()

    assert events(logs, "warning") == []


@pytest.mark.parametrize("cure", ["restore", "empty"])
def test_a_damaged_store_that_was_to_be_kept_stops_until_it_is_decided_anew(
    tmp_path: Path, cure: str
) -> None:
    application = counted(tmp_path)
    delete_changelog(application)
    flip_data(application.directory("counts"))
    choose(application, "keep")
    for _ in range(2):
        with pytest.raises(ChangelogLossError) as caught:
            application.run()
        choose(application, "stop")

    message = str(caught.value)
    assert "it was to be kept, and can't be logged anew to app-counts-changelog-0" in message
    assert "--task 0_0 --store counts --choose restore --execute" in message
    write_decision(application.state / "0_0", "counts", ChangelogLossPolicy(cure))
    application.feed(["a"])
    application.run()
    assert in_the_changelog(application) == {"a": 1}


def joined_with_versions() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    table = stream.filter(lambda _, value: value != "ask").to_table(
        materialized=Materialized(name="versions", history_retention_ms=600_000)
    )
    asked = stream.filter(lambda _, value: value == "ask")
    asked.join(table, lambda _, found: found).to("out", value_serde=serdes.STRING)
    return builder.build()


@pytest.mark.parametrize("moves", [False, True])
def test_a_versioned_store_that_was_emptied_is_the_same_here_and_on_another_host(
    tmp_path: Path, moves: bool
) -> None:
    application = OnDisk(tmp_path / "first", joined_with_versions, "exactly_once_v2")
    produce = application.app.broker.produce
    produce("in", b"k", b"old", 2000)
    application.run()
    write_decision(application.state / "0_0", "versions", ChangelogLossPolicy.EMPTY)
    application.new_process()
    application.run()
    if moves:
        application.state = tmp_path / "second"
    application.new_process()
    produce("in", b"k", b"older than the tombstone", 1500)
    produce("in", b"k", b"ask", 3000)
    application.run()

    assert application.results() == []
