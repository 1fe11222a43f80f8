"""Which cases are not compared: README.md says for each rule what Kafka Streams does, and we."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.parity.generated.answer import Answer
from tests.parity.generated.coverage import outs
from tests.parity.generated.drawing import keeps_ms
from tests.parity.generated.options import Step


@dataclass(frozen=True)
class Exclusion:
    """A rule by which cases are not compared.

    Attributes:
        name: Its name, in the table of README.md too.
        applies: Whether it applies to a case, with Kafka Streams' answer.
    """

    name: str
    applies: Callable[[dict[str, Any], Answer], bool]


# Operations that make a table of another, row by row.
_DERIVING = frozenset(("filter", "filter_not", "map_values", "transform_values"))

# Operations that make a table with a store of its own.
_KEEPING = frozenset(("table", "to_table", "count", "reduce", "aggregate"))

# What Kafka Streams merges repartitions past, and we do not.
_MERGED_PAST = frozenset(("process", "process_values", "merge"))

_OF_ONE_RECORD = frozenset(
    ("filter", "filter_not", "map_values", "flat_map_values", "peek", "split")
)


def _history_and_options_without_a_name(case: dict[str, Any], _java: Answer) -> bool:
    versioned: set[str] = set()
    for step in case["steps"]:
        kept = step.get("materialized", {})
        if step["op"] == "table" and kept.get("supplier", {}).get("kind", "")[:4] == "vers":
            versioned.add(step["out"])
        elif step["op"] in _DERIVING and step["from"] in versioned:
            if "materialized" in step and "name" not in kept and "supplier" not in kept:
                return True
            versioned |= set() if kept else {step["out"]}
    return False


def _sliding_windows_without_a_row(_case: dict[str, Any], java: Answer) -> bool:
    return 'because "next.value" is null' in str(java)


def _memory_join_and_null_values(case: dict[str, Any], java: Answer) -> bool:
    joins = [step.get("joined", {}) for step in case["steps"] if "windows" in step]
    in_memory = any(
        joined.get("store_type") == "memory"
        or any(
            joined.get(f"{side}_supplier", {}).get("kind") == "memory_window"
            for side in ("this", "other")
        )
        for joined in joins
    )
    records = [record for topic in java.get("topics", {}).values() for record in topic]
    inputs = [record[1:] for record in case["input"] if isinstance(record, list)]
    # What is not logged or written is not seen: a function may have made it.
    unseen = any(not joined.get("logging", True) for joined in joins)
    return in_memory and (unseen or any(record[1] is None for record in (*records, *inputs)))


def _unlogged_join_with_suppliers(case: dict[str, Any], _java: Answer) -> bool:
    joins = [step["joined"] for step in case["steps"] if "joined" in step]
    return any(
        joined.get("logging") is False and joined.keys() & {"this_supplier", "other_supplier"}
        for joined in joins
    )


def _grace_join_without_a_key(case: dict[str, Any], java: Answer) -> bool:
    return "grace_ms" in str(case["steps"]) and "key cannot be null" in java.get("error", "")


def _emission_from_a_store_that_keeps_little(case: dict[str, Any], _java: Answer) -> bool:
    return any(
        windowed.get("emit") == "close" and _keeps_little(case, windowed, step)
        for windowed, step in _aggregations_of_windows(case)
    )


def _sessions_in_a_cache_that_keeps_little(case: dict[str, Any], _java: Answer) -> bool:
    return any(
        windowed["windows"]["kind"] == "session"
        and case["caching"]
        and step.get("materialized", {}).get("caching", True)
        and _keeps_little(case, windowed, step)
        for windowed, step in _aggregations_of_windows(case)
    )


def _aggregations_of_windows(case: dict[str, Any]) -> list[tuple[Step, Step]]:
    windowed = {step["out"]: step for step in case["steps"] if step["op"] == "windowed_by"}
    return [
        (windowed[step["from"]], step) for step in case["steps"] if step.get("from") in windowed
    ]


def _keeps_little(case: dict[str, Any], windowed: Step, step: Step) -> bool:
    """Return whether windows are kept less long than the input goes on."""
    if windowed["windows"]["kind"] == "unlimited":
        return False
    times = [record[3] for record in case["input"] if isinstance(record, list)]
    span_ms = max(times, default=0) - min(times, default=0)
    kept = step.get("materialized", {})
    retention_ms: int = kept.get("supplier", kept).get("retention_ms", 0)
    return retention_ms < keeps_ms(windowed["windows"]) + span_ms


def _joined_windows_of_cogrouped_streams(_case: dict[str, Any], java: Answer) -> bool:
    return "KTable source state store must implement either" in java.get("error", "")


def _old_values_of_windows_without_a_cache(case: dict[str, Any], java: Answer) -> bool:
    # A filter tells that a row is gone only if it was there.
    deletes = any(
        record[1] is None for topic in java.get("topics", {}).values() for record in topic
    )
    uncached: set[str] = set()
    for windowed, step in _aggregations_of_windows(case):
        cached = case["caching"] and step.get("materialized", {}).get("caching", True)
        if windowed["windows"]["kind"] in {"session", "sliding"} and not cached:
            uncached.add(step["out"])
    for step in case["steps"]:
        if step.get("from") in uncached:
            if step["op"] in {"group_by", "suppress", "join"}:
                return True
            if step["op"] in {"filter", "filter_not"} and deletes:
                return True
            if step["op"] in {"filter", "filter_not", "map_values"}:
                uncached.add(step["out"])
    return False


def _final_results_in_no_order_of_time(case: dict[str, Any], _java: Answer) -> bool:
    return any(
        windowed.get("emit") == "close" and "supplier" in step.get("materialized", {})
        for windowed, step in _aggregations_of_windows(case)
    )


def _cogrouped_windows_in_a_store_that_keeps_little(case: dict[str, Any], _java: Answer) -> bool:
    cogrouped = {step["out"] for step in case["steps"] if step["op"] == "cogroup"}
    return any(
        windowed["from"] in cogrouped and _keeps_little(case, windowed, step)
        for windowed, step in _aggregations_of_windows(case)
    )


def _serdes_that_are_not_told(_case: dict[str, Any], java: Answer) -> bool:
    return "ClassCastException invoking processor" in java.get("error", "")


def _changes_of_a_suppressed_table(case: dict[str, Any], _java: Answer) -> bool:
    suppressed: set[str] = set()
    tables = _tables(case)
    for step in case["steps"]:
        operation, kept = step["op"], {"name", "supplier"} & step.get("materialized", {}).keys()
        if operation == "suppress" and step["from"] not in suppressed:
            suppressed.add(step["out"])
        if not {step.get("from"), step.get("other")} & suppressed or operation == "to_stream":
            continue
        if operation == "join" and step["from"] not in tables:
            continue  # A stream looks at the rows there are.
        if operation in {"map_values", "transform_values"}:
            # What is kept says as the old value the one that it has kept.
            suppressed |= set() if kept else {step["out"]}
        elif operation == "join" and step["kind"] == "inner" and "foreign_key" not in step:
            suppressed.add(step["out"])
        elif not (operation in _DERIVING and kept):
            return True
    return False


def _tables(case: dict[str, Any]) -> set[str]:
    """Return the names of what is a table."""
    tables: set[str] = set()
    for step in case["steps"]:
        above = {step[part] for part in ("from", "other") if part in step}
        goes_on = above and above <= tables and step["op"] in {"join", "suppress", *_DERIVING}
        if goes_on or step["op"] in _KEEPING:
            tables.update(outs(step))
    return tables


def _late_records_of_final_sessions(case: dict[str, Any], _java: Answer) -> bool:
    times = [record[3] for record in case["input"] if isinstance(record, list)]
    return times != sorted(times) and any(
        windowed.get("emit") == "close" and windowed["windows"]["kind"] == "session"
        for windowed, _ in _aggregations_of_windows(case)
    )


def _self_joins_that_are_not_inner(case: dict[str, Any], _java: Answer) -> bool:
    optimization = case.get("optimization", "")
    if "all" not in optimization and "self" not in optimization:
        return False
    # Two streams of the same topics are one stream there.
    read = {
        step["out"]: str(step.get("topics", step["out"]))
        for step in case["steps"]
        if step["op"] == "stream"
    }
    return any(
        step["op"] == "join"
        and step["kind"] != "inner"
        and read.get(step["other"], step["other"]) == read.get(step["from"], step["from"])
        for step in case["steps"]
        if "windows" in step
    )


def _repartitions_that_are_merged_past_more(case: dict[str, Any], java: Answer) -> bool:
    if "null keyChangingChild" in java.get("error", ""):
        return True
    optimization = case.get("optimization", "")
    if "all" not in optimization and "merge" not in optimization:
        return False
    changed: set[str] = set()
    for step in case["steps"]:
        behind = bool({step.get("from"), step.get("other")} & changed)
        if behind and (step["op"] in _MERGED_PAST or "selector" in step):
            return True
        changes = step["op"] in {"select_key", "map", "flat_map", "process"} or (
            step["op"] == "to_stream" and "fn" in step
        )
        if changes or (behind and step["op"] in _OF_ONE_RECORD):
            changed.update(outs(step))
    return False


def _joined_tables_of_one_input_with_a_cache(case: dict[str, Any], _java: Answer) -> bool:
    # What a record of an input changes in one commit, and the caches that let go of it.
    inputs: dict[str, set[str]] = {}
    caches: dict[str, set[str]] = {}
    for step in case["steps"]:
        above = [step[part] for part in ("from", "other") if part in step]
        of_tables = bool(above) and all(each in caches for each in above)
        joined = step["op"] == "join" and of_tables and "foreign_key" not in step
        if joined and inputs[above[0]] & inputs[above[1]] and caches[above[0]] != caches[above[1]]:
            return True
        read = {*step.get("topics", ()), step.get("topic", "")} - {""}
        for out in outs(step):
            inputs[out] = read.union(*(inputs.get(each, set()) for each in above))
            if of_tables and (step["op"] == "group_by" or "foreign_key" in step):
                inputs[out] = {out}  # It comes back by a topic of its own.
            if step["op"] in _KEEPING or "materialized" in step:
                kept = step.get("materialized", {})
                history = kept.get("supplier", {}).get("kind", "").startswith("versioned")
                cached = case["caching"] and kept.get("caching", True) and not history
                caches[out] = {out} if cached else set()
            elif of_tables and step["op"] in {"join", "suppress", *_DERIVING}:
                caches[out] = set[str]().union(*(caches[each] for each in above))
    return False


def _cogrouped_windows_behind_a_versioned_table(case: dict[str, Any], _java: Answer) -> bool:
    versioned: set[str] = set()
    windowed: dict[str, str] = {}
    for step in case["steps"]:
        above = {step[part] for part in ("from", "other") if part in step}
        if step["op"] == "windowed_by":
            windowed[step["out"]] = step["from"]
        if _is_versioned(step) or above & versioned:
            versioned.update(outs(step))
    cogrouped = {step["out"] for step in case["steps"] if step["op"] == "cogroup"}
    return any(
        step.get("from") in versioned and windowed.get(step["from"]) in cogrouped
        for step in case["steps"]
    )


def _deletions_at_the_time_of_a_versioned_row(case: dict[str, Any], _java: Answer) -> bool:
    if not any(map(_is_versioned, case["steps"])):
        return False
    latest: dict[tuple[str, str], int] = {}
    deleted: dict[tuple[str, str], int] = {}
    for record in case["input"]:
        if not isinstance(record, list) or record[1] is None:
            continue
        topic, key, value, time_ms = record[:4]
        if time_ms < deleted.get((topic, key), -1):
            return True
        if value is None and latest.get((topic, key)) == time_ms:
            deleted[topic, key] = time_ms
        latest[topic, key] = max(time_ms, latest.get((topic, key), -1))
    return False


def _is_versioned(step: Step) -> bool:
    """Return whether a step's store is asked to be a versioned one."""
    kind: str = step.get("materialized", {}).get("supplier", {}).get("kind", "")
    return kind.startswith("versioned")


