"""Topologies drawn at random do what they do in Kafka Streams; how they are drawn and chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.parity.generated.answer import answer
from tests.parity.generated.compare import differences
from tests.parity.generated.corpus import read
from tests.parity.generated.coverage import Case, operators
from tests.parity.generated.draw import draw
from tests.parity.generated.exclusions import EXCLUSIONS
from tests.parity.generated.shrink import shown_case, smallest

pytestmark = pytest.mark.parity

CORPUS = read()
PORTIONS = 20


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_every_case_does_what_it_does_in_kafka_streams(portion: int) -> None:
    for case, java in CORPUS[portion::PORTIONS]:
        found = differences(java, answer(case))
        assert not found, "\n".join((shown_case(case), *found))


def test_the_cases_kept_have_every_operator_that_is_drawn() -> None:
    kept = frozenset[str]().union(*(operators(case) for case, _ in CORPUS))
    drawn = frozenset[str]().union(*(operators(draw(seed)) for seed in range(200)))

    assert len(CORPUS) >= 600
    assert drawn <= kept


def test_a_seed_is_one_case_for_ever() -> None:
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


def test_a_case_that_differs_shrinks_to_what_the_difference_needs() -> None:
    case: Case = next(case for case, _ in CORPUS if _has(case, "group_by") and case["input"])

    small = smallest(case, lambda smaller: _has(smaller, "group_by"))

    assert [step["op"] for step in small["steps"]][-1] == "group_by"
    assert not small["input"]
    assert not any("name" in step for step in small["steps"])


def _has(case: dict[str, Any], operation: str) -> bool:
    return any(step["op"] == operation for step in case["steps"])


def test_each_rule_by_which_cases_are_not_compared_is_told_with_its_reason() -> None:
    page = (Path(__file__).parent / "README.md").read_text("utf-8")

    for exclusion in EXCLUSIONS:
        assert f"| {exclusion.name} |" in page
