"""What was decided about a store that is the last copy of what its changelog has lost.

`<task directory>/.recovery_<store>` holds the decision, one word of `changelog.loss.policy`. It is
written by `pystreams recover`, or when the configuration decides, before anything is changed; and
deleted when all of it is done. After a crash in between the same is done again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from pystreams.config import ChangelogLossPolicy
from pystreams.errors import StateStoreError
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.cluster.committed_offsets import OffsetRange
from pystreams.runtime.state.files.checkpointed_offsets import delete
from pystreams.stores.contracts.state_store import StateStore, can_be_dumped
from pystreams.stores.files.checkpoint_file import sync_directory

BECOMES = {
    ChangelogLossPolicy.KEEP: "kept",
    ChangelogLossPolicy.RESTORE: "restored",
    ChangelogLossPolicy.EMPTY: "emptied",
}
"""What a store is then."""

_log = get_logger("pystreams.stores")


def refused_decisions(
    store: StateStore, held: OffsetRange | None, *, what: str | None
) -> dict[ChangelogLossPolicy, str]:
    """Return what can't become of a store, and why.

    To be kept it gives its records, and to be emptied the keys of those that its changelog holds.

    Args:
        store: It need not be open.
        held: What the broker holds of the changelog; None where there is no such topic.
        what: What the store is, after "it is", if it can't be used; else None.
    """
    refused = {} if what is None else {ChangelogLossPolicy.KEEP: f"it is {what}"}
    if not can_be_dumped(store):
        why = f"{type(store).__name__} has no changelog_records()"
        refused.setdefault(ChangelogLossPolicy.KEEP, f"{why}, which give what is to be logged anew")
        if held is not None and not held.is_empty:
            refused[ChangelogLossPolicy.EMPTY] = f"{why}, which tell what its changelog is to lose"
    return refused


def decisions_but(refused: Collection[ChangelogLossPolicy]) -> list[ChangelogLossPolicy]:
    """Return what can be decided, but for some of it."""
    return [decision for decision in BECOMES if decision not in refused]


def in_words(decisions: Sequence[ChangelogLossPolicy]) -> str:
    """Return `keep, restore or empty`, or as much of it as there is."""
    *others, last = [decision.value for decision in decisions]
    return f"{', '.join(others)} or {last}" if others else last


def read_decision(task_directory: Path, store: str) -> ChangelogLossPolicy | None:
    """Return what was decided about a store, or None."""
    file = _file(task_directory, store)
    try:
        decision = ChangelogLossPolicy(file.read_text().strip())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.warning("decision can't be read and does not count", file=str(file), why=str(error))
        return None
    return None if decision is ChangelogLossPolicy.STOP else decision


def write_decision(task_directory: Path, store: str, decision: ChangelogLossPolicy) -> None:
    """Write down what is to become of a store.

    Raises:
        StateStoreError: It can't be written.
    """
    file = _file(task_directory, store)
    unfinished = file.with_name(f"{file.name}.tmp")
    try:
        unfinished.write_text(decision.value)
        unfinished.replace(file)
        sync_directory(task_directory)
    except OSError as error:
        raise StateStoreError(
            store,
            f"what becomes of it can't be written to {file} ({error.strerror}): free some space, "
            "or make the directory writable, then start again",
        ) from error


def forget_decision(task_directory: Path, store: str) -> None:
    """Take note that what was decided is done."""
    delete(_file(task_directory, store))


def _file(task_directory: Path, store: str) -> Path:
    return task_directory / f".recovery_{store}"
