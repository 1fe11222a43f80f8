"""How long stores keep records, and in what portions: what is checked, and Kafka's defaults.

Spec: Kafka Stores, RocksDbWindowBytesStoreSupplier, RocksDbSessionBytesStoreSupplier,
RocksDbVersionedKeyValueBytesStoreSupplier.
"""

from __future__ import annotations

from pystreams.errors import TopologyError
from pystreams.stores.spec import Retention

MIN_SEGMENT_INTERVAL_MS = 60_000
"""What a segment of a window or session store covers at least; else it is half the retention."""


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
        window_size_ms: How long a window is.
        retain_duplicates: Whether each put adds a value.
        segment_interval_ms: What one segment covers; None chooses by the retention.

    Raises:
        TopologyError: A time is not valid.

    Spec: Kafka Stores.persistentWindowStore.
    """
    for argument, value in (("retention_ms", retention_ms), ("window_size_ms", window_size_ms)):
        if value < 0:
            raise TopologyError(f"store {name!r}: {argument} must be 0 or more, not {value}")
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
    if history_retention_ms < 0:
        raise TopologyError(
            f"store {name!r}: history_retention_ms must be 0 or more, not {history_retention_ms}"
        )
    if segment_interval_ms is None:
        segment_interval_ms = _default_versioned_interval_ms(history_retention_ms)
    return Retention(history_retention_ms, _checked_interval_ms(name, segment_interval_ms))


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
    if retention_ms < 0:
        raise TopologyError(f"store {name!r}: retention_ms must be 0 or more, not {retention_ms}")
    return Retention(retention_ms, _segment_interval_ms(name, retention_ms, segment_interval_ms))


def _segment_interval_ms(name: str, retention_ms: int, segment_interval_ms: int | None) -> int:
    """Return the segment interval of a window or session store."""
    if segment_interval_ms is None:
        return max(retention_ms // 2, MIN_SEGMENT_INTERVAL_MS)
    return _checked_interval_ms(name, segment_interval_ms)


def _checked_interval_ms(name: str, segment_interval_ms: int) -> int:
    if segment_interval_ms < 1:
        raise TopologyError(
            f"store {name!r}: segment_interval_ms must be 1 or more, not {segment_interval_ms}"
        )
    return segment_interval_ms


def _default_versioned_interval_ms(history_retention_ms: int) -> int:
    if history_retention_ms <= 60_000:
        return max(history_retention_ms // 3, 2_000)
    if history_retention_ms <= 300_000:
        return max(history_retention_ms // 5, 20_000)
    if history_retention_ms <= 3_600_000:
        return max(history_retention_ms // 12, 60_000)
    return max(history_retention_ms // 24, 300_000)
