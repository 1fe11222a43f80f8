"""Contracts of versioned stores: what a user calls, and what other threads may read.

A versioned store keeps for each key not one value but its history. A version is valid from its
timestamp (inclusive) to the timestamp of the key's next version or deletion (exclusive); a put in
the past cuts the version before it short. History goes back `history_retention_ms` from the
store's stream time, the highest timestamp it was given. The latest version of a key has no end
and never expires.

Spec: KIP-889 "Public Interfaces"; KIP-968 (reads of several versions); Kafka
VersionedKeyValueStore, VersionedRecord, MultiVersionedKeyQuery.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from pystreams.config.guarantee import IsolationLevel

V = TypeVar("V")
K_contra = TypeVar("K_contra", contravariant=True)

PUT_RETURN_CODE_VALID_TO_UNDEFINED = -1
"""What `put` returns when the version it wrote is the key's latest: it has no end."""

PUT_RETURN_CODE_NOT_PUT = -(2**63)
"""What `put` returns when it wrote nothing: the timestamp is before the history retention."""


class VersionedRecord(NamedTuple, Generic[V]):
    """One version of a key's value.

    Attributes:
        value: The value; never None, a deletion is the end of the version before it.
        timestamp: From when on the version is valid (ms, inclusive).
        valid_to: Until when it is valid (ms, exclusive); None for the latest version.
    """

    value: V
    timestamp: int
    valid_to: int | None = None


class ReadOnlyVersionedKeyValueStore(Protocol[K_contra, V]):
    """Reads of a versioned store."""

    def get(self, key: K_contra, as_of: int | None = None) -> VersionedRecord[V] | None:
        """Return the version of a key that is valid at a time.

        Args:
            as_of: The time (ms); None asks for the latest version. A time before the history
                retention finds the latest version if that is as old, and else nothing.

        Returns:
            The version, or None when the key had no value at that time.
        """

    def get_range(
        self,
        key: K_contra,
        from_time: int | None = None,
        to_time: int | None = None,
        *,
        descending: bool = False,
    ) -> Iterator[VersionedRecord[V]]:
        """Iterate over the versions of a key that are valid somewhere in a range of time.

        The versions are those at the moment of the call. Versions that ended before the history
        retention are found as long as their segment is live.

        Args:
            from_time: The range's first millisecond; None leaves it open.
            to_time: Its last millisecond, inclusive; None leaves it open. A range that ends before
                the history retention finds at most the latest version.
            descending: Newest version first; else oldest first.

        Raises:
            ValueError: The range ends before it begins.
        """


class VersionedKeyValueStore(ReadOnlyVersionedKeyValueStore[K_contra, V], Protocol[K_contra, V]):
    """A versioned store as the owning processor sees it."""

    def put(self, key: K_contra, value: V | None, timestamp: int) -> int:
        """Write a version; a value of None ends the version before it and begins none.

        A version of the same key and timestamp is replaced. A put that is older than the store's
        stream time less the history retention is dropped: counted among the task's dropped
        records, warned of once, and not logged.

        Args:
            value: The value, or None.
            timestamp: From when on it is valid (ms, 0 or more).

        Returns:
            Until when the version is valid (ms): the timestamp of the next version or deletion;
            `PUT_RETURN_CODE_VALID_TO_UNDEFINED` if it is the latest; `PUT_RETURN_CODE_NOT_PUT`
            if it was dropped.

        Raises:
            SerializationError: The key or value does not fit its serde.
            StateStoreError: The timestamp is negative.
        """

    def delete(self, key: K_contra, timestamp: int) -> VersionedRecord[V] | None:
        """End the version that is valid at a time (ms); return it as it was, or None.

        Same as `put(key, None, timestamp)`; dropped, with None, under the same condition.
        """

    def read_only(
        self, isolation_level: IsolationLevel
    ) -> ReadOnlyVersionedKeyValueStore[K_contra, V]:
        """Return a view that other threads may read at the given isolation level."""
