"""Ready aggregations that take the place of others: what `check` says, and what a run makes of it.

Each is run over the state of the other: what is said to be kept is read, all else is refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pystreams import Topology
from pystreams.deploy.comparison import compare
from pystreams.deploy.fingerprint import Fingerprint, fingerprint_of
from pystreams.deploy.verdicts import Judgement, Verdict
from pystreams.serdes import JSON, STRING
from pystreams.testing import TopologyTestDriver
from tests.deploy.pairs import topology_of

MADE = """
orders = builder.stream("orders", key_serde=serdes.STRING, value_serde=serdes.JSON)
made = orders.group_by_key().aggregate({}, name="made")
made.to_stream().to("out", value_serde=serdes.JSON)
"""
COUNT, SUM, MEAN = (f"aggregations.{name}()" for name in ("count", "sum", "mean"))
OWN = """aggregations.Aggregation("latest", lambda: None, lambda key, value, so_far: value,
    lambda key, so_far, other: other, serdes.{}, lambda state: state)"""

CHANGES: dict[str, tuple[str, str, Verdict, str]] = {
    "parts in another order": (
        f"several(n={COUNT}, total={SUM}, mean={MEAN})",
        f"several(mean={MEAN}, total={SUM}, n={COUNT})",
        Verdict.KEPT,
        "its values have their parts in another order",
    ),
    "a part more": (
        f"several(n={COUNT})",
        f"several(n={COUNT}, mean={MEAN})",
        Verdict.WRONG,
        "its values were made of n and are to be of n, mean",
    ),
    "a part less": (
        f"several(n={COUNT}, mean={MEAN})",
        f"several(n={COUNT})",
        Verdict.WRONG,
        "its values were made of n, mean and are to be of n",
    ),
    "a part renamed": (
        f"several(n={COUNT}, mean={MEAN})",
        f"several(n={COUNT}, middle={MEAN})",
        Verdict.WRONG,
        "its values were made of n, mean and are to be of n, middle",
    ),
    "a part of another kind": (
        f"several(n={SUM})",
        f"several(n={MEAN})",
        Verdict.WRONG,
        "are read with states of aggregations.mean, which are other bytes",
    ),
    "a part with another serde": (
        "several(n=aggregations.min())",
        "several(n=aggregations.min(serde=serdes.LONG))",
        Verdict.WRONG,
        "its values (n) (kept) were written with serdes.JSON and are read with serdes.LONG",
    ),
    "the last collected, then the first": (
        "collect(2)",
        'collect(2, keep="first")',
        Verdict.WRONG,
        "its values were made with keep 'last' and are to be with 'first'",
    ),
    "another serde of what is kept": (
        "max()",
        "max(serde=serdes.LONG)",
        Verdict.WRONG,
        "its values (kept) were written with serdes.JSON and are read with serdes.LONG",
    ),
    "another serde of an aggregation of one's own": (
        OWN.format("JSON"),
        OWN.format("LONG"),
        Verdict.WRONG,
        "its values (state) were written with serdes.JSON and are read with serdes.LONG",
    ),
    "more collected": (
        "collect(2)",
        "collect(5)",
        Verdict.UNSURE,
        "its values were made with limit 2 and are to be with 5",
    ),
    "fewer collected": (
        "collect(5)",
        "collect(2)",
        Verdict.KEPT,
        "its values were made with limit 5: the rest goes with 2",
    ),
    "more of the greatest": (
        "top_n(3)",
        "top_n(5)",
        Verdict.UNSURE,
        "what was left out of those that are there does not come back",
    ),
    "more of the least, among others": (
        f"several(n={COUNT}, least=aggregations.bottom_n(3))",
        f"several(n={COUNT}, least=aggregations.bottom_n(5))",
        Verdict.UNSURE,
        "its values (least) were made with n 3 and are to be with 5",
    ),
    "a variance, then its root": (
        "variance(sample=False)",
        "stddev(sample=False)",
        Verdict.KEPT,
        "are read with states of aggregations.stddev: the same format",
    ),
    "one percentile, then two": (
        "percentile(0.5)",
        "percentiles((0.5, 0.9))",
        Verdict.KEPT,
        "the same format",
    ),
}


def made(aggregation: str) -> Topology:
    named = aggregation if "." in aggregation.partition("(")[0] else f"aggregations.{aggregation}"
    return topology_of(MADE.format(named))


def judged(old: Fingerprint, new: Fingerprint) -> Judgement:
    (found,) = compare(json.loads(json.dumps(old)), new).judgements
    return found


def results(topology: Topology, directory: Path, *values: Any) -> list[Any]:
    """Go on with the state in a directory; return what comes out."""
    with TopologyTestDriver(topology, state_directory=directory) as driver:
        source = driver.create_input_topic("orders", STRING, JSON)
        for value in values:
            source.pipe_input("ann", value, 10)
        return driver.create_output_topic("out", STRING, JSON).read_values()


@pytest.mark.parametrize("name", CHANGES)
def test_check_tells_a_change_of_a_ready_aggregation(name: str) -> None:
    old, new, verdict, text = CHANGES[name]

    found = judged(fingerprint_of(made(old)), fingerprint_of(made(new)))

    assert found.verdict is verdict
    assert text in "; ".join(finding.what for finding in found.findings)


@pytest.mark.parametrize("name", CHANGES)
def test_what_check_calls_kept_is_read_and_all_else_is_refused(name: str, tmp_path: Path) -> None:
    old, new, verdict, _ = CHANGES[name]
    results(made(old), tmp_path, 1, 2)

    if verdict in {Verdict.KEPT, Verdict.UNSURE}:
        assert results(made(new), tmp_path, 3)
    else:
        with pytest.raises(Exception, match=r"can't read|requires|bytes"):
            results(made(new), tmp_path, 3)


def test_parts_that_change_places_go_on_with_their_own_states(tmp_path: Path) -> None:
    revenue = 'aggregations.sum(lambda order: order["price"])'
    pieces = 'aggregations.sum(lambda order: order["pieces"])'
    before = made(f"several(orders={COUNT}, revenue={revenue}, pieces={pieces})")
    after = made(f"several(orders={COUNT}, pieces={pieces}, revenue={revenue})")
    order = {"price": 1000, "pieces": 2}
    results(before, tmp_path, order, order, order)

    assert results(after, tmp_path, order) == [{"orders": 4, "pieces": 8, "revenue": 4000}]


def test_a_limit_that_an_earlier_pystreams_did_not_note_is_not_compared() -> None:
    earlier = fingerprint_of(made("top_n(3)"))
    del earlier["stores"]["made"]["value_serde"]["limits"]

    found = judged(earlier, fingerprint_of(made("top_n(5)")))

    assert found.verdict is Verdict.KEPT


def test_parts_that_an_earlier_pystreams_did_not_note_are_for_the_reader_to_compare() -> None:
    topology = made(f"several(n={COUNT}, mean={MEAN})")
    earlier = fingerprint_of(topology)
    del earlier["stores"]["made"]["value_serde"]["parts"]

    found = judged(earlier, fingerprint_of(topology))

    assert found.verdict is Verdict.KEPT
    assert "was not noted by an earlier pystreams" in found.findings[0].what
