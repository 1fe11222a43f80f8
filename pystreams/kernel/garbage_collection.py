"""Python's garbage collector, while modules are imported and while records are processed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_OBJECTS_BETWEEN_COLLECTIONS = 50_000


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Let the collector look seldom, and not at what is there already: imported code.

    Nearly all objects of a record are freed as its references go; to look at them all the same
    costs a tenth to a quarter of the processing. Circles that the user's code makes are still
    found. It counts for the whole process, all threads, until the block ends; the workers of a
    backfill run so. `pystreams run` does the same in two steps, from its start on.
    """
    with collections_far_apart():
        gc.collect()
        gc.freeze()
        try:
            yield
        finally:
            gc.unfreeze()


@contextmanager
def collections_far_apart() -> Iterator[None]:
    """Let the collector look seldom, for the whole process, until the block ends.

    What a command imports stays: to look for circles in it again and again, while it grows, is a
    tenth of its start.
    """
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def leave_out_what_is_there() -> None:
    """Let no collection look at what is there now: imported code, in a process that is a command.

    There is one at the start, and three at the interpreter's end; together they are a sixth of what
    a start and a stop cost. To be called before the user's code is imported: what that leaves in
    circles is found as ever.
    """
    gc.freeze()
