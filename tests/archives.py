"""Archives that tests unpack."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any


def unpack(archive: Path, directory: Path) -> None:
    """Unpack a tar archive; Python 3.11 knows filters from 3.11.4 on."""
    kept: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(archive) as packed:
        packed.extractall(directory, **kept)
