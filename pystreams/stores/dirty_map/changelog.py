"""Where a store's changelog records go."""

from __future__ import annotations

from collections.abc import Callable

from pystreams.record import OutputBuffer, ProducedRecord


def log_to(
    changelog: OutputBuffer | None, *, key_prefix_bytes: int = 0
) -> Callable[[ProducedRecord], None]:
    """Return the function that logs one record.

    Args:
        changelog: The task's buffer of the changelog topic; None when logging is off.
        key_prefix_bytes: Bytes of the stored key that the changelog does not see.
    """
    if changelog is None:
        return _discard
    append = changelog.records.append
    if not key_prefix_bytes:
        return append

    def log(record: ProducedRecord) -> None:
        key, value, timestamp, headers = record
        append((key and key[key_prefix_bytes:], value, timestamp, headers))

    return log


def _discard(record: ProducedRecord) -> None:
    """Log nowhere: the changelog of a store without logging."""
