"""Compares the fingerprints of two topologies: what becomes of what the first one has left.

    name gone         the store starts empty under its new name; the data stay, unread
    same name         each rule looks at one thing that may differ; the worst finding counts
    same generated    another store may have moved to the name: told by the operations above it,
    name              and among stores that are alike in all of this by how many there are

State is found again by names alone: of the store, its changelog, its repartition topic. So what is
read under a kept name had better be what was written there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pystreams.deploy.fingerprint import Fingerprint
from pystreams.deploy.operator_facts import Facts, is_global
from pystreams.deploy.serde_rules import told_windows
from pystreams.deploy.store_rules import (
    PLACES,
    RULES,
    emptied,
    is_empty_at_each_start,
    meets,
    moved_out_of_tasks_or_in,
)
from pystreams.deploy.verdicts import Comparison, Finding, Judgement, Verdict

_NAME_IT = (
    "Give operations that keep state a name of your own (ensure.explicit.internal.resource.naming "
    "asks for that): it stays where it is when others come and go"
)
_OTHER_NAME = (
    "Put the former name back to keep the rows; or let it start empty: `pystreams reset` or "
    "`pystreams backfill` make it anew of the input. The old {} yours to delete"
)
_ANEW_FROM_ITS_TOPIC = (
    "Stop the application and delete its directory below `global` in the application's state "
    "directory, on every host: it is read anew from its topic. Or give it another name"
)
_ANEW_UNDER_ANOTHER_NAME = (
    "Give the store another name: it is read whole from its topic before anything is processed, "
    "and its old directory, below `global` in the application's state directory, is yours to delete"
)
"""Of a global store: no rows but those of its topic, which stays as it is."""
_TOLD_BY_NO_NAME = frozenset(("declared", "subtopology", "partitions"))
"""What does not say which operation a store is of."""
_DRAIN = "Stop the producers, let the application read to its end (lag 0), then deploy"


def compare(old: Fingerprint, new: Fingerprint) -> Comparison:
    """Return what becomes of the state of one topology when another one takes its place.

    Args:
        old: The fingerprint of the one that has made the state.
        new: That of the one to come, under the same application.id.
    """
    judgements = [*_stores(old, new), *_topics(old, new)]
    warnings = (*new.get("circles", ()), *new.get("doubts", ()))
    return Comparison.of_all(judgements, warnings, new.get("refused", ()))


def _stores(old: Fingerprint, new: Fingerprint) -> Iterator[Judgement]:
    before, after = old["stores"], new["stores"]
    former = old.get("former_stores", {})
    for name, facts in after.items():
        if name in before and not _tasks_had_it(name, old, facts):
            findings = (*_moved(name, before, after), *_differences(before[name], facts))
        elif name in former and not is_empty_at_each_start(facts):
            findings = (*_came_back(former[name], facts), *_differences(former[name], facts))
        elif facts["restored_from"] is not None:
            findings = (Finding(Verdict.FILLED, "it was not there before"),)
        else:
            findings = (Finding(Verdict.NEW, "it was not there before"),)
        yield Judgement("store", name, findings, facts["declared"])
    fresh = {name: facts for name, facts in after.items() if name not in before}
    for name, facts in before.items():
        if name not in after:
            yield Judgement("store", name, (_gone(facts, fresh),), facts["declared"])


def _tasks_had_it(name: str, old: Fingerprint, new: Facts) -> bool:
    """Return whether a store goes back to tasks, which may have left rows before it was global."""
    former = old.get("former_stores", {}).get(name)
    was_global = is_global(old["stores"][name]) and not is_global(new)
    return was_global and former is not None and not is_global(former)


def _differences(old: Facts, new: Facts) -> Iterator[Finding]:
    if is_empty_at_each_start(old):
        yield Finding(Verdict.KEPT, "in memory and without a changelog it was empty at each start")
        return
    if moved := moved_out_of_tasks_or_in(old, new):
        yield moved
        return
    if is_empty_at_each_start(new):
        yield emptied(old)
        return
    rules = RULES if meets(old, new) else PLACES
    found = (finding for rule in rules for finding in rule(old, new))
    yield from map(_of_global, found) if is_global(new) else found


def _of_global(finding: Finding) -> Finding:
    """Return a finding with the cure that a store has which is the image of a topic."""
    if not finding.cure:
        return finding
    # Wrong results are refused as long as the name stays, whatever was deleted.
    wrong = finding.verdict is Verdict.WRONG
    return replace(finding, cure=_ANEW_UNDER_ANOTHER_NAME if wrong else _ANEW_FROM_ITS_TOPIC)


def _moved(name: str, before: Mapping[str, Facts], after: Mapping[str, Facts]) -> Iterator[Finding]:
    """Tell of a name under which another store lay."""
    old, new = before[name], after[name]
    if any(map(is_empty_at_each_start, (old, new))) or is_global(old) != is_global(new):
        return
    if not meets(old, new):
        return
    if _origin(old) == _origin(new):
        if new["generated"] and new["restored_from"] is None:
            yield from _moved_among_alike(name, before, after)
        return
    if not new["generated"]:
        yield from _exchanged(name, before, after)
        return
    whose = [other for other, facts in before.items() if _origin(facts) == _origin(new)]
    if whose:
        yield Finding(
            Verdict.WRONG,
            f"generated names have moved: it now stands for what was {whose[0]!r}, and finds the "
            f"rows of another operation ({old['declared'] or 'not known which'})",
            _NAME_IT,
        )
    else:
        yield Finding(
            Verdict.UNSURE,
            "its name is generated, and other operations lead to it than before: its rows may be "
            f"those of another operation ({old['declared'] or 'not known which'})",
            _NAME_IT,
        )


def _moved_among_alike(
    name: str, before: Mapping[str, Facts], after: Mapping[str, Facts]
) -> Iterator[Finding]:
    """Tell of a generated name whose operation nothing tells from others but its place."""
    had, has = _alike(name, before), _alike(name, after)
    rows = f"the rows of another operation ({before[name]['declared'] or 'not known which'})"
    if len(had) != len(has):
        yield Finding(
            Verdict.UNSURE,
            f"its name is generated, and of operations like it there were {len(had)} and are "
            f"{len(has)}: unless those that came or went are the last of them, it finds {rows}",
            _NAME_IT,
        )
    elif had.index(name) != has.index(name):
        yield Finding(
            Verdict.WRONG,
            f"generated names have moved: it now stands for what was {had[has.index(name)]!r}, and "
            f"finds {rows}",
            _NAME_IT,
        )


def _alike(name: str, stores: Mapping[str, Facts]) -> list[str]:
    """Return the stores with generated names that only these tell from one; it is one of them."""
    told = [key for key in stores[name] if key not in _TOLD_BY_NO_NAME]
    return sorted(
        other
        for other, facts in stores.items()
        if all(facts.get(key) == stores[name][key] for key in told)
    )


def _exchanged(
    name: str, before: Mapping[str, Facts], after: Mapping[str, Facts]
) -> Iterator[Finding]:
    """Tell of a name of the user's that has changed places with another one."""
    for other, facts in before.items():
        if (
            other in after
            and facts["kind"] == before[name]["kind"]
            and _origin(facts) == _origin(after[name])
            and _origin(before[name]) == _origin(after[other])
        ):
            yield Finding(
                Verdict.UNSURE,
                f"it is made as {other!r} was, and {other!r} as it was: if their names have "
                "changed places, each finds the rows of the other",
                "Change the names back",
            )


