"""The parts of the page that are empty while all is well: what stands still, and dead letters."""

from __future__ import annotations

from typing import Any

from pystreams.http.page.markup import Markup, element
from pystreams.http.page.quantities import duration, moment
from pystreams.kernel.rate import counted

Snapshot = dict[str, Any]


def troubles(now: Snapshot) -> Markup:
    """Return what stands still, where the thread is, and since when; nothing if nothing does."""
    found = now["troubles"]
    if not found:
        return Markup()
    stacks: set[tuple[str, str]] = set()
    items = []
    for trouble in found:
        # A thread may be in two troubles with one stack.
        of_thread = trouble["of"], trouble["stack"]
        items.append(_trouble(trouble, folded="" if of_thread in stacks else trouble["stack"]))
        stacks.add(of_thread)
    return element(
        "section", element("h2", "Standing still"), element("ul", items, class_="troubles")
    )


def letters(now: Snapshot) -> Markup:
    """Return the dead letters by topic, with their last causes; nothing where there is no queue."""
    found, queue = now["dead_letters"], now["dead_letter_queue"]
    if not found and queue is None:
        return Markup()
    shown = [_of_topic(topic) for topic in found] or element(
        "p", f"None since the start. What a handler drops goes to {queue}.", class_="empty"
    )
    return element("section", element("h2", "Dead letters"), shown)


# ---------------------------------------------------------------------- parts of parts


def _trouble(trouble: dict[str, Any], folded: str) -> Markup:
    return element(
        "li",
        element(
            "p",
            element("strong", trouble["trouble"].capitalize()),
            element("span", trouble["of"], class_="of"),
            element(
                "span",
                f"for {duration(trouble['lasted_s'])}, since ",
                element("time", moment(trouble["since_ms"])),
                class_="since",
            ),
            class_="what",
        ),
        element("p", trouble["why"], class_="why"),
        _folded(folded, f"{trouble['trouble']} {trouble['of']}", "Where it is"),
    )


def _of_topic(letters_of: dict[str, Any]) -> Markup:
    topic, causes = letters_of["topic"], letters_of["causes"]
    return element(
        "div",
        element(
            "p",
            element("strong", topic),
            element("span", f"{counted(letters_of['records'], 'record')} since the start"),
            class_="topic",
        ),
        element("ul", [_cause(topic, cause) for cause in causes], class_="lines"),
        class_="letters",
    )


def _cause(topic: str, cause: dict[str, Any]) -> Markup:
    stage, where, error = cause["stage"], cause["where"], cause["error"]
    place = [f"{stage} in {where}" if where else stage, f"last at {cause['record'] or 'no record'}"]
    if cause["task"] is not None:
        place.append(f"task {cause['task']}")
    return element(
        "li",
        element("span", error, class_="event"),
        element("span", counted(cause["records"], "record"), class_="count"),
        element(
            "span",
            [element("span", part) for part in place],
            element("time", moment(cause["last_ms"])),
            class_="place",
        ),
        _folded(
            cause["stack"],
            f"{topic} {stage} {where} {error.partition(':')[0]}",
            "Where it was raised",
        ),
    )


def _folded(stack: str, of: str, title: str) -> Markup | None:
    """Fold a stack away; `of` says whose it is, so that one that was opened stays open."""
    if not stack:
        return None
    return element(
        "details",
        element("summary", title),
        element("pre", stack.rstrip("\n")),
        data_of=of,
    )