def _foreign_keys_into_the_table_itself(case: dict[str, Any], _java: Answer) -> bool:
    sources: dict[str, set[str]] = {}
    for step in case["steps"]:
        left, right = (sources.get(step.get(part, ""), set()) for part in ("from", "other"))
        if "foreign_key" in step and step["kind"] == "inner" and left & right:
            return True
        for out in outs(step):
            sources[out] = left | right or {out}
    return False


def _partitioners_of_rows_that_name_no_row(case: dict[str, Any], java: Answer) -> bool:
    chosen = any(
        "other" in step.get("partitioners", ()) and step["kind"] == "left" for step in case["steps"]
    )
    return chosen and any(
        {True, False} <= {record[0] is None for record in records}
        for records in _subscriptions(java)
    )


def _subscriptions(java: Answer) -> list[Any]:
    """Return what is in the topics that ask the other side of joins by a foreign key."""
    topics = java.get("topics", {})
    return [topics[topic] for topic in topics if "subscription-registration" in topic.lower()]


def _foreign_keys_of_rows_that_change_twice(case: dict[str, Any], java: Answer) -> bool:
    sources: dict[str, set[str]] = {}
    twice: set[str] = set()
    of_such = False
    for step in case["steps"]:
        above = [step[part] for part in ("from", "other") if part in step]
        left, right = (sources.get(step.get(part, ""), set()) for part in ("from", "other"))
        of_such |= "foreign_key" in step and step["kind"] == "inner" and above[0] in twice
        for out in outs(step):
            sources[out] = left | right or {out}
            if left & right or twice.intersection(above):
                twice.add(out)
    return of_such and any(
        len({(record[0], record[2]) for record in records}) < len(records)
        for records in _subscriptions(java)
    )


