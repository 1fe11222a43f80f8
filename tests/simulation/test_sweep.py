"""Transactions that append to lists stay whole whatever happens.

500 seeds here, any number by

    python -m tests.simulation.sweep --seeds 0:100000 --processes 2

which tells of the first seed that fails, and how to run it again. Bugs that are planted into the
runtime show what the sweep would find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.sweep import table_of
from tests.simulation.sweeping.planted import PLANTS
from tests.simulation.sweeping.run import TROUBLE, SweepRun
from tests.simulation.sweeping.seeds import Failure, first_failure, run_seed, shrunk

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulation

SEEDS = 500
PART = 50
FOUND_WITHIN = 2000
FINDERS = {
    "changelog_offset_written_before_the_commit": (8, 15, 16),
    "checkpoint_too_far": (0, 1, 2),
    "failed_sends_are_not_noticed": (0, 8, 9),
    "no_fencing": (40, 45, 59),
    "no_new_epoch_after_a_time_out": (8, 51, 53),
    "nothing_is_read_again_after_an_abort": (0, 4, 8),
    "offsets_committed_before_the_data": (0, 2, 4),
    "offsets_without_the_group": (40, 359, 597),
    "pending_offsets_are_not_waited_for": (25, 40, 69),
    "repartition_records_dropped_at_a_rebalance": (2, 3, 4),
    "repartition_records_purged_before_they_are_committed": (2, 7, 19),
    "restore_ends_before_what_is_undecided": (4, 35, 40),
    "restore_reads_uncommitted": (0, 2, 4),
    "stale_tasks_go_on_after_their_partitions_are_lost": (29, 35, 39),
    "standbys_read_uncommitted": (6, 7, 29),
    "stores_committed_before_kafka": (4, 6, 9),
    "uncommitted_data_kept_after_an_abort": (4, 8, 9),
    "what_dead_members_left_open_is_committed": (15, 31, 214),
}
"""For each planted bug some of the seeds that find it; one is enough."""


def told(failure: Failure | None) -> str:
    if failure is None:
        return ""
    trace = "\n".join(failure.trace[-60:])
    return f"{trace}\n{failure.scenario}\n{failure.error}\nagain: {failure.command()}"


@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_every_transaction_takes_effect_once_and_as_a_whole(first: int) -> None:
    failure = first_failure(range(first, first + PART))

    assert failure is None, told(failure)


def test_a_seed_gives_the_same_run_again(tmp_path: Path) -> None:
    first, second = SweepRun(9, tmp_path / "first"), SweepRun(9, tmp_path / "second")
    first.run()
    second.run()

    assert first.faults.trace == second.faults.trace
    assert any("CRASH" in line for line in first.faults.trace)


@pytest.mark.parametrize("plant", sorted(PLANTS))
def test_a_planted_bug_is_found_by_a_seed_that_is_known_to(plant: str) -> None:
    failure = first_failure(FINDERS.get(plant, ()), plant=plant)

    assert failure is not None, (
        f"seeds that find it: python -m tests.simulation.sweep --plant {plant} --seeds 0:2000"
    )
    assert failure.is_told, told(failure)


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("plant", sorted(PLANTS))
def test_every_planted_bug_is_found(plant: str) -> None:
    failure = first_failure(range(FOUND_WITHIN), plant=plant)

    assert failure is not None
    assert failure.is_told, told(failure)


def test_a_failure_is_made_small_and_its_command_runs_it_again() -> None:
    failure = first_failure(range(40), plant="uncommitted_data_kept_after_an_abort")
    assert failure is not None
    small = shrunk(failure)

    assert small.steps < failure.steps
    again = run_seed(small.seed, steps=small.steps, without=small.without, plant=small.plant)
    assert again is not None
    assert str(again.error) == str(small.error)
    assert small.command() == (
        f"python -m tests.simulation.sweep --seeds {small.seed}:{small.seed + 1} "
        f"--steps {small.steps} --without {','.join(small.without)} "
        "--plant uncommitted_data_kept_after_an_abort"
    )


def test_the_table_of_planted_bugs_tells_which_seed_found_each_and_which_none_did() -> None:
    found = {"first": Failure(7, AssertionError(), (), ""), "second": None}

    assert table_of(found, range(5, 25)) == (
        "| planted bug | found by seed | seeds tried |\n|---|---:|---:|\n"
        "| `first` | 7 | 3 |\n| `second` | none | 20 |"
    )


def test_all_trouble_can_be_left_out(tmp_path: Path) -> None:
    quiet = SweepRun(3, tmp_path, without=TROUBLE)
    quiet.run()

    assert not any("CRASH" in line or "stands still" in line for line in quiet.faults.trace)
