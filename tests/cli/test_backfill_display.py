"""What `pystreams backfill` says when it has published."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystreams.backfill import Published
from pystreams.backfill.seeding import Seeded
from pystreams.cli.backfill_display import show_published

STATE = Path("/var/state/app")


@pytest.mark.parametrize(
    ("seeded", "told"),
    [
        (None, []),
        (Seeded(STATE, 4, 3_170_000, 0), ["Seeded 4 stores, 3.2 MB, in /var/state/app"]),
        (
            Seeded(STATE, 3, 0, 1),
            ["Seeded 3 stores, 0.0 MB, in /var/state/app; 1 left to a restore"],
        ),
    ],
)
def test_seeded_stores_are_counted(
    seeded: Seeded | None, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    show_published(Published(12_000, 3, resumed=False, was_done=False, seeded=seeded))

    assert capsys.readouterr().out.splitlines() == [
        "Published 12,000 records in 3 transactions",
        *told,
    ]
