"""The parts of the page that say who does what: the tasks here, and the processes of the group."""

from __future__ import annotations

from typing import Any

from pystreams.http.page.markup import Markup, element, joined
from pystreams.http.page.quantities import (
    UNKNOWN,
    ago,
    count,
    duration,
    milliseconds,
    moment,
    not_looked_for_s,
    per_second,
)
from pystreams.http.page.tables import table

Snapshot = dict[str, Any]

_TASKS_NAMED = 12


def tasks(now: Snapshot) -> Markup:
    """Return the table of tasks of this process."""
    active = [_task(row, now["at_ms"]) for row in now["tasks"]]
    rows = [*active, *(_standby_task(row, now["at_ms"]) for row in now["standby_tasks"])]
    if not rows:
        return element("p", _no_tasks(now["state"]), class_="empty")
    titles = (
        *("Task", "State", "Lag", "Oldest", "Rate", "Processed", "Last progress"),
        *("Stream time", "Thread", "Reads"),
    )
    return table(titles, rows, numeric=(2, 3, 4, 5))


def processes(now: Snapshot) -> Markup:
    """Return who has which tasks, and who differs; nothing where this is the only process.

    Others are led to by where they say that they answer, over the same scheme.
    """
    found = now["processes"]
    if found is None or all(process["is_here"] for process in found):
        return Markup()
    strangers = sum(process["runs_another_topology"] for process in found)
    return joined(
        element("h3", "Processes of the group"),
        None if not strangers else element("p", _told_of(strangers), class_="error", role="alert"),
        table(("Process", "Answers at", "Host", "Threads", "Tasks"), list(map(_process, found))),
    )


# ---------------------------------------------------------------------- parts of parts


def _task(row: dict[str, Any], now_ms: int) -> tuple[str, ...]:
    stream_time = row["stream_time_ms"]
    left = row.get("restore_remaining_records", 0)
    state = row["state"].lower()
    return (
        row["task"],
        f"{state}, {count(left)} left" if state == "restoring" else state,
        _lag(row, now_ms),
        milliseconds(row["lag_ms"]) if row["lag_records"] else UNKNOWN,
        per_second(row["processed_per_s"]),
        count(row["processed_records"]),
        ago(row["progressed_ms"], now_ms),
        UNKNOWN if stream_time < 0 else moment(stream_time),
        _thread(row),
        ", ".join(row["partitions"]),
    )


def _lag(row: dict[str, Any], now_ms: int) -> str:
    """Return what waits for a task, and as of when, if that is a while ago."""
    lag, seen_s = row["lag_records"], not_looked_for_s(row["lag_as_of_ms"], now_ms)
    if seen_s is None:
        return count(lag)
    told = duration(seen_s)
    return f"unknown for {told}" if lag is None else f"{count(lag)} as of {told} ago"


def _standby_task(row: dict[str, Any], now_ms: int) -> tuple[str, ...]:
    behind = _lag(row, now_ms)
    return (
        row["task"],
        "standby, warm" if row["lag_records"] == 0 else f"standby, {behind} behind",
        *[UNKNOWN] * 6,
        _thread(row),
        "",
    )


def _thread(row: dict[str, Any]) -> str:
    """Return a thread's name without what is the same for all of a process."""
    return str(row["thread"][max(row["thread"].rfind("StreamThread-"), 0) :])


def _process(process: dict[str, Any]) -> tuple[str, ...]:
    address, name = process["address"], process["process"]
    answers: str = UNKNOWN
    if address is not None:
        answers = address if process["is_here"] else element("a", address, href=f"//{address}/")
    return (
        f"{name} (this one)" if process["is_here"] else name,
        answers,
        process["host"].removeprefix("/"),
        count(process["threads"]),
        _has(process),
    )


def _has(process: dict[str, Any]) -> str:
    names = process["tasks"]
    more = len(names) - _TASKS_NAMED
    named = ", ".join(names[:_TASKS_NAMED]) or "none"
    told = f"{named} and {more} more" if more > 0 else named
    if not process["runs_another_topology"]:
        return told
    if not names:
        told = f"reads {', '.join(process['topics']) or 'nothing'}"
    return element("span", f"another topology: {told}", class_="warns")


def _told_of(strangers: int) -> str:
    who = "A process of the group runs" if strangers == 1 else f"{strangers} processes run"
    return (
        f"{who} another topology under this application.id: stop what is not to run, or give it an "
        "application.id of its own."
    )


def _no_tasks(state: str) -> str:
    if state == "RUNNING":
        return "This process has no task: others of the group have them all."
    return f"No tasks: the application is {state}."
