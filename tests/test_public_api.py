"""The public names: each listed once, sorted, loadable, and known to type checkers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pystreams

FACADE = ast.parse(Path(pystreams.__file__).read_text())


def test_all_is_sorted_and_without_repeats() -> None:
    assert sorted(set(pystreams.__all__)) == pystreams.__all__


@pytest.mark.parametrize("name", pystreams.__all__)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(pystreams, name) is not None


def test_type_checkers_see_the_names_that_load() -> None:
    seen = {
        alias.name
        for block in FACADE.body
        if isinstance(block, ast.If)
        for statement in ast.walk(block)
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }

    assert seen == set(pystreams.__all__)


def test_an_unknown_name_is_refused_by_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'StreamBuilder'"):
        pystreams.StreamBuilder  # noqa: B018


def test_importing_the_facade_loads_neither_kafka_nor_rocksdb() -> None:
    program = (
        "import sys, pystreams; "
        "print(sorted({'confluent_kafka', 'rocksdict', 'orjson'} & sys.modules.keys()))"
    )

    loaded = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout

    assert loaded.strip() == "[]"
