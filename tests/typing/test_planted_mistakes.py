"""mypy --strict and pyright tell mistakes in chains with every operation of the DSL.

`mistakes.txt` has, an operation after the other, pairs of lines: `+` is right, `-` is the same with
a mistake. Each checker reads all that is right as one module and all that is wrong as another.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import pystreams

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
BEGINNING = (HERE / "prelude.py").read_text("utf-8")
FIRST_LINE = BEGINNING.count("\n") + 1
CLASSES = (
    pystreams.StreamsBuilder,
    pystreams.KStream,
    pystreams.KTable,
    pystreams.KGroupedStream,
    pystreams.KGroupedTable,
    pystreams.CogroupedKStream,
    pystreams.TimeWindowedKStream,
    pystreams.SessionWindowedKStream,
    pystreams.TimeWindowedCogroupedKStream,
    pystreams.SessionWindowedCogroupedKStream,
    pystreams.BranchedKStream,
)
# What takes no function and returns no stream or table.
WITHOUT_TYPES = {"StreamsBuilder.add_state_store", "StreamsBuilder.build"}


class Planted(NamedTuple):
    """A right statement, and the same with a mistake.

    Attributes:
        operation: What is called, as `Class.method`.
        right: What no checker complains about.
        wrong: What each tells.
    """

    operation: str
    right: str
    wrong: str


def planted() -> list[Planted]:
    found = []
    for block in (HERE / "mistakes.txt").read_text("utf-8").split("\n\n"):
        operation, *lines = block.splitlines()
        for right, wrong in zip(lines[::2], lines[1::2], strict=True):
            assert (right[:2], wrong[:2]) == ("+ ", "- "), block
            found.append(Planted(operation, right[2:], wrong[2:]))
    return found


PLANTED = planted()


def told_by_mypy(module: Path) -> set[int]:
    """Return the lines that mypy tells of; with the project's configuration, which is strict."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", str(module)]
    checked = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert checked.returncode in {0, 1}, checked.stdout + checked.stderr
    return {int(line) for line in re.findall(r":(\d+): error:", checked.stdout)}


def told_by_pyright(module: Path) -> set[int]:
    """Return the lines that pyright tells of, with what it does unless it is told otherwise."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    checked = subprocess.run(
        [*command, str(module)], cwd=module.parent, capture_output=True, text=True, check=False
    )
    assert checked.returncode in {0, 1}, checked.stdout + checked.stderr
    told = json.loads(checked.stdout)["generalDiagnostics"]
    errors = [each for each in told if each["severity"] == "error"]
    return {each["range"]["start"]["line"] + 1 for each in errors}


CHECKERS = pytest.mark.parametrize("told_by", [told_by_mypy, told_by_pyright])


@CHECKERS
@pytest.mark.timeout(300)
def test_every_planted_mistake_is_told(told_by: Callable[[Path], set[int]], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(BEGINNING + "\n".join(each.wrong for each in PLANTED))

    told = told_by(wrong)

    assert [each for line, each in enumerate(PLANTED, FIRST_LINE) if line not in told] == []
    assert min(told) >= FIRST_LINE


@CHECKERS
@pytest.mark.timeout(300)
def test_what_is_right_is_not_complained_about(
    told_by: Callable[[Path], set[int]], tmp_path: Path
) -> None:
    right = tmp_path / "right.py"
    right.write_text(BEGINNING + "\n".join(each.right for each in PLANTED))

    told = told_by(right)

    assert [each for line, each in enumerate(PLANTED, FIRST_LINE) if line in told] == []
    assert told == set()


def test_every_operation_has_a_planted_mistake() -> None:
    operations = {
        f"{owner.__name__}.{name}"
        for owner in CLASSES
        for name, member in inspect.getmembers(owner)
        if not name.startswith("_") and (callable(member) or isinstance(member, property))
    }

    assert operations - WITHOUT_TYPES == {each.operation for each in PLANTED}
