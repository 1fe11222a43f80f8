"""Draws how tables are kept."""

from __future__ import annotations

from collections.abc import Sequence

from tests.parity.generated.drawing import Drawing, Made, keeps_ms
from tests.parity.generated.options import Step

_A_MINUTE_MS = 60_000
_AN_HOUR_MS = 3_600_000


def kept(drawing: Drawing, key: str, value: str, *, must: bool = False) -> Step:
    """Return a "materialized" in a dictionary of its own, or none.

    Args:
        must: Whether the serdes have to be given.
    """
    serdes = drawing.serdes(key, value)
    if not (serdes and must) and drawing.percent(50):
        return {}
    return {"materialized": _options(drawing, serdes)}


def _options(drawing: Drawing, serdes: Step) -> Step:
    chosen = dict(serdes)
    if drawing.percent(20):
        kind = drawing.one_of(("key_value", "timestamped", "memory", "memory"))
        chosen["supplier"] = {"kind": kind, "name": drawing.new_name()}
        if kind == "key_value":
            # It forgets timestamps, which are then known as long as they are in the cache.
            return chosen | {"caching": False}
    else:
        drawing.sometimes_named(chosen, chance=60)
        if drawing.percent(20):
            chosen["store_type"] = drawing.one_of(("memory", "disk"))
    return with_switches(drawing, chosen)


def with_switches(drawing: Drawing, chosen: Step) -> Step:
    """Turn caching and logging on or off, or leave them."""
    if drawing.percent(30):
        chosen["caching"] = drawing.percent(50)
    if drawing.percent(20):
        chosen["logging"] = drawing.percent(50)
    return chosen


def store(drawing: Drawing, kinds: Sequence[str] = ("key_value", "timestamped", "memory")) -> Step:
    """Return a store of a processor's own."""
    made: Step = {"kind": drawing.one_of(kinds), "name": drawing.new_name()}
    if drawing.percent(10) and "lru" not in drawing.without:
        return made | {"kind": "lru", "entries": drawing.one_of((1, 2))}
    return made | ({"caching": True} if drawing.percent(40) else {})


def versioned(drawing: Drawing, serdes: Step) -> Step:
    """Return a "materialized" whose store keeps history."""
    supplier: Step = {
        "kind": "versioned",
        "name": drawing.new_name(),
        "retention_ms": drawing.one_of((_A_MINUTE_MS, 600_000, drawing.scale_ms * 20)),
    }
    if drawing.percent(30):
        supplier |= {"kind": "versioned_segments", "segment_ms": drawing.scale_ms * 5 + 1}
    chosen = {**serdes, "supplier": supplier}
    if drawing.percent(20):
        chosen["logging"] = drawing.percent(50)
    return {"materialized": chosen}


def kept_windows(drawing: Drawing, value: str, source: Made, *, must: bool) -> Step:
    """Return a "materialized" of windows in a dictionary of its own, or none."""
    windows = source.windows
    assert windows is not None, "the source is windowed"
    serdes = drawing.serdes("string", value)
    final = source.emits == "close" and drawing.percent(95)
    # Which sessions are found depends on the cache, if they are kept no longer than they may grow.
    final = final or (windows["kind"] == "session" and drawing.percent(50))
    final = final or (source.kind == "windowed_cogroup" and windows["kind"] != "unlimited")
    if not (serdes and must) and not final and drawing.percent(50):
        return {}
    chosen = dict(serdes)
    more_ms = drawing.one_of((0, 0, drawing.scale_ms, _A_MINUTE_MS, _AN_HOUR_MS))
    # What is to be emitted on close is lost in Kafka Streams if it is kept no longer than open.
    retention_ms = keeps_ms(windows) + (_AN_HOUR_MS * 3 if final else more_ms)
    unlimited = windows["kind"] == "unlimited"
    if drawing.percent(20) and not unlimited:
        supplier = _window_supplier(drawing, windows)
        chosen["supplier"] = supplier | {"name": drawing.new_name(), "retention_ms": retention_ms}
        if supplier["kind"] == "window":
            return {"materialized": chosen | {"caching": False}}
    else:
        drawing.sometimes_named(chosen, chance=60)
        if drawing.percent(20):
            chosen["store_type"] = drawing.one_of(("memory", "disk"))
        if final or (drawing.percent(25) and not unlimited):
            chosen["retention_ms"] = retention_ms
    return {"materialized": with_switches(drawing, chosen)}


def _window_supplier(drawing: Drawing, windows: Step) -> Step:
    if windows["kind"] == "session":
        return {"kind": drawing.one_of(("session", "memory_session"))}
    kind = drawing.one_of(("window", "timestamped_window", "memory_window"))
    return {"kind": kind, "size_ms": windows["size_ms"]}
