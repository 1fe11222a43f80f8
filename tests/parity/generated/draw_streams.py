"""Draws operations of streams."""

from __future__ import annotations

from tests.parity.generated.coverage import outs
from tests.parity.generated.draw_stores import kept, store, versioned
from tests.parity.generated.drawing import Drawing, Made
from tests.parity.generated.functions import (
    EXTRACTORS,
    FLAT_VALUES,
    JOINERS,
    KEYS,
    LONG_VALUES,
    PARTITIONERS,
    PREDICATES,
    VALUES,
)
from tests.parity.generated.options import Step

# More of them, one upon the other, make of a few records millions.
_MOST_JOINS = 3


def stream(drawing: Drawing) -> None:
    step: Step = {"op": "stream"}
    if drawing.percent(8):
        topic = drawing.topic("wild")
        step["pattern"] = f"{topic}-[a-c]"
        # Kafka's test driver counts the offsets of all topics of a pattern as of one.
        drawing.topics.append(f"{topic}-a")
    else:
        topics = [drawing.topic("in") for _ in range(2 if drawing.percent(12) else 1)]
        if drawing.topics and drawing.percent(5):
            topics = [drawing.one_of(drawing.topics)]
        step["topics"] = topics
        drawing.topics += topics
    _consumed(drawing, step)
    drawing.add(step, drawing.new("stream"))


def table(drawing: Drawing) -> None:
    topic = drawing.topic("tab")
    step: Step = {"op": "table", "topic": topic}
    drawing.topics.append(topic)
    _consumed(drawing, step)
    history = drawing.percent(25)
    serdes = drawing.serdes("string", "string")
    step |= versioned(drawing, serdes) if history else kept(drawing, "string", "string")
    drawing.add(step, drawing.new("table", versioned=history))


def _consumed(drawing: Drawing, step: Step) -> None:
    consumed = drawing.sometimes_named(drawing.serdes("string", "string", chance=20))
    if drawing.percent(12) and "extractor" not in drawing.without:
        consumed["extractor"] = drawing.one_of([*EXTRACTORS])
    if consumed:
        step["consumed"] = consumed


# ---------------------------------------------------------------------- one record at a time


def filtered(drawing: Drawing, source: Made) -> None:
    step = {"op": drawing.one_of(("filter", "filter_not")), "fn": drawing.one_of([*PREDICATES])}
    drawing.sometimes_named(step)
    drawing.add(step, drawing.new("stream", key=source.key, value=source.value), source)


def mapped_values(drawing: Drawing, source: Made) -> None:
    fn = drawing.one_of([*VALUES])
    step: Step = {"op": "map_values", "fn": fn}
    if drawing.percent(40):
        step["with_key"] = True
    drawing.sometimes_named(step)
    drawing.add(step, drawing.new("stream", key=source.key, value=value_of(fn)), source)


def value_of(fn: str) -> str:
    return "long" if fn in LONG_VALUES else "string"


def flat_mapped_values(drawing: Drawing, source: Made) -> None:
    step: Step = {"op": "flat_map_values", "fn": drawing.one_of([*FLAT_VALUES])}
    if drawing.percent(40):
        step["with_key"] = True
    drawing.sometimes_named(step)
    drawing.add(step, drawing.new("stream", key=source.key), source)


def mapped(drawing: Drawing, source: Made) -> None:
    key, value = drawing.one_of([*KEYS]), drawing.one_of([*VALUES])
    step = drawing.sometimes_named({"op": "map", "fn": f"{key}+{value}"})
    drawing.add(step, drawing.new("stream", value=value_of(value)), source)


def flat_mapped(drawing: Drawing, source: Made) -> None:
    fn = f"{drawing.one_of([*KEYS])}+{drawing.one_of([*FLAT_VALUES])}"
    step = drawing.sometimes_named({"op": "flat_map", "fn": fn})
    drawing.add(step, drawing.new("stream"), source)


