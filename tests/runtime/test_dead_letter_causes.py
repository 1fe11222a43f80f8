"""What became dead letters, and why: the last causes of each topic, and how many there were."""

from __future__ import annotations

from itertools import count

from pystreams import DeadLetterRecord, ErrorContext, TaskId, dead_letter_record
from pystreams.runtime.application.dead_letter_causes import DeadLetterCauses

TASK = TaskId(0, 1)


def failed(node: str, offset: int) -> ErrorContext:
    return ErrorContext("processing", TASK, node, topic="in", partition=1, offset=offset)


def causes_of() -> DeadLetterCauses:
    return DeadLetterCauses(count(1000).__next__)


def note(causes: DeadLetterCauses, error: Exception, node: str = "map", offset: int = 0) -> None:
    context = failed(node, offset)
    causes.note(context, error, [dead_letter_record(context, error, "dead")])


def test_records_that_fail_alike_are_one_cause_with_the_last_of_them() -> None:
    causes = causes_of()
    note(causes, ValueError("first"), offset=3)
    note(causes, KeyError("other"), offset=4)
    note(causes, ValueError("last"), offset=5)

    (letters,) = causes.latest()
    assert (letters.topic, letters.records) == ("dead", 3)
    last, before = letters.causes
    assert (last.error, last.records, last.last_ms) == ("ValueError: last", 2, 1002)
    assert (last.where, last.task, last.record) == ("map", "0_1", "in-1 offset 5")
    assert "ValueError: last" in last.stack
    assert (before.error, before.records) == ("KeyError: 'other'", 1)


def test_of_many_causes_the_last_are_kept_and_all_records_counted() -> None:
    causes = causes_of()
    for number in range(20):
        note(causes, ValueError("wrong"), f"node-{number}")
    note(causes, ValueError("x" * 100_000), "node-19")

    (letters,) = causes.latest()
    assert letters.records == 21
    assert [cause.where for cause in letters.causes] == [f"node-{n}" for n in (19, 18, 17, 16, 15)]
    assert len(letters.causes[0].error) == 500


def test_topics_that_a_function_makes_up_without_end_are_not_all_kept() -> None:
    causes, context = causes_of(), failed("map", 0)
    for number in range(1000):
        causes.note(context, ValueError(), [DeadLetterRecord(f"dead-{number}", None, None, 0)])

    assert len(causes.latest()) == 20
    assert causes.by_stage() == {"processing": 1000}


def test_records_are_counted_by_stage_and_those_that_are_only_dropped_are_not() -> None:
    causes = causes_of()
    for stage in ("production", "deserialization", "production"):
        letter = DeadLetterRecord("dead", None, None, 0)
        causes.note(ErrorContext(stage, TASK), ValueError(), [letter, letter])
    causes.note(ErrorContext("processing", TASK), ValueError(), [])

    assert +causes.by_stage() == {"production": 2, "deserialization": 1}


def test_a_punctuation_and_a_letter_without_headers_are_told_without_place_and_stack() -> None:
    causes = causes_of()
    context = ErrorContext("processing", TASK, "punctuating")
    causes.note(context, ValueError("x"), [DeadLetterRecord("dead", None, None, 0)])

    ((cause,),) = (letters.causes for letters in causes.latest())
    assert (cause.record, cause.stack) == (None, "")
