"""Draws global tables and stores, and what looks into them."""

from __future__ import annotations

from tests.parity.generated.draw_stores import kept, store
from tests.parity.generated.drawing import Drawing, Made
from tests.parity.generated.functions import JOINERS, KEYS
from tests.parity.generated.options import Step


def global_table(drawing: Drawing) -> None:
    _table_of(drawing, _topic(drawing))


def _topic(drawing: Drawing) -> str:
    topic = drawing.topic("all")
    # Most of its rows come first, as an application reads them.
    drawing.topics += [topic, topic]
    return topic


def _table_of(drawing: Drawing, topic: str) -> None:
    step: Step = {"op": "global_table", "topic": topic}
    consumed = drawing.sometimes_named(drawing.serdes("string", "string", chance=20))
    if consumed:
        step["consumed"] = consumed
    options: Step = kept(drawing, "string", "string").get("materialized", {})
    name = options.get("name") or options.get("supplier", {}).get("name")
    if name is not None:
        # Kafka Streams fails with options that have no name.
        step["materialized"] = {**options, "logging": False}
        drawing.global_stores.append(name)
    drawing.add(step, drawing.new("global_table"))


def written_global_table(drawing: Drawing, source: Made) -> None:
    """Write to a topic that is read as a global table."""
    if (source.key, source.value) != ("string", "string"):
        return
    topic = drawing.topic("written")
    drawing.add({"op": "to", "topic": topic}, None, source)
    _table_of(drawing, topic)


def global_store(drawing: Drawing) -> None:
    made = store(drawing)
    step: Step = {"op": "global_store", "topic": _topic(drawing), "store": made}
    consumed = drawing.sometimes_named(drawing.serdes("string", "string", chance=20))
    if consumed:
        step["consumed"] = consumed
    drawing.global_stores.append(made["name"])
    drawing.add(step, None)


def joined_with_global_table(drawing: Drawing, source: Made) -> None:
    other = drawing.pick("global_table")
    if other is None:
        return
    step: Step = {"op": "join", "kind": drawing.one_of(("inner", "left"))}
    step["selector"] = drawing.one_of([*KEYS, "of_rows", "of_rows"])
    step["fn"] = drawing.one_of([*JOINERS])
    if drawing.percent(40):
        step["with_key"] = True
    drawing.sometimes_named(step)
    drawing.add(step, drawing.new("stream", key=source.key), source, other)


def looked_up(drawing: Drawing, source: Made) -> None:
    if not drawing.global_stores:
        return
    step: Step = {"op": "process", "kind": "look_up", "fn": drawing.one_of([*KEYS, "of_rows"])}
    step["looks_into"] = drawing.one_of(drawing.global_stores)
    drawing.sometimes_named(step)
    drawing.add(step, drawing.new("stream", key=source.key), source)


def read_only_store(drawing: Drawing) -> None:
    """Add a store that is filled from a topic, and what looks records of another one up in it."""
    step: Step = {"op": "read_only_store", "label": drawing.new_name(), "store": store(drawing)}
    step |= {"topic": drawing.topic("rows"), "reads": drawing.topic("looks")}
    step |= {"writes": drawing.topic("out"), "fn": drawing.one_of([*KEYS, "of_rows", "of_rows"])}
    drawing.topics += [step["topic"], step["reads"]]
    drawing.add(step, None)
