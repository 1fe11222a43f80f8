"""A store whose changelog was lost while the application runs, logged anew, and then taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pystreams import Materialized, StoreEngine, StreamsBuilder, Topology, serdes
from pystreams.errors import TransactionAbortableError
from tests.simulation.applications import CHANGELOG, Application

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulation


def counting_in(engine: StoreEngine) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    kept = Materialized(name="counts", store_type=engine, caching=False)
    counts = stream.group_by_key().count(materialized=kept)
    counts.to_stream().to("out", key_serde=serdes.STRING, value_serde=serdes.LONG)
    return builder.build()


@pytest.mark.parametrize("engine", StoreEngine)
def test_what_was_logged_anew_is_still_in_the_store(engine: StoreEngine, tmp_path: Path) -> None:
    app = Application(tmp_path, "exactly_once_v2", changelog_loss_policy="keep")
    process = app.process(topology=counting_in(engine))
    (tmp_path / "p0" / "0_0").mkdir(parents=True)
    process.start()
    app.feed("a", "a", "a", "b")
    app.run_until_processed(process)
    app.broker.delete_topic(CHANGELOG.topic)
    app.broker.create_topic(CHANGELOG.topic, 1)

    app.feed("a")
    app.faults.fail_next("flush", TransactionAbortableError("a hiccup of the broker"))
    app.run_until_processed(process)
    app.feed("a", "b")
    app.run_until_processed(process)

    assert app.outputs()[4:] == [("a", 4), ("a", 5), ("b", 2)]
    logged = app.broker.log(CHANGELOG).compacted()
    assert {key: int.from_bytes(value, "big") for key, value in logged.items()} == {
        b"a": 5,
        b"b": 2,
    }
