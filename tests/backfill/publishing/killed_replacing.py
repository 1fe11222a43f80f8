"""Replaces a data set, once a moment in a process that kills itself there.

    python -m tests.backfill.publishing.killed_replacing <directory>

Prints for each moment what is at the place then, and what is there and beside it after the next
replacement.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pystreams.backfill.exports.dataset_place import is_dataset_of, replaced
from pystreams.backfill.staging.directory import MANIFEST

_WATCHED = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.copyfile", "shutil.rmtree"}


def staging_of(directory: Path, name: str) -> Path:
    """Make a staging directory with a manifest of its own."""
    staging = directory / name
    staging.mkdir(parents=True)
    (staging / MANIFEST).write_text(name, "utf-8")
    return staging


def replace(place: Path, staging: Path) -> None:
    """Write a data set that tells in three files of what it was made."""
    with replaced(place, staging) as unfinished:
        for topic in ("a", "b", "c"):
            (unfinished / topic).mkdir()
            (unfinished / topic / "rows").write_text(staging.name, "utf-8")


def what_is_at(place: Path, stagings: Sequence[Path]) -> str | None:
    """Return the name of the results of which there is a whole data set, None when there is none.

    Raises:
        AssertionError: There is a part of one, or a mixture.
    """
    if not place.exists():
        return None
    [of] = [staging.name for staging in stagings if is_dataset_of(place, staging)]
    rows = {file.parent.name: file.read_text("utf-8") for file in place.glob("*/rows")}
    assert rows == dict.fromkeys(["a", "b", "c"], of)
    return of


def replace_and_die(place: Path, staging: Path, deadly: int) -> bool:
    """Replace in a child that dies at a moment; return whether it came so far."""
    child = os.fork()
    if child == 0:
        moments = iter(range(deadly + 1))

        def look(event: str, _: object) -> None:
            if event in _WATCHED and next(moments, deadly) == deadly:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(look)
        replace(place, staging)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    return os.WIFSIGNALED(status)


def all_moments(home: Path) -> list[list[object]]:
    """Kill a replacement at each moment, and replace again."""
    found: list[list[object]] = []
    is_killed = True
    while is_killed:
        directory = home / str(len(found))
        old, new, last = stagings = [staging_of(directory, name) for name in ("old", "new", "last")]
        place = directory / "dataset"
        replace(place, old)
        is_killed = replace_and_die(place, new, len(found))
        then = what_is_at(place, stagings)
        replace(place, last)
        beside = sorted(entry.name for entry in directory.iterdir() if entry not in stagings)
        found.append([then, what_is_at(place, stagings), beside])
    return found


if __name__ == "__main__":
    print(json.dumps(all_moments(Path(sys.argv[1]))))
