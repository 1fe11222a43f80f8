"""Draws a case from a seed: a topology over everything the DSL has, and its input."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.parity.generated import draw_global, draw_streams, draw_tables, draw_untold
from tests.parity.generated.draw_input import draw_input
from tests.parity.generated.drawing import Drawing, Made
from tests.parity.generated.options import Step

_Operation = Callable[[Drawing, Made], None]

# What can be called on what, and how often it is.
_OPERATIONS: dict[str, list[tuple[int, str, _Operation]]] = {
    "stream": [
        (4, "", draw_streams.filtered),
        (4, "", draw_streams.mapped_values),
        (3, "", draw_streams.flat_mapped_values),
        (3, "", draw_streams.mapped),
        (2, "", draw_streams.flat_mapped),
        (4, "", draw_streams.select_key),
        (1, "", draw_streams.peek),
        (1, "", draw_streams.ended),
        (4, "", draw_streams.processed),
        (2, "", draw_streams.processed_values),
        (3, "", draw_streams.merged),
        (3, "", draw_streams.split),
        (3, "", draw_streams.repartitioned),
        (1, "", draw_streams.to_topic),
        (2, "", draw_streams.through),
        (4, "", draw_streams.to_table),
        (7, "", draw_streams.joined_with_table),
        (7, "", draw_streams.joined_with_stream),
        (6, "global", draw_global.joined_with_global_table),
        (3, "global", draw_global.looked_up),
        (1, "global", draw_global.written_global_table),
        (14, "", draw_tables.stream_groups),
    ],
    "table": [
        (4, "", draw_tables.filtered),
        (4, "", draw_tables.mapped_values),
        (4, "transform_values", draw_tables.transformed_values),
        (5, "", draw_tables.to_stream),
        (5, "", draw_tables.group_by),
        (7, "", draw_tables.joined),
        (5, "foreign_key", draw_tables.joined_by_foreign_key),
        (6, "suppress", draw_tables.suppressed),
    ],
    "groups": [
        (5, "", draw_tables.aggregated),
        (8, "windowed_by", draw_tables.windowed),
        (4, "cogroup", draw_tables.cogrouped),
    ],
    "table_groups": [(1, "", draw_tables.aggregated)],
    "windowed": [(1, "", draw_tables.aggregated)],
    "cogrouped": [
        (2, "", draw_tables.aggregated),
        (3, "windowed_by", draw_tables.windowed),
    ],
    "windowed_cogroup": [(1, "", draw_tables.aggregated)],
}
_REPARTITION = frozenset(
    ("group_by", "select_key", "map", "flat_map", "repartition", "process", "to_stream")
)

_OPTIMIZATIONS = (
    "all",
    "all",
    "all",
    "reuse.ktable.source.topics",
    "merge.repartition.topics",
    "single.store.self.join",
    "merge.repartition.topics,reuse.ktable.source.topics",
)


def draw(seed: int, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the case of a seed.

    Args:
        seed: Any number.
        without: Operations, and kinds of windows, that are not drawn.
    """
    choices = random.Random(seed)
    drawing = Drawing(choices, choices.choice((5, 20, 100)), without)
    draw_streams.stream(drawing)
    for _ in range(drawing.one_of((0, 1, 1, 2))):
        drawing.one_of((draw_streams.stream, draw_streams.table))(drawing)
    if "global" not in drawing.without:
        for _ in range(drawing.one_of((0, 0, 1, 2))):
            drawing.one_of((draw_global.global_table, draw_global.global_store))(drawing)
    if "read_only_store" not in drawing.without and drawing.percent(10):
        draw_global.read_only_store(drawing)
    for _ in range(drawing.one_of((2, 4, 6, 9))):
        _operation(drawing)
    _finish(drawing)
    start_ms = drawing.one_of((0, 1_000, 1_700_000_000_000))
    optimized = drawing.percent(40) and "optimization" not in without
    drawn_input = draw_input(drawing, start_ms, drawing.topics)
    if drawing.percent(50) and "untold" not in without:
        draw_untold.leave_out(choices, drawing.steps)
    return {
        **({"optimization": drawing.one_of(_OPTIMIZATIONS)} if optimized else {}),
        "seed": seed,
        "caching": drawing.percent(60),
        "on_disk": drawing.percent(30),
        "emit_interval_ms": drawing.one_of((0, 0, 1_000)),
        "start_ms": start_ms,
        "steps": drawing.steps,
        "input": drawn_input,
    }


def _operation(drawing: Drawing) -> None:
    """Add an operation on something that was made."""
    source = drawing.pick(*_OPERATIONS)
    assert source is not None, "there is a stream"
    known = [each for each in _OPERATIONS[source.kind] if each[1] not in drawing.without]
    weights = [weight for weight, _, _ in known]
    drawing.random.choices(known, weights)[0][2](drawing, source)


def _finish(drawing: Drawing) -> None:
    """Let all that was made come out somewhere."""
    for kind in ("groups", "table_groups", "cogrouped", "windowed", "windowed_cogroup"):
        for made in [each for each in drawing.made if each.kind == kind and not each.used]:
            draw_tables.aggregated(drawing, made)
    for made in [each for each in drawing.made if each.kind == "table" and not each.used]:
        if drawing.percent(90):
            draw_tables.to_stream(drawing, made)
    for made in [each for each in drawing.made if each.kind == "stream" and not each.used]:
        draw_streams.to_topic(drawing, made)
    if len(_sources(drawing)) > 1 or any(step["op"] in _REPARTITION for step in drawing.steps):
        _by_the_wall_clock_alone(drawing.steps)


def _sources(drawing: Drawing) -> list[Step]:
    return [step for step in drawing.steps if "from" not in step]


def _by_the_wall_clock_alone(steps: list[Step]) -> None:
    # Java's driver runs all sub-topologies as one task, with one stream time.
    for step in steps:
        if step.get("kind") == "stream_time":
            step["kind"] = "wall_clock"
