"""What a process and all that it starts cost: sampled from /proc, because they end when they like.

A Spark program is a driver in Python, a Java machine that it starts, and Python workers that the
Java machine starts. Only the first is our child, so the system's account of children does not have
the others. CPU time is the last seen of each process (what it does in the last half second of its
life is lost); memory is PSS, in which a page that several processes share counts once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

DRIVER = "driver, Python"
JVM = "driver, Java"
WORKERS = "Python workers"
LARGEST_WORKER = "largest Python worker"
ALL = "all"


@dataclass(slots=True)
class ProcessTree:
    """A process and its descendants.

    Args:
        root: The process.

    Attributes:
        peak_bytes: The most memory so far: of each role, of the largest worker, of all together.
    """

    root: int
    peak_bytes: dict[str, int] = field(default_factory=dict)
    _seen: dict[int, tuple[str, float]] = field(default_factory=dict)

    def sample(self) -> None:
        """Look at all processes once."""
        sizes: dict[str, int] = {}
        largest = 0
        for pid in self._alive():
            role = self._role(pid)
            cpu_s, size_bytes = _cpu_s(pid), _pss_bytes(pid)
            if cpu_s is None:
                continue
            self._seen[pid] = (role, cpu_s)
            sizes[role] = sizes.get(role, 0) + size_bytes
            if role == WORKERS:
                largest = max(largest, size_bytes)
        now = {**sizes, LARGEST_WORKER: largest, ALL: sum(sizes.values())}
        for name, size_bytes in now.items():
            self.peak_bytes[name] = max(self.peak_bytes.get(name, 0), size_bytes)

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU time of each role (s)."""
        found: dict[str, float] = {}
        for role, cpu_s in self._seen.values():
            found[role] = found.get(role, 0.0) + cpu_s
        return found

    def has_ended(self) -> bool:
        """Return whether none of the processes that were seen is alive."""
        return not any(_cpu_s(pid) is not None for pid in self._seen)

    def _alive(self) -> list[int]:
        """Return the root and its descendants, and who was one before its parent ended."""
        parents = _parents()
        found = [pid for pid in {self.root, *self._seen} if pid in parents]
        children: dict[int, list[int]] = {}
        for pid, parent in parents.items():
            children.setdefault(parent, []).append(pid)
        seen = set(found)
        for pid in found:
            new = [child for child in children.get(pid, ()) if child not in seen]
            seen.update(new)
            found += new
        return found

    def _role(self, pid: int) -> str:
        if pid == self.root:
            return DRIVER
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return JVM
        return WORKERS if b"pyspark.worker" in command else JVM


def _parents() -> dict[int, int]:
    """Return the parent of each process there is."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields is not None:
                found[int(entry.name)] = int(fields[1])
    return found


def _cpu_s(pid: int) -> float | None:
    """Return the CPU time of a process (s), None when it has ended."""
    fields = _stat(pid)
    if fields is None or fields[0] in {"Z", "X"}:
        return None
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _stat(pid: int) -> list[str] | None:
    """Return what stands behind the name in a process's `stat`: state, parent, ..."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _pss_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0
