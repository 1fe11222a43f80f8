"""The crash table of joined tables that have no changelogs: they are restored from their topics.

After each crash such a table holds what its topic does up to some offset, which is never beyond the
committed one; when its task runs again it holds all up to that.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams import StoreEngine, TopicPartition, Topology
from pystreams.record import StaticMessage
from tests.simulation.crash_tables.crash_run import die_at_each_step, offset_of, steps_of
from tests.simulation.crash_tables.test_crash_table_of_joined_tables import (
    INPUTS,
    JoinedTablesRun,
    joining,
    stores_of,
)
from tests.variants import first_of

pytestmark = pytest.mark.simulation

GUARANTEES = ("exactly_once_v2", "exactly_once", "at_least_once")


class FromTopicsRun(JoinedTablesRun):
    """As joined tables, with nothing logged of the tables that are read."""

    builders = stores_of(joining(JoinedTablesRun.engine, "all"))

    def topology(self, *, transactional: bool) -> Topology:
        return joining(self.engine, "all")

    def changelog_of(self, store: str) -> TopicPartition:
        return TopicPartition(store, 0) if store in INPUTS else super().changelog_of(store)

    def logged(self, store: str) -> list[StaticMessage]:
        """Return what a store may hold: of a topic no more than what is committed."""
        committed = self.committed_of(store)
        return [message for message in super().logged(store) if message.message_offset < committed]

    def check_stores(self, **how: object) -> None:
        super().check_stores(**how)  # type: ignore[arg-type]
        for name, files in self.stores():
            assert offset_of(self.changelog_of(name), files) < self.committed_of(name)

    def committed_of(self, store: str) -> float:
        if store not in INPUTS:
            return float("inf")
        offset = self.app.broker.group.offsets.get(TopicPartition(store, 0))
        return 0 if offset is None else offset.next_offset

    def check_outputs_at_least_once(self) -> None:
        """What is repeated ends with the same rows."""
        rows = [message.message_key for message in self.app.broker.committed_records("out")]
        assert rows


class InMemoryRun(FromTopicsRun):
    """All is restored, from topics and changelogs."""

    engine = StoreEngine.IN_MEMORY
    builders = stores_of(joining(engine, "all"))


KINDS = [FromTopicsRun, InMemoryRun]


@pytest.mark.parametrize("kind", KINDS)
def test_tables_that_are_read_have_no_changelogs(kind: type[FromTopicsRun], tmp_path: Path) -> None:
    run = kind(tmp_path, "exactly_once", seed=0)
    steps_of(run)
    run.app.broker.settle()

    run.check_outputs()
    changelogs = {
        topic for topic in run.app.broker.partition_counts() if topic.endswith("-changelog")
    }
    assert not changelogs & {f"app-{name}-changelog" for name in INPUTS}
    assert len(changelogs) == len(run.builders) - len(INPUTS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guarantee", first_of(*GUARANTEES))
def test_crash_at_a_step_ends_with_the_rows_that_the_tables_make(
    kind: type[FromTopicsRun], guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=29) > 5


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_crash_at_every_single_step_ends_with_the_rows_that_the_tables_make(
    kind: type[FromTopicsRun], guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(kind, tmp_path, guarantee, every=1) > 60
