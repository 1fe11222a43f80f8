"""What the stores of one thread hold together: a sum that is moved, never summed up anew.

Whatever writes to the stores of a task enters afterwards by how much they have grown or shrunk
(`StoreBytes`). So what the thread knows of its memory costs as much as the task at hand has stores,
however many tasks there are. Stores are asked, and do not tell at each put: a record may put many
times, and stores of the user's own have no one to tell.
"""

from __future__ import annotations

from collections.abc import Collection

from pystreams.stores.accounting.metered import StoreMeters
from pystreams.stores.contracts.state_store import StateStore


class BytesLedger:
    """The sums of one thread.

    Threads: the thread's own enters; any may read.

    Attributes:
        max_uncommitted_bytes: The most they ever held.
    """

    __slots__ = ("cached_bytes", "max_uncommitted_bytes", "uncommitted_bytes")

    def __init__(self) -> None:
        self.uncommitted_bytes = self.max_uncommitted_bytes = self.cached_bytes = 0

    def add(self, uncommitted_bytes: int, cached_bytes: int) -> None:
        """Enter by how much the stores of a task have grown; negative where they have shrunk."""
        self.uncommitted_bytes += uncommitted_bytes
        self.cached_bytes += cached_bytes
        self.max_uncommitted_bytes = max(self.max_uncommitted_bytes, self.uncommitted_bytes)


class StoreBytes:
    """What the stores of one task hold, and the ledger knows of."""

    __slots__ = ("_entered", "_ledger", "_stores")

    def __init__(
        self, ledger: BytesLedger, stores: Collection[tuple[StateStore, StoreMeters]]
    ) -> None:
        self._ledger = ledger
        self._stores = stores
        self._entered = (0, 0)

    def measure(self) -> tuple[int, int]:
        """Ask the stores, and enter by how much they have grown or shrunk.

        To be called after whatever writes to them. What each says is left on its meters, for other
        threads.

        Returns:
            The bytes that wait for a commit, and those that caches hold back.
        """
        uncommitted_bytes = cached_bytes = 0
        for store, meters in self._stores:
            meters.uncommitted_bytes = waiting = store.approximate_num_uncommitted_bytes()
            meters.cached_bytes = held_back = store.cached_bytes()
            uncommitted_bytes += waiting
            cached_bytes += held_back
        return self._enter(uncommitted_bytes, cached_bytes)

    def leave(self) -> None:
        """Take the stores out of the ledger: they are closed."""
        self._enter(0, 0)

    def _enter(self, uncommitted_bytes: int, cached_bytes: int) -> tuple[int, int]:
        before_uncommitted, before_cached = self._entered
        self._ledger.add(uncommitted_bytes - before_uncommitted, cached_bytes - before_cached)
        self._entered = entered = (uncommitted_bytes, cached_bytes)
        return entered
