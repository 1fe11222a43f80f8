"""Draws operations of tables, of groups and of windows."""

from __future__ import annotations

from tests.parity.generated.draw_stores import kept, kept_windows, store
from tests.parity.generated.draw_streams import value_of
from tests.parity.generated.drawing import Drawing, Made
from tests.parity.generated.functions import JOINERS, KEYS, PREDICATES, VALUES
from tests.parity.generated.options import Step

_LONGEST_MS = 2**63 - 1

# ---------------------------------------------------------------------- tables


def filtered(drawing: Drawing, source: Made) -> None:
    step: Step = {
        "op": drawing.one_of(("filter", "filter_not")),
        "fn": drawing.one_of([*PREDICATES]),
    }
    drawing.sometimes_named(step)
    step |= _kept_maybe(drawing, source.key, source.value)
    made = drawing.new(
        "table",
        key=source.key,
        value=source.value,
        windows=source.windows,
        versioned=source.versioned and "materialized" not in step,
    )
    drawing.add(step, made, source)


def mapped_values(drawing: Drawing, source: Made) -> None:
    fn = drawing.one_of([*VALUES])
    step: Step = {"op": "map_values", "fn": fn}
    if drawing.percent(40):
        step["with_key"] = True
    drawing.sometimes_named(step)
    step |= _kept_maybe(drawing, source.key, value_of(fn))
    made = drawing.new("table", key=source.key, value=value_of(fn), windows=source.windows)
    drawing.add(step, made, source)


def _kept_maybe(drawing: Drawing, key: str, value: str) -> Step:
    return kept(drawing, key, value) if drawing.percent(40) else {}


def transformed_values(drawing: Drawing, source: Made) -> None:
    step: Step = {"op": "transform_values"}
    drawing.sometimes_named(step)
    step |= _kept_maybe(drawing, source.key, "string")
    options = step.get("materialized", {})
    # One that is asked at each lookup, of a table that is not kept, must not write.
    if ("name" in options or "supplier" in options) and drawing.percent(60):
        step["store"] = store(drawing, ("key_value", "memory"))
    made = drawing.new("table", key=source.key, windows=source.windows)
    drawing.add(step, made, source)


def to_stream(drawing: Drawing, source: Made) -> None:
    step: Step = drawing.sometimes_named({"op": "to_stream"})
    key = source.key
    if drawing.percent(25):
        step["fn"], key = drawing.one_of([*KEYS]), "string"
    drawing.add(step, drawing.new("stream", key=key, value=source.value), source)


def group_by(drawing: Drawing, source: Made) -> None:
    key, value = drawing.one_of([*KEYS]), drawing.one_of([*VALUES])
    step: Step = {"op": "group_by", "fn": f"{key}+{value}"}
    explicit = _grouped(drawing, step, "string", value_of(value))
    made = drawing.new("table_groups", value=value_of(value), explicit=explicit)
    drawing.add(step, made, source)


def suppressed(drawing: Drawing, source: Made) -> None:
    if source.versioned and drawing.percent(95):
        return  # It is refused.
    step: Step = drawing.sometimes_named({"op": "suppress"})
    buffer: Step = {}
    if drawing.percent(40):
        buffer["max_records"] = drawing.one_of((0, 1, 2, 3, 10))
    if drawing.percent(20):
        buffer["max_bytes"] = drawing.one_of((0, 100, 300, 1000))
    if drawing.percent(15):
        buffer["logging"] = drawing.percent(40)
    closes = source.windows is not None and drawing.percent(60)
    if not closes:
        step["wait_ms"] = drawing.one_of((0, drawing.span(1, 2, 5)))
    if buffer.keys() & {"max_records", "max_bytes"}:
        may_fill = drawing.percent(10)
        if closes:
            buffer["full"] = "stop"
            if not may_fill:
                buffer = {"max_records": 1000, "full": "stop"}
        elif drawing.percent(50):
            buffer["full"] = "emit"
    step["buffer"] = buffer
    drawing.add(step, drawing.new("table", key=source.key, value=source.value), source)


def joined(drawing: Drawing, source: Made) -> None:
    other = drawing.pick("table", where=lambda each: each.key == source.key)
    if other is None:
        return
    step: Step = {"op": "join", "kind": drawing.one_of(("inner", "left", "outer"))}
    step["fn"] = drawing.one_of([*JOINERS])
    drawing.sometimes_named(step)
    step |= _kept_maybe(drawing, source.key, "string")
    drawing.add(step, drawing.new("table", key=source.key), source, other)


def joined_by_foreign_key(drawing: Drawing, source: Made) -> None:
    def plain(each: Made) -> bool:
        return (each.key, each.value) == ("string", "string")

    other = drawing.pick("table", where=plain)
    if other is None or not plain(source):
        return
    step: Step = {"op": "join", "kind": drawing.one_of(("inner", "left"))}
    step["fn"] = drawing.one_of([*JOINERS])
    step["foreign_key"] = drawing.one_of([*KEYS, "of_rows", "of_rows"])
    drawing.sometimes_named(step)
    if drawing.percent(30):
        step["with_key"] = True
    if drawing.percent(30):
        step["partitioners"] = drawing.one_of((["this"], ["other"], ["this", "other"]))
        step["label"] = f"partitions-{drawing.number()}"
    step |= _kept_maybe(drawing, "string", "string")
    drawing.add(step, drawing.new("table"), source, other)


# ---------------------------------------------------------------------- groups


