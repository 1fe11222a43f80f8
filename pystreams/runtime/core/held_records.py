"""What the operators of one task hold back: batches, and records that wait for answers."""

from __future__ import annotations

from pystreams.topology.contracts.held_records import HoldsRecords


class HeldRecords:
    """All that hold records back in a task, those upstream first."""

    __slots__ = ("_holders",)

    def __init__(self) -> None:
        self._holders: list[HoldsRecords] = []

    def add(self, holder: HoldsRecords) -> None:
        """Add one; operators are attached from the sinks up."""
        self._holders.insert(0, holder)

    def __len__(self) -> int:
        """Return how many records are held."""
        return sum(map(len, self._holders))

    @property
    def full(self) -> bool:
        """Whether the task is to process no more before something has gone on."""
        return any(holder.full for holder in self._holders)

    def go_on(self) -> None:
        """Send on what need not wait any longer; what that brings further down goes on too."""
        for holder in self._holders:
            holder.go_on()

    def settle(self) -> bool:
        """Send on everything, waiting for it; return whether there was anything."""
        if not len(self):
            return False
        for holder in self._holders:
            holder.settle()
        return True

    def discard(self) -> None:
        """Forget everything."""
        for holder in self._holders:
            holder.discard()
