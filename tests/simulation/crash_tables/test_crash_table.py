"""A crash before and after every step of a commit, over every kind of store.

One run without trouble gives the list of steps: each call of a port and each write to a disk, from
joining the group to leaving it. Then one run a step dies there. After each, on the disk: every
store holds exactly what its changelog holds up to the store's own offset. After a restart: every
output once, or at least once, and every store equal to its changelog.

`test_crash_table_writing_through` does the same with stores that are not transactional.
Spec: KIP-844 "Possible failure scenarios", KIP-892 "Proposed Changes", KIP-1035.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from pystreams.stores.kinds.expiring.kind import EXPIRING
from pystreams.stores.kinds.key_value.kind import KEY_VALUE
from pystreams.stores.time_segments.segments import segment_id_of
from tests.every_store import BUILDERS
from tests.simulation.crash_tables.crash_run import FIRST_MS, CrashRun, die_at_each_step, steps_of

pytestmark = pytest.mark.simulation

GUARANTEES = ["at_least_once", "exactly_once", "exactly_once_v2"]
_DRAWS = 4
"""How often a step dies: what a crash leaves on the disk is drawn."""


def test_run_covers_every_kind_of_step(tmp_path: Path) -> None:
    """Otherwise the crashes below would miss what they are for."""
    steps = "\n".join(steps_of(CrashRun(tmp_path, "exactly_once", seed=0)))
    for kind in ("send", "flush", "commit", "write ", "written ", "dropped ", "lock", "close"):
        assert kind in steps, f"no {kind!r} among the steps:\n{steps}"
    for name in BUILDERS:
        assert f"write {name}" in steps


def test_segments_come_and_go_while_it_runs(tmp_path: Path) -> None:
    run = CrashRun(tmp_path, "exactly_once", seed=0)
    run.run()
    for _, name, files in run.process.disk.stores():
        if BUILDERS[name].spec.kind in {KEY_VALUE, EXPIRING}:
            continue
        segments = {segment_id_of(key) for key in files.data if segment_id_of(key) >= 0}
        first = FIRST_MS // 60_000
        assert segments, name
        assert min(segments) > first, f"{name}: nothing has expired"


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_segments_dropped_for_good_before_their_batch_expire_again_with_it(
    guarantee: str, tmp_path: Path
) -> None:
    """A crash takes the batch back, and never the segments that it let expire."""
    dropping = [
        step
        for step, line in enumerate(steps_of(CrashRun(tmp_path / "reference", guarantee, seed=0)))
        if " dropped " in line
    ]
    dropped_early = 0
    for step, seed in product(dropping, range(_DRAWS)):
        run = CrashRun(tmp_path / f"step-{step}-{seed}", guarantee, seed=seed)
        run.die_at(step)
        run.check_stores()
        dropped_early += run.dropped_early
        run.go_on()
        run.check_stores(up_to_the_end=True)
    assert dropped_early > 0


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_crash_at_a_step_leaves_every_store_with_what_its_offset_says(
    guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(CrashRun, tmp_path, guarantee, every=11) > 5


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_crash_at_every_single_step_leaves_every_store_with_what_its_offset_says(
    guarantee: str, tmp_path: Path
) -> None:
    assert die_at_each_step(CrashRun, tmp_path, guarantee, every=1) > 70
