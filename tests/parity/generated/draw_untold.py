"""Leaves out serdes that were drawn, where Kafka Streams takes them from upstream.

Which those are is followed step by step: `filter` keeps both serdes, `map_values` that of keys,
`merge` none; `count` has one of its own for values. Those of texts are the configured defaults.
"""

from __future__ import annotations

import random

from tests.parity.generated.coverage import kinds_of, outs
from tests.parity.generated.draw_tables import key_of
from tests.parity.generated.options import Step

Serdes = dict[str, str]
"""The names of serdes that are known, of a "key" and of a "value"."""

_OF_KEYS = frozenset(
    ("map_values", "flat_map_values", "transform_values", "process_values", "aggregate")
)
_OF_NOTHING = frozenset(("map", "flat_map", "merge", "process"))
_AGGREGATIONS = frozenset(("count", "reduce", "aggregate"))


def leave_out(choices: random.Random, steps: list[Step]) -> None:
    """Leave out about half of the serdes that are known without."""
    known: dict[str, Serdes] = {}
    windows: dict[str, Step] = {}
    kinds = kinds_of(steps)
    for step in steps:
        kind = kinds.get(step.get("from", ""), "")
        found = _found(step, known.get(step.get("from", ""), {}), kind)
        for options in _options_that_inherit(step, kind):
            for part in _known_in(options, found):
                if choices.random() < 0.5:
                    del options[part]
        grouped = step.get("grouped", {"name": ""})
        if "name" not in grouped and len(_known_in(grouped, found)) == len(_telling(grouped)):
            del step["grouped"]
        if step["op"] == "windowed_by":
            windows[step["out"]] = step["windows"]
        made = _made(step, found, windows.get(step.get("from", "")))
        known |= dict.fromkeys(outs(step), made)


def _options_that_inherit(step: Step, kind: str) -> list[Step]:
    given = [step.get(name, {}) for name in ("produced", "repartitioned", "joined")]
    kept = step.get("materialized", {})
    # Stores that are no aggregation's have the serdes that are said of them, or the defaults.
    derived = kind == "table" and bool({"name", "supplier"} & kept.keys())
    return given if derived or step["op"] == "to_table" else [*given, kept]


def _telling(options: Step) -> list[str]:
    """Return the parts whose serdes are no default."""
    return [part for part in ("key", "value") if options.get(part, "string") != "string"]


def _known_in(options: Step, found: Serdes) -> list[str]:
    return [part for part in _telling(options) if found.get(part) == options[part]]


def _found(step: Step, above: Serdes, kind: str) -> Serdes:
    """Return the serdes that a step works with if it names none."""
    operation = step["op"]
    of_table_to_groups = operation == "group_by" and kind == "table"
    of_cogroup = operation == "aggregate" and kind.startswith("cogrouped")
    of_both_sides = operation == "join" and bool({"windows", "foreign_key"} & step.keys())
    if operation in _OF_NOTHING or of_table_to_groups or of_cogroup or of_both_sides:
        return {}
    if operation == "count":
        return {**above, "value": "long"}
    if operation in _OF_KEYS or (operation == "join" and kind == "table"):
        return _only("key", above)
    if operation in {"select_key", "group_by"} or (operation == "to_stream" and "fn" in step):
        return _only("value", above)
    return above


def _only(part: str, serdes: Serdes) -> Serdes:
    return {part: serdes[part]} if part in serdes else {}


def _made(step: Step, found: Serdes, windows: Step | None) -> Serdes:
    """Return the serdes that are known of what a step makes."""
    if step["op"] in {"table", "stream"}:
        return _named(step.get("consumed") or step.get("materialized") or {})
    if "grouped" in step:
        return _named(step["grouped"])
    if step["op"] == "join" and "materialized" not in step:
        return _only("key", {**found, **_named(step.get("joined", {}))})
    made = {
        **found,
        **_named(step.get("repartitioned", {})),
        **_named(step.get("materialized", {})),
    }
    if windows is not None and step["op"] in _AGGREGATIONS:
        key = made.pop("key", None)
        return made if key is None else {**made, "key": key_of(windows)}
    return made


def _named(options: Step) -> Serdes:
    return {part: options[part] for part in ("key", "value") if part in options}
