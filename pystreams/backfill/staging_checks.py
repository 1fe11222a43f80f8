"""What is begun in a staging directory, beside what is to be run there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pystreams.backfill.declared import other_keys
from pystreams.backfill.staging_troubles import StagingError

if TYPE_CHECKING:
    from pystreams.backfill.staging import BackfillIdentity


def check_same(found: BackfillIdentity, wanted: BackfillIdentity, path: Path) -> None:
    """Refuse a directory in which something else was begun.

    Raises:
        StagingError: Something differs; names what.
    """
    different = [
        what
        for what, here, there in (
            ("application.id", wanted.application_id, found.application_id),
            ("topology", wanted.topology, found.topology),
            ("number of partitions", wanted.num_partitions, found.num_partitions),
            ("number of tasks", wanted.num_tasks, found.num_tasks),
            ("history", wanted.bounds, found.bounds),
            ("way to offsets", wanted.computed_offsets, found.computed_offsets),
            ("way to partitions", wanted.guessed_partitions, found.guessed_partitions),
        )
        if here != there
    ]
    different += other_keys(found.configuration, wanted.configuration)
    if different:
        raise StagingError(
            f"{path} holds results of another backfill or rescale (its {', '.join(different)} "
            "differ from this one's): delete the directory, or choose another"
        )


def check_asked(found: Mapping[str, str], wanted: Mapping[str, str], path: Path) -> None:
    """Refuse other bounds than those a backfill was begun with.

    Raises:
        StagingError: One differs; names it.
    """
    for what, by in wanted.items():
        before = found.get(what)
        if by != before:
            begun = f"with {before}" if before else "without a time for it"
            raise StagingError(
                f"{what} is to be {by}, and what is in {path} was begun {begun}: give what it "
                "was begun with, or leave it out; or choose another directory"
            )