def _cogrouped_streams_with_one_topic(case: dict[str, Any], _java: Answer) -> bool:
    optimization = case.get("optimization", "")
    if "all" not in optimization and "merge" not in optimization:
        return False
    unnamed: dict[str, int] = {}
    for step in case["steps"]:
        above = [step[part] for part in ("from", "other") if part in step]
        if step["op"] in {"group_by", "group_by_key"}:
            unnamed[step["out"]] = int("name" not in step.get("grouped", {}))
        elif step["op"] == "cogroup":
            unnamed[step["out"]] = sum(unnamed[each] for each in above)
            if unnamed[step["out"]] > 1:
                return True
    return False


EXCLUSIONS = (
    Exclusion("foreign keys of rows that change twice", _foreign_keys_of_rows_that_change_twice),
    Exclusion("cogrouped streams with one topic", _cogrouped_streams_with_one_topic),
    Exclusion("partitioners of rows that name no row", _partitioners_of_rows_that_name_no_row),
    Exclusion("repartitions that are merged past more", _repartitions_that_are_merged_past_more),
    Exclusion("foreign keys into the table itself", _foreign_keys_into_the_table_itself),
    Exclusion(
        "cogrouped windows behind a versioned table", _cogrouped_windows_behind_a_versioned_table
    ),
    Exclusion(
        "deletions at the time of a versioned row", _deletions_at_the_time_of_a_versioned_row
    ),
    Exclusion("joined tables of one input, with a cache", _joined_tables_of_one_input_with_a_cache),
    Exclusion("self-joins that are not inner", _self_joins_that_are_not_inner),
    Exclusion("late records of final sessions", _late_records_of_final_sessions),
    Exclusion("changes of a suppressed table", _changes_of_a_suppressed_table),
    Exclusion("final results from a store in no order of time", _final_results_in_no_order_of_time),
    Exclusion(
        "cogrouped windows in a store that keeps little",
        _cogrouped_windows_in_a_store_that_keeps_little,
    ),
    Exclusion("serdes that are not told", _serdes_that_are_not_told),
    Exclusion("old values of windows without a cache", _old_values_of_windows_without_a_cache),
    Exclusion("sessions in a cache that keeps little", _sessions_in_a_cache_that_keeps_little),
    Exclusion("joined windows of cogrouped streams", _joined_windows_of_cogrouped_streams),
    Exclusion(
        "emission on close from a store that keeps little", _emission_from_a_store_that_keeps_little
    ),
    Exclusion("history, and options without a name", _history_and_options_without_a_name),
    Exclusion("joins in memory, and records without a value", _memory_join_and_null_values),
    Exclusion("joins with suppliers, not logged", _unlogged_join_with_suppliers),
    Exclusion("grace join of a record without a key", _grace_join_without_a_key),
    Exclusion("sliding windows without a row", _sliding_windows_without_a_row),
)


def excluded(case: dict[str, Any], java: Answer) -> str | None:
    """Return the name of the rule by which a case is not compared, if there is one."""
    for exclusion in EXCLUSIONS:
        if exclusion.applies(case, java):
            return exclusion.name
    return None
