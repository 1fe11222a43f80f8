"""What rows are made of, and what becomes of old ones where that is another input or order.

A rule is called with the facts of both stores, and gives what it finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pystreams.deploy.operator_facts import Facts
from pystreams.deploy.serde_rules import ANOTHER_NAME
from pystreams.deploy.verdicts import Finding, Verdict

_KINDS_OF_JOIN = {
    (True, True): "an inner join",
    (True, False): "a left join",
    (False, False): "an outer join",
}
"""By whether each table must have a row."""


def inputs(old: Facts, new: Facts) -> Iterator[Finding]:
    """Compare the topics that rows are made of, and the operations that lead to them."""
    had, has = set(old["made_of"]), set(new["made_of"])
    told = f"{_listed(had)} -> {_listed(has)}"
    if had and has and not had & has:
        what = f"its rows are of {_listed(had)}, and it goes on with {_listed(has)}"
        if not new["logged"]:
            yield Finding(Verdict.UNSURE, what, ANOTHER_NAME)
            return
        yield Finding(
            Verdict.UNSURE,
            f"{what}; with exactly-once the start is refused over them while the group has no "
            "offsets of what its task reads",
            f"{ANOTHER_NAME}. To go on with the rows, set accepted.source.topic.ids as the error "
            "of the start says",
        )
    elif lost := had - has:
        yield Finding(
            Verdict.UNSURE,
            f"its input is another ({told}): old rows stay, with what came of {_listed(lost)}, of "
            "which nothing comes any more",
            ANOTHER_NAME,
        )
    elif had != has:
        yield Finding(Verdict.KEPT, f"its input is another ({told}); old rows stay")
    elif old["shape"] != new["shape"]:
        yield Finding(Verdict.KEPT, "other operations lead to it; rows made by the old ones stay")


def places(old: Facts, new: Facts) -> Iterator[Finding]:
    """Compare the order of the inputs of a cogroup or of a join of tables."""
    had, has = old.get("places") or [], new.get("places") or []
    stayed = [[place for place in each if place in had and place in has] for each in (had, has)]
    if stayed[0] != stayed[1] and sorted(stayed[0]) == sorted(stayed[1]):
        told = " -> ".join(" and ".join(map(_listed, each)) for each in stayed)
        yield Finding(
            Verdict.UNSURE,
            f"its inputs have changed places ({told}): unless what is made of each has changed "
            "places with it, its rows were made in another way",
            f"If it has not: {ANOTHER_NAME[0].lower()}{ANOTHER_NAME[1:]}",
        )


def required(old: Facts, new: Facts) -> Iterator[Finding]:
    """Compare which tables of a join must have a row."""
    had, has = old.get("required"), new.get("required")
    if had and has and had != has:
        kinds = [_KINDS_OF_JOIN.get(tuple(each), "another join") for each in (had, has)]
        yield Finding(
            Verdict.UNSURE,
            f"it was made by {kinds[0]} of tables, and is to be by {kinds[1]}: rows of keys that "
            "one of the tables lacks stay, or are missing",
            ANOTHER_NAME,
        )


def _listed(topics: Iterable[str]) -> str:
    return ", ".join(sorted(topics)) or "none"
