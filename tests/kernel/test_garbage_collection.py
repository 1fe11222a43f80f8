"""How often Python's collector looks, while records are processed."""

from __future__ import annotations

import gc
import weakref

from pystreams.kernel.garbage_collection import collected_seldom


class Circle:
    def __init__(self) -> None:
        self.itself = self


def test_circles_are_found_after_many_objects_and_the_collector_is_as_before_at_the_end() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with collected_seldom():
        assert gc.get_freeze_count() > frozen
        gone: list[object] = []
        lost = weakref.ref(Circle(), gone.append)  # Asked for itself, it would be held meanwhile.
        kept: list[list[object]] = []
        while not gone:
            assert len(kept) < 10 * gc.get_threshold()[0], "never collected"
            kept.append([])
        assert len(kept) > before[0]
        assert gone == [lost]

    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
