"""The columns of an exported store, by its kind.

| kind | columns |
|---|---|
| key-value, custom | partition, key, value, timestamp |
| window | partition, key, window_start, window_end, value, timestamp |
| window with duplicates | the same, and sequence before value |
| session | as of windows; `window_end` is the time of the session's last record |
| versioned | partition, key, valid_from, valid_to, value |
| buffer | partition, key, sequence, value (bytes of `stores.time_ordered_buffer`), timestamp |
| list-value | partition, key, time, left, value (bytes of `stores.kinds.list`), timestamp |

`timestamp` is that of the changelog record: the time of the input that wrote it last. Times are
Spark timestamps; one that is not known, or an end that never comes, is null. `valid_to` is null
for the version that is valid now. `sequence` tells apart what is of one key and time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from pystreams.backfill.exports.typed_columns import int_of, typed
from pystreams.backfill.plan.store_changelogs import StoreChangelog
from pystreams.backfill.spark.changelog_state import bytes_in_key, long_in_key, record_key
from pystreams.serdes import Serde
from pystreams.stores.contracts.key_layout import KeyFlag, KeyNumber, KeyPart, KeyTime

_LAST_TIME_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: what is later has no date in most readers."""


def exported(
    state: DataFrame,
    changelog: StoreChangelog,
    key_serde: Serde[Any] | None,
    value_serde: Serde[Any] | None,
) -> DataFrame:
    """Return a store's state with the columns of its kind.

    Args:
        state: What `changelog_state.current_state` gives.
        key_serde: The serde of its keys; None leaves them binary.
        value_serde: The serde of its values; None leaves them binary.
    """
    own: Mapping[str, Column] = {
        "partition": F.col("partition"),
        "key": typed(record_key(changelog), changelog.spec.kind.record_key_serde(key_serde)),
        **_beside_key(changelog),
        "value": typed(F.col("value"), value_serde),
    }
    if not changelog.spec.kind.keeps_versions:
        own = {**own, "timestamp": time_of(F.col("timestamp"))}
    present = state.filter(F.col("value").isNotNull())
    return present.select(*(column.alias(name) for name, column in own.items()))


def _beside_key(changelog: StoreChangelog) -> dict[str, Column]:
    if changelog.spec.kind.keeps_versions:
        return {"valid_from": time_of(F.col("timestamp")), "valid_to": time_of(F.col("valid_to"))}
    parts = changelog.spec.kind.key_columns(changelog.spec.retention)
    return {column: _of_part(part) for column, part in parts.items()}


def _of_part(part: KeyPart) -> Column:
    if isinstance(part, KeyFlag):
        return _flag(part)
    if isinstance(part, KeyNumber):
        return int_of(bytes_in_key(part.begins, 4))
    return time_of(_key_time(part))


def _flag(flag: KeyFlag) -> Column:
    return F.hex(bytes_in_key(flag.begins, 1)) == "01"


def _key_time(time: KeyTime) -> Column:
    known = long_in_key(time.begins)
    if not time.plus_ms:
        return known
    return F.when(known <= _LAST_TIME_MS - time.plus_ms, known + F.lit(time.plus_ms))


def time_of(milliseconds: Column) -> Column:
    """Return milliseconds since the epoch as a Spark timestamp; null for what has no date."""
    known = milliseconds.between(0, _LAST_TIME_MS)
    return F.when(known, F.timestamp_millis(milliseconds))
