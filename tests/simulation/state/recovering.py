"""`pystreams recover`, run for an application whose stores lie on a real disk."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from pystreams import Topology
from pystreams.cli.main import pystreams
from pystreams.runtime.maintenance import changelog_recovery
from tests.simulation.state.damaging import OnDisk


def recover(
    application: OnDisk,
    monkeypatch: pytest.MonkeyPatch,
    topology: Callable[[], Topology],
    *options: str,
) -> Result:
    """Run the command with some options.

    Args:
        topology: What makes its topology, by a name of its module.
    """
    root = application.state.parent
    if not (root / "app").exists():
        (root / "app").symlink_to(application.state)
    clients = application.new_process().clients
    monkeypatch.setattr(changelog_recovery, "ConfluentClients", lambda _: clients)
    config = root / "app.properties"
    config.write_text(
        "application.id=app\nbootstrap.servers=127.0.0.1:1\n"
        f"processing.guarantee=exactly_once_v2\nstate.dir={root}\n",
        encoding="utf-8",
    )
    command = ["recover", f"{topology.__module__}:{topology.__name__}", "--config", str(config)]
    return CliRunner().invoke(pystreams, [*command, *options], env={"COLUMNS": "400"})


def recovered(
    application: OnDisk,
    monkeypatch: pytest.MonkeyPatch,
    topology: Callable[[], Topology],
    *options: str,
) -> str:
    """Run the command, which is to succeed; return what it says, in one line."""
    answer = recover(application, monkeypatch, topology, *options)
    assert answer.exit_code == 0, answer.output
    return " ".join(answer.output.split())