def stream_groups(drawing: Drawing, source: Made) -> None:
    if drawing.percent(50):
        step: Step = {"op": "group_by_key"}
        key = source.key
    else:
        step, key = {"op": "group_by", "fn": drawing.one_of([*KEYS])}, "string"
    explicit = _grouped(drawing, step, key, source.value)
    made = drawing.new("groups", key=key, value=source.value, explicit=explicit)
    drawing.add(step, made, source)


def _grouped(drawing: Drawing, step: Step, key: str, value: str) -> bool:
    grouped = drawing.serdes(key, value)
    explicit = bool(grouped)
    drawing.sometimes_named(grouped)
    if grouped:
        step["grouped"] = grouped
    return explicit


def windowed(drawing: Drawing, source: Made) -> None:
    kinds = ("time", "time", "hopping", "sliding", "session", "session", "unlimited")
    kind = drawing.one_of(kinds)
    if source.key != "string" or kind in drawing.without:
        return
    windows: Step = {
        "kind": "time" if kind == "hopping" else kind,
        "size_ms": drawing.span(1, 2, 3, 5),
    }
    if kind == "hopping":
        size_ms = windows["size_ms"] = max(2, windows["size_ms"])
        windows["advance_ms"] = max(1, size_ms // drawing.one_of((1, 2, 3, 5)))
    if kind != "unlimited" and drawing.percent(60):
        windows["grace_ms"] = drawing.one_of((0, drawing.span(1, 2, 5)))
    step: Step = {"op": "windowed_by", "windows": windows}
    cogrouped = source.kind == "cogrouped"
    if not cogrouped and drawing.percent(40) and kind != "unlimited":
        step["emit"] = drawing.one_of(("close", "close", "update"))
    made = drawing.new(
        "windowed_cogroup" if cogrouped else "windowed",
        value=source.value,
        windows=windows,
        emits=step.get("emit"),
        explicit=source.explicit,
    )
    drawing.add(step, made, source)


def cogrouped(drawing: Drawing, source: Made) -> None:
    """Begin with groups, or add some to others."""
    into = drawing.pick(
        "cogrouped",
        where=lambda each: each.key == source.key and not each.used and source.name not in each.of,
    )
    if into is not None and drawing.percent(60):
        _add_to_cogroup(drawing, into, source)
        return
    value = drawing.one_of(("string", "long"))
    step = {"op": "cogroup", "fn": _aggregator(drawing, value)}
    made = drawing.new("cogrouped", key=source.key, value=value, of=(source.name,))
    drawing.add(step, made, source)
    stream = drawing.pick("stream", where=lambda each: each.key == source.key)
    if stream is not None and drawing.percent(60):
        stream_groups(drawing, stream)
        if drawing.made[-1].key == made.key:
            _add_to_cogroup(drawing, made, drawing.made[-1])


def _add_to_cogroup(drawing: Drawing, into: Made, source: Made) -> None:
    step = {"op": "cogroup", "fn": _aggregator(drawing, into.value)}
    of = (*into.of, source.name)
    made = drawing.new("cogrouped", key=source.key, value=into.value, of=of)
    drawing.add(step, made, into, source)
    drawing.made.remove(into)  # In Kafka Streams it is the same object.


def _aggregator(drawing: Drawing, value: str) -> str:
    return "add" if value == "long" else drawing.one_of(("collect", "with_key", "delete"))


# ---------------------------------------------------------------------- aggregations


def aggregated(drawing: Drawing, source: Made) -> None:
    kind = drawing.one_of(("count", "reduce", "aggregate"))
    if source.kind in {"cogrouped", "windowed_cogroup"}:
        kind = "aggregate"
    step: Step = {"op": kind}
    value = "long" if kind == "count" else source.value
    subtracts = source.kind == "table_groups"
    if kind == "reduce":
        _reducers(drawing, step, value, subtracts=subtracts)
    elif kind == "aggregate":
        value = _aggregators(drawing, step, source)
    windows = source.windows
    must = kind == "aggregate" or (kind == "reduce" and not source.explicit)
    if windows is None:
        step |= kept(drawing, source.key, value, must=must)
    else:
        step |= kept_windows(drawing, value, source, must=must)
    # Without options some of Kafka's methods take no name.
    if "materialized" in step:
        drawing.sometimes_named(step)
    key = source.key if windows is None else key_of(windows)
    drawing.add(step, drawing.new("table", key=key, value=value, windows=windows), source)


def key_of(windows: Step) -> str:
    """Return the name of the serde of keys in these windows."""
    if windows["kind"] == "session":
        return "session"
    return f"time:{_LONGEST_MS if windows['kind'] == 'unlimited' else windows['size_ms']}"


def _reducers(drawing: Drawing, step: Step, value: str, *, subtracts: bool) -> None:
    if value == "long":
        step["fn"] = "sum"
    else:
        step["fn"] = drawing.one_of(("append", "latest", "delete", "larger"))
    if subtracts:
        step["subtractor"] = "minus" if value == "long" else drawing.one_of(("remove", "delete"))


def _aggregators(drawing: Drawing, step: Step, source: Made) -> str:
    cogroup = source.kind in {"cogrouped", "windowed_cogroup"}
    value = source.value if cogroup else drawing.one_of(("string", "long"))
    if value == "long":
        step["initial"] = "zero"
    else:
        step["initial"] = "null" if drawing.percent(10) else "empty"
    if not cogroup:
        step["fn"] = _aggregator(drawing, value)
    if source.kind == "table_groups":
        subtractors = ("uncollect", "delete")
        step["subtractor"] = "subtract" if value == "long" else drawing.one_of(subtractors)
    if source.windows is not None and source.windows["kind"] == "session":
        mergers = ("append", "latest", "delete")
        step["merger"] = "sum" if value == "long" else drawing.one_of(mergers)
    return value
