"""An export's directory: who may write there, and what stands in its manifest.

    exported/
      unfinished.json     while the export runs
      counts/*.parquet    a directory a store
      manifest.json       written last; says what was exported and up to where

manifest.json, for a store `counts` of one task:

    {
      "format_version": 1,
      "application_id": "shop",
      "topology": "<SHA-256 of the topology's description>",
      "begun_ms": 1700000000000,
      "stores": {
        "counts": {
          "kind": "key-value", "changelog": "shop-counts-changelog", "rows": 12,
          "partitions": {"0": {"end_offset": 41, "written_meanwhile": false}}
        }
      },
      "tasks": {"0_0": {"source_offsets": {"orders-0": 30}, "exact": true}}
    }

`written_meanwhile`: the changelog partition got records while it was read; see docs/repair.md.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pystreams.backfill.exports.export_points import ExportPoints
from pystreams.backfill.plan.store_changelogs import StoreChangelog
from pystreams.errors import StreamsError

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_UNFINISHED = "unfinished.json"


class ExportError(StreamsError):
    """Stores can't be exported: the directory is taken, or Spark failed. Says what to do."""


@dataclass(frozen=True, slots=True)
class ExportedStore:
    """A store that was exported.

    Attributes:
        changelog: What it was read from.
        ends: The offset up to which each partition of the changelog was read.
        written_meanwhile: Numbers of the partitions that got records while they were read.
    """

    changelog: StoreChangelog
    rows: int
    ends: Mapping[int, int]
    written_meanwhile: frozenset[int]


class ExportDirectory:
    """The directory of one export; used by one process.

    Args:
        path: Where it is, or is to be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, stores: Sequence[str]) -> None:
        """Claim the directory; what an export that was not finished has left there goes.

        Raises:
            ExportError: It holds something else, or a finished export.
        """
        if (self.path / MANIFEST).is_file():
            raise ExportError(
                f"{self.path} holds a finished export: choose an empty directory, or delete it"
            )
        unfinished = self.path / _UNFINISHED
        if unfinished.is_file():
            # Its points are of another time, so nothing of it can be used.
            for name in _read_names(unfinished):
                shutil.rmtree(self.path / name, ignore_errors=True)
        elif self.path.is_dir() and any(self.path.iterdir()):
            raise ExportError(
                f"{self.path} holds files that are not of an export: choose an empty directory"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        _write(unfinished, {"stores": list(stores)})

    def finish(self, content: Mapping[str, Any]) -> None:
        """Make the export valid."""
        _write(self.path / MANIFEST, {"format_version": FORMAT_VERSION, **content})
        (self.path / _UNFINISHED).unlink()

    def num_rows(self, store: str) -> int:
        """Return how many rows a store's files have; reads their ends only."""
        from pyarrow import parquet

        files = (self.path / store).glob("*.parquet")
        return sum(parquet.read_metadata(file).num_rows for file in files)


def manifest_content(
    application_id: str,
    topology: str,
    begun_ms: int,
    stores: Sequence[ExportedStore],
    points: ExportPoints,
) -> dict[str, Any]:
    """Return what stands in the manifest, but for its version."""
    return {
        "application_id": application_id,
        "topology": topology,
        "begun_ms": begun_ms,
        "stores": {store.changelog.store: _store(store) for store in stores},
        "tasks": {
            str(task.task_id): {
                "source_offsets": {str(at): n for at, n in sorted(task.source_offsets.items())},
                "exact": task.exact,
            }
            for task in points.tasks
        },
    }


def _store(store: ExportedStore) -> dict[str, Any]:
    return {
        "kind": store.changelog.spec.kind.name,
        "changelog": store.changelog.topic,
        "rows": store.rows,
        "partitions": {
            str(number): {
                "end_offset": end,
                "written_meanwhile": number in store.written_meanwhile,
            }
            for number, end in sorted(store.ends.items())
        },
    }


def _read_names(file: Path) -> list[str]:
    try:
        return [str(name) for name in json.loads(file.read_text("utf-8"))["stores"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ExportError(
            f"{file} can't be read ({type(error).__name__}: {error}): delete {file.parent}"
        ) from error


def _write(file: Path, content: Mapping[str, Any]) -> None:
    """Write a file so that it is there whole or not at all."""
    unfinished = file.with_name(f".{file.name}.unfinished")
    unfinished.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    unfinished.replace(file)
