"""Transactions that append to lists stay whole whatever happens.

500 seeds here, any number by

    python -m tests.simulation.sweep --seeds 0:100000 --processes 2

which tells of the first seed that fails, and how to run it again. Bugs that are planted into the
runtime show what the sweep would find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.sweeping.planted import PLANTS
from tests.simulation.sweeping.run import TROUBLE, SweepRun
from tests.simulation.sweeping.seeds import Failure, first_failure, run_seed, shrunk

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulation

SEEDS = 500
PART = 50
FOUND_WITHIN = 2000
CHEAP = {
    "checkpoint_too_far": 40,
    "failed_sends_are_not_noticed": 40,
    "repartition_records_dropped_at_a_rebalance": 40,
    "uncommitted_data_kept_after_an_abort": 40,
}
"""Planted bugs that a few seeds find."""


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


@pytest.mark.parametrize("plant", sorted(CHEAP))
def test_a_planted_bug_is_found(plant: str) -> None:
    failure = first_failure(range(CHEAP[plant]), plant=plant)

    assert failure is not None
    assert failure.is_told, told(failure)


@pytest.mark.parametrize("plant", sorted(PLANTS))
def test_a_planted_bug_still_fits_what_it_is_planted_in(plant: str) -> None:
    failure = run_seed(0, plant=plant)

    assert failure is None or failure.is_told, told(failure)


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


def test_all_trouble_can_be_left_out(tmp_path: Path) -> None:
    quiet = SweepRun(3, tmp_path, without=TROUBLE)
    quiet.run()

    assert not any("CRASH" in line or "stands still" in line for line in quiet.faults.trace)
