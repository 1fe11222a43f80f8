"""A call that fails, for each call of a commit and every kind of store; the process lives on.

One run without trouble gives the calls of clients and the writes of stores; then one run a call
lets it fail. What is not committed is dropped, in memory as on the disk: after each step every
store holds exactly what its changelog holds up to the store's own offset, and a task that restores
holds nothing else. No store that can go back to its last commit is wiped, whoever was fenced and
whatever had no answer. At the end, and after one more start, all is there, once or at least once.

tests/simulation/crash_tables/test_crash_table.py lets the process die instead.
Spec: KIP-892 "Error Handling".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import StateStoreError, StreamsError
from pystreams.errors import RetriableClientError, TaskMigratedError, TransactionAbortableError
from tests.every_store import BUILDERS, IN_MEMORY
from tests.simulation.crash_tables.crash_run import CrashRun, steps_of
from tests.simulation.crash_tables.test_crash_table_in_memory import (
    GUARANTEES,
    KINDS,
    InMemoryRun,
    WritingThroughInMemoryRun,
)
from tests.variants import first_of

pytestmark = pytest.mark.simulation

ERRORS: dict[str, list[type[StreamsError]]] = {
    "send": [RetriableClientError, TransactionAbortableError, TaskMigratedError],
    "flush": [RetriableClientError, TransactionAbortableError, TaskMigratedError],
    "commit_transaction": [RetriableClientError, TransactionAbortableError, TaskMigratedError],
    "commit": [RetriableClientError, TaskMigratedError],
    "init_transactions": [RetriableClientError, TaskMigratedError],
    "committed": [RetriableClientError],
    "start_at": [RetriableClientError],
    "offset_ranges": [RetriableClientError],
    "topic_ids": [RetriableClientError],
}
"""What each call may end with: no answer, records that are lost, another owner of the task."""
Fault = tuple[str, int, StreamsError]
WRITTEN_ANEW = ("duplicates", "newest")
"""Without transactions what was queued when a task went back is delivered after all, behind what
its stores have restored. It is then written again: most writes are the same, and these are not."""


class MixedRun(InMemoryRun):
    """Some stores of a task on the disk, the others in memory."""

    builders = IN_MEMORY | {name: BUILDERS[name] for name in ("plain", "window", "versioned")}


def faults_of(run: CrashRun) -> list[Fault]:
    """Return what may go wrong in a run: the call, how many calls of it before, its end."""
    faults: list[Fault] = []
    calls: Counter[str] = Counter()
    for line in steps_of(run):
        for call, errors in ERRORS.items():
            if re.search(rf"(producer|consumer|^\w+) {call}( |$)", line):
                faults += [(call, calls[call], error("simulated")) for error in errors]
                calls[call] += 1
        if re.search(r"^\w+ write ", line):
            faults.append(("write", calls["write"], StateStoreError("some", "the disk is full")))
            calls["write"] += 1
    return faults


def fail_at_each_call(kind: type[CrashRun], root: Path, guarantee: str, every: int) -> int:
    """Run once a call and let it fail; check what is left and what comes of it.

    Returns:
        How often one failed.
    """
    faults = faults_of(kind(root / "reference", guarantee, seed=0))[::every]
    failed = 0
    for number, fault in enumerate(faults):
        print("fault", *fault)
        run = kind(root / f"fault-{number}", guarantee, seed=number)
        at_least_once = guarantee == "at_least_once"
        if at_least_once and isinstance(fault[2], TransactionAbortableError):
            run.left_out = WRITTEN_ANEW
        captured: AbstractContextManager[Sequence[Any]]
        captured = capture_logs() if run.transactional else nullcontext(())
        with captured as lines:
            failed += run.fail_at(*fault)
            run.check_stores()
            run.go_on()
            run.check_stores()
        assert not [line for line in lines if "rebuilt" in line["event"]], "a store was wiped"
        if at_least_once:
            run.check_outputs_at_least_once()
        else:
            run.check_outputs()
    assert failed >= 0.9 * len(faults)
    return failed


TABLES = [
    *((CrashRun, guarantee) for guarantee in GUARANTEES),
    *(table for kind in (*KINDS, MixedRun) for table in first_of(*product((kind,), GUARANTEES))),
    # At least once, stores that write through may be left ahead of their changelogs.
    *first_of(*product((WritingThroughInMemoryRun,), GUARANTEES[:2])),
]
each = pytest.mark.parametrize(("kind", "guarantee"), TABLES)


@each
def test_a_call_that_fails_leaves_every_store_with_what_its_offset_says(
    kind: type[CrashRun], guarantee: str, tmp_path: Path
) -> None:
    assert fail_at_each_call(kind, tmp_path, guarantee, every=11) > 5


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@each
def test_every_single_call_that_fails_leaves_every_store_with_what_its_offset_says(
    kind: type[CrashRun], guarantee: str, tmp_path: Path
) -> None:
    assert fail_at_each_call(kind, tmp_path, guarantee, every=1) > 60
