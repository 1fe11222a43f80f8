"""Stores of a user's own in a backfill: those that can be handed over, and those that can't."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from pystreams import (
    Processor,
    ProcessorContext,
    Record,
    StateStoreContext,
    Stores,
    StreamsBuilder,
    Topology,
    TopologyError,
)
from pystreams.backfill import ArchiveSource, run
from pystreams.backfill.plan.refused_topologies import refuse_stores
from pystreams.cli.commands.history.backfill import backfill
from pystreams.record import ProducedRecord
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill import in_process
from tests.backfill.live import live_run, outcome_of
from tests.backfill.sources.covered import CONFIG, TEXT, made_up
from tests.every_store import everywhere
from tests.stores.custom import CustomStore, OffsetKeepingStore, SqliteStore


class DumpedStore(OffsetKeepingStore):
    """Keeps the time of each change beside it, and gives what it holds as changelog records."""

    def init(self, context: StateStoreContext) -> None:
        super().init(context)
        self._sql("create table if not exists times (k blob primary key, t int)")

    def changelog_records(self) -> Iterator[ProducedRecord]:
        found = self._sql("select k, v, t from entries natural join times order by k")
        for key, value, time in found.fetchall():
            yield bytes(key), bytes(value), time, ()

    def put(self, key: str, value: str | None) -> None:
        super().put(key, value)
        time = self._context.record.timestamp
        self._sql("insert or replace into times values (?, ?)", key.encode(), time)


@dataclass(frozen=True)
class UnloggedStore(CustomStore):
    """A store without a changelog."""

    @property
    def logging(self) -> bool:
        return False


class Last(Processor[str, str, str, str]):
    """Remembers the last value of each key, and forgets those that are deleted."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context
        self._store: SqliteStore = context.get_state_store("last")

    def process(self, record: Record[str, str]) -> None:
        before = self._store.get(record.key)
        self._store.put(record.key, record.value)
        self._context.forward(record.with_value(f"{before}, {record.value}"))


def remembering(store: CustomStore) -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(store)
    remembered = builder.stream("left", **TEXT).process(Last, stores=["last"])
    remembered.to("out", **TEXT)
    return builder.build()


def refuse(topology: Topology) -> None:
    refuse_stores(TopologyPlan(topology, "app"))


def test_store_that_can_be_dumped_is_handed_over_as_a_live_run_left_it(tmp_path: Path) -> None:
    topology = remembering(CustomStore("last", DumpedStore))
    rows = made_up("left", 1, 600, num_partitions=1)
    refuse(topology)

    results = in_process.run(topology, CONFIG, rows, {"left": 1}, tmp_path / "backfill")
    live = live_run(topology, CONFIG, rows, tmp_path / "live")

    found = outcome_of(results)
    assert found == live
    assert 10 < len(found.states["last"]) <= 40, "a record a key"


def test_store_that_can_t_be_dumped_is_refused_with_its_class_and_what_to_write() -> None:
    told = r"store 'last'.*class SqliteStore.*write changelog_records\(\).*`logging` False.*live"
    with pytest.raises(TopologyError, match=told):
        refuse(remembering(CustomStore("last")))


def test_store_without_a_changelog_needs_no_dump() -> None:
    refuse(remembering(UnloggedStore("last")))


def test_our_own_stores_all_pass() -> None:
    refuse(everywhere("left", "counts"))

    supplier = Stores.in_memory_key_value_store("last")
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(supplier))
    builder.stream("left", **TEXT).process(Last, stores=["last"])
    refuse(builder.build())


def test_backfill_is_refused_before_spark_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)

    with pytest.raises(TopologyError, match="store 'last'"):
        run(
            remembering(CustomStore("last")),
            CONFIG,
            source=ArchiveSource("x"),
            output=tmp_path / "staged",
        )
    assert not (tmp_path / "staged").exists()


FILE = """
from tests.backfill.staging.test_store_checks import CustomStore, remembering

config = {"application.id": "app"}
topology = remembering(CustomStore("last"))
"""


@pytest.mark.parametrize("options", [["--dry-run"], ["--no-publish", "--output", "staged"]])
def test_command_refuses_it_too_whether_it_runs_or_only_plans(
    options: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    file = tmp_path / "remembering.py"
    file.write_text(FILE)
    monkeypatch.chdir(tmp_path)
    # Nothing is read of the archive: it is nowhere.
    given = [str(file), "--from", "parquet:nowhere", *options]
    result = CliRunner().invoke(backfill, given)

    assert (result.exit_code, "store 'last'" in result.output) == (2, True), result.output