def _origin(facts: Facts) -> tuple[str, tuple[str, ...]]:
    return facts["shape"], tuple(facts["made_of"])


def _came_back(former: Facts, new: Facts) -> Iterator[Finding]:
    if new["restored_from"] is not None:
        yield Finding(Verdict.REBUILT, "an earlier version had it: it is read from its topic")
    elif former["restored_from"] is None and not is_empty_at_each_start(former):
        logged = former["logged"]
        left = "changelog is" if logged else "files are"
        to_delete = "its changelog topic, and " if logged else ""
        yield Finding(
            Verdict.UNSURE,
            f"an earlier version had it, the last one had not: where its {left} still there, what "
            "came meanwhile is missing",
            f"Stop the application and delete {to_delete}its directory below each task's, on every "
            "host, where there is one; or give it another name. It starts empty then: to have it "
            "of all input, `pystreams reset` or `pystreams backfill`",
        )


def _gone(old: Facts, fresh: Mapping[str, Facts]) -> Finding:
    if old["restored_from"] is not None:
        return Finding(Verdict.KEPT, "it is gone; its rows are in their topic, as before")
    if is_empty_at_each_start(old):
        return Finding(
            Verdict.KEPT, "it is gone; in memory and without a changelog it was empty at each start"
        )
    heirs = [
        name
        for name, facts in fresh.items()
        if facts["kind"] == old["kind"] and _origin(facts) == _origin(old)
    ] or [name for name, facts in fresh.items() if _same_rows(old, facts)]
    what = "nothing has its name any more"
    if heirs:
        what += f": {heirs[0]!r} seems to be what it was, and starts empty"
    elif fresh:
        what += f"; new are {', '.join(map(repr, fresh))}"
    other_name = _OTHER_NAME.format("changelog is" if old["logged"] else "directories are")
    return Finding(Verdict.EMPTY, what, _NAME_IT if old["generated"] and heirs else other_name)


