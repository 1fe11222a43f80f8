"""The cases that are backfilled have all that a topology can be made of.

What is added to the package later fails here until a case of `covered` has it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pystreams import KStream, Topology
from tests.backfill.sources.covered import (
    CASES,
    COMPARED,
    ON_SPARK_IN_CI,
    Case,
    own_timestamps,
)
from tests.backfill.surface import (
    called_by,
    node_classes,
    node_classes_of,
    operations,
    operators,
    operators_of,
    store_kinds_of,
)
from tests.every_store import ALL_KINDS, BUILDERS, everywhere

SETS = {
    "run on Spark": CASES,
    "run on Spark in CI": {name: CASES[name] for name in ON_SPARK_IN_CI},
    "compared with a live run": COMPARED,
}
each_set = pytest.mark.parametrize("cases", SETS.values(), ids=SETS)


@each_set
def test_every_operator_is_in_a_case(cases: Mapping[str, Case]) -> None:
    assert operators() - found_in(cases, operators_of) == set()


@each_set
def test_every_kind_of_node_is_in_a_case(cases: Mapping[str, Case]) -> None:
    assert node_classes() - found_in(cases, node_classes_of) == set()


@each_set
def test_every_kind_of_store_is_in_a_case(cases: Mapping[str, Case]) -> None:
    assert set(ALL_KINDS) - found_in(cases, store_kinds_of) == set()


@pytest.mark.parametrize(
    "cases", [CASES, COMPARED], ids=["run on Spark", "compared with a live run"]
)
def test_every_operation_of_the_dsl_is_called_by_a_case(cases: Mapping[str, Case]) -> None:
    called = called_by(case.build for case in cases.values())
    assert operations() - called == set()


def found_in(cases: Mapping[str, Case], look: Callable[[Topology], set[Any]]) -> set[Any]:
    return {kind for case in cases.values() for kind in look(case.build())}


# ---------------------------------------------------------------------- what would be noticed


def test_operator_in_a_package_within_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    within = tmp_path / "later_operators" / "within"
    within.mkdir(parents=True)
    (within.parent / "__init__.py").touch()
    (within / "__init__.py").touch()
    (within / "later.py").write_text("class LaterOperator:\n    def attach(self): ...\n")
    monkeypatch.syspath_prepend(tmp_path)

    found = operators(importlib.import_module("later_operators"))

    assert {kind.__name__ for kind in found} == {"LaterOperator"}


def test_operation_that_a_class_gets_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def later(stream: KStream[str, str]) -> KStream[str, str]:
        return stream

    later.__qualname__ = "KStream.later"
    before = operations()
    monkeypatch.setattr(KStream, "later", later, raising=False)

    assert operations() - before == {"KStream.later"}


def test_operations_are_those_that_a_topology_itself_calls() -> None:
    """`left_join` calls others within the package."""
    assert called_by([own_timestamps]) & operations() == {
        "StreamsBuilder.stream",
        "StreamsBuilder.table",
        "StreamsBuilder.build",
        "KStream.left_join",
        "KStream.to",
    }


def test_stores_tell_their_kinds() -> None:
    kinds = {builder.store_kind for builder in BUILDERS.values()}
    assert store_kinds_of(partial(everywhere, "left", "counts")()) == kinds