def select_key(drawing: Drawing, source: Made) -> None:
    step = drawing.sometimes_named({"op": "select_key", "fn": drawing.one_of([*KEYS])})
    drawing.add(step, drawing.new("stream", value=source.value), source)


def peek(drawing: Drawing, source: Made) -> None:
    step = drawing.sometimes_named({"op": "peek", "label": f"peek-{drawing.number()}"})
    drawing.add(step, drawing.new("stream", key=source.key, value=source.value), source)


def ended(drawing: Drawing, source: Made) -> None:
    if drawing.percent(50) or source.key != "string":
        step: Step = {"op": "foreach", "label": f"foreach-{drawing.number()}"}
    else:
        step = {"op": "print", "mapped": drawing.percent(50), "file": f"{drawing.number()}"}
        if drawing.percent(60):
            step["label"] = f"print-{drawing.number()}"
    drawing.add(drawing.sometimes_named(step), None, source)


# ---------------------------------------------------------------------- processors


def processed(drawing: Drawing, source: Made) -> None:
    kind = drawing.one_of(("tag", "count", "wall_clock", "stream_time"))
    step: Step = {"op": "process", "kind": kind}
    if kind == "count":
        step["store"] = store(drawing)
    if kind.endswith(("clock", "time")):
        step["every_ms"] = drawing.span(1, 3, 10)
        if drawing.percent(40) and "anchor" not in drawing.without:
            step["anchor_ms"] = drawing.one_of((0, drawing.span(1, 3, 10)))
    value = "string" if kind == "count" or source.value == "string" else source.value
    if value != "string" or (kind != "count" and source.key != "string"):
        return  # What they forward beside it are strings.
    key = source.key
    drawing.sometimes_named(step)
    drawing.add(step, drawing.new("stream", key=key), source)


def processed_values(drawing: Drawing, source: Made) -> None:
    step: Step = {"op": "process_values", "kind": "number"}
    if drawing.percent(50):
        step["store"] = store(drawing, ("key_value", "memory"))
    drawing.sometimes_named(step)
    drawing.add(step, drawing.new("stream", key=source.key), source)


# ---------------------------------------------------------------------- several streams, topics


def merged(drawing: Drawing, source: Made) -> None:
    other = drawing.pick("stream", where=lambda each: same_types(each, source))
    if other is None or other is source:
        return
    step = drawing.sometimes_named({"op": "merge"})
    drawing.add(step, drawing.new("stream", key=source.key, value=source.value), source, other)


def same_types(left: Made, right: Made) -> bool:
    return (left.key, left.value) == (right.key, right.value)


def split(drawing: Drawing, source: Made) -> None:
    branches: list[Step] = []
    for number in range(drawing.one_of((1, 2, 3))):
        branch: Step = {"fn": drawing.one_of([*PREDICATES])}
        branches.append(_branch(drawing, branch, f"-{number}x"))
    step: Step = drawing.sometimes_named({"op": "split", "branches": branches})
    if drawing.percent(60):
        step["default"] = _branch(drawing, {}, "-rest")
    drawing.add(step, None, source)
    drawing.made += [
        Made(out, "stream", source.key, source.value, joins=source.joins) for out in outs(step)
    ]


def _branch(drawing: Drawing, branch: Step, suffix: str) -> Step:
    branch["out"] = f"s{drawing.number()}"
    if drawing.percent(35):
        branch["name"] = drawing.new_name() + suffix
    return branch


def repartitioned(drawing: Drawing, source: Made) -> None:
    step: Step = {"op": "repartition"}
    options = drawing.sometimes_named(drawing.serdes(source.key, source.value))
    _partitioner(drawing, options)
    if options:
        step["repartitioned"] = options
    drawing.add(step, drawing.new("stream", key=source.key, value=source.value), source)


