"""Inputs that go, or change places: what `check` tells, and what a run makes of old rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams.deploy.comparison import compare
from pystreams.deploy.fingerprint import fingerprint_of
from pystreams.deploy.verdicts import Verdict
from pystreams.serdes import STRING
from pystreams.testing import TopologyTestDriver
from tests.deploy.pairs import (
    COGROUP_OF_ONE,
    COGROUP_OF_TWO,
    JOINED_TABLES,
    OF_JOINED_TABLES,
    topology_of,
)
from tests.deploy.test_comparison import compared

OF_BOTH = COGROUP_OF_TWO.format("words", "first")


def rows(code: str, store: str, directory: Path, *records: tuple[str, str | None]) -> str:
    """Go on with the state in a directory; return the row of the one key that records have."""
    with TopologyTestDriver(topology_of(code), state_directory=directory) as driver:
        for topic, value in records:
            driver.create_input_topic(topic, STRING, STRING).pipe_input("ann", value, 10)
        return str(driver.get_key_value_store(store).get("ann"))


def told_of(old: str, new: str, store: str) -> str:
    (found,) = (judged for judged in compared(old, new).judgements if judged.name == store)
    assert found.verdict is Verdict.UNSURE
    return found.in_words()


def test_a_cogroup_that_lost_a_stream_keeps_what_came_of_it_and_reads_no_more(
    tmp_path: Path,
) -> None:
    new = COGROUP_OF_ONE.format("words")
    told = told_of(OF_BOTH, new, "made")

    assert "its input is another (first, in -> in)" in told
    assert "with what came of first, of which nothing comes any more" in told
    assert rows(OF_BOTH, "made", tmp_path, ("in", "a"), ("first", "b")) == "aB"
    assert rows(new, "made", tmp_path, ("in", "c")) == "aBc"


def test_streams_of_a_cogroup_that_change_places_go_by_the_functions_of_one_another(
    tmp_path: Path,
) -> None:
    new = COGROUP_OF_TWO.format("first", "words")
    told = told_of(OF_BOTH, new, "made")

    assert "its inputs have changed places (in and first -> first and in)" in told
    assert "If it has not: give the store another name" in told
    rows(OF_BOTH, "made", tmp_path, ("in", "a"), ("first", "b"))
    assert rows(new, "made", tmp_path, ("in", "a"), ("first", "b")) == "aBAb"


def test_tables_of_a_join_that_change_places_leave_rows_of_the_former_order(tmp_path: Path) -> None:
    old, new = (JOINED_TABLES.format(*order, "left") for order in ("ab", "ba"))

    assert "changed places (a and b -> b and a)" in told_of(old, new, "both")
    rows(old, "both", tmp_path, ("a", "1"))
    assert rows(new, "both", tmp_path) == "1 None", "which the left join of b has not"


@pytest.mark.parametrize(
    ("before", "after", "records", "row", "has"),
    [
        ("left", "inner", [("a", "1")], "1 None", "None"),
        ("inner", "left", [("a", "1")], "None", "1 None"),
    ],
)
def test_another_kind_of_a_join_of_tables_leaves_the_rows_of_the_former_kind(
    tmp_path: Path, before: str, after: str, records: list[tuple[str, str]], row: str, has: str
) -> None:
    old, new = (
        JOINED_TABLES.format("a", "b", kind).replace("inner_join", "join")
        for kind in (before, after)
    )

    told = told_of(old, new, "both")

    assert f"made by {article(before)} join of tables, and is to be by {article(after)}" in told
    assert rows(old, "both", tmp_path / "old", *records) == row
    assert rows(new, "both", tmp_path / "old") == row
    assert rows(new, "both", tmp_path / "new", *records) == has


def test_a_kept_table_behind_a_join_that_keeps_nothing_has_rows_of_the_former_kind(
    tmp_path: Path,
) -> None:
    old, new = (
        OF_JOINED_TABLES.format("a", "b", kind).replace("inner_join", "join")
        for kind in ("left", "inner")
    )

    assert "made by a left join of tables" in told_of(old, new, "often")
    assert rows(old, "often", tmp_path / "old", ("a", "1")) == "1 None"
    assert rows(new, "often", tmp_path / "old") == "1 None"
    assert rows(new, "often", tmp_path / "new", ("a", "1")) == "None"


def article(kind: str) -> str:
    return f"an {kind}" if kind == "inner" else f"a {kind}"


BY_KEY = """
text_of_a = builder.table("a", **text, name="a")
goods = builder.table("b", **text, name="b")
text_of_a.{}(
    goods, lambda order, good: f"{{order}} {{good}}", foreign_key=lambda order: order,
    node_name="joined", name="both", value_serde=serdes.STRING,
)
"""


def test_a_left_join_by_a_foreign_key_that_becomes_an_inner_one_leaves_rows_without_a_match(
    tmp_path: Path,
) -> None:
    old, new = (BY_KEY.format(kind) for kind in ("left_join", "join"))

    assert "made by a left join of tables" in told_of(old, new, "both")
    assert rows(old, "both", tmp_path / "old", ("a", "1")) == "1 None"
    assert rows(new, "both", tmp_path / "old") == "1 None"
    assert rows(new, "both", tmp_path / "new", ("a", "1")) == "None"


@pytest.mark.parametrize(
    ("fact", "old", "new"),
    [
        ("places", OF_BOTH, COGROUP_OF_TWO.format("first", "words")),
        (
            "required",
            JOINED_TABLES.format("a", "b", "left"),
            JOINED_TABLES.format("a", "b", "outer"),
        ),
    ],
)
def test_what_an_earlier_pystreams_did_not_note_of_inputs_is_not_compared(
    fact: str, old: str, new: str
) -> None:
    earlier, later = (fingerprint_of(topology_of(code)) for code in (old, new))
    assert compare(earlier, later).loses
    for facts in earlier["stores"].values():
        del facts[fact]

    assert not compare(earlier, later).loses
