"""Every operation of Kafka Streams has a name here, or is said not to be there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import pystreams
from pystreams import Query
from tests.parity.api_classes import AS_A_WHOLE, TABLES
from tests.parity.api_names import (
    by_rule,
    kafka_classes,
    kafka_methods,
    names_of,
    page,
    python_class,
    snake_case,
    spelling,
)
from tests.parity.api_spellings import MISSING, NOT_NEEDED, OURS_ALONE, SPELLED

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "kafka-streams-names.md"
METHODS = kafka_methods()


def test_the_page_is_current() -> None:
    hint = "run: python -m tests.parity.api_names > docs/reference/kafka-streams-names.md"
    assert PAGE.read_text("utf-8") == page(), hint


def test_each_public_class_of_kafka_streams_is_told_once() -> None:
    assert sorted([*TABLES, *AS_A_WHOLE]) == sorted(kafka_classes())


@pytest.mark.parametrize("cls", [*METHODS, *AS_A_WHOLE])
def test_names_on_the_page_exist(cls: str) -> None:
    said = AS_A_WHOLE.get(cls) or " ".join(spelling(cls, method) for method in METHODS[cls])
    for name, attribute in re.findall(r"`([A-Z]\w+)\.(\w+)", said):
        ours = python_class(name)
        assert ours is not None, f"{name} is not exported"
        assert attribute in names_of(ours)


def test_classes_on_the_page_are_exported() -> None:
    modules = {"aggregations", "serdes"}
    for said in AS_A_WHOLE.values():
        for name in re.findall(r"`([A-Z]\w+|\w+_\w+)`", said):
            assert python_class(name) is not None or name in modules, f"{name} is not exported"


@pytest.mark.parametrize("cls", [*METHODS, *AS_A_WHOLE])
def test_keywords_on_the_page_are_arguments(cls: str) -> None:
    told = [AS_A_WHOLE[cls]] if cls in AS_A_WHOLE else [spelling(cls, m) for m in METHODS[cls]]
    for said in told:
        operation = re.search(r"` of `([A-Z]\w+)\.(\w+)`", said)
        called: Any = python_class(cls)
        if operation:
            called = getattr(python_class(operation[1]), operation[2])
        if called:
            keywords = set(re.findall(r"`(\w+)=", said))
            assert keywords <= inspect.signature(called).parameters.keys(), said


def test_every_query_is_on_the_page() -> None:
    public = [getattr(pystreams, name) for name in pystreams.__all__]
    queries = {
        public_class.__name__
        for public_class in public
        if inspect.isclass(public_class) and issubclass(public_class, Query)
    }
    assert queries - {"Query"} <= METHODS.keys()


def test_what_is_said_to_be_missing_is_not_there() -> None:
    for missing in MISSING:
        cls, _, method = missing.partition(".")
        if method:
            assert by_rule(cls, method) is None, f"{missing} is there: take it off the list"
        else:
            assert python_class(cls) is None, f"{cls} is there: take it off the list"


def test_lists_name_methods_that_kafka_streams_has() -> None:
    known = {f"{cls}.{method}" for cls in METHODS for method in METHODS[cls]} | METHODS.keys()
    assert {*SPELLED, *NOT_NEEDED, *MISSING} <= known


@pytest.mark.parametrize("cls", [cls for cls in METHODS if python_class(cls)])
def test_no_public_name_of_ours_is_left_out(cls: str) -> None:
    ours = python_class(cls)
    assert ours is not None
    said = " ".join(spelling(cls, method) for method in METHODS[cls])
    told = set(re.findall(r"\w+", said)) | {snake_case(method) for method in METHODS[cls]}
    assert names_of(ours) - told == OURS_ALONE.get(cls, set()) - told
    assert OURS_ALONE.get(cls, set()) <= names_of(ours)
