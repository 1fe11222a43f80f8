"""The application of `tests.every_store` for `pystreams run`: a store of every kind in one task.

Reads `<EVERY_NAME>-in`, writes each key's running count to `<EVERY_NAME>-out`.
"""

from __future__ import annotations

import os

from pystreams import Topology
from tests.every_store import WriteEverywhere, everywhere


class WriteOwnKeys(WriteEverywhere):
    """Writes under the keys of records alone: where state moves, a key says its partition."""

    more_keys = False


def topology() -> Topology:
    name = os.environ["EVERY_NAME"]
    return everywhere(f"{name}-in", f"{name}-out", write=WriteOwnKeys)
