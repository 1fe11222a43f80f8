"""`pystreams recover` refuses stores of which there is nothing to recover here."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pystreams.cli.main import pystreams

TOPOLOGY = """
from pystreams import Materialized, StreamsBuilder, serdes

STRING = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
builder = StreamsBuilder()
builder.stream("a", **STRING).group_by_key().count(name="here")
builder.stream("b", **STRING).group_by_key().count(name="elsewhere")
builder.stream("c", **STRING).group_by_key().count(
    materialized=Materialized(name="unlogged", logging=False)
)
builder.global_table("d", materialized=Materialized(name="everywhere"), **STRING)
"""


@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("elsewhere", "it has no state in"),
        ("unlogged", "it has no changelog of its own"),
        ("everywhere", "it is a global store"),
    ],
)
def test_a_named_store_without_anything_to_recover_is_refused_with_the_reason(
    tmp_path: Path, store: str, told: str
) -> None:
    file = tmp_path / "counts.py"
    file.write_text(TOPOLOGY, encoding="utf-8")
    (tmp_path / "state" / "app" / "0_0").mkdir(parents=True)
    settings = {
        "application.id": "app",
        "bootstrap.servers": "127.0.0.1:1",
        "state.dir": str(tmp_path / "state"),
    }
    config = tmp_path / "app.properties"
    config.write_text(
        "\n".join(f"{name}={value}" for name, value in settings.items()), encoding="utf-8"
    )
    decision = ["--store", store, "--choose", "keep", "--execute"]
    answer = CliRunner().invoke(
        pystreams, ["recover", str(file), "--config", str(config), *decision]
    )

    assert answer.exit_code == 2, answer.output
    assert f"--store {store}: {told}" in answer.output
    assert ("those that have: here" in answer.output) == (store == "elsewhere")
