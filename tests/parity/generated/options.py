"""The options of operations, from the JSON of a step: what `Options.java` does in Java."""

from __future__ import annotations

from typing import Any

from pystreams import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    JoinWindows,
    Materialized,
    Serde,
    SessionWindows,
    SlidingWindows,
    StoreEngine,
    Stores,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
    session_windowed_serde,
    time_windowed_serde,
)
from pystreams.serdes import LONG, STRING
from tests.parity.generated.functions import EXTRACTORS, PARTITIONERS

Step = dict[str, Any]

_ENGINES = {"memory": StoreEngine.IN_MEMORY, "disk": StoreEngine.ROCKSDB}


def serde(name: str | None) -> Serde[Any] | None:
    """Return the serde that a step names, or None where it leaves the choice open."""
    if name is None or name in {"string", "long"}:
        return {None: None, "string": STRING, "long": LONG}[name]
    if name == "session":
        return session_windowed_serde(STRING)
    size_ms = int(name.removeprefix("time:"))
    return time_windowed_serde(STRING, size_ms)


def serdes_and(given: Step | None, *others: tuple[str, str]) -> dict[str, Any]:
    """Return the keywords for serdes, and others by their name here and in JSON."""
    if given is None:
        return {}
    keywords = {
        f"{part}_serde": serde(given[part])
        for part in ("key", "value", "other_value")
        if part in given
    }
    return keywords | {here: given[there] for here, there in others if there in given}


def named(given: Step | None) -> dict[str, Any]:
    """Return the keywords for serdes, a name and where times come from."""
    keywords = serdes_and(given, ("name", "name"))
    if given and "extractor" in given:
        keywords["timestamp_extractor"] = EXTRACTORS[given["extractor"]]
    return keywords


def produced(given: Step | None) -> dict[str, Any]:
    return named(given) | _partitioner(given)


def _partitioner(given: Step | None) -> dict[str, Any]:
    if not given or "partitioner" not in given:
        return {}
    return {"partitioner": PARTITIONERS[given["partitioner"]]}


def consumed(given: Step | None) -> Consumed[Any, Any] | None:
    return None if given is None else Consumed(**named(given))


def repartitioned(given: Step | None) -> dict[str, Any]:
    keywords = serdes_and(given, ("name", "name"), ("num_partitions", "partitions"))
    return keywords | _partitioner(given)


def joined(given: Step | None) -> dict[str, Any]:
    return serdes_and(given, ("name", "name"), ("grace_period_ms", "grace_ms"))


def stream_joined(given: Step | None) -> dict[str, Any]:
    keywords = serdes_and(
        given, ("name", "name"), ("store_name", "store_name"), ("logging", "logging")
    )
    for side in ("this", "other"):
        if given and f"{side}_supplier" in given:
            keywords[f"{side}_store_supplier"] = supplier(given[f"{side}_supplier"])
    return keywords | _store_type(given)


def materialized(given: Step) -> dict[str, Any]:
    keywords = serdes_and(
        given,
        ("name", "name"),
        ("caching", "caching"),
        ("logging", "logging"),
        ("retention_ms", "retention_ms"),
    )
    if given and "supplier" in given:
        keywords["supplier"] = supplier(given["supplier"])
    return keywords | _store_type(given)


def kept(given: Step | None) -> Materialized[Any, Any] | None:
    """Return how a table is kept, if the step says so."""
    return None if given is None else Materialized(**materialized(given))


def _store_type(given: Step | None) -> dict[str, Any]:
    return {"store_type": _ENGINES[given["store_type"]]} if given and "store_type" in given else {}


def supplier(given: Step) -> Any:
    """Return a supplier of `Stores`; its kind says which."""
    name, kind = given["name"], given["kind"]
    if kind in {"key_value", "timestamped", "memory"}:
        return {
            "key_value": Stores.persistent_key_value_store,
            "timestamped": Stores.persistent_timestamped_key_value_store,
            "memory": Stores.in_memory_key_value_store,
        }[kind](name)
    if kind == "lru":
        return Stores.lru_map(name, given["entries"])
    retention_ms = given["retention_ms"]
    if kind.startswith("versioned"):
        return Stores.persistent_versioned_key_value_store(
            name, retention_ms, given.get("segment_ms")
        )
    if kind.endswith("session"):
        make = {
            "session": Stores.persistent_session_store,
            "memory_session": Stores.in_memory_session_store,
        }[kind]
        return make(name, retention_ms)
    make_windows = {
        "window": Stores.persistent_window_store,
        "timestamped_window": Stores.persistent_timestamped_window_store,
        "memory_window": Stores.in_memory_window_store,
    }[kind]
    duplicates = given.get("duplicates", False)
    return make_windows(name, retention_ms, given["size_ms"], retain_duplicates=duplicates)


# ---------------------------------------------------------------------- time


def join_windows(given: Step) -> JoinWindows:
    return JoinWindows(given["before_ms"], given["after_ms"], given["grace_ms"])


_WINDOWS: dict[str, tuple[Any, Any]] = {
    "time": (TimeWindows.of_size_with_no_grace, TimeWindows.of_size_and_grace),
    "sliding": (
        SlidingWindows.of_time_difference_with_no_grace,
        SlidingWindows.of_time_difference_and_grace,
    ),
    "session": (
        SessionWindows.of_inactivity_gap_with_no_grace,
        SessionWindows.of_inactivity_gap_and_grace,
    ),
}


def windows(given: Step) -> Any:
    """Return the windows of a group."""
    kind, size_ms = given["kind"], given["size_ms"]
    if kind == "unlimited":
        return UnlimitedWindows.of().start_on(size_ms)
    without_grace, with_grace = _WINDOWS[kind]
    graced = "grace_ms" in given
    made = with_grace(size_ms, given["grace_ms"]) if graced else without_grace(size_ms)
    return made.advance_by(given["advance_ms"]) if "advance_ms" in given else made


def emit_strategy(name: str) -> EmitStrategy:
    return EmitStrategy.on_window_close() if name == "close" else EmitStrategy.on_window_update()


def suppressed(step: Step) -> Any:
    """Return what holds back a table's updates."""
    given = step["buffer"]
    made = BufferConfig.unbounded()
    if "max_records" in given:
        made = BufferConfig.max_records(given["max_records"])
        made = made.with_max_bytes(given["max_bytes"]) if "max_bytes" in given else made
    elif "max_bytes" in given:
        made = BufferConfig.max_bytes(given["max_bytes"])
    if "full" in given:
        emits = given["full"] == "emit"
        made = made.emit_early_when_full() if emits else made.shut_down_when_full()
    if "logging" in given:
        made = made.with_logging_enabled({}) if given["logging"] else made.with_logging_disabled()
    until = (
        Suppressed.until_time_limit(step["wait_ms"], made)
        if "wait_ms" in step
        else Suppressed.until_window_closes(made)
    )
    return until.with_name(step["name"]) if "name" in step else until
