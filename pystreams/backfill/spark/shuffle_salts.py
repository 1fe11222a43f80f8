"""Numbers that Spark's hash partitioning sends to one partition each.

Spark puts a row into partition `pmod(hash(column), n)`. Hashing the tasks' own numbers would send
two of eight tasks to one Spark partition and none to another; so each task's rows carry a number
that is known to hash to the task's own place.

Only the balance depends on it: rows are sorted by task first, and a worker that meets two tasks
in one Spark partition runs one after the other.

Source: Spark's `Murmur3_x86_32.hashInt` with seed 42. Example: hash(0) is 933211791.
"""

from __future__ import annotations

import mmh3

_SEED = 42


def spark_hash(number: int) -> int:
    """Return what Spark SQL's `hash` gives for an int that is not negative."""
    return mmh3.hash(number.to_bytes(4, "little"), _SEED)


def salts_of(num_tasks: int) -> list[int]:
    """Return for each task, by number, the int that hashes to its place among so many."""
    found: dict[int, int] = {}
    candidate = 0
    while len(found) < num_tasks:
        found.setdefault(spark_hash(candidate) % num_tasks, candidate)
        candidate += 1
    return [found[task] for task in range(num_tasks)]
