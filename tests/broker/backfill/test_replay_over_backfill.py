"""`pystreams replay` over what a backfill has staged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystreams.backfill import run, write_dataset
from pystreams.broker import DevelopmentBroker
from pystreams.cli.application.topology_loader import load_topology
from tests.cli.test_replay import START_MS, WITHOUT_REPARTITION, Shop

pytestmark = pytest.mark.timeout(900)


def test_the_slice_that_is_asked_for_goes_on_with_the_state_of_the_history(
    spark: Any, broker: DevelopmentBroker, tmp_path: Path
) -> None:
    shop, staged = Shop(broker, tmp_path), tmp_path / "staged"
    shop.file.write_text(WITHOUT_REPARTITION.format(name=shop.name))
    shop.create_topics()
    shop.order(range(10))
    loaded = load_topology(str(shop.file))
    config = {**loaded.config, "bootstrap.servers": shop.servers}
    run(loaded.topology, config, output=staged)
    write_dataset(staged, loaded.topology, config, staged / "dataset")
    shop.order(range(10, 15))
    state = ("--state", str(staged / "dataset"))
    refused = shop.replay(*state)
    options = (*state, "--from", str(START_MS + 10_000))
    answer, lines = shop.replay(*options), shop.replayed(*options, "--show", "100")

    assert refused.exit_code == 2
    assert "Say where the slice begins, --from TIME" in refused.output
    assert answer.exit_code == 0, answer.output
    told = answer.stdout.splitlines()
    dataset = f"the backfill's data set {staged / 'dataset'}"
    assert told[0] == f"State at the beginning: {dataset}: of-customers (5)"
    assert "5 records replayed, 5 followed" in told
    assert "the state does not tell up to where it covers" in answer.stderr
    assert shop.would_write(lines, "sold") == [(f"c{number}", 3) for number in range(5)]
