"""Makes a case that differs smaller, as long as it differs: fewer steps, options and records."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator

from tests.parity.generated.answer import Answer, answer
from tests.parity.generated.compare import differences
from tests.parity.generated.coverage import Case, outs
from tests.parity.generated.exclusions import excluded
from tests.parity.generated.kafka import KafkaStreams
from tests.parity.generated.options import Step

LONGEST_S = 60.0


def shrunk(case: Case, kafka: KafkaStreams) -> Case:
    """Return the smallest case found that differs as this one does."""
    first = _signature(kafka.answer(case), answer(case))

    def differs(smaller: Case) -> bool:
        java = kafka.answer(smaller)
        ours = answer(smaller)
        return excluded(smaller, java) is None and _signature(java, ours) == first

    return smallest(case, differs)


def _signature(java: Answer, ours: Answer) -> tuple[str, ...]:
    """Return what kind of difference there is: the errors', or in what it shows first."""
    errors = tuple(each.get("error", "").split(":")[0] for each in (java, ours))
    found = differences(java, ours)
    return (*errors, found[0].split()[0].rstrip(":") if found else "")


def smallest(case: Case, differs: Callable[[Case], bool]) -> Case:
    """Return a case from which nothing can be left out, or what there is after a minute."""
    found = case
    end = time.monotonic() + LONGEST_S
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(found):
            if time.monotonic() > end:
                return found
            if differs(smaller):
                found, progress = smaller, True
                break
    return found


def _smaller(case: Case) -> Iterator[Case]:
    """Return cases with less: first many records less, then steps, records and options."""
    records = case["input"]
    size = (len(records) + 1) // 2
    while size >= 1:
        for start in range(0, len(records), size):
            yield {**case, "input": records[:start] + records[start + size :]}
        size = 0 if size == 1 else max(1, size // 2)
    for index in range(len(case["steps"]) - 1, -1, -1):
        fewer = _without(case["steps"], index)
        topics = _topics(fewer)
        if fewer:
            kept = [record for record in records if isinstance(record, int) or record[0] in topics]
            yield {**case, "steps": fewer, "input": kept}
        passed = _bridged(case["steps"], index)
        if passed is not None:
            yield {**case, "steps": passed}
    for index, step in enumerate(case["steps"]):
        for simpler in _simpler(step):
            steps = [*case["steps"][:index], simpler, *case["steps"][index + 1 :]]
            yield {**case, "steps": steps}
    if "optimization" in case:
        yield {key: value for key, value in case.items() if key != "optimization"}
    for option in ("caching", "on_disk", "emit_interval_ms"):
        if case.get(option):
            yield {**case, option: type(case[option])(0)}
    for index, record in enumerate(records):
        if isinstance(record, list) and len(record) > 4:
            yield {**case, "input": [*records[:index], record[:4], *records[index + 1 :]]}


def _without(steps: list[Step], index: int) -> list[Step]:
    """Return the steps without one and those that need it."""
    gone = set(outs(steps[index]))
    kept = steps[:index]
    for step in steps[index + 1 :]:
        if step.get("from") in gone or step.get("other") in gone:
            gone |= set(outs(step))
        else:
            kept = [*kept, step]
    return kept


def _bridged(steps: list[Step], index: int) -> list[Step] | None:
    """Return the steps without one whose input takes the place of its output."""
    step = steps[index]
    if "from" not in step or "out" not in step:
        return None
    text = json.dumps([*steps[:index], *steps[index + 1 :]])
    bridged: list[Step] = json.loads(text.replace(f'"{step["out"]}"', f'"{step["from"]}"'))
    return bridged


def _topics(steps: list[Step]) -> set[str]:
    topics = set()
    for step in steps:
        if "pattern" in step:
            topics.add(step["pattern"].replace("[a-c]", "a"))
        topics |= set(step.get("topics", [])) | {step.get("topic", ""), step.get("reads", "")}
    return topics


def _simpler(step: Step) -> Iterator[Step]:
    for option in ("name", "label", "with_key", "emit", "store_name", "default"):
        if option in step:
            yield {key: value for key, value in step.items() if key != option}
    for part in ("materialized", "consumed", "grouped", "joined", "produced", "repartitioned"):
        if part in step:
            for option in step[part]:
                simpler = copy.deepcopy(step)
                del simpler[part][option]
                if not simpler[part]:
                    del simpler[part]
                yield simpler
    for index in range(len(step.get("branches", [])) - 1):
        branches = step["branches"]
        yield {**step, "branches": branches[:index] + branches[index + 1 :]}


def shown_case(case: Case) -> str:
    """Return a case as text, a step and a record a line."""
    others = {key: value for key, value in case.items() if key not in {"steps", "input"}}
    steps = [f"  {json.dumps(step)}" for step in case["steps"]]
    records = [f"  {json.dumps(record)}" for record in case["input"]]
    return "\n".join((json.dumps(others), "steps", *steps, "input", *records))
