"""Brokers before Kafka 2.8 give topics no ids: what else tells a changelog from another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams import ChangelogLossError
from pystreams.errors import TransactionAbortableError
from pystreams.runtime.state.files import known_changelogs
from pystreams.stores.contracts.state_store import digest_of
from pystreams.stores.engines.rocksdb import RocksDBEngine
from pystreams.stores.files.metadata import CHANGELOG_ID
from pystreams.testing.simulation import SimulatedBroker
from tests.simulation.applications import CHANGELOG, counting
from tests.simulation.state.damaging import Damage, OnDisk, flip_data, flip_manifest
from tests.simulation.state.recovering import recovered
from tests.simulation.state.test_damaged_last_copies import again, counted_through, refused
from tests.simulation.state.test_global_tables import Lookups, follow, looking_up, table_of
from tests.simulation.state.test_last_copies_of_custom_stores import (
    killed,
    made_again,
    remembering,
    stopped,
)
from tests.simulation.state.test_lost_changelogs import (
    away_while_others_count,
    choose,
    counted,
    delete_changelog,
    in_the_changelog,
)

pytestmark = pytest.mark.simulation

NO_ID = "A" * 22
MADE_AGAIN = "the topic was deleted and created again"


def without_ids(broker: SimulatedBroker) -> dict[str, str]:
    return dict.fromkeys(broker.partition_counts(), NO_ID)


@pytest.fixture(autouse=True)
def _old_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedBroker, "topic_ids", without_ids)


@pytest.mark.parametrize("damage", [flip_manifest, flip_data])
@pytest.mark.parametrize("policy", ["restore", "empty"])
def test_a_damaged_store_is_not_wiped_when_its_changelog_was_made_again(
    tmp_path: Path, damage: Damage, policy: str
) -> None:
    application = counted(tmp_path)
    delete_changelog(application)
    damage(application.directory("counts"))
    for _ in range(2):
        assert MADE_AGAIN in refused(application)

    choose(application, policy)
    application.feed(["a"])
    application.run()
    assert in_the_changelog(application) == {"a": 1}
    choose(application, "stop")
    flip_manifest(application.directory("counts"))
    application.feed(["a"])
    application.run()
    assert in_the_changelog(application) == {"a": 2}


@pytest.mark.parametrize("exists", [True, False])
def test_recover_shows_it_as_a_last_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    application = counted(tmp_path)
    delete_changelog(application)
    if exists:
        application.app.broker.create_topic(CHANGELOG.topic, 1)
    flip_manifest(application.directory("counts"))

    assert "LAST COPY" in recovered(application, monkeypatch, counting)


@pytest.mark.parametrize("restarts", [True, False])
def test_a_damaged_store_is_not_wiped_when_others_have_written_less_to_its_new_changelog(
    tmp_path: Path, restarts: bool
) -> None:
    application = OnDisk(tmp_path / "first", counting)
    application.process.start()
    for _ in range(40):
        application.feed(["a"])
        application.app.run_until_processed(application.process)
    application.run()
    if restarts:
        application.new_process()
        application.run()
    away = application.state
    delete_changelog(application)
    application.state = tmp_path / "meanwhile"
    application.new_process()
    application.feed(["a"] * 10)
    application.run()
    application.state = away
    flip_manifest(application.directory("counts"))

    assert MADE_AGAIN in refused(application)


def test_a_damaged_store_is_rebuilt_from_a_changelog_that_goes_as_far_as_its_own(
    tmp_path: Path,
) -> None:
    """It is another one here, which nothing tells."""
    application = away_while_others_count(tmp_path)
    flip_manifest(application.directory("counts"))
    application.new_process()
    application.feed(["a"])
    application.run()

    assert in_the_changelog(application) == {"a": 10}


def test_a_whole_store_is_not_wiped_either(tmp_path: Path) -> None:
    application = counted(tmp_path)
    delete_changelog(application)

    assert MADE_AGAIN in refused(application)


@pytest.mark.parametrize("damage", [flip_data, flip_manifest])
def test_a_damaged_store_whose_changelog_is_whole_is_rebuilt_without_a_question(
    tmp_path: Path, damage: Damage
) -> None:
    application = counted(tmp_path)
    damage(application.directory("counts"))
    application.feed(["a"])
    application.run()

    assert in_the_changelog(application) == {"a": 3, "b": 1}


def test_a_damaged_store_that_never_held_anything_is_rebuilt_without_a_question(
    tmp_path: Path,
) -> None:
    application = OnDisk(tmp_path, counting)
    application.run()
    flip_manifest(application.directory("counts"))
    application.feed(["a"])
    application.run()

    assert in_the_changelog(application) == {"a": 1}


def test_a_store_that_writes_through_and_was_killed_is_not_wiped_when_its_changelog_was_made_again(
    tmp_path: Path,
) -> None:
    app, process = counted_through(tmp_path)
    process.crash()
    app.broker.delete_topic(CHANGELOG.topic)

    with pytest.raises(ChangelogLossError, match=MADE_AGAIN):
        again(app, process)


def test_a_rollback_does_not_wipe_a_store_whose_changelog_was_made_again_meanwhile(
    tmp_path: Path,
) -> None:
    app, process = counted_through(tmp_path)
    app.feed(*"aaaaaaaa")
    app.run_until_processed(process)
    app.feed("a")
    app.broker.delete_topic(CHANGELOG.topic)
    app.broker.create_topic(CHANGELOG.topic, 1)
    app.faults.fail_next("commit_transaction", TransactionAbortableError("aborted"))

    with pytest.raises(ChangelogLossError, match=MADE_AGAIN):
        app.run_until_processed(process)


def test_a_store_of_a_users_own_that_was_killed_is_not_wiped_when_its_changelog_was_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    application = killed(tmp_path)
    made_again(application)

    assert "LAST COPY" in recovered(application, monkeypatch, remembering)
    assert "it is not to be trusted" in stopped(application)


@pytest.mark.parametrize("dies", [True, False])
def test_a_store_of_a_users_own_that_never_held_anything_is_no_loss(
    tmp_path: Path, dies: bool
) -> None:
    application = OnDisk(tmp_path, remembering, "exactly_once_v2")
    application.process.start()
    application.app.run_until_processed(application.process)
    (application.process.crash if dies else application.process.stop)()
    application.new_process()
    application.feed(["a"])
    application.run()


def test_global_tables_go_on_while_brokers_begin_to_give_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a cluster begin one after the other: who is asked may not know them yet."""
    app = Lookups(tmp_path, metadata_max_age_ms=1000)
    app.people(a="Ava")
    process = app.process(topology=looking_up())
    process.start()
    follow(process)
    monkeypatch.undo()
    follow(process)
    monkeypatch.setattr(SimulatedBroker, "topic_ids", without_ids)
    follow(process)
    app.people(b="Bo")
    follow(process)

    assert table_of(process) == {"a": "Ava", "b": "Bo"}
    process.stop()


def test_brokers_that_begin_to_give_ids_make_no_topic_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions took what old brokers say for an id, and wrote it down."""
    application = counted(tmp_path)
    noted = digest_of(NO_ID)
    file = application.state / "0_0" / known_changelogs.FILE
    file.write_text(f"{noted.hex()} counts\n", encoding="utf-8")
    engine = RocksDBEngine("counts", timestamped=True)
    engine.open(application.directory("counts"))
    engine.write({}, {CHANGELOG_ID: noted})
    engine.close()
    monkeypatch.undo()
    choose(application, "stop")
    application.run()
    file.write_text(f"{noted.hex()} counts\n", encoding="utf-8")
    flip_manifest(application.directory("counts"))
    application.feed(["a"])
    application.run()

    assert in_the_changelog(application) == {"a": 3, "b": 1}
