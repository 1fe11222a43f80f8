"""The parts of the page, each made of a snapshot: what is replaced while somebody watches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pystreams.http.page.log_lines import LogLine
from pystreams.http.page.markup import Markup, element, joined
from pystreams.http.page.quantities import (
    UNKNOWN,
    count,
    duration,
    milliseconds,
    moment,
    not_looked_for_s,
    per_second,
    size,
)
from pystreams.http.page.tables import table
from pystreams.kernel.rate import counted
from pystreams.stores.contracts.spec import StoreSpec

Snapshot = dict[str, Any]

_MUCH = 0.8
_GOOD, _BAD = {"RUNNING"}, {"ERROR", "PENDING_ERROR"}


def head(now: Snapshot) -> Markup:
    """Return who this is and how it is."""
    facts = [
        ("Version", now["version"]),
        ("Up", duration(now["uptime_s"])),
        ("Guarantee", now["guarantee"]),
        ("Threads", count(now["threads"])),
    ]
    return joined(
        element("h1", now["application_id"]),
        element("p", _state(now), class_="state-line"),
        element(
            "dl",
            [element("div", element("dt", name), element("dd", value)) for name, value in facts],
            class_="facts",
        ),
        now["error"] and element("p", now["error"], class_="error", role="alert"),
        _not_ready(now),
    )


def numbers(now: Snapshot, flow: tuple[float, float]) -> Markup:
    """Return the numbers that are looked at first.

    Args:
        flow: Records a second that come in and go out, internal topics left out.
    """
    latency, interval = now["commit_latency_p99_ms"], now["commit_interval_ms"]
    lag = now["lag_records"]
    unread, dropped = now["unread_partitions"], now["dropped_records"]
    read_by_nobody = f"{counted(unread, 'partition')} of the topology read by nobody"
    held, limit = now["uncommitted_bytes"], now["uncommitted_max_bytes"]
    return joined(
        _number("Records in", per_second(flow[0]), _processed(now)),
        _number(
            "Records out",
            per_second(flow[1]),
            f"{count(dropped)} dropped" if dropped else "none dropped",
        ),
        _number(
            "Lag",
            count(lag),
            _behind(now),
            warns=unread > 0 and read_by_nobody,
        ),
        _number(
            "End to end",
            milliseconds(now["e2e_latency_avg_ms"]),
            f"on average; {milliseconds(now['e2e_latency_max_ms'])} at most",
        ),
        _number(
            "Commit, p99",
            milliseconds(latency),
            f"every {interval:,} ms; {count(now['commits'])} so far",
            share=None if latency is None or not interval else latency / interval,
        ),
        _number(
            "Uncommitted",
            size(held),
            f"of {size(limit)}" if limit > 0 else "no limit",
            share=held / limit if limit > 0 else None,
        ),
    )


def restore(now: Snapshot) -> Markup:
    """Return how far the restore of stores has come; nothing while there is none."""
    told = now["restore"]
    if not told["tasks"]:
        return Markup()
    restored, remaining = told["restored_records"], told["remaining_records"]
    left = "" if told["left_s"] is None else f" · about {duration(told['left_s'])} left"
    return element(
        "div",
        element("h2", f"Restoring {counted(told['tasks'], 'task')}"),
        element("progress", value=restored, max=max(restored + remaining, 1)),
        element(
            "p",
            f"{count(restored)} changelog records restored, {count(remaining)} left at most · "
            f"{per_second(told['records_per_s'])}{left}",
        ),
        class_="restoring",
    )


def stores(now: Snapshot, specs: Sequence[StoreSpec], *, linked: bool) -> Markup:
    """Return the table of stores.

    Args:
        linked: Whether their names lead to what they hold.
    """
    if not specs:
        return element("p", "The topology keeps no state.", class_="empty")
    limit = now["uncommitted_max_bytes"]
    measured: dict[str, list[dict[str, Any]]] = {}
    for row in now["stores"]:
        measured.setdefault(row["store"], []).append(row)
    rows = []
    for spec in specs:
        here = measured.get(spec.name, [])
        held = sum(row.get("uncommitted_bytes", 0) for row in here)
        name = element("a", spec.name, href=f"v1/stores/{spec.name}") if linked else spec.name
        rows.append(
            (
                name,
                f"{spec.kind.name}, {spec.metrics_scope}",
                str(len(here)),
                _sum(here, "estimate_num_keys", _about),
                _sum(here, "total_sst_files_size", size),
                joined(size(held), " ", _meter(held / limit) if limit > 0 else None),
                per_second(sum(row.get("commit_rate", 0) for row in here)),
                _restoring([row["restore"] for row in here if row["restore"] is not None]),
                "yes" if spec.logging else "no",
            )
        )
    titles = (
        *("Store", "Kind", "Tasks here", "Entries", "On disk", "Uncommitted", "Commits"),
        *("Restoring", "Changelog"),
    )
    return table(titles, rows, numeric=(2, 3, 4, 5, 6))


def _restoring(restores: Sequence[dict[str, Any]]) -> str:
    """Return how far the restore of a store has come, in all tasks here."""
    if not restores:
        return "no"
    remaining = sum(row["remaining_records"] for row in restores)
    records_per_s = sum(row["records_per_s"] for row in restores)
    told = f"{count(remaining)} records left · {per_second(records_per_s)}"
    return f"{told} · about {duration(remaining / records_per_s)}" if records_per_s else told


def query_box(specs: Sequence[StoreSpec]) -> Markup:
    """Return what asks the stores, nothing without stores; it is the same for ever."""
    if not specs:
        return Markup()
    return element(
        "form",
        element(
            "label",
            "Store",
            element("select", [element("option", spec.name) for spec in specs], name="store"),
        ),
        element(
            "label",
            "Key",
            element(
                "input",
                name="key",
                autocomplete="off",
                spellcheck="false",
                placeholder="empty: the first 20 of each partition",
            ),
        ),
        element("button", "Ask"),
        id="ask",
    )


def lines(kept: Sequence[LogLine]) -> Markup:
    """Return the last warnings and errors."""
    if not kept:
        return element("p", "No warning and no error since this page is served.", class_="empty")
    return element(
        "ol",
        [
            element(
                "li",
                element("time", moment(line.at_ms)),
                element("span", line.level, class_="level"),
                element("span", line.event, class_="event"),
                element("span", line.details, class_="details") if line.details else None,
                class_=f"is-{line.level}",
            )
            for line in kept
        ],
        class_="lines",
    )


# ---------------------------------------------------------------------- parts of parts


def _state(now: Snapshot) -> Markup:
    state = now["state"]
    kind = "good" if state in _GOOD else "bad" if state in _BAD else "between"
    if now["restore"]["tasks"]:
        state = f"{state}, restoring"
    elif kind == "good" and now["not_ready"]:
        state, kind = f"{state}, not ready", "between"
    return element("span", state, class_=f"state {kind}")


def _not_ready(now: Snapshot) -> Markup | None:
    """Return why others should not count on the process, where nothing else says it."""
    why = now["not_ready"]
    if any(trouble["why"] in why for trouble in now["troubles"]):
        return None
    if not why or now["error"] or why == now["state"] or now["restore"]["tasks"]:
        return None
    return element("p", f"Not ready: {why}", class_="error", role="alert")


def _number(
    name: str,
    value: str,
    more: str,
    *,
    share: float | None = None,
    warns: str | bool = False,
) -> Markup:
    return element(
        "div",
        element("h2", name),
        element("p", value, class_="value"),
        element("p", more, class_="more"),
        None if share is None else _meter(share),
        element("p", warns, class_="warns") if isinstance(warns, str) else None,
        class_="number",
    )


def _meter(share: float) -> Markup:
    """Draw a share of a limit."""
    return element(
        "progress",
        class_="much" if share > _MUCH else None,
        value=round(min(max(share, 0.0), 1.0), 3),
        max=1,
        aria_label=f"{share:.0%} of the limit",
    )


def _sum(rows: Sequence[dict[str, Any]], name: str, written: Callable[[float], str]) -> str:
    """Return what all tasks have of something; a dash if none knows."""
    known = [row[name] for row in rows if name in row]
    return written(sum(known)) if known else UNKNOWN


def _about(number: float) -> str:
    """Write an estimate that counts changes of the same key until they are compacted."""
    return f"up to {count(number)}" if number else "none"


def _behind(now: Snapshot) -> str:
    lag, rate = now["lag_records"], now["processed_per_s"]
    seen_s = not_looked_for_s(now["lag_as_of_ms"], now["at_ms"])
    if lag is None:
        return "nothing is known" if seen_s is None else f"not known for {duration(seen_s)}"
    if not lag:
        return "all that is there is processed"
    told = [] if now["lag_ms"] is None else [f"{milliseconds(now['lag_ms'])} old"]
    if rate:
        left_s = lag / rate
        left = "under a second" if left_s < 1 else f"about {duration(left_s)}"
        told.append(f"{left} at this rate")
    else:
        told.append("nothing is processed")
    if seen_s is not None:
        told.append(f"{'in part ' if rate else ''}as of {duration(seen_s)} ago")
    return "; ".join(told)


def _processed(now: Snapshot) -> str:
    again = now["calls_again"]
    told = f"{count(now['processed_records'])} processed"
    return f"{told}, {counted(again, 'call')} again" if again else told
