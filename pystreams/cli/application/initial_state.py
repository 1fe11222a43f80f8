"""The state that a replay begins with: empty, of an export, or of a state directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pystreams.errors import StreamsError
from pystreams.ids import TopicPartition

if TYPE_CHECKING:
    from pystreams.config import StreamsConfig
    from pystreams.record import ProducedRecord
    from pystreams.topology.plan.topology_plan import TopologyPlan

EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class InitialState:
    """What stores hold before the first record.

    Attributes:
        told: What it is, for the reader.
        changelogs: Changelog records that restore each store, by its name.
        source_offsets: Which input it covers: next offsets; empty where that is not known.
    """

    told: str = EMPTY
    changelogs: Mapping[str, list[ProducedRecord]] = field(default_factory=dict)
    source_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


def initial_state(given: str, plan: TopologyPlan, config: StreamsConfig) -> InitialState:
    """Return the state that `--state` names.

    Raises:
        StreamsError: It is no directory of either kind, or can't be read.
    """
    if given == EMPTY:
        return InitialState()
    path = Path(given)
    if not path.is_dir():
        raise StreamsError(
            f"--state {given}: there is no such directory; write `{EMPTY}`, or the directory of an "
            "export, of a backfill's data set, or a state.dir"
        )
    from pystreams.backfill.exports.reading import is_export, read_export

    if not is_export(path):
        return _of_state_directory(path, plan, config)
    found = read_export(path, plan, config)
    surely = "" if found.exact or not found.source_offsets else ", and may hold more than it says"
    told = f"the export {path}: {_sum(found.changelogs)}{surely}"
    return InitialState(told, found.changelogs, found.source_offsets)


def _of_state_directory(path: Path, plan: TopologyPlan, config: StreamsConfig) -> InitialState:
    from pystreams.runtime.maintenance.state_reading import StateReader, stores_in

    stores = [store for store in stores_in(path) if store.application == plan.application_id]
    if not stores:
        raise StreamsError(
            f"--state {path}: there are stores, none of them of {plan.application_id!r}: name the "
            "directory of this application, or its id with -c application.id=..."
        )
    offsets: dict[TopicPartition, int] = {}
    for store in stores:
        for at, offset in store.position().offsets.items():
            offsets[at] = max(offsets.get(at, 0), offset + 1)
    names = sorted({store.name for store in stores} & plan.topology.stores.keys())
    changelogs = {
        name: list(StateReader(plan, config, stores, name).changelog_records()) for name in names
    }
    return InitialState(f"the stores in {path}: {_sum(changelogs)}", changelogs, offsets)


def _sum(changelogs: Mapping[str, list[ProducedRecord]]) -> str:
    return ", ".join(f"{store} ({len(held):,})" for store, held in changelogs.items()) or "nothing"
