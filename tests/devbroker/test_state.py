"""What is written about a broker, when it is true no longer."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pystreams.broker import BrokerError, BrokerRegistry, DevelopmentBroker
from pystreams.broker.state import BrokerState

if TYPE_CHECKING:
    from pathlib import Path


def state_of(pid: int) -> BrokerState:
    return BrokerState(pid=pid, client_port=1, kafka_version="4.3.1", started_ms=0)


def test_state_is_read_back(tmp_path: Path) -> None:
    state_of(7).write(tmp_path)
    assert BrokerState.read(tmp_path) == state_of(7)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": "x"}'])
def test_state_that_makes_no_sense_is_no_state(tmp_path: Path, text: str) -> None:
    (tmp_path / "broker.json").write_text(text)
    assert BrokerState.read(tmp_path) is None


def test_pid_of_a_process_that_has_ended_is_stale(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    state_of(ended.pid).write(tmp_path)
    assert DevelopmentBroker.attach(tmp_path) is None


def test_reused_pid_is_stale_and_its_owner_is_not_harmed(tmp_path: Path) -> None:
    """The pid lives, but its command line is not that of this directory's broker."""
    state_of(os.getpid()).write(tmp_path)
    assert DevelopmentBroker.attach(tmp_path) is None

    DevelopmentBroker(tmp_path, state_of(os.getpid()), None).stop()
    DevelopmentBroker(tmp_path, state_of(os.getpid()), None).kill()


def fake_broker(data_dir: Path) -> subprocess.Popen[bytes]:
    """A process that looks like the broker of a data directory."""
    data_dir.mkdir(parents=True)
    settings_file = str(data_dir / "server.properties")
    script = "print(flush=True); input()"
    started = subprocess.Popen(
        [sys.executable, "-c", script, settings_file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    # A command line can be seen a moment after the start; a line of output comes later still.
    assert started.stdout is not None
    started.stdout.readline()
    state_of(started.pid).write(data_dir)
    return started


def test_find_prefers_the_default_directory_and_asks_when_unsure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    default, one, two = (
        tmp_path / "share" / "pystreams" / "broker",
        tmp_path / "one",
        tmp_path / "two",
    )
    assert DevelopmentBroker.find() is None

    brokers = []
    try:
        for data_dir in (one, two, default):
            brokers.append(fake_broker(data_dir))
            BrokerRegistry().add(data_dir)
            if data_dir == one:
                found = DevelopmentBroker.find()
                assert found is not None
                assert found.data_dir == one
            if data_dir == two:
                with pytest.raises(BrokerError, match="several brokers run"):
                    DevelopmentBroker.find()
                found = DevelopmentBroker.find(two)
                assert found is not None
                assert found.data_dir == two
        found = DevelopmentBroker.find()
        assert found is not None
        assert found.data_dir == default
    finally:
        for started in brokers:
            started.kill()
            started.communicate()
