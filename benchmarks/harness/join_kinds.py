"""The input of joins, what must come out, and whether it did. One partition, a record a ms.

The stream has a record each millisecond, of a random key; where two tables are joined, these are
the changes of the first. A table has one row of each key, at the beginning. For a join by a foreign
key there are `FOREIGN_ROWS` rows; a change names one before a slash, the same for all of its key.
The other stream has a partner for four records in five, at most `DELAY_MS` later, and one record in
ten that has none. A last record far behind all others closes what is open.

An output is right if it has each result once, and of a join with a table in the order of the input.
Of a join by a foreign key a change may be overtaken by the next one of its key, here as in Kafka
Streams: the results of a key are some of those, in their order, and the last one is there. Left and
outer joins may look for what has no partner once a second only: so the last of those may still wait
at the end; what came of them must be the first in the order of time.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass

from benchmarks.harness.cluster import Cluster
from benchmarks.harness.output_check import WrongOutputError
from benchmarks.harness.timed_topics import Timed, read_committed, write_timed

FOREIGN_KEY = "foreign-key"
TABLE_KINDS = ("table", "versioned", "grace", "table-table")
STREAM_KINDS = ("inner", "left", "outer")
KINDS = (*TABLE_KINDS, FOREIGN_KEY, *STREAM_KINDS)
TITLES = {
    "table": "stream-table",
    "versioned": "stream-table, versioned",
    "grace": "stream-table, versioned, with grace",
    "table-table": "table-table",
    FOREIGN_KEY: "table-table, by a foreign key",
    "inner": "stream-stream, inner",
    "left": "stream-stream, left",
    "outer": "stream-stream, outer",
}
CLOSING_KEY = "closing"
FOREIGN_ROWS = 1000
DELAY_MS = 5
_BEGIN_MS = 1_700_000_000_000

Result = tuple[str, str]


@dataclass(frozen=True, slots=True)
class JoinInput:
    """What is joined.

    Attributes:
        stream: The stream's records.
        others: Those of the other side.
        closing_ms: When the last record comes, on each side.
    """

    stream: list[Timed]
    others: list[Timed]
    closing_ms: int

    def load(self, bootstrap_servers: str, topic: str) -> None:
        """Write both sides, each with a closing record.

        Raises:
            RuntimeError: The broker refused a record.
        """
        closing = [(CLOSING_KEY, "closing", self.closing_ms)]
        write_timed(bootstrap_servers, f"{topic}-other", self.others + closing)
        write_timed(bootstrap_servers, topic, self.stream + closing)


def made(kind: str, records: int, keys: int, wait_ms: int) -> JoinInput:
    """Return the input of a kind of join; the same for the same arguments.

    Args:
        kind: Of the join.
        records: Records of the stream.
        keys: Different keys.
        wait_ms: How long something may wait for a partner or an update.
    """
    chooser = random.Random(20130101)
    names = [f"key{number:07d}" for number in range(keys)]
    chosen = chooser.choices(names, k=records)
    stream = [(key, f"v{at:09d}", _BEGIN_MS + 1 + at) for at, key in enumerate(chosen)]
    if kind == FOREIGN_KEY:
        stream = [
            (key, f"row{int(key[3:]) % FOREIGN_ROWS}/{value}", time) for key, value, time in stream
        ]
        others = [(f"row{row}", f"content of row{row}", _BEGIN_MS) for row in range(FOREIGN_ROWS)]
    elif kind in TABLE_KINDS:
        others = [(key, f"row of {key}", _BEGIN_MS) for key in names]
    else:
        others = []
        for at, key in enumerate(chosen):
            luck = chooser.random()
            if luck < 0.9:
                other = key if luck < 0.8 else chooser.choice(names)
                others.append((other, f"o{at:09d}", _BEGIN_MS + 1 + at + at % DELAY_MS))
        others.sort(key=lambda record: record[2])
    return JoinInput(stream, others, _BEGIN_MS + records + 10 * wait_ms + 10_000)


def check(cluster: Cluster, topic: str, kind: str, source: JoinInput, window_ms: int) -> int:
    """Check an output; return how many records it has.

    Raises:
        WrongOutputError: It is not what the input demands.
    """
    found = [
        (key.decode(), (value or b"").decode()) for key, value in read_committed(cluster, topic)
    ]
    found = [result for result in found if result[0] != CLOSING_KEY]
    problem = problem_of(found, source, kind, window_ms)
    if problem is not None:
        raise WrongOutputError(f"{topic}: {problem}")
    return len(found)


def problem_of(found: list[Result], source: JoinInput, kind: str, window_ms: int) -> str | None:
    """Return what is wrong with the results of a kind of join; None if nothing is."""
    if kind == FOREIGN_KEY:
        return _foreign_rows_problem(found, source)
    if kind in TABLE_KINDS:
        return _rows_problem(found, source)
    return _pairs_problem(found, source, kind, window_ms)


def _rows_problem(found: list[Result], source: JoinInput) -> str | None:
    expected = [(key, f"{value}&row of {key}") for key, value, _ in source.stream]
    for at, (came, due) in enumerate(zip(found, expected, strict=False)):
        if came != due:
            return f"result {at} is {came} instead of {due}"
    if len(found) != len(expected):
        return f"{len(found)} results instead of {len(expected)}"
    return None


def _foreign_rows_problem(found: list[Result], source: JoinInput) -> str | None:
    due: dict[str, list[str]] = defaultdict(list)
    for key, value, _ in source.stream:
        due[key].append(f"{value}&content of {value.partition('/')[0]}")
    reached = dict.fromkeys(due, 0)
    for key, result in found:
        if result not in due[key][reached.get(key, 0) :]:
            return f"{key} has {result}, which it should not, or not so late"
        reached[key] = due[key].index(result) + 1
    missing = [key for key, results in due.items() if reached[key] < len(results)]
    return (
        f"the last results of {len(missing)} keys are missing: {missing[:3]}" if missing else None
    )


def _pairs_problem(found: list[Result], source: JoinInput, kind: str, window_ms: int) -> str | None:
    pairs, alone = _pairs_and_alone(source, window_ms)
    came = set(found)
    if len(came) != len(found):
        return "a result came twice"
    if not pairs <= came:
        return f"{len(pairs - came)} pairs are missing: {sorted(pairs - came)[:3]}"
    came -= pairs
    for _, result, is_left in sorted(alone):
        if kind == "outer" or (kind == "left" and is_left):
            if not came:
                break
            if result not in came:
                return f"{result} is missing, and later ones are there"
            came.discard(result)
    return f"{len(came)} results should not be there: {sorted(came)[:3]}" if came else None


def _pairs_and_alone(
    source: JoinInput, window_ms: int
) -> tuple[set[Result], list[tuple[int, Result, bool]]]:
    """Return the pairs, and what has no partner: its time, the result, and whether it is left."""
    others: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for key, value, time in source.others:
        others[key].append((time, value))
    pairs: set[Result] = set()
    alone: list[tuple[int, Result, bool]] = []
    met: set[str] = set()
    for key, value, time in source.stream:
        candidates = others[key]
        at = bisect_left(candidates, (time - window_ms, ""))
        to = bisect_left(candidates, (time + window_ms + 1, ""))
        near = candidates[at:to]
        pairs.update((key, f"{value}&{other}") for _, other in near)
        met.update(other for _, other in near)
        if not near:
            alone.append((time, (key, f"{value}&-"), True))
    alone += [
        (time, (key, f"-&{value}"), False) for key, value, time in source.others if value not in met
    ]
    return pairs, alone
