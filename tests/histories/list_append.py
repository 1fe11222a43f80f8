"""Finds what may not be in the history of transactions that append to lists, as Elle does.

Each transaction appends its own name to the lists of several keys, and may read others. What it
saw is part of its output: the list after its append, or the list it read. As every list tells the
order of its appends, the versions of each key are known, and with them who depends on whom:

    ww   one append follows another to the same key
    wr   a transaction read a list whose last element another one appended
    rw   a transaction read a list to which another one then appended

Transactions that each took effect at once, one after the other, leave no cycle. Anomalies:

- `repeated`: an append took effect twice;
- `aborted read`: a list holds an append whose own record no reader of committed records sees;
- `incompatible order`: two lists of a key, neither of which continues the other;
- `out of order`: records of a key that are not in the order of its appends;
- `lost`, `torn`: none, or only some, of the appends of a transaction that should be are there;
- `unknown`: an append that nobody asked for;
- `G0`, `G1c`, `G-single`, `G2`: cycles of ww; of ww and wr; with one rw; with several.

Source: Kingsbury, Alvaro: "Elle: Inferring Isolation Anomalies from Experimental Observations".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import NamedTuple

from tests.histories.cycles import Dependency, cycles


class Observation(NamedTuple):
    """One record of the output.

    Attributes:
        transaction: Whose it is.
        key: The list it tells of.
        elements: The list: after the append, or as it was read.
        is_append: Whether the transaction has appended to it.
    """

    transaction: str
    key: str
    elements: tuple[str, ...]
    is_append: bool


class Anomaly(NamedTuple):
    """Something that may not be.

    Attributes:
        kind: One of those in this module's docstring.
        text: What was found, and where.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def anomalies(
    observations: Sequence[Observation], expected: Mapping[str, AbstractSet[str]]
) -> list[Anomaly]:
    """Return what is wrong with a history.

    Args:
        observations: Committed output; those of one key in the order of their partition.
        expected: Every transaction that should have taken effect, and the keys it appends to.
    """
    by_key: dict[str, list[Observation]] = defaultdict(list)
    for observation in observations:
        by_key[observation.key].append(observation)
    found: list[Anomaly] = []
    versions: dict[str, tuple[str, ...]] = {}
    for key, seen in sorted(by_key.items()):
        versions[key] = max((observation.elements for observation in seen), key=len)
        found += _of_key(key, seen, versions[key])
    found += _missing(versions, expected)
    found += [
        Anomaly(cycle.kind, str(cycle)) for cycle in cycles(_dependencies(observations, versions))
    ]
    return found


def _of_key(key: str, seen: Sequence[Observation], longest: tuple[str, ...]) -> Iterator[Anomaly]:
    """Look at the records of one key."""
    appends: dict[str, int] = defaultdict(int)
    last = 0
    for transaction, _, elements, is_append in seen:
        if elements != longest[: len(elements)]:
            text = f"{key} was {_listed(elements)} for {transaction}, and {_listed(longest)}"
            yield Anomaly("incompatible order", text)
        if not is_append:
            continue
        appends[transaction] += 1
        if not elements or elements[-1] != transaction:
            text = f"{key} is {_listed(elements)} after the append of {transaction}"
            yield Anomaly("lost", text)
        if len(elements) <= last:
            text = f"{key}: the append of {transaction} is the {len(elements)}., after {last}"
            yield Anomaly("out of order", text)
        last = max(last, len(elements))
    for element in dict.fromkeys(longest):
        if not appends[element]:
            yield Anomaly("aborted read", f"{key} holds {element}, whose append is not committed")
        if longest.count(element) > 1 or appends[element] > 1:
            times = max(longest.count(element), appends[element])
            yield Anomaly("repeated", f"{element} was appended to {key} {times} times")


def _missing(
    versions: Mapping[str, Sequence[str]], expected: Mapping[str, AbstractSet[str]]
) -> Iterator[Anomaly]:
    """Compare what took effect with what should have."""
    effective: dict[str, set[str]] = defaultdict(set)
    for key, elements in versions.items():
        for element in elements:
            effective[element].add(key)
    for transaction, keys in expected.items():
        there = effective.pop(transaction, set())
        missing = sorted(keys - there)
        if missing and there:
            text = f"{transaction} is in {sorted(there)}, and not in {missing}"
            yield Anomaly("torn", text)
        elif missing:
            yield Anomaly("lost", f"{transaction} is in none of {missing}")
        for key in sorted(there - keys):
            yield Anomaly("unknown", f"{transaction} is in {key}")
    for transaction, keys in effective.items():
        yield Anomaly("unknown", f"{transaction} is in {sorted(keys)}")


def _dependencies(
    observations: Iterable[Observation], versions: Mapping[str, Sequence[str]]
) -> Iterator[Dependency]:
    """Return who depends on whom."""
    for key, elements in versions.items():
        for before, after in pairwise(elements):
            yield Dependency("ww", before, after, key)
    for transaction, key, elements, is_append in observations:
        if is_append:
            continue
        if elements:
            yield Dependency("wr", elements[-1], transaction, key)
        if len(elements) < len(versions[key]):
            yield Dependency("rw", transaction, versions[key][len(elements)], key)


def _listed(elements: Sequence[str]) -> str:
    return f"[{' '.join(elements)}]"
