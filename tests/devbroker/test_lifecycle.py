"""The development broker from its start to its end, with the real Kafka."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams.broker import (
    BrokerError,
    BrokerRegistry,
    BrokerStartError,
    DevelopmentBroker,
    PortTakenError,
    network,
    process,
)
from tests.broker import reading
from tests.broker.waiting import DEADLINE_S
from tests.ports import ports_in_a_row
from tests.sharing import start_broker

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.broker


def produce(broker: DevelopmentBroker, topic: str, value: bytes) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    reading.create_topics(admin, [NewTopic(topic, 1)])
    # A record of 2013: the development broker must neither refuse nor delete it.
    records = [(b"key", value)]
    reading.produce(broker.bootstrap_servers, topic, records, timestamps_ms=[1_357_000_000_000])


def read_first(broker: DevelopmentBroker, topic: str) -> bytes | None:
    return reading.read_all(broker.bootstrap_servers, topic)[0].value()


def test_data_and_port_survive_a_stop_and_a_kill(tmp_path: Path) -> None:
    """Neither an orderly end nor SIGKILL loses an acknowledged record, or moves the port."""
    data_dir = tmp_path / "data with a space and é and a \\"
    (port,) = ports_in_a_row(1)  # Nobody else is given it while the broker is away.
    broker = start_broker(data_dir, port)
    try:
        produce(broker, "kept", b"value")

        assert broker.stop(timeout_s=DEADLINE_S)
        assert not broker.is_running()
        assert DevelopmentBroker.attach(data_dir) is None

        broker = start_broker(data_dir)
        assert broker.state.client_port == port
        assert read_first(broker, "kept") == b"value"

        broker.kill()
        assert network.is_port_free(port), "a killed process loses its command line before its port"
        assert not broker.is_running()
        assert not broker.is_ready()

        broker = start_broker(data_dir)
        assert broker.state.client_port == port
        assert read_first(broker, "kept") == b"value"
    finally:
        broker.stop()


def test_running_broker_is_found_and_has_a_session_of_its_own(
    broker: DevelopmentBroker, tmp_path: Path
) -> None:
    """Ctrl-C in the terminal that started it goes to another session, so it does not end it."""
    attached = DevelopmentBroker.attach(broker.data_dir)

    assert attached is not None
    assert attached.state == broker.state
    assert attached.is_ready()
    assert os.getsid(broker.state.pid) == broker.state.pid
    assert os.getsid(0) != broker.state.pid


def test_second_start_on_a_data_directory_is_refused(broker: DevelopmentBroker) -> None:
    with pytest.raises(BrokerError, match=f"already \\(pid {broker.state.pid}"):
        DevelopmentBroker.start(broker.data_dir)
    assert broker.is_ready()


def test_port_of_another_process_is_refused_before_java_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port} is in use") as raised:
            DevelopmentBroker.start(tmp_path, port)
    assert raised.value.port == port
    assert not (tmp_path / "broker.log").exists()


def test_port_taken_between_check_and_start_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([True])
    monkeypatch.setattr(
        "pystreams.broker.server.network.is_port_free", lambda _port: next(answers, False)
    )
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(PortTakenError):
        DevelopmentBroker.start(tmp_path, server.getsockname()[1])
    assert DevelopmentBroker.attach(tmp_path) is None


def test_broker_that_dies_at_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(BrokerStartError, match=r"num\.io\.threads") as raised:
        DevelopmentBroker.start(tmp_path, settings={"num.io.threads": "many"})
    assert any("many" in line for line in raised.value.log_tail)
    assert DevelopmentBroker.attach(tmp_path) is None


def test_broker_that_is_too_slow_is_ended(tmp_path: Path) -> None:
    with pytest.raises(BrokerStartError, match=r"within 0\.01 s"):
        DevelopmentBroker.start(tmp_path, timeout_s=0.01)
    assert DevelopmentBroker.attach(tmp_path) is None


def test_data_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a directory")
    with pytest.raises(BrokerError, match=r"can't use .* as data directory"):
        DevelopmentBroker.start(in_the_way / "data")


def test_data_directory_with_a_comma_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match="comma"):
        DevelopmentBroker.start(tmp_path / "one,two")


def test_registry_forgets_a_broker_that_was_killed(tmp_path: Path) -> None:
    registry = BrokerRegistry(tmp_path / "registry")
    broker = DevelopmentBroker.start(tmp_path / "data", registry=registry, timeout_s=DEADLINE_S)
    try:
        assert [found.state for found in DevelopmentBroker.running(registry)] == [broker.state]
    finally:
        broker.kill()

    assert DevelopmentBroker.running(registry) == []
    assert registry.data_dirs() == []


def test_process_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    """SIGTERM first; SIGKILL when the deadline has passed."""
    script = tmp_path / "stubborn"
    ready = tmp_path / "ready"
    script.write_text(f"trap '' TERM\ntouch '{ready}'\nwhile true; do sleep 0.05; done\n")
    pid = process.spawn_detached(["/bin/bash", str(script)], tmp_path / "log")
    while not ready.exists():
        assert not process.has_exited(pid)

    assert not process.terminate(pid, str(script), timeout_s=0.3)
    assert not process.is_running(pid, str(script))
