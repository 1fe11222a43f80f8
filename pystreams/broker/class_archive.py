"""Java's class data archive, which halves the broker's start.

A JVM spends most of Kafka's start reading and verifying classes. It can write them, ready for use,
to an archive when it ends (JEP 350), and map that archive at the next start: measured 2.1 s without
and 1.1 s with it. The JVM itself checks that an archive fits it and its class path, and goes on
without one otherwise.

The first broker of a Java records the archive in its data directory; when `stop` has seen it end
in order, the file moves to the cache, where all later brokers find it. A broker that was killed
has written none, or a half one that nobody takes over.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path

from pystreams.broker.jars import KAFKA_VERSION
from pystreams.kernel.java import Java
from pystreams.kernel.maven import default_cache_dir

_PREFIX = f"kafka-{KAFKA_VERSION}-"
_SUFFIX = ".jsa"
# Without these lines a JVM that can't use or write archives says so in the broker's log.
_QUIET = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def archive_name(java: Java, class_path: str) -> str:
    """Return the archive's file name: another Java, or other jars, need another archive."""
    identity = f"{java.executable}\n{java.description}\n{class_path}"
    return f"{_PREFIX}{hashlib.sha256(identity.encode()).hexdigest()[:16]}{_SUFFIX}"


def options_to_use(name: str) -> list[str]:
    """Return the JVM's options that map the archive; none when the cache has none."""
    archive = _cache_dir() / name
    return [f"-XX:SharedArchiveFile={archive}", *_QUIET] if archive.exists() else []


def options_to_record(name: str, data_dir: Path) -> list[str]:
    """Return the JVM's options that record the archive at its end."""
    return [f"-XX:ArchiveClassesAtExit={data_dir / name}", *_QUIET]


def keep_recorded(data_dir: Path) -> None:
    """Move what a broker recorded to the cache. Only after it has ended in order."""
    for recorded in data_dir.glob(f"{_PREFIX}*{_SUFFIX}"):
        # A cache that can't be written costs a second at the next start, not this stop.
        with contextlib.suppress(OSError):
            _cache_dir().mkdir(parents=True, exist_ok=True)
            # Copied under another name first: the two may be on different file systems, and two
            # brokers may end at once.
            partial = _cache_dir() / f".{recorded.name}.{os.getpid()}"
            shutil.move(recorded, partial)
            partial.replace(_cache_dir() / recorded.name)


def discard_recorded(data_dir: Path) -> None:
    """Delete what a killed broker may have left."""
    for recorded in data_dir.glob(f"{_PREFIX}*{_SUFFIX}"):
        recorded.unlink(missing_ok=True)


def _cache_dir() -> Path:
    return default_cache_dir() / "class-data"
