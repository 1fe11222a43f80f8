"""`pystreams run`: what its start says of addresses at which other processes can't ask."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.broker.waiting import DEADLINE_S

FLOW = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
words = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING)
words.group_by_key().count(name="counts")
config = {"application.id": "told", "bootstrap.servers": "127.0.0.1:1"}
"""
CURE = "set application.server=HOST:PORT to an address at which others reach "


def warnings_of(place: Path, *options: str) -> list[dict[str, Any]]:
    """Return what a start warns of that ends at once, as its processes can't be served."""
    (place / "flow.py").write_text(FLOW, encoding="utf-8")
    command = [sys.executable, "-m", "pystreams", "run", "flow.py", "--log-format", "json"]
    state = ("-c", f"state.dir={place / 'state'}")
    ended = subprocess.run(
        [*command, *state, *options],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert "can't be served" in ended.stderr or "would show stores" in ended.stderr
    lines = [json.loads(line) for line in ended.stderr.splitlines() if line.startswith("{")]
    # Its processes may find first that there is no broker.
    own = [line for line in lines if line["logger"] == "pystreams.cli"]
    return [line for line in own if line["level"] == "warning"]


@pytest.mark.parametrize("http", ["0.0.0.0:8080", "[::]:8080", "0.0.0.0:0"])
def test_several_processes_that_listen_everywhere_are_told_what_to_set(
    tmp_path: Path, http: str
) -> None:
    (warned,) = warnings_of(tmp_path, "--processes", "2", "--http", http)

    assert warned["message"] == "no process tells the others where to ask for its keys"
    assert warned["http"] == http
    assert warned["cure"].startswith(CURE + "the first process")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_address_of_no_machine_that_is_told_to_the_group_is_warned_of(
    tmp_path: Path, processes: str
) -> None:
    told = ("-c", "application.server=0.0.0.0:8080")
    (warned,) = warnings_of(tmp_path, "--processes", processes, "--http", "0.0.0.0:8080", *told)

    assert warned["message"].startswith("other processes can't ask for keys at the address")
    assert warned["application_server"] == "0.0.0.0:8080"
    assert warned["cure"].startswith(CURE)


def test_nothing_is_said_where_others_may_reach_the_address_or_there_may_be_none(
    tmp_path: Path,
) -> None:
    told = ("-c", "application.server=orders-1:8080")
    assert warnings_of(tmp_path, "--http", "0.0.0.0:8080") == []
    assert warnings_of(tmp_path, "--processes", "2", "--http", "0.0.0.0:8080", *told) == []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        http = f"127.0.0.1:{taken.getsockname()[1]}"
        assert warnings_of(tmp_path, "--processes", "2", "--http", http) == []
