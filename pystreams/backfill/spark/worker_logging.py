"""How workers log: as the program says that runs the backfill, since they know nothing of it.

Spark's workers are processes of their own, most often on other machines. What sets up logging in
them goes there with the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SetUp = Callable[[], None]
"""Sets up logging in the process that calls it; can be pickled."""

_chosen: ContextVar[SetUp | None] = ContextVar("worker_logging", default=None)


@contextmanager
def workers_log_by(set_up: SetUp) -> Iterator[None]:
    """Let the workers of backfills that run within the block set up logging so."""
    token = _chosen.set(set_up)
    try:
        yield
    finally:
        _chosen.reset(token)


def worker_set_up() -> SetUp | None:
    """Return what workers are to call; None leaves logging as their process has it."""
    return _chosen.get()
