"""What a replay says of the state that it begins with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pystreams import StreamsBuilder, serdes
from pystreams.cli.application.initial_state import initial_state
from pystreams.config import StreamsConfig
from pystreams.topology.plan.topology_plan import TopologyPlan

CONFIG = {"application.id": "app", "bootstrap.servers": "nowhere:9092"}


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["export", "backfill's data set"])
def test_a_state_is_called_what_its_directory_is(tmp_path: Path, kind: str) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.group_by_key().count(name="counts")
    root = tmp_path if kind == "export" else tmp_path / "stores"
    (root / "counts").mkdir(parents=True)
    times = pa.array([0], pa.timestamp("us", "UTC"))
    columns = {"partition": [0], "key": ["a"], "value": [2], "timestamp": times}
    parquet.write_table(pa.table(columns), root / "counts" / "part.parquet")
    if kind == "export":
        manifest = {"application_id": "app", "tasks": {}}
        (tmp_path / "manifest.json").write_text(json.dumps(manifest))

    plan = TopologyPlan(builder.build(), "app")
    state = initial_state(str(tmp_path), plan, StreamsConfig.of(CONFIG))

    assert state.told == f"the {kind} {tmp_path}: counts (1)"
