"""An export read back restores what it was made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from pystreams import Materialized, Processor, Stores, StreamsBuilder, StreamsConfig, Topology
from pystreams.backfill.exports.columns import exported
from pystreams.backfill.exports.manifest import ExportError
from pystreams.backfill.exports.reading import is_export, read_export
from pystreams.backfill.plan.store_changelogs import changelogs_of
from pystreams.backfill.spark.changelog_state import current_state
from pystreams.ids import TopicPartition
from pystreams.serdes import LONG, STRING
from pystreams.stores.kinds.window.keys import window_key
from pystreams.testing import TopologyTestDriver
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.exports.test_export_of_windows import windows
from tests.backfill.logged_stores import frame
from tests.backfill.sources.covered import CONFIG, LEFT, TEXT
from tests.stores.support import Message

APPLICATION = StreamsConfig.of({**CONFIG, "application.id": "app", "bootstrap.servers": "none:1"})


def counts() -> Topology:
    builder = StreamsBuilder()
    builder.stream("left", **TEXT).group_by_key().count(name="counts")
    return builder.build()


def versions() -> Topology:
    builder = StreamsBuilder()
    history = Materialized(name="versions", history_retention_ms=1_000_000)
    builder.table("left", materialized=history, **TEXT)
    return builder.build()


def dumped(driver: TopologyTestDriver, store: str) -> list[tuple[Any, ...]]:
    return sorted(driver.get_all_state_stores()[store].changelog_records(), key=repr)


def written_by_hand(directory: Path, **columns: Any) -> Path:
    (directory / "counts").mkdir()
    parquet.write_table(pa.table(columns), directory / "counts" / "part.parquet")
    return directory


def manifest(directory: Path, application: str = "app", *, exact: bool = True) -> None:
    tasks = {"0_0": {"source_offsets": {"left-side-0": 30}, "exact": exact}}
    content = {"application_id": application, "tasks": tasks}
    (directory / "manifest.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("topology", "store"),
    [
        (counts, "counts"),
        *((windows, f"{kind}") for kind in ("tumbling", "final-sliding", "final-sessions")),
    ],
)
def test_what_an_export_holds_restores_the_store(
    topology: Any, store: str, spark: Any, tmp_path: Path
) -> None:
    plan, topic = TopologyPlan(topology(), "app"), f"app-{store}-changelog"
    (changelog,) = changelogs_of(plan, {topic: 1}, [store])
    with TopologyTestDriver(topology(), APPLICATION) as driver:
        for row in LEFT[:200]:
            driver.pipe_raw("left", row.key, row.value, row.timestamp)
        logged = [
            Message(key, value, offset, timestamp)
            for offset, (key, value, timestamp, _) in enumerate(driver.produced_raw(topic))
        ]
        expected = dumped(driver, store)
    state = current_state(frame(spark, store, {0: logged}), changelog)
    rows = exported(state, changelog, changelog.spec.key_serde, changelog.spec.value_serde)
    rows.write.parquet(f"file://{tmp_path / store}")
    manifest(tmp_path)

    found = read_export(tmp_path, plan, APPLICATION)
    with TopologyTestDriver(topology(), APPLICATION) as driver:
        driver.restore_stores(found.changelogs)
        restored = dumped(driver, store)

    assert expected
    # A segment goes as a whole: what is left of it beyond the retention is exported, too.
    assert {record[:3] for record in expected} <= {record[:3] for record in restored}


def test_numbers_and_texts_become_the_bytes_of_their_serdes(tmp_path: Path) -> None:
    times = pa.array([7_000_000], pa.timestamp("us", "UTC"))
    directory = written_by_hand(tmp_path, partition=[0], key=["a"], value=[-3], timestamp=times)
    manifest(directory)
    found = read_export(directory, TopologyPlan(counts(), "app"), APPLICATION)

    assert found.changelogs == {"counts": [(b"a", LONG.serializer("")(-3), 7_000, ())]}
    assert found.source_offsets == {TopicPartition("left-side", 0): 30}
    assert found.exact


def test_versions_come_in_the_order_of_time_with_the_deletions_between_them(
    tmp_path: Path,
) -> None:
    plan, times = TopologyPlan(versions(), "app"), pa.timestamp("us", "UTC")
    begins, ends = pa.array([9000, 1000, 3000], times), pa.array([None, 3000, 5000], times)
    (tmp_path / "versions").mkdir()
    columns = {"key": ["a"] * 3, "value": ["z", "x", "y"], "valid_from": begins, "valid_to": ends}
    parquet.write_table(pa.table(columns), tmp_path / "versions" / "part.parquet")
    manifest(tmp_path)
    found = read_export(tmp_path, plan, APPLICATION)

    told = [(value, timestamp) for _, value, timestamp, _ in found.changelogs["versions"]]
    assert told == [(b"x", 1), (None, 3), (b"y", 3), (None, 5), (b"z", 9)]


def duplicates() -> Topology:
    builder = StreamsBuilder()
    supplier = Stores.persistent_window_store("sold", 600_000, 60_000, retain_duplicates=True)
    builder.add_state_store(Stores.window_store_builder(supplier, STRING, LONG))
    builder.stream("left", **TEXT).process(Processor, stores=["sold"])
    return builder.build()


def test_values_of_one_key_and_window_come_back_as_many_as_there_were(tmp_path: Path) -> None:
    plan, topic = TopologyPlan(duplicates(), "app"), ""
    (tmp_path / "sold").mkdir()
    time = pa.array([60_000_000] * 3, pa.timestamp("us", "UTC"))
    columns = {"key": ["a"] * 3, "window_start": time, "timestamp": time}
    columns["window_end"] = pa.array([120_000_000] * 3, pa.timestamp("us", "UTC"))
    table = pa.table({**columns, "sequence": [7, 8, 9], "value": [1, 2, 1]})
    parquet.write_table(table, tmp_path / "sold" / "part.parquet")
    manifest(tmp_path)
    found = read_export(tmp_path, plan, APPLICATION).changelogs["sold"]

    assert [(key, LONG.deserializer(topic)(value or b"")) for key, value, _, _ in found] == [
        (window_key(b"a", 60_000, sequence), value) for sequence, value in ((7, 1), (8, 2), (9, 1))
    ]


def test_an_export_that_lacks_what_tells_values_apart_is_refused_with_the_cure(
    tmp_path: Path,
) -> None:
    (tmp_path / "sold").mkdir()
    time = pa.array([60_000_000], pa.timestamp("us", "UTC"))
    columns = {"key": ["a"], "window_start": time, "window_end": time, "timestamp": time}
    parquet.write_table(pa.table({**columns, "value": [1]}), tmp_path / "sold" / "part.parquet")
    manifest(tmp_path)

    with pytest.raises(ExportError, match=r"'sold' has no column 'sequence' .*: export it again"):
        read_export(tmp_path, TopologyPlan(duplicates(), "app"), APPLICATION)


def test_the_data_set_of_a_backfill_is_read_by_its_stores(tmp_path: Path) -> None:
    (tmp_path / "stores").mkdir()
    times = pa.array([None], pa.timestamp("us", "UTC"))
    written_by_hand(tmp_path / "stores", partition=[0], key=["a"], value=[3], timestamp=times)
    found = read_export(tmp_path, TopologyPlan(counts(), "app"), APPLICATION)

    assert is_export(tmp_path)
    assert found.changelogs == {"counts": [(b"a", LONG.serializer("")(3), -1, ())]}
    assert found.source_offsets == {}


def test_an_export_of_another_application_is_refused(tmp_path: Path) -> None:
    manifest(tmp_path, "other")

    with pytest.raises(ExportError, match=r"an export of application 'other', not of 'app'"):
        read_export(tmp_path, TopologyPlan(counts(), "app"), APPLICATION)


def test_a_manifest_that_can_t_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{")

    with pytest.raises(ExportError, match=r"manifest\.json can't be read \(JSONDecodeError"):
        read_export(tmp_path, TopologyPlan(counts(), "app"), APPLICATION)
