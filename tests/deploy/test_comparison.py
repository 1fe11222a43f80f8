"""What becomes of state when another topology takes the place of the one that has made it."""

from __future__ import annotations

import json

import pytest

from pystreams.deploy.comparison import compare
from pystreams.deploy.fingerprint import fingerprint_of
from pystreams.deploy.verdicts import Comparison, Verdict
from tests.deploy.pairs import (
    BEHIND_ANOTHER,
    BY_FOREIGN_KEY,
    COUNT,
    GLOBAL,
    GLOBAL_OF_NUMBERS,
    OFTEN,
    ON_DISK,
    PAIRS,
    SESSIONS,
    TABLE,
    TUMBLING,
    UNLOGGED,
    topology_of,
    windowed,
)

HISTORY = """
builder.table("rows", **text, materialized=Materialized(
    supplier=Stores.persistent_versioned_{})
)
)
"""
JOINED = BY_FOREIGN_KEY.format(orders="rows", key="STRING", goods="goods", of="LONG")


def compared(old: str, new: str) -> Comparison:
    before, after = (fingerprint_of(topology_of(code)) for code in (old, new))
    return compare(json.loads(json.dumps(before)), after)


@pytest.mark.parametrize("name", PAIRS)
def test_each_store_and_topic_has_its_verdict(name: str) -> None:
    pair = PAIRS[name]

    found = compared(pair.old, pair.new)

    assert {judged.name: judged.verdict for judged in found.judgements} == pair.verdicts
    assert found.loses == pair.loses


@pytest.mark.parametrize("name", [name for name, pair in PAIRS.items() if pair.loses])
def test_whatever_loses_has_a_cure(name: str) -> None:
    found = compared(PAIRS[name].old, PAIRS[name].new)

    assert all(judged.worst()[0].cure for judged in found.judgements if judged.verdict.loses)


@pytest.mark.parametrize("name", [name for name, pair in PAIRS.items() if pair.loses])
def test_whatever_loses_has_another_digest(name: str) -> None:
    old, new = (fingerprint_of(topology_of(code)) for code in PAIRS[name][:2])

    assert old["digest"] != new["digest"]


@pytest.mark.parametrize(
    "code",
    [
        f"words = words.filter(lambda key, word: True)\n{COUNT}",
        f'{COUNT}\nwords.to("more", **text)',
        f'{COUNT}\nbuilder.stream("others", **text).to("more", **text)',
        COUNT.replace('"out"', '"elsewhere"'),
        COUNT.replace("to_stream()", "to_stream().map_values(lambda count: count + 1)"),
    ],
)
def test_what_keeps_nothing_is_not_in_the_digest(code: str) -> None:
    assert not compared(COUNT, code).loses
    assert (
        fingerprint_of(topology_of(code))["digest"] == fingerprint_of(topology_of(COUNT))["digest"]
    )


OTHER_PART = '\nbuilder.stream("first", **text).to("copy", **text)'
ON_DISK_ALONE = UNLOGGED.format(ON_DISK)


@pytest.mark.parametrize(
    ("old", "new", "cure", "followed", "verdict"),
    [
        (ON_DISK_ALONE, ON_DISK_ALONE, "new parts last", ON_DISK_ALONE + OTHER_PART, Verdict.KEPT),
        (ON_DISK_ALONE, COUNT, "new parts last", COUNT + OTHER_PART, Verdict.UNSURE),
        (COUNT, ON_DISK_ALONE, "Leave logging on", BEHIND_ANOTHER + COUNT, Verdict.REBUILT),
    ],
)
def test_what_is_advised_for_a_store_whose_tasks_get_other_numbers_keeps_its_rows(
    old: str, new: str, cure: str, followed: str, verdict: Verdict
) -> None:
    (moved,) = compared(old, BEHIND_ANOTHER + new).judgements

    assert moved.verdict is Verdict.EMPTY
    assert cure in moved.in_words()
    assert [judged.verdict for judged in compared(old, followed).judgements] == [verdict]


def test_a_table_that_lost_its_place_for_want_of_a_name_has_naming_as_its_cure() -> None:
    joined = 'words.join(builder.table("rows", **text), lambda a, b: a + b)\n'

    found = compared(joined, "words.peek(print)\n" + joined)

    (gone,) = (judged for judged in found.judgements if judged.verdict.loses)
    finding = gone.worst()[0]
    assert gone.name == "rows-STATE-STORE-0000000001"
    assert "'rows-STATE-STORE-0000000002' seems to be what it was" in finding.what
    assert "Give operations that keep state a name" in finding.cure


