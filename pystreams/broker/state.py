"""Where a broker's state is written, so that later commands find the broker.

Two places. `broker.json` in the data directory is the truth: pid, ports, time of start. The
registry of the user, `brokers/` in the XDG state directory, only holds the paths of the data
directories, so nothing in it can contradict the truth; a path whose broker has ended is dropped
when somebody looks.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

STATE_FILE = "broker.json"


@dataclass(frozen=True, slots=True)
class BrokerState:
    """What is written about a broker when it has started.

    Attributes:
        started_ms: Wall-clock time of the start, milliseconds since the epoch.
    """

    pid: int
    client_port: int
    kafka_version: str
    started_ms: int

    @classmethod
    def read(cls, data_dir: Path) -> Self | None:
        """Return the state in a data directory; None when there is none that can be read."""
        try:
            fields = json.loads((data_dir / STATE_FILE).read_text("utf-8"))
            return cls(
                pid=int(fields["pid"]),
                client_port=int(fields["client_port"]),
                kafka_version=str(fields["kafka_version"]),
                started_ms=int(fields["started_ms"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            # A file cut short by a crash says as little as no file.
            return None

    def write(self, data_dir: Path) -> None:
        """Write the state; the rename keeps a reader from seeing half of it."""
        partial = data_dir / f".{STATE_FILE}.partial"
        partial.write_text(json.dumps(asdict(self), indent=2) + "\n", "utf-8")
        partial.replace(data_dir / STATE_FILE)


class BrokerRegistry:
    """The data directories whose brokers this user's commands should find."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or _state_home() / "brokers"

    def add(self, data_dir: Path) -> None:
        """Remember a data directory; adding it again changes nothing."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._entry(data_dir).write_text(f"{data_dir}\n", "utf-8")

    def discard(self, data_dir: Path) -> None:
        """Forget a data directory, if it is known."""
        self._entry(data_dir).unlink(missing_ok=True)

    def data_dirs(self) -> list[Path]:
        """Return the remembered directories, sorted."""
        if not self._directory.is_dir():
            return []
        entries = self._directory.glob("*.path")
        return sorted(Path(entry.read_text("utf-8").rstrip("\n")) for entry in entries)

    def _entry(self, data_dir: Path) -> Path:
        digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()
        return self._directory / f"{digest[:16]}.path"


def default_data_dir() -> Path:
    """Where the broker keeps its data when no directory is chosen: the XDG data directory."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "pystreams" / "broker"


def _state_home() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "pystreams"
