"""How long stores keep records, and in what portions: what is checked, and Kafka's defaults.

Spec: Kafka Stores, RocksDbWindowBytesStoreSupplier, RocksDbSessionBytesStoreSupplier,
RocksDbVersionedKeyValueBytesStoreSupplier.
"""

from __future__ import annotations

from pystreams.errors import TopologyError
from pystreams.stores.contracts.spec import Retention

MIN_SEGMENT_INTERVAL_MS = 60_000
"""What a segment of a window or session store covers at least; else it is half the retention."""


def check_number(name: str, argument: str, value: object, minimum: int) -> None:
    """Refuse a number that a store could not be made with.

    Args:
        name: The store's name, for error messages.
        argument: The argument's name, for the same.
        minimum: The least it may be.

    Raises:
        TopologyError: It is no whole number, or too small.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TopologyError(f"store {name!r}: {argument} must be a whole number, not {value!r}")
    if value < minimum:
        raise TopologyError(f"store {name!r}: {argument} must be {minimum} or more, not {value}")


def window_retention(
    name: str,
    retention_ms: int,
    window_size_ms: int,
    *,
    retain_duplicates: bool,
    segment_interval_ms: int | None = None,
) -> Retention:
    """Return the retention of a window store.

    Args:
        name: The store's name, for error messages.
        retention_ms: How long windows are kept, counted from their start.
        retain_duplicates: Whether each put adds a value.
        segment_interval_ms: What one segment covers; None chooses by the retention.

    Raises:
        TopologyError: A time is not valid.

    Spec: Kafka Stores.persistentWindowStore.
    """
    check_number(name, "retention_ms", retention_ms, 0)
    check_number(name, "window_size_ms", window_size_ms, 0)
    if window_size_ms > retention_ms:
        raise TopologyError(
            f"store {name!r}: retention_ms {retention_ms} is less than window_size_ms "
            f"{window_size_ms}; a window has to be kept at least until it ends"
        )
    return Retention(
        retention_ms,
        _segment_interval_ms(name, retention_ms, segment_interval_ms),
        window_size_ms=window_size_ms,
        retain_duplicates=retain_duplicates,
    )


def versioned_retention(
    name: str, history_retention_ms: int, segment_interval_ms: int | None
) -> Retention:
    """Return the retention of a versioned store.

    Args:
        name: The store's name, for error messages.
        history_retention_ms: How far back history goes.
        segment_interval_ms: What one segment covers; None chooses by the retention.

    Raises:
        TopologyError: A time is not valid.

    Spec: Kafka RocksDbVersionedKeyValueBytesStoreSupplier.defaultSegmentInterval.
    """
    check_number(name, "history_retention_ms", history_retention_ms, 0)
    if segment_interval_ms is None:
        segment_interval_ms = _default_versioned_interval_ms(history_retention_ms)
    check_number(name, "segment_interval_ms", segment_interval_ms, 1)
    return Retention(history_retention_ms, segment_interval_ms)


def session_retention(
    name: str, retention_ms: int, segment_interval_ms: int | None = None
) -> Retention:
    """Return the retention of a session store.

    Args:
        name: The store's name, for error messages.
        retention_ms: How long sessions are kept, counted from their end.
        segment_interval_ms: What one segment covers; None chooses by the retention.

    Raises:
        TopologyError: A time is not valid.

    Spec: Kafka Stores.persistentSessionStore.
    """
    check_number(name, "retention_ms", retention_ms, 0)
    return Retention(retention_ms, _segment_interval_ms(name, retention_ms, segment_interval_ms))


def _segment_interval_ms(name: str, retention_ms: int, segment_interval_ms: int | None) -> int:
    """Return the segment interval of a window or session store."""
    if segment_interval_ms is None:
        return max(retention_ms // 2, MIN_SEGMENT_INTERVAL_MS)
    check_number(name, "segment_interval_ms", segment_interval_ms, 1)
    return segment_interval_ms


def _default_versioned_interval_ms(history_retention_ms: int) -> int:
    if history_retention_ms <= 60_000:
        return max(history_retention_ms // 3, 2_000)
    if history_retention_ms <= 300_000:
        return max(history_retention_ms // 5, 20_000)
    if history_retention_ms <= 3_600_000:
        return max(history_retention_ms // 12, 60_000)
    return max(history_retention_ms // 24, 300_000)
