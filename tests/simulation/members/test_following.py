"""A changelog is followed without an end: its store stays warm until it is to take over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pystreams import ChangelogLossError, StateStoreCorruptedError, TaskId
from pystreams.testing.simulation import NO_FAULTS
from tests.simulation.applications import CHANGELOG, Application, running_tasks, stored_counts
from tests.simulation.members.following import TASK, Follower

if TYPE_CHECKING:
    from pathlib import Path

    from pystreams.testing.simulation import SimulatedProcess

pytestmark = pytest.mark.simulation

ALL = ["at_least_once", "exactly_once", "exactly_once_v2"]


def keys(count: int) -> list[str]:
    return [f"key-{number}" for number in range(count)]


def process(app: Application, owner: SimulatedProcess, *records: str) -> None:
    """Let records be counted, and what that commits be decided."""
    app.feed(*records)
    app.run_until_processed(owner)
    app.broker.settle()


@pytest.mark.parametrize("guarantee", ALL)
def test_a_followed_store_holds_what_its_owner_has_committed_from_one_commit_to_the_next(
    guarantee: str, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    owner, other = app.process("p0"), app.process("p1")
    owner.start()
    follower = Follower(app, other)
    for _ in range(5):
        process(app, owner, "a", "b", "a")
        follower.catch_up()

        assert stored_counts(other) == stored_counts(owner) != {}
    assert follower.applied_records() == 15, "each record once"


@pytest.mark.parametrize("committed", [False, True])
def test_a_followed_store_does_not_hold_what_is_not_decided(
    committed: bool, tmp_path: Path
) -> None:
    app = Application(tmp_path)
    owner, other = app.process("p0"), app.process("p1")
    owner.start()
    follower = Follower(app, other)
    process(app, owner, "a")
    log = app.broker.log(CHANGELOG)
    log.append([(b"open", b"x" * 8 + b"\0" * 8, 0, ())], transaction=999)
    for _ in range(20):
        follower.poll()
    before = stored_counts(other)
    behind = follower.restorer.lags()
    log.write_marker(999, committed=committed)
    follower.catch_up()

    assert before == {"a": 1}
    assert behind == {CHANGELOG: 1}
    assert set(stored_counts(other)) == ({"a", "open"} if committed else {"a"})


@pytest.mark.parametrize("guarantee", ALL)
@pytest.mark.parametrize("seed", range(4))
def test_who_takes_over_a_followed_store_restores_only_the_rest(
    guarantee: str, seed: int, tmp_path: Path
) -> None:
    app = Application(tmp_path, guarantee)
    app.faults.random.seed(seed)
    app.faults.rates = replace(NO_FAULTS, short_poll=0.5, empty_poll=0.3)
    owner, other = app.process("p0"), app.process("p1")
    owner.start()
    follower = Follower(app, other)
    for key in keys(40):
        app.feed(key, "all")
        app.run_until_processed(owner)
        follower.poll()
    app.broker.settle()
    follower.catch_up()
    warm = follower.applied_records()
    follower.stop()
    app.feed("late", "all")
    app.run_until_processed(owner)
    owner.crash()
    app.clock.advance_ms(6000)
    other.start()
    app.feed("all")
    app.run_until_processed(other)
    other.stop()

    assert warm == 80
    assert other.restored_records() == 2
    assert stored_counts(other) == {**dict.fromkeys(keys(40), 1), "late": 1, "all": 42}
    assert app.outputs()[-1] == ("all", 42)


def test_a_followed_store_is_promoted_by_a_restore_that_ends(tmp_path: Path) -> None:
    app = Application(tmp_path)
    owner, other = app.process("p0"), app.process("p1")
    owner.start()
    follower = Follower(app, other)
    process(app, owner, *keys(30))
    follower.catch_up()
    process(app, owner, "late")
    followed = follower.applied_records()
    follower.restorer.expect([follower.state])
    at_end = follower.restorer.begin(follower.state)
    finished = []
    while follower.restorer.active:
        finished += follower.poll()
    process(app, owner, "of the next owner")
    for _ in range(20):
        finished += follower.poll()

    assert not at_end
    assert finished == [TASK]
    assert follower.applied_records() == followed + 1
    assert stored_counts(other) == dict.fromkeys([*keys(30), "late"], 1), "and nothing follows"


def test_a_promotion_waits_for_the_transaction_that_the_owner_has_left(tmp_path: Path) -> None:
    app = Application(tmp_path)
    owner, other = app.process("p0"), app.process("p1")
    owner.start()
    follower = Follower(app, other)
    process(app, owner, "a")
    follower.catch_up()
    log = app.broker.log(CHANGELOG)
    log.append([(b"open", b"x" * 8 + b"\0" * 8, 0, ())], transaction=999)
    follower.restorer.expect([follower.state])
    assert not follower.restorer.begin(follower.state)
    waiting = [follower.poll() for _ in range(20)]
    log.write_marker(999, committed=False)
    finished = [task for _ in range(20) for task in follower.poll()]

    assert not any(waiting)
    assert finished == [TASK]
    assert stored_counts(other) == {"a": 1}


def test_what_is_followed_waits_for_what_is_restored(tmp_path: Path) -> None:
    app = Application(tmp_path, partitions=2)
    owner, other, third = (app.process(name) for name in ("p0", "p1", "p2"))
    owner.start()
    process(app, owner, *keys(40))
    app.faults.rates = replace(NO_FAULTS, short_poll=1)
    follower, restored = Follower(app, other), Follower(app, third, TaskId(0, 1))
    restored.restorer.forget(restored.state)
    follower.restorer.expect([restored.state])
    assert not follower.restorer.begin(restored.state)
    while follower.restorer.active:
        assert follower.applied_records() == 0
        follower.poll()
    assert restored.applied_records() > 0
    follower.catch_up()

    assert restored.applied_records() + follower.applied_records() == 40


def test_a_store_that_was_followed_to_the_end_is_not_wiped_when_its_changelog_is_cut_off(
    tmp_path: Path,
) -> None:
    app = Application(tmp_path)
    owner, other = app.process("p0"), app.process("p1")
    owner.start()
    follower = Follower(app, other)
    process(app, owner, "a", "b")
    follower.catch_up()
    process(app, owner, "c", "c")
    log = app.broker.log(CHANGELOG)
    log.delete_before(log.high_watermark)
    with pytest.raises(ChangelogLossError, match="last copy"):
        follower.poll()

    assert stored_counts(other) == {"a": 1, "b": 1}
    assert running_tasks(owner) == [str(TASK)]


def test_a_followed_store_that_is_damaged_is_rebuilt_from_what_its_changelog_has(
    tmp_path: Path,
) -> None:
    """Even if that is cut off meanwhile: a store half rebuilt is not the last copy of anything."""
    app = Application(tmp_path)
    owner, other = app.process("p0"), app.process("p1")
    owner.start()
    follower = Follower(app, other)
    process(app, owner, *keys(30))
    follower.catch_up()
    process(app, owner, "late")
    app.faults.fail_next("write", StateStoreCorruptedError("counts", "a checksum is wrong"))
    app.faults.rates = replace(NO_FAULTS, short_poll=1)
    follower.poll()
    follower.poll()
    assert 0 < len(stored_counts(other)) < 30
    app.broker.log(CHANGELOG).delete_before(20)
    follower.catch_up()

    assert stored_counts(other) == dict.fromkeys([*keys(30)[20:], "late"], 1)