def test_what_an_earlier_pystreams_did_not_note_is_no_loss() -> None:
    code = f"{OFTEN.format(TUMBLING, 'windows')}{JOINED}"
    code += 'words.distinct(within_ms=10, name="once").repartition(name="spread", **text)'
    new = fingerprint_of(topology_of(code + '.group_by_key().count(name="counts")'))
    old = json.loads(json.dumps(new))
    for facts in old["stores"].values():
        del facts["identity"], facts["key_windows"]
    for facts in old["repartition_topics"].values():
        del facts["partitioner"], facts["key_windows"]

    found = compare(old, new)

    assert not found.loses
    told = {judged.name: [each.what for each in judged.findings] for judged in found.judgements}
    assert "see that `by`, `by_serde`" in told.pop("once-store")[0]
    assert "see that the serdes of the keys" in told.pop("joined-subscription-store")[0]
    assert "of which windows its keys are was not noted" in told.pop("often")[0]
    assert not any(told.values())


def test_a_global_table_has_cures_that_leave_its_topic_alone_and_no_changelog_to_delete() -> None:
    (values,) = compared(GLOBAL, GLOBAL_OF_NUMBERS).judgements
    (topic,) = compared(GLOBAL, GLOBAL.replace("rows", "others")).judgements

    assert "another name: it is read whole from its topic" in values.in_words()
    assert "delete its directory below `global`" in topic.in_words()
    assert not any("changelog" in judged.in_words() for judged in (values, topic))
    others = compared(GLOBAL, GLOBAL_OF_NUMBERS.replace('"table"', '"numbers"')).judgements
    assert {judged.name: judged.verdict for judged in others} == {
        "numbers": Verdict.FILLED,
        "table": Verdict.KEPT,
    }


def test_a_store_that_becomes_global_or_none_tells_where_its_rows_are() -> None:
    table = GLOBAL.replace("global_table", "table")
    reused = TABLE.format("reuse.ktable.source.topics")

    told = {
        name: judged.in_words()
        for name, codes in {
            "global": (table, GLOBAL),
            "global, of no changelog": (reused, GLOBAL),
            "global, of another topic": (table, GLOBAL.replace("rows", "others")),
            "of tasks": (GLOBAL, table),
            "of tasks, of another topic": (GLOBAL, table.replace("rows", "others")),
        }.items()
        for judged in compared(*codes).judgements
    }

    assert "fills from topic 'rows' before anything is processed" in told["global"]
    assert "Its old changelog topic, and its directory" in told["global"]
    assert "Its old directory below each task's" in told["global, of no changelog"]
    assert "its old rows were made in another way" in told["global, of another topic"]
    assert "from the offsets that the group has committed" in told["of tasks"]
    assert "its rows are in their topic, as before" in told["of tasks, of another topic"]


SUPPLIED = (
    "words.group_by_key().windowed_by({}).count(materialized=Materialized(supplier=Stores.{}))"
)
LONGER_KEPT = ", retention_ms=3_600_000"
SEGMENTS = "segment_interval_ms=60_000"


@pytest.mark.parametrize(
    ("old", "new", "supplier", "followed"),
    [
        (
            windowed(TUMBLING),
            windowed(TUMBLING, LONGER_KEPT),
            "persistent_timestamped_window_store",
            SUPPLIED.format(
                TUMBLING,
                f"persistent_timestamped_window_store('counts', 3_600_000, 10_000, {SEGMENTS})",
            ),
        ),
        (
            windowed(SESSIONS),
            windowed(SESSIONS, LONGER_KEPT),
            "persistent_session_store",
            SUPPLIED.format(SESSIONS, f"persistent_session_store('counts', 3_600_000, {SEGMENTS})"),
        ),
        (
            HISTORY.format("key_value_store('rows', 3_600_000"),
            HISTORY.format("key_value_store('rows', 72_000_000"),
            "persistent_versioned_key_value_store",
            HISTORY.format("key_value_store('rows', 72_000_000, segment_interval_ms=300_000"),
        ),
    ],
    ids=["windows", "sessions", "versions"],
)
def test_the_supplier_that_keeps_segments_is_named_and_keeps_the_store(
    old: str, new: str, supplier: str, followed: str
) -> None:
    (judged,) = compared(old, new).judgements

    assert judged.verdict is Verdict.REFUSED
    assert f"with the supplier `Stores.{supplier}`" in judged.in_words()
    (judged,) = compared(old, followed).judgements
    assert judged.verdict is Verdict.KEPT


def test_final_results_are_not_said_to_be_a_matter_of_segments() -> None:
    pair = PAIRS["final results asked for"]

    (judged,) = compared(pair.old, pair.new).judgements

    assert "time_ordered False -> True)" in judged.in_words()
    assert "segment_interval_ms" not in judged.in_words()
    assert "Stop the application and delete its directory" in judged.in_words()
