"""What of the DSL a case covers: operators, options with their values, pairs of neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.parity.generated.options import Step

Case = dict[str, Any]

# What tells steps apart, and changes nothing else.
_LABELS = frozenset(
    (
        "out",
        "from",
        "other",
        "topic",
        "topics",
        "pattern",
        "label",
        "file",
        "looks_into",
        "reads",
        "writes",
    )
)


def covered(case: Case) -> frozenset[str]:
    """Return the names of what a case covers."""
    return frozenset((*_of_steps(case["steps"]), *_of_the_rest(case)))


def operators(case: Case) -> frozenset[str]:
    """Return the operators of a case, each with what it is called on."""
    kinds = kinds_of(case["steps"])
    return frozenset(_operator(step, kinds) for step in case["steps"])


def _of_steps(steps: list[Step]) -> Iterator[str]:
    kinds = kinds_of(steps)
    makers = {out: _operator(step, kinds) for step in steps for out in outs(step)}
    for step in steps:
        operator = _operator(step, kinds)
        yield operator
        for part in ("from", "other"):
            if part in step:
                yield f"{makers[step[part]]} > {operator}.{part}"
        for option, value in step.items():
            if option not in _LABELS:
                yield from (f"{operator}.{option}{each}" for each in _values(option, value))


def _values(option: str, value: Any) -> Iterator[str]:
    """Return options with their values; of names and times only that they are given."""
    if isinstance(value, dict):
        for inner, inner_value in value.items():
            yield from (f".{inner}{each}" for each in _values(inner, inner_value))
    elif isinstance(value, list):
        yield f" of {len(value)}"
    elif option.endswith(("name", "_ms", "max_records", "max_bytes")):
        yield " is 0" if value == 0 else " is given"
    else:
        yield f" is {value}"


def _of_the_rest(case: Case) -> Iterator[str]:
    for option in ("caching", "on_disk", "emit_interval_ms"):
        yield f"{option} is {case[option]}"
    if "optimization" in case:
        yield f"optimization is {case['optimization']}"
        yield from (f"{operator} where topologies are optimized" for operator in operators(case))
    newest = -1
    for before, record in zip([None, *case["input"]], case["input"], strict=False):
        if isinstance(record, int):
            yield "input advances the clock"
            continue
        _, key, value, timestamp, *headers = record
        yield from (["input has no key"] if key is None else [])
        yield from (["input has no value"] if value is None else [])
        yield from (["input has headers"] if headers else [])
        yield from (["input is late"] if timestamp < newest else [])
        yield from (["input has equal times"] if timestamp == newest else [])
        yield from (["input repeats"] if record == before else [])
        newest = max(newest, timestamp)


def outs(step: Step) -> list[str]:
    """Return the names of all that a step makes."""
    branches = [*step.get("branches", []), *([step["default"]] if "default" in step else [])]
    return [each["out"] for each in (step, *branches) if "out" in each]


def _operator(step: Step, kinds: dict[str, str]) -> str:
    if "from" not in step:
        return str(step["op"])
    called = f"{kinds[step['from']]}.{step['op']}"
    with_what = kinds.get(step.get("other", ""), "")
    return f"{called}({with_what})" if step["op"] == "join" else called


def kinds_of(steps: list[Step]) -> dict[str, str]:
    """Return what each step makes: a stream, a table, groups, windows, cogrouped ones."""
    kinds: dict[str, str] = {}
    for step in steps:
        source = kinds.get(step.get("from", ""), "")
        operation = step["op"]
        made = source
        if operation in {"stream", "to_stream"}:
            made = "stream"
        elif operation in {"table", "to_table", "count", "reduce", "aggregate"}:
            made = "table"
        elif operation == "global_table":
            made = "global table"
        elif operation in {"group_by", "group_by_key"}:
            made = f"{source} groups"
        elif operation == "cogroup":
            made = "cogrouped"
        elif operation == "windowed_by":
            windows = "sessions" if step["windows"]["kind"] == "session" else "windows"
            made = f"cogrouped {windows}" if source == "cogrouped" else windows
        kinds |= dict.fromkeys(outs(step), made)
    return kinds