def _partitioner(drawing: Drawing, options: Step) -> None:
    if drawing.percent(15):
        options["partitioner"] = drawing.one_of([*PARTITIONERS])


def to_topic(drawing: Drawing, source: Made) -> None:
    """Write to a topic of its own, or, rarely, to one that is read."""
    step: Step = {"op": "to", "topic": drawing.topic("out")}
    if drawing.percent(15):
        step["extractor"] = True
    produced = drawing.sometimes_named(drawing.serdes(source.key, source.value), chance=15)
    _partitioner(drawing, produced)
    if produced:
        step["produced"] = produced
    drawing.add(step, None, source)


def through(drawing: Drawing, source: Made) -> None:
    """Write to a topic and read it again, as a stream."""
    if not same_types(source, Made("", "stream")):
        return
    topic = drawing.topic("through")
    drawing.add({"op": "to", "topic": topic}, None, source)
    made = drawing.new("stream", joins=source.joins)
    drawing.add({"op": "stream", "topics": [topic]}, made)


def to_table(drawing: Drawing, source: Made) -> None:
    step = drawing.sometimes_named({"op": "to_table"})
    step |= kept(drawing, source.key, source.value, must=True)
    drawing.add(step, drawing.new("table", key=source.key, value=source.value), source)


# ---------------------------------------------------------------------- joins


def joined_with_table(drawing: Drawing, source: Made) -> None:
    other = drawing.pick("table", where=lambda each: each.key == source.key)
    if other is None:
        return
    step: Step = {"op": "join", "kind": drawing.one_of(("inner", "left"))}
    parts = ("key", "value", "other_value")
    options = drawing.serdes(source.key, source.value, other.value, parts=parts)
    drawing.sometimes_named(options)
    if other.versioned and drawing.percent(60):
        options["grace_ms"] = drawing.one_of((0, drawing.span(1, 2, 4)))
    if options:
        step["joined"] = options
    _join(drawing, step, source, other)


def joined_with_stream(drawing: Drawing, source: Made) -> None:
    def fits(each: Made) -> bool:
        return each.key == source.key and each.joins + source.joins < _MOST_JOINS

    other = drawing.pick("stream", where=fits)
    if drawing.percent(15) and fits(source):
        other = source
    if other is None:
        return
    step: Step = {"op": "join", "kind": drawing.one_of(("inner", "left", "outer"))}
    before_ms, after_ms = (drawing.one_of((0, drawing.span(1, 2, 4))) for _ in range(2))
    if drawing.percent(60):
        before_ms = after_ms
    grace_ms = drawing.one_of((0, drawing.span(1, 3, 10)))
    step["windows"] = {"before_ms": before_ms, "after_ms": after_ms, "grace_ms": grace_ms}
    parts = ("key", "value", "other_value")
    options = drawing.serdes(source.key, source.value, other.value, parts=parts)
    drawing.sometimes_named(options)
    drawing.sometimes_named(options, "store_name")
    if drawing.percent(20):
        size_ms = before_ms + after_ms
        sides = drawing.one_of((("this",), ("other",), ("this", "other")))
        for side in sides:
            options[f"{side}_supplier"] = {
                "kind": drawing.one_of(("window", "memory_window")),
                "name": drawing.new_name(),
                "size_ms": size_ms,
                "retention_ms": size_ms + grace_ms,
                "duplicates": True,
            }
    elif drawing.percent(25):
        options["store_type"] = drawing.one_of(("memory", "disk"))
    if drawing.percent(20):
        options["logging"] = drawing.percent(50)
    if options:
        step["joined"] = options
    _join(drawing, step, source, other).joins += 1


def _join(drawing: Drawing, step: Step, source: Made, other: Made) -> Made:
    step["fn"] = drawing.one_of([*JOINERS])
    if drawing.percent(40):
        step["with_key"] = True
    made = drawing.new("stream", key=source.key)
    drawing.add(step, made, source, other)
    return made
