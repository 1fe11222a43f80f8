"""The server's settings and the request that tells when it is ready."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from pystreams.broker import network
from pystreams.broker.settings import server_settings, to_properties


def test_all_listeners_are_on_the_loopback_address() -> None:
    settings = server_settings(
        log_dir=Path("data"), client_port=9092, controller_port=9093, overrides={}
    )
    listeners = settings["listeners"].split(",") + settings["advertised.listeners"].split(",")
    assert all("://127.0.0.1:" in listener for listener in listeners)


def test_overrides_win() -> None:
    settings = server_settings(
        log_dir=Path("data"),
        client_port=9092,
        controller_port=9093,
        overrides={"log.retention.ms": "5", "compression.type": "lz4"},
    )
    assert settings["log.retention.ms"] == "5"
    assert settings["compression.type"] == "lz4"


def test_properties_escape_what_java_would_read_otherwise() -> None:
    lines = to_properties({"log.dirs": "/home/é\\x/😀 1"}).splitlines()
    assert lines[1:] == ["log.dirs=/home/\\u00e9\\\\x/\\ud83d\\ude00 1"]


def test_free_ports_are_different() -> None:
    ports = network.free_ports(20)
    assert len(set(ports)) == 20
    assert any(map(network.is_port_free, ports))  # One may be somebody's by now.


def test_server_that_is_not_kafka_is_not_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert not network.answers_metadata(server.getsockname()[1])
        thread.join()


def test_server_that_does_not_answer_is_not_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not network.answers_metadata(server.getsockname()[1], timeout_s=0.05)
