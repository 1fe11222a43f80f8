"""Joins of every kind do what Kafka Streams does: late and equal times, duplicates, null values."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.parity.join_cases import read_cases, run

pytestmark = pytest.mark.parity

FILE = os.environ.get("JOIN_CASES")
CASES = read_cases() if FILE is None else read_cases(Path(FILE))


@pytest.mark.parametrize("kind", sorted({case.kind for case in CASES}))
def test_every_case_has_the_output_and_the_changelog_that_kafka_streams_has(kind: str) -> None:
    for case in CASES:
        if case.kind == kind:
            out, waiting = run(case)
            assert out == case.out, case
            assert waiting == case.waiting, case
