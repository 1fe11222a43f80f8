"""The crash table of an outer join of two streams whose stores are not transactional.

Under exactly-once each of the three stores is wiped and restored, it alone, where it may hold what
was not committed: after a crash, and after a rollback in a process that lives on. Either way each
pair is joined once, and each record that met none is joined with nothing, once.

Upstream: KStreamKStreamOuterJoinTransactionalStoreIntegrationTest, not transactional.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams.stores.dirty_map import write_through
from pystreams.testing.simulation.disk import StoreFiles
from tests.simulation.crash_tables.crash_run import die_at_each_step
from tests.simulation.crash_tables.test_crash_table_of_an_outer_join import (
    BUILDERS,
    GUARANTEES,
    ROUNDS,
    OuterJoinRun,
)
from tests.simulation.crash_tables.test_crash_table_writing_through import closed
from tests.simulation.troubles.test_fault_table import fail_at_each_call

pytestmark = pytest.mark.simulation

each_guarantee = pytest.mark.parametrize("guarantee", GUARANTEES)


class WritingThroughRun(OuterJoinRun):
    """Nothing is said of a store that a process left in use; the next start rebuilds it."""

    def __init__(self, root: Path, guarantee: str, seed: int) -> None:
        super().__init__(root, guarantee, seed, transactional=False)

    def check_stores(
        self,
        *,
        up_to_the_end: bool = False,
        trusted: Callable[[StoreFiles], bool] = closed,
    ) -> None:
        """Also, where all must be there: every store, in use or not."""
        super().check_stores(
            up_to_the_end=up_to_the_end,
            trusted=(lambda _: True) if up_to_the_end else trusted,
        )

    def feed_all_but_the_last(self) -> None:
        """Leave the last record to `go_on`."""
        self.rounds, self.last_is_fed = list(ROUNDS), True
        self.feed_rest()
        self.last_is_fed = False

    def go_on(self) -> None:
        """Also, after the end in order: every store is its changelog."""
        super().go_on()
        self.check_stores(up_to_the_end=True)


@pytest.fixture(autouse=True)
def _batches_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let writes reach the engine in the middle of a record, and not only at the commit."""
    monkeypatch.setattr(write_through, "_BATCH_RECORDS", 2)


def rebuilt(logs: Sequence[Any]) -> set[str]:
    return {line["store"] for line in logs if "rebuilt" in line["event"]}


each_one = [pytest.mark.sweep, pytest.mark.timeout(1800)]


@each_guarantee
@pytest.mark.parametrize(("every", "more_than"), [(11, 5), pytest.param(1, 80, marks=each_one)])
def test_crash_at_a_step_joins_each_pair_and_each_single_record_once(
    every: int, more_than: int, guarantee: str, tmp_path: Path
) -> None:
    with capture_logs() as logs:
        assert die_at_each_step(WritingThroughRun, tmp_path, guarantee, every) > more_than
    assert rebuilt(logs) == BUILDERS.keys()


@each_guarantee
@pytest.mark.parametrize(("every", "more_than"), [(5, 5), pytest.param(1, 60, marks=each_one)])
def test_a_call_that_fails_joins_each_pair_and_each_single_record_once(
    every: int, more_than: int, guarantee: str, tmp_path: Path
) -> None:
    with capture_logs() as logs:
        assert fail_at_each_call(WritingThroughRun, tmp_path, guarantee, every) > more_than
    assert rebuilt(logs) == BUILDERS.keys()


@each_guarantee
def test_stores_that_were_rebuilt_and_then_stopped_in_order_are_kept(
    guarantee: str, tmp_path: Path
) -> None:
    """Though the last record let segments expire in a store that it was not written to."""
    run = WritingThroughRun(tmp_path, guarantee, seed=0)
    run.process.start()
    run.feed_all_but_the_last()
    run.process.crash_in(0)
    run.process.step()
    with capture_logs() as after_a_crash:
        run.go_on()
    with capture_logs() as after_a_stop:
        run.go_on()

    assert rebuilt(after_a_crash) == BUILDERS.keys()
    assert rebuilt(after_a_stop) == set()
