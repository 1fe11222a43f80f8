"""Topologies drawn at random do what they do in Kafka Streams; how they are drawn and chosen."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest

from tests.parity.generated.answer import answer
from tests.parity.generated.compare import differences
from tests.parity.generated.corpus import read
from tests.parity.generated.coverage import Case, covered, operators
from tests.parity.generated.draw import draw
from tests.parity.generated.draw_untold import leave_out
from tests.parity.generated.exclusions import EXCLUSIONS, excluded
from tests.parity.generated.shrink import shown_case, smallest
from tests.variants import swept

pytestmark = pytest.mark.parity

CORPUS = read()
PORTIONS = 20


@pytest.mark.parametrize("portion", [*range(8), *swept(*range(8, PORTIONS))])
def test_every_case_does_what_it_does_in_kafka_streams(portion: int) -> None:
    for case, java in CORPUS[portion::PORTIONS]:
        found = differences(java, answer(case))
        assert not found, "\n".join((shown_case(case), *found))


def test_the_cases_kept_have_every_operator_that_is_drawn() -> None:
    kept = frozenset[str]().union(*(operators(case) for case, _ in CORPUS))
    drawn = frozenset[str]().union(*(operators(draw(seed)) for seed in range(200)))

    assert len(CORPUS) >= 600
    assert drawn <= kept


def test_the_cases_kept_have_every_option_that_is_drawn() -> None:
    kept = frozenset[str]().union(*(_options(case) for case, _ in CORPUS))
    cases = [case for case in map(draw, range(200)) if excluded(case, {}) is None]

    assert frozenset[str]().union(*map(_options, cases)) <= kept


def _options(case: Case) -> frozenset[str]:
    return frozenset(part for part in covered(case) if ">" not in part)


def test_serdes_are_left_out_only_where_they_come_from_upstream() -> None:
    windows = {"kind": "time", "size_ms": 60}
    sent: dict[str, Any] = {"op": "to", "topic": "out"}
    steps: list[Any] = [
        {"op": "stream", "topics": ["in"], "consumed": {"key": "string"}, "out": "in"},
        {"op": "map_values", "fn": "weigh", "from": "in", "out": "weights"},
        sent | {"produced": {"value": "long"}, "from": "weights"},
        {"op": "group_by_key", "grouped": {"value": "long"}, "from": "weights", "out": "groups"},
        {"op": "windowed_by", "windows": windows, "from": "groups", "out": "windows"},
        {"op": "count", "materialized": {"value": "long"}, "from": "windows", "out": "rows"},
        {"op": "count", "materialized": {"key": "string"}, "from": "windows", "out": "counts"},
        {"op": "to_stream", "from": "counts", "out": "changes"},
        sent | {"produced": {"key": "time:60", "value": "long"}, "from": "changes"},
        {"op": "to_stream", "from": "rows", "out": "unknown"},
        sent | {"produced": {"key": "time:60", "value": "long"}, "from": "unknown"},
    ]
    less = copy.deepcopy(steps)

    for seed in range(100):
        leave_out(random.Random(seed), less)

    left = {number: step for number, step in enumerate(less) if step != steps[number]}
    assert left == {
        5: steps[5] | {"materialized": {}},
        8: steps[8] | {"produced": {}},
        10: steps[10] | {"produced": {"key": "time:60"}},
    }


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
