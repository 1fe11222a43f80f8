"""Readers of other threads that take very little of what waits for the commit at a time."""

from __future__ import annotations

import pytest

from pystreams.stores.typed_stores import views


@pytest.fixture(autouse=True)
def portions_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every read of a few entries go over the ends of several portions."""
    monkeypatch.setattr(views, "_FEW", 2)
