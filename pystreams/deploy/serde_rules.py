"""What keys and values are in bytes, and what becomes of old ones where two stores differ in that.

A rule is called with the facts of both stores, and gives what it finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pystreams.deploy.operator_facts import Facts
from pystreams.deploy.serde_formats import format_of
from pystreams.deploy.verdicts import Finding, Verdict

ANOTHER_NAME = (
    "Give the store another name: it starts empty, and the old changelog is yours to delete. To "
    "have it of all input, `pystreams reset` or `pystreams backfill`"
)
_RAW = "bytes"
_KEY_PARTS = {
    "key": "its keys",
    "by": "the results of its `by`",
    "foreign_key": "the foreign keys in its keys",
    "primary_key": "the primary keys in its keys",
}
"""What keys are made of that are not those of records."""


def key_windows(old: Facts, new: Facts) -> Iterator[Finding]:
    """Compare the windows that are in keys, of which these tell a time or two and no more."""
    had, has = old.get("key_windows"), new.get("key_windows")
    if not has or old["kind"] != new["kind"]:
        return
    if had is None:
        yield Finding(
            Verdict.KEPT,
            "of which windows its keys are was not noted by an earlier pystreams: see that they "
            "are the same",
        )
    elif had and had != has:
        yield Finding(
            Verdict.WRONG,
            f"its keys are of {told_windows(had)} and would be read as of {told_windows(has)}",
            ANOTHER_NAME,
        )


def told_windows(windows: Sequence[Facts]) -> str:
    """Return windows as a text."""
    return " and ".join(
        f"{each['type']} ({', '.join(f'{k} {v}' for k, v in each.items() if k != 'type')})"
        for each in windows
    )


def identity(old: Facts, new: Facts) -> Iterator[Finding]:
    """Compare what the keys are made of, where they are not those of records."""
    had, has = old.get("identity"), new.get("identity")
    if has is None or old["kind"] != new["kind"]:
        return
    if had is None or had.keys() != has.keys():
        told = (
            ("what it tells records apart by", "`by`, `by_serde` and the serde of its keys")
            if "by" in has
            else ("how its keys are written", "the serdes of the keys of both tables")
        )
        yield Finding(
            Verdict.KEPT,
            f"{told[0]} was not noted by an earlier pystreams: see that {told[1]} are the same",
        )
    elif "by" in has and (had["by"] is None) != (has["by"] is None):
        ways = {True: "their keys alone", False: "their keys and `by`"}
        yield Finding(
            Verdict.WRONG,
            f"it told records apart by {ways[had['by'] is None]}, and is to by "
            f"{ways[has['by'] is None]}: it would not find what it has seen, and repeats would "
            "pass again",
            ANOTHER_NAME,
        )
    else:
        for part, facts in has.items():
            if had[part] is not None and facts is not None:
                yield from _other_bytes(_KEY_PARTS.get(part, part), had[part], facts)


def serdes(old: Facts, new: Facts) -> Iterator[Finding]:
    """Compare the serdes of keys and of values."""
    for part in ("key", "value"):
        had, has = old[f"{part}_serde"], new[f"{part}_serde"]
        if had is None and has is None:
            continue
        if had is None or has is None:
            known = (had or has)["name"]
            yield Finding(
                Verdict.KEPT,
                f"its {part} serde is {known} in one of the two, and left to the configuration in "
                "the other, which is not known here",
            )
            continue
        yield from _other_bytes(f"its {part}s", had, has)


def _other_bytes(what: str, had: Facts, has: Facts) -> Iterator[Finding]:
    told = f"{what} were written with {had['name']} and are read with {has['name']}"
    formats = format_of(had), format_of(has)
    if formats[0] == formats[1] is not None:
        if had["name"] != has["name"]:
            yield Finding(Verdict.KEPT, f"{told}: the same format; see that old rows fit")
        yield from _other_parts(what, had.get("parts"), has.get("parts"))
        yield from _other_limits(what, had.get("limits"), has.get("limits"))
    elif None in formats or _RAW in formats:
        if had["name"] != has["name"]:
            yield Finding(
                Verdict.UNSURE,
                f"{told}: whether that reads the old bytes is for you to know",
                f"If it does not: {ANOTHER_NAME[0].lower()}{ANOTHER_NAME[1:]}",
            )
    else:
        yield Finding(Verdict.WRONG, f"{told}, which are other bytes", ANOTHER_NAME)


def _other_parts(what: str, had: Facts | None, has: Facts | None) -> Iterator[Finding]:
    """Compare what states are made of: values with a serde, or states of other aggregations."""
    if had is None or has is None:
        if had != has:
            yield Finding(
                Verdict.KEPT,
                f"what {what} are made of was not noted by an earlier pystreams: see that it is "
                "the same, in the same order",
            )
        return
    if had.keys() != has.keys():
        yield Finding(
            Verdict.WRONG,
            f"{what} were made of {', '.join(had)} and are to be of {', '.join(has)}",
            ANOTHER_NAME,
        )
        return
    if list(had) != list(has):
        yield Finding(
            Verdict.KEPT,
            f"{what} have their parts in another order: they are found by name, but for rows that "
            "an earlier pystreams has written, which tell no names",
        )
    for name, before in had.items():
        after = has[name]
        if isinstance(before, str) or isinstance(after, str):
            if before != after:
                told = f"{what} were made with {name} {before!r} and are to be with {after!r}"
                yield Finding(Verdict.WRONG, told, ANOTHER_NAME)
        else:
            yield from _other_bytes(f"{what} ({name})", before, after)


def _other_limits(what: str, had: Facts | None, has: Facts | None) -> Iterator[Finding]:
    """Compare how many values states keep at most; an earlier pystreams did not note that."""
    for name, limit in (has or {}).items():
        before = (had or {}).get(name, limit)
        if limit > before:
            yield Finding(
                Verdict.UNSURE,
                f"{what} were made with {name} {before} and are to be with {limit}: what was left "
                "out of those that are there does not come back, and values that came later may "
                "stand in its place",
                ANOTHER_NAME,
            )
        elif limit < before:
            yield Finding(
                Verdict.KEPT, f"{what} were made with {name} {before}: the rest goes with {limit}"
            )
