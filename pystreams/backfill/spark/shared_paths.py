"""Directories that the driver and Spark's workers reach by one path."""

from __future__ import annotations

import re
from pathlib import Path

from pystreams.errors import ConfigError

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/")
_GLOB = re.compile(r"[*?\[\]{}]")


def local_path(output: Path | str) -> Path:
    """Return the path of a directory for results.

    Raises:
        ConfigError: It is a URL of something that is no file system here, or a pattern.
    """
    text = str(output).removeprefix("file://").removeprefix("file:")
    if _SCHEME.match(text):
        raise ConfigError(
            f"results can't be staged in {output}: name a directory, one that is mounted under the "
            "same path on all workers if they are on other machines"
        )
    path = Path(text).absolute()
    if _GLOB.search(str(path)):
        raise ConfigError(
            f"results can't be staged in {path}: Spark would take the path for a pattern; choose "
            "one without any of * ? [ ] { }"
        )
    return path
