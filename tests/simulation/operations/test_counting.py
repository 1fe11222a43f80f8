"""Counts stay right whatever happens; a few seeds here, thousands with `-m sweep`.

A failure prints its seed, its scenario and the last calls. To see all of one seed:
`simulate(seed, guarantee, directory).faults.trace`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import structlog

from tests.simulation.operations.counting import simulate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulation

GUARANTEES = ["at_least_once", "exactly_once", "exactly_once_v2"]
SEEDS = range(8)
SWEPT = range(1000, 3000, 50)


@pytest.fixture(autouse=True)
def _quiet() -> None:
    """The log of a simulation full of trouble is long; the trace of a failure tells more."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("seed", SEEDS)
def test_counts_are_right_after_any_number_of_crashes_and_rebalances(
    seed: int, guarantee: str, tmp_path: Path
) -> None:
    simulate(seed, guarantee, tmp_path)


@pytest.mark.sweep
@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("first_seed", SWEPT)
def test_counts_are_right_for_thousands_of_seeds(
    first_seed: int, guarantee: str, tmp_path: Path
) -> None:
    for seed in range(first_seed, first_seed + 50):
        simulate(seed, guarantee, tmp_path / str(seed))


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_seed_gives_the_same_run_again(guarantee: str, tmp_path: Path) -> None:
    first = simulate(7, guarantee, tmp_path / "first")
    second = simulate(7, guarantee, tmp_path / "second")

    assert first.faults.trace == second.faults.trace
