"""An export read back: what would restore its stores, and which input they cover.

The inverse of `columns`. A data set of a backfill has the same columns, and no manifest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pystreams import serdes
from pystreams.backfill.exports.manifest import MANIFEST, ExportError
from pystreams.config import StreamsConfig
from pystreams.ids import TopicPartition
from pystreams.record import ProducedRecord
from pystreams.serdes import Serde
from pystreams.stores.contracts.key_layout import KeyNumber, KeyTime
from pystreams.stores.contracts.spec import StoreSpec
from pystreams.topology.plan.topology_plan import TopologyPlan

_NUMBERS: tuple[Serde[Any], ...] = (serdes.LONG, serdes.INT, serdes.DOUBLE)
_STORES_OF_DATASET = "stores"


@dataclass(frozen=True, slots=True)
class ExportedState:
    """What an export holds.

    Attributes:
        changelogs: Changelog records that restore each store, by its name.
        source_offsets: Which input that covers: the next offset of each source partition; empty
            where that is not known.
        exact: Whether the stores hold what came of the input before those offsets and no more.
        kind: What the directory is, for the reader.
    """

    changelogs: Mapping[str, list[ProducedRecord]]
    source_offsets: Mapping[TopicPartition, int]
    exact: bool
    kind: str


def is_export(path: Path) -> bool:
    """Return whether a directory is an export, or a data set of a backfill."""
    return (path / MANIFEST).is_file() or (path / _STORES_OF_DATASET).is_dir()


def read_export(path: Path, plan: TopologyPlan, config: StreamsConfig) -> ExportedState:
    """Return what an export, or a backfill's data set, has of a topology's stores.

    Args:
        plan: The topology's plan; other stores are passed over.
        config: Its default serdes stand in where a store has none of its own.

    Raises:
        ExportError: It is of another application, can't be read, or pyarrow is missing.
    """
    try:
        import pyarrow as _  # noqa: ICN001 - an extra; told here, before anything is read
    except ImportError as error:
        raise ExportError(
            "reading an export needs the extra: pip install 'pystreams-kafka[spark]'"
        ) from error
    manifest = _manifest(path, plan)
    root = path if manifest else path / _STORES_OF_DATASET
    changelogs = {
        name: sorted(_Rows(plan, config, name).records(root / name), key=_by_time)
        for name in plan.topology.stores
        if (root / name).is_dir()
    }
    offsets: dict[TopicPartition, int] = {}
    for task in manifest.get("tasks", {}).values():
        for partition, offset in task["source_offsets"].items():
            topic, _, number = partition.rpartition("-")
            offsets[TopicPartition(topic, int(number))] = offset
    exact = all(task["exact"] for task in manifest.get("tasks", {}).values())
    kind = "export" if manifest else "backfill's data set"
    return ExportedState(changelogs, offsets, exact, kind)


def _manifest(path: Path, plan: TopologyPlan) -> dict[str, Any]:
    file = path / MANIFEST
    if not file.is_file():
        return {}
    try:
        manifest: dict[str, Any] = json.loads(file.read_text("utf-8"))
        application = manifest["application_id"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ExportError(f"{file} can't be read ({type(error).__name__}: {error})") from error
    if application != plan.application_id:
        raise ExportError(
            f"{path} is an export of application {application!r}, not of {plan.application_id!r}: "
            "name an export of this one, or its application.id with -c application.id=..."
        )
    return manifest


class _Rows:
    """Makes changelog records of the rows of one store."""

    def __init__(self, plan: TopologyPlan, config: StreamsConfig, store: str) -> None:
        self._spec: StoreSpec = plan.spec_of(store)
        self._topic = plan.changelog_topic(store)
        self._key_serde, self._value_serde = self._spec.filled_serdes(
            config.default_key_serde, config.default_value_serde
        )

    def records(self, directory: Path) -> Iterator[ProducedRecord]:
        """Give the records of a store's files."""
        from pyarrow import parquet

        for file in sorted(directory.glob("*.parquet")):
            for row in _with_times_as_numbers(parquet.read_table(file)).to_pylist():
                yield from self._records(row)

    def _records(self, row: Mapping[str, Any]) -> Iterator[ProducedRecord]:
        key = self._bytes(row["key"], self._key_serde)
        value = self._bytes(row["value"], self._value_serde)
        if not self._spec.kind.keeps_versions:
            yield self._logged(key, row), value, _time(row["timestamp"]), ()
            return
        yield key, value, _time(row["valid_from"]), ()
        if row["valid_to"] is not None:
            # The next version has its own row, which takes the place of this deletion.
            yield key, None, row["valid_to"], ()

    def _logged(self, key: bytes, row: Mapping[str, Any]) -> bytes:
        layout = self._spec.kind.key_layout
        if layout.head_bytes:
            raise ExportError(
                f"store {self._spec.name!r} can't be read back from an export: leave its directory "
                "out, and it begins empty"
            )
        tail = bytearray(layout.tail_bytes)
        for name, part in self._spec.kind.key_columns(self._spec.retention).items():
            if isinstance(part, KeyTime) and row[name] is not None:
                begin = len(tail) + part.begins
                tail[begin : begin + 8] = (row[name] - part.plus_ms).to_bytes(8, signed=True)
            elif isinstance(part, KeyNumber):
                begin = len(tail) + part.begins
                tail[begin : begin + 4] = self._number(row, name).to_bytes(4, signed=True)
        return key + bytes(tail)

    def _number(self, row: Mapping[str, Any], name: str) -> int:
        if name not in row:
            raise ExportError(
                f"store {self._spec.name!r} has no column {name!r} in the export, without which "
                "values of one key and time are one: export it again"
            )
        return int(row[name])

    def _bytes(self, value: Any, serde: Serde[Any] | None) -> Any:
        if isinstance(value, str):
            return value.encode()
        if serde is not None and value is not None and any(serde is known for known in _NUMBERS):
            return serde.serializer(self._topic)(value)
        return value


def _with_times_as_numbers(table: Any) -> Any:
    """Return a table whose timestamps are milliseconds since the epoch."""
    import pyarrow as pa

    for position, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            times = table.column(position).cast(pa.timestamp("ms", field.type.tz), safe=False)
            table = table.set_column(position, field.name, times.cast(pa.int64()))
    return table


def _by_time(record: ProducedRecord) -> tuple[int, bool]:
    """Order records as they were written; a deletion before what takes its place."""
    return record[2], record[1] is not None


def _time(milliseconds: int | None) -> int:
    return -1 if milliseconds is None else milliseconds
