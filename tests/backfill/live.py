"""Live runs by the test driver, and results of backfills, as what can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rocksdict import AccessType, Options, Rdict

from pystreams import Topology
from pystreams.backfill.plan.rows import Result, ResultKind
from pystreams.backfill.plan.turns import TURN_HEADER
from pystreams.record import ProducedRecord
from pystreams.testing import TopologyTestDriver
from tests.backfill.in_process import Row, in_order
from tests.every_store import BUILDERS, without_stale_entries

Outputs = dict[str, list[ProducedRecord]]
States = dict[str, list[ProducedRecord]]


class Outcome(NamedTuple):
    """What a run gave.

    Attributes:
        outputs: The records of each topic but changelogs, in order.
        states: Each logged store that holds something, as changelog records.
    """

    outputs: Outputs
    states: States


def live_run(
    topology: Topology, config: Mapping[str, object], rows: Sequence[Row], directory: Path
) -> Outcome:
    """Send the history through a live run with one partition a topic."""
    with TopologyTestDriver(topology, config, state_directory=directory) as driver:
        # Those of global tables are there before the others, all of them.
        shared = set(topology.global_stores.values())
        first = [row for row in rows if row.topic in shared]
        others = [row for row in rows if row.topic not in shared]
        for row in [*in_order(first), *in_order(others)]:
            driver.pipe_raw(row.topic, row.key, row.value, row.timestamp, row.headers)
        outputs = {
            topic: list(driver.produced_raw(topic))
            for topic in driver.produced_topic_names()
            if not topic.endswith("-changelog")
        }
        states = {
            store: records
            for store, opened in driver.get_all_state_stores().items()
            if store not in topology.global_stores
            and topology.stores[store].logging
            and (records := list(opened.changelog_records()))
        }
        return Outcome(outputs, states)


def outcome_of(results: Sequence[Result]) -> Outcome:
    """Return what a backfill gave; of several tasks one after the other."""
    found = Outcome({}, {})
    for result in results:
        if result.kind is ResultKind.END:
            continue
        into = found.outputs if result.kind is ResultKind.OUTPUT else found.states
        headers = tuple(header for header in result.headers if header[0] != TURN_HEADER)
        record = (result.key, result.value, result.timestamp, headers)
        into.setdefault(result.name, []).append(record)
    return found


def by_key(records: Sequence[ProducedRecord]) -> dict[bytes | None, list[ProducedRecord]]:
    """The order that holds whatever the number of partitions is: that within a key."""
    found: dict[bytes | None, list[ProducedRecord]] = {}
    for record in records:
        key, *_ = record
        found.setdefault(key, []).append(record)
    return found


def databases_in(directory: Path) -> dict[tuple[str, str, str], list[tuple[bytes, bytes]]]:
    """Return what RocksDB finds below the directories of tasks.

    Those of a backfill are named `<stage>-<task>`; a sub-topology's last stage counts. Those of a
    live run are named `<task>`.

    Returns:
        The entries of all tasks, sorted, by sub-topology, store and column family.
    """
    tasks = [path for path in directory.iterdir() if path.name != "global"]
    stages = sorted(tasks, key=lambda path: int(path.name.rpartition("-")[0] or 0))
    found: dict[tuple[str, str, str], list[tuple[bytes, bytes]]] = {}
    for home in {path.name.rpartition("-")[2]: path for path in stages}.values():
        subtopology = home.name.rpartition("-")[2].partition("_")[0]
        for path in home.glob("rocksdb/*"):
            for family, entries in database(path).items():
                if path.name in BUILDERS:
                    spec = BUILDERS[path.name].spec
                    kept = list(without_stale_entries(spec, dict(entries)).items())
                else:
                    kept = entries
                found.setdefault((subtopology, path.name, family), []).extend(kept)
    return {name: sorted(entries) for name, entries in sorted(found.items())}


def database(path: Path) -> dict[str, list[tuple[bytes, bytes]]]:
    """Return the entries of each column family that holds data."""
    names = Rdict.list_cf(str(path))
    opened = Rdict(
        str(path),
        Options(raw_mode=True),
        {name: Options(raw_mode=True) for name in names if name != "default"},
        access_type=AccessType.read_only(),
    )
    families: dict[str, Any] = {
        name: opened if name == "default" else opened.get_column_family(name) for name in names
    }
    entries = {name: list(family.items()) for name, family in families.items()}
    opened.close()
    return {name: found for name, found in entries.items() if found and name != "offsets"}
