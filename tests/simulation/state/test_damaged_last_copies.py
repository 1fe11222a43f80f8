"""A store that is damaged is not wiped where its changelog can't be shown to hold all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams import ChangelogLossError
from pystreams.config import ChangelogLossPolicy, StreamsConfig
from pystreams.runtime.maintenance import changelog_recovery
from pystreams.runtime.state.loss_decisions import write_decision
from tests.simulation.applications import counting
from tests.simulation.state.damaging import Damage, OnDisk, delete_data, flip_data, flip_manifest
from tests.simulation.state.test_lost_changelogs import (
    Loss,
    choose,
    counted,
    cut_off,
    delete_changelog,
    in_the_changelog,
)
from tests.variants import first_of

pytestmark = pytest.mark.simulation


def forget_the_topic(application: OnDisk) -> None:
    """As in a state directory of an earlier version."""
    (application.state / "0_0" / ".changelog_counts").unlink()


@pytest.mark.parametrize("lose", [delete_changelog, cut_off])
@pytest.mark.parametrize("damage", [flip_manifest, delete_data])
@pytest.mark.parametrize("cure", first_of("restore", "empty"))
def test_a_store_that_can_t_be_opened_is_not_wiped_when_its_changelog_is_gone_as_well(
    tmp_path: Path, damage: Damage, lose: Loss, cure: str
) -> None:
    application = counted(tmp_path)
    lose(application)
    damage(application.directory("counts"))
    files = sorted(application.directory("counts").glob("*.sst"))
    for policy in ("stop", "keep", "stop"):
        choose(application, policy)
        with pytest.raises(ChangelogLossError) as caught:
            application.run()

    message = str(caught.value)
    assert "its files are damaged, and app-counts-changelog-0 can't be shown to hold all" in message
    assert "--task 0_0 --store counts --choose restore --execute" in message
    assert set(files) <= set(application.directory("counts").glob("*.sst"))
    write_decision(application.state / "0_0", "counts", ChangelogLossPolicy(cure))
    application.feed(["a"])
    application.run()
    left = {"c": 5} if lose is cut_off and cure == "restore" else {}
    assert in_the_changelog(application) == {"a": 1} | left


def test_a_damaged_store_whose_changelog_others_have_written_anew_is_not_wiped(
    tmp_path: Path,
) -> None:
    application = counted(tmp_path / "away")
    away = application.state
    delete_changelog(application)
    application.state = tmp_path / "meanwhile"
    application.new_process()
    application.feed(["a"] * 9)
    application.run()
    application.state = away
    flip_manifest(application.directory("counts"))
    application.new_process()

    with pytest.raises(ChangelogLossError, match="its offset is of another topic of that name"):
        application.run()


def test_a_damaged_store_of_an_earlier_version_is_not_wiped_when_its_changelog_is_empty(
    tmp_path: Path,
) -> None:
    application = counted(tmp_path)
    forget_the_topic(application)
    delete_changelog(application)
    flip_manifest(application.directory("counts"))

    with pytest.raises(ChangelogLossError, match="may be another topic than the one of before"):
        application.run()


@pytest.mark.parametrize("damage", [flip_data, flip_manifest])
def test_a_damaged_store_whose_changelog_is_whole_is_rebuilt_and_needs_no_decision(
    tmp_path: Path, damage: Damage
) -> None:
    application = counted(tmp_path)
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


@pytest.mark.parametrize("lose", [None, delete_changelog, cut_off])
def test_recover_shows_a_damaged_store_as_last_copy_where_its_changelog_lacks_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lose: Loss | None
) -> None:
    application = counted(tmp_path)
    flip_manifest(application.directory("counts"))
    if lose is not None:
        lose(application)
    (tmp_path / "app").symlink_to(application.state)
    clients = application.new_process().clients
    monkeypatch.setattr(changelog_recovery, "ConfluentClients", lambda _: clients)
    config = StreamsConfig.of(
        {
            "application.id": "app",
            "bootstrap.servers": "none:9092",
            "state.dir": str(tmp_path),
            "processing.guarantee": "exactly_once_v2",
        }
    )
    recovery = changelog_recovery.Recovery(counting(), config)
    (finding,) = recovery.find()

    assert finding.last_copy == (lose is not None)
    assert "its files are damaged" in (finding.trouble or "")
    if lose is not None:
        recovery.decide([finding], ChangelogLossPolicy.RESTORE)
        application.new_process()
        application.feed(["a"])
        application.run()
        assert in_the_changelog(application)["a"] == 1
