"""What a RocksDB directory holds, family by family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rocksdict import Options, Rdict

Families = dict[str, list[tuple[Any, Any]]]


def families(directory: Path) -> Families:
    """Return the entries of each column family; nothing may have the directory open."""
    names = [name for name in Rdict.list_cf(str(directory)) if name != "default"]
    options = {name: Options(raw_mode=True) for name in names}
    database = Rdict(str(directory), Options(raw_mode=True), options)
    others = {name: database.get_column_family(name) for name in names}
    found: Families = {"default": list(database.items())}
    found |= {name: list(family.items()) for name, family in others.items()}
    for family in (*others.values(), database):
        family.close()
    return found
