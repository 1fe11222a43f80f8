"""The state that a replay begins with: empty, an export's, a data set's, or a state.dir's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pystreams.cli.application.state_coverage import Coverage, covered_input
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
        source_offsets: Where a slice begins behind it; empty where that is not known.
        of_stores: Which input each store covers, by partition; empty where all cover the same.
        untold: Stores of which nothing tells which input they cover.
    """

    told: str = EMPTY
    changelogs: Mapping[str, list[ProducedRecord]] = field(default_factory=dict)
    source_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    of_stores: Mapping[TopicPartition, Mapping[str, Coverage]] = field(default_factory=dict)
    untold: Sequence[str] = ()

    def notes(self, firsts: Mapping[TopicPartition, int]) -> Iterator[str]:
        """Tell of records that count twice, or are missing, in a slice that begins there."""
        if not self.changelogs:
            return
        known = {at.topic for at in self.source_offsets}
        unknown = sorted({at.topic for at in firsts} - known)
        if unknown:
            yield f"the state does not tell up to where it covers {', '.join(unknown)}"
        elif self.untold:
            yield (
                f"nothing tells which input is in {_stores(self.untold)}: it came by way of a "
                "repartition topic, of a backfill, or of a restore"
            )
        for at, covered in sorted(self.source_offsets.items()):
            if at in firsts:
                of_stores = self.of_stores.get(at) or {"": Coverage(covered, covered)}
                yield from _notes(at, firsts[at], of_stores)


def initial_state(given: str, plan: TopologyPlan, config: StreamsConfig) -> InitialState:
    """Return the state that `--state` names.

    Raises:
        UsageError: There is no such directory.
        StreamsError: It is none of these kinds, or can't be read.
    """
    if given == EMPTY:
        return InitialState()
    path = Path(given)
    if not path.is_dir():
        raise click.UsageError(
            f"--state {given}: there is no such directory; write `{EMPTY}`, or the directory of an "
            "export, of a backfill's data set, or a state.dir"
        )
    from pystreams.backfill.exports.reading import is_export, read_export

    if not is_export(path):
        return _of_state_directory(path, plan, config)
    found = read_export(path, plan, config)
    surely = "" if found.exact or not found.source_offsets else ", and may hold more than it says"
    told = f"the {found.kind} {path}: {_sum(found.changelogs)}{surely}"
    return InitialState(told, found.changelogs, found.source_offsets)


def _of_state_directory(path: Path, plan: TopologyPlan, config: StreamsConfig) -> InitialState:
    from pystreams.runtime.maintenance.state_reading import StateReader, stores_in

    # Global stores are filled from their topics.
    tasks = [store for store in stores_in(path) if not store.is_global]
    stores = [store for store in tasks if store.application == plan.application_id]
    if not stores:
        raise StreamsError(
            f"--state {path}: there are stores, none of them of {plan.application_id!r}: name the "
            "directory of this application, or its id with -c application.id=..."
        )
    names = sorted({store.name for store in stores} & plan.topology.stores.keys())
    flushed = {name: list(StateReader(plan, config, stores, name).flushed()) for name in names}
    changelogs = {
        name: [record for store in found for record in store.records]
        for name, found in flushed.items()
    }
    covered = covered_input([store for found in flushed.values() for store in found], plan, config)
    offsets = {
        at: min(coverage.last for coverage in of_stores.values())
        for at, of_stores in covered.of_stores.items()
    }
    told = f"the stores in {path}: {_sum(changelogs)}"
    return InitialState(told, changelogs, offsets, covered.of_stores, covered.untold)


def _notes(at: TopicPartition, first: int, of_stores: Mapping[str, Coverage]) -> Iterator[str]:
    """Tell of what counts twice or is missing, where a slice begins at an offset."""
    found: dict[tuple[int, int, bool], list[str]] = defaultdict(list)
    for store, coverage in sorted(of_stores.items()):
        if first < coverage.first:
            found[first, coverage.first, True].append(store)
        elif first > coverage.last:
            found[coverage.last, first, False].append(store)
    for (low, high, twice), names in sorted(found.items()):
        everywhere = len(names) == len(of_stores)
        if twice and everywhere:
            what = "are in the state already and count twice"
        elif twice:
            what = f"are in {_stores(names)} already and count twice there"
        else:
            what = "are missing" if everywhere else f"are missing in {_stores(names)}"
        yield f"{at}, offsets [{low:,}, {high:,}): {what}"


def _stores(names: Sequence[str]) -> str:
    return f"{'store' if len(names) == 1 else 'stores'} {', '.join(names)}"


def _sum(changelogs: Mapping[str, list[ProducedRecord]]) -> str:
    return ", ".join(f"{store} ({len(held):,})" for store, held in changelogs.items()) or "nothing"
