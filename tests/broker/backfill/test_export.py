"""`pystreams export`: a store of every kind as Parquet, while its application runs and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient
from pyarrow import parquet

from pystreams.broker import DevelopmentBroker
from pystreams.cli.commands.history.export import export
from pystreams.kernel.partitioner import partition_of
from tests.backfill.logged_stores import KEYS
from tests.broker.backfill import every_store_app
from tests.broker.backfill.every_store_arena import EveryStoreArena
from tests.broker.reading import committed_offsets
from tests.broker.transactions import TransactionalWriter
from tests.every_store import BUILDERS

PARTITIONS = 2
ROUNDS = 6

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def arena(
    broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path
) -> EveryStoreArena:
    return EveryStoreArena.make(broker, admin, unique_name, tmp_path, PARTITIONS)


def rows(exported: Path, store: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = parquet.read_table(exported / store).to_pylist()
    return found


def write_uncommitted(arena: EveryStoreArena, application_id: str) -> TransactionalWriter:
    """Leave a transaction open in a changelog, as an application does that is in the middle."""
    writer = TransactionalWriter(arena.servers, f"{application_id}-open")
    writer.begin()
    writer.write(f"{application_id}-plain-changelog", b"\0" * 8, b"uncommitted", 0)
    writer.flush()
    return writer


def test_stores_of_every_kind_are_exported(
    spark: Any, arena: EveryStoreArena, admin: AdminClient, tmp_path: Path
) -> None:
    application_id = f"{arena.name}-app"
    arena.feed(1, ROUNDS, PARTITIONS)
    with arena.application(application_id) as application:
        running = application.start()
        arena.wait_for_rounds(ROUNDS, running)
        arena.stop(application_id, running)
    open_transaction = write_uncommitted(arena, application_id)
    exported = tmp_path / "exported"

    told = arena.told_by("export", application_id, "--output", str(exported))
    open_transaction.abort()

    assert "Source offsets are exact for 1 of 2 tasks" in told
    manifest = json.loads((exported / "manifest.json").read_text())
    assert manifest["stores"].keys() == BUILDERS.keys()
    offsets = committed_offsets(admin, application_id)
    for number in range(PARTITIONS):
        task = manifest["tasks"][f"0_{number}"]
        assert task["source_offsets"] == {
            f"{arena.name}-in-{number}": offsets[f"{arena.name}-in", number]
        }
        assert task["exact"] == (number == 1)
    plain = {row["key"]: (row["partition"], row["value"]) for row in rows(exported, "plain")}
    assert plain == {key: (partition_of(key.encode(), PARTITIONS), ROUNDS) for key in KEYS}
    for store in ("timestamped", "session"):
        assert {row["key"]: row["value"] for row in rows(exported, store)} == dict.fromkeys(
            KEYS, ROUNDS
        )
    for store, times in (("window", 1), ("timestamped-window", 1), ("duplicates", 2)):
        assert len(rows(exported, store)) == times * len(KEYS) * ROUNDS
    versions = [row["value"] for row in rows(exported, "versioned") if row["key"] == KEYS[0]]
    assert sorted(versions) == [1, 2, 3, 5, 6]
    for store, has in manifest["stores"].items():
        assert has["rows"] == len(rows(exported, store))

    again = arena.told_by("export", application_id, "--output", str(exported), code=1)
    assert "holds a finished export" in again


@pytest.mark.sweep
def test_running_application_is_exported_and_an_unfinished_export_begins_anew(
    spark: Any, arena: EveryStoreArena, tmp_path: Path
) -> None:
    application_id = f"{arena.name}-app"
    exported = tmp_path / "exported"
    (exported / "plain").mkdir(parents=True)
    (exported / "plain" / "part-of-a-killed-one.parquet").write_text("torn")
    (exported / "unfinished.json").write_text(json.dumps({"stores": ["plain"]}))
    arena.feed(1, ROUNDS, PARTITIONS)
    with arena.application(application_id) as application:
        running = application.start()
        arena.wait_for_rounds(ROUNDS, running)
        options = ("--output", str(exported), "--store", "plain", "--store", "session")
        arena.told_by("export", application_id, *options)
        arena.stop(application_id, running)

    assert {file.name for file in exported.iterdir()} == {"plain", "session", "manifest.json"}
    assert {row["key"]: row["value"] for row in rows(exported, "plain")} == dict.fromkeys(
        KEYS, ROUNDS
    )


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (("--store", "nowhere"), 2, "no store 'nowhere'"),
        ((), 1, "has never run with this topology"),
    ],
)
def test_wrong_names_are_told_before_spark_starts(
    arena: EveryStoreArena,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    code: int,
    told: str,
) -> None:
    exported = tmp_path / "exported"
    monkeypatch.setenv("EVERY_NAME", arena.name)
    arguments = [str(every_store_app.__file__), "-c", f"bootstrap.servers={arena.servers}"]
    arguments += ["-c", "application.id=never-run", "--output", str(exported), *options]

    done = CliRunner().invoke(export, arguments)

    assert done.exit_code == code, done.output
    assert told in done.output
    assert not exported.exists()