def _same_rows(old: Facts, new: Facts) -> bool:
    keys = ("kind", "key_serde", "value_serde", "windows", "made_of")
    return all(old[key] == new[key] for key in keys)


def _topics(old: Fingerprint, new: Fingerprint) -> Iterator[Judgement]:
    before, after = old["repartition_topics"], new["repartition_topics"]
    for name, facts in after.items():
        found = (
            tuple(_topic_differences(before[name], facts))
            if name in before
            else (Finding(Verdict.NEW, "it was not there before"),)
        )
        yield Judgement("repartition topic", name, found, facts["declared"])
    for name, facts in before.items():
        if name not in after:
            finding = Finding(
                Verdict.EMPTY,
                "nobody reads it any more: records in it that were not processed are lost",
                _DRAIN,
            )
            yield Judgement("repartition topic", name, (finding,), facts["declared"])


def _topic_differences(old: Facts, new: Facts) -> Iterator[Finding]:
    yield from _another_count(old, new)
    had, has = old.get("partitioner"), new.get("partitioner")
    if had is not None and has is not None and had != has:
        ways = {True: "its `partitioner`", False: "the hash of their key"}
        yield Finding(
            Verdict.UNSURE,
            f"records were put into its partitions by {ways[had]}, and are to be by {ways[has]}: "
            "what is kept of a key stays in another task than its new records",
            "Put them there as before; or start anew: `pystreams reset`, or another application.id",
        )
    had_windows, has_windows = old.get("key_windows"), new.get("key_windows")
    if had_windows and has_windows and had_windows != has_windows:
        yield Finding(
            Verdict.UNSURE,
            f"its keys were of {told_windows(had_windows)} and are read as of "
            f"{told_windows(has_windows)}: what is in it unread does not fit",
            _DRAIN,
        )
    for part in ("key", "value"):
        serdes = [facts[f"{part}_serde"] for facts in (old, new)]
        formats = [serde and (serde["format"] or serde["name"]) for serde in serdes]
        if None not in formats and formats[0] != formats[1]:
            yield Finding(
                Verdict.UNSURE,
                f"its {part}s were written with {serdes[0]['name']} and are read with "
                f"{serdes[1]['name']}: what is in it unread does not fit",
                _DRAIN,
            )


def _another_count(old: Facts, new: Facts) -> Iterator[Finding]:
    """Tell of another number of partitions; where none is declared, the input decides it."""
    had, wants = old["partitions"], new["partitions"]
    declared = old.get("declared_partitions", had)
    cure = "or give it another name, or move the state with `pystreams rescale`"
    if had is not None and wants is not None:
        if had != wants:
            yield Finding(
                Verdict.REFUSED,
                f"it has {had} partitions, and is declared with {wants}",
                f"Declare {had} again, {cure}",
            )
    elif wants is not None:
        yield Finding(
            Verdict.UNSURE,
            f"it has as many partitions as its input, and is declared with {wants}: refused at "
            "the start where that is another number",
            f"Declare no number again, {cure}",
        )
    elif declared is not None:
        yield Finding(
            Verdict.UNSURE,
            f"it was declared with {declared} partitions, and is to have as many as its input: "
            "refused at the start where that is another number",
            f"Declare {declared} again, {cure}",
        )
