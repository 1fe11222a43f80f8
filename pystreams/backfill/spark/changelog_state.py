"""The state that changelog records amount to, as Spark finds it: what a restored store would hold.

The last record a key, deletions gone; of windows and sessions those in segments that are live at
the newest time in the changelog partition; of a versioned store the last record a key and time,
those that reach into the history it keeps. What comes out is still changelog records.

The records of one changelog partition are compared with each other and with no others. Sorting
and spilling are Spark's: nothing here holds more than a record.

Spec: `stores.restoring`, `stores.segmented`, `stores.versioned_buffered`, each for its kind.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pystreams.backfill.plan.store_changelogs import StoreChangelog
from pystreams.stores.contracts.spec import Retention

COLUMNS = ("partition", "offset", "timestamp", "key", "value", "headers")
_LONG_BYTES = 8
_RECORD = ("offset", "timestamp", "value", "headers")


def current_state(records: DataFrame, changelog: StoreChangelog) -> DataFrame:
    """Return the changelog records that make up a store's state.

    Args:
        records: Records of the changelog, columns of `rows.HISTORY_TYPE`.

    Returns:
        Columns `COLUMNS`; for a versioned store `valid_to` too, the time (ms) of the next version
        or deletion of the key, null for the latest. No value is null but that of a versioned
        store's deletion within its history.
    """
    keyed = records.filter(F.col("key").isNotNull()).select(*COLUMNS)
    if changelog.spec.kind.keeps_versions:
        assert changelog.spec.retention is not None, "a versioned store has a retention"
        return _versions(keyed, changelog.spec.retention)
    last = _last(keyed, "partition", "key")
    if changelog.spec.kind.segmented and changelog.spec.retention is not None:
        last = _live(last, changelog, changelog.spec.retention)
    return last.filter(F.col("value").isNotNull()).select(*COLUMNS)


def record_key(changelog: StoreChangelog) -> Column:
    """Return the record's key, of the column `key` as it was logged."""
    layout = changelog.spec.kind.key_layout
    head, tail = layout.head_bytes, layout.tail_bytes
    if not head and not tail:
        return F.col("key")
    return F.expr(f"substring(key, {head + 1}, length(key) - {head + tail})")


def long_in_key(begins: int) -> Column:
    """Return an int64 in the column `key`; it begins from the key's end if that is negative."""
    return F.conv(F.hex(bytes_in_key(begins, _LONG_BYTES)), 16, -10).cast("bigint")


def bytes_in_key(begins: int, length: int) -> Column:
    """Return bytes of the column `key`; they begin from the key's end if that is negative."""
    position = begins if begins < 0 else begins + 1
    return F.expr(f"substring(key, {position}, {length})")


def _last(records: DataFrame, *by: str) -> DataFrame:
    """Return the record with the highest offset of each group."""
    last = F.max_by(F.struct(*_RECORD), F.col("offset")).alias("last")
    grouped = records.groupBy(*by).agg(last)
    kept = [name for name in _RECORD if name not in by]
    return grouped.select(*by, *(f"last.{name}" for name in kept))


def _live(last: DataFrame, changelog: StoreChangelog, retention: Retention) -> DataFrame:
    """Leave out what is in segments that have expired, as a restore does (`segments_of`)."""
    interval_ms = retention.segment_interval_ms
    kept_ms = retention.retention_ms + (interval_ms if retention.time_ordered else 0)
    timed = last.withColumn("time", long_in_key(-changelog.spec.kind.key_layout.tail_bytes))
    timed = timed.withColumn("newest", F.max("time").over(Window.partitionBy("partition")))
    oldest_live = F.expr(f"greatest(0, newest - {kept_ms}) div {interval_ms}")
    return timed.filter(F.expr(f"time div {interval_ms}") >= oldest_live)


def _versions(keyed: DataFrame, retention: Retention) -> DataFrame:
    """Return the puts that were taken, and reach into the history."""
    partition = Window.partitionBy("partition")
    earlier = partition.orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    puts = keyed.withColumn("before", F.max("timestamp").over(earlier))
    taken = puts.filter(f"before is null or timestamp >= before - {retention.retention_ms}")
    versions = _last(taken, "partition", "key", "timestamp")
    following = Window.partitionBy("partition", "key").orderBy("timestamp")
    versions = versions.withColumn("valid_to", F.lead("timestamp").over(following))
    begins = F.max("timestamp").over(partition) - retention.retention_ms
    versions = versions.withColumn("begins", begins)
    reaching = versions.filter("valid_to is null or valid_to > begins")
    return reaching.filter("value is not null or timestamp >= begins").select(*COLUMNS, "valid_to")
