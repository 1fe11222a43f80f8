"""Suppressions do what Kafka Streams does: late records, deletions, headers, bounds, windows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pystreams import StoreEngine
from tests.parity.suppress_cases import read_cases, run

pytestmark = pytest.mark.parity

FILE = os.environ.get("SUPPRESS_CASES")
CASES = read_cases() if FILE is None else read_cases(Path(FILE))


@pytest.mark.parametrize("engine", StoreEngine)
@pytest.mark.parametrize("kind", sorted({case.kind for case in CASES}))
def test_every_case_has_the_output_and_the_changelog_that_kafka_streams_has(
    kind: str, engine: StoreEngine
) -> None:
    for case in CASES:
        if case.kind == kind:
            answer = run(case, engine)
            assert answer.out == case.out, case
            assert answer.logged == case.logged, case
            assert answer.description == case.description, case
