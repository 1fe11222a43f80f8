"""Readers of other threads beside an owner whose late puts move versions between segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams import IsolationLevel, StoreEngine
from tests.stores.kinds.versioned_support import VersionedHome, versioned_spec
from tests.stores.test_views_beside_a_writer import beside

ROUNDS = 150
ROUND_MS = 1_000
SEGMENT_MS = 50


@pytest.mark.parametrize("engine", list(StoreEngine))
@pytest.mark.parametrize("level", list(IsolationLevel))
def test_a_version_is_found_wherever_it_is_moved(
    tmp_path: Path, engine: StoreEngine, level: IsolationLevel
) -> None:
    """Late puts cut the version that began a round shorter and shorter: into new segments."""
    spec = versioned_spec(engine, ROUNDS * ROUND_MS * 2, SEGMENT_MS)
    shop = VersionedHome(tmp_path, spec)
    shop.put("k", "first", 0)
    shop.put("k", "last", ROUND_MS - 1)
    shop.commit()
    view = shop.store.read_only(level)
    began = 0

    def own() -> None:
        nonlocal began
        for number in range(1, ROUNDS):
            shop.put("k", "first", number * ROUND_MS)
            shop.put("k", "last", (number + 1) * ROUND_MS - 1)
            shop.commit()
            began = number * ROUND_MS
            for late in range(ROUND_MS - SEGMENT_MS, SEGMENT_MS, -SEGMENT_MS):
                shop.put("k", "late", began + late)
            shop.commit()

    def read() -> None:
        begin = began
        found = view.get("k", begin + 1)
        assert found is not None
        assert (found.value, found.timestamp) == ("first", begin)
        versions = list(view.get_range("k", begin, begin + ROUND_MS - 1))
        times = [version.timestamp for version in versions]
        assert times[0] == begin
        assert times == sorted(set(times))

    assert beside(own, read) > 0
    shop.store.close()
