"""No secret of the configuration is in anything that a run writes, shows or leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import names
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.programs import write_counts
from tests.broker.reading import produce, read_all
from tests.ports import ports_in_a_row

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker

pytestmark = pytest.mark.broker

KEYS = (
    "sasl.password",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "ssl.key.password",
    "ssl.keystore.password",
)
"""The keys of librdkafka whose values are secrets; the last is taken for a client of its own."""
PREFIXES = ("", "consumer.", "main.consumer.", "restore.consumer.", "global.consumer.", "producer.")
TOKEN = "planted-http-token"
PATHS = ("/", "/metrics", "/v1/config", "/v1/status", "/v1/tasks", "/v1/topology", "/v1/stores")


def planted() -> dict[str, str]:
    """Return a secret for each key and client."""
    names = [f"{prefix}{key}" for prefix in (*PREFIXES, "admin.") for key in KEYS]
    return {name: f"planted-{name.replace('.', '-')}" for name in names}


def leaks(text: str) -> set[str]:
    """Return the secrets that stand in a text."""
    return {secret for secret in (*planted().values(), TOKEN) if secret in text}


@dataclass(frozen=True)
class Planted:
    """An application with a secret in each key that takes one."""

    application: Application
    file: Path
    token_file: Path
    topology: Path
    topics: tuple[str, str]

    def told_by(self, *words: str) -> str:
        """Return what a command says with the configuration, its errors as well."""
        done = subprocess.run(
            [sys.executable, "-m", "pystreams", *words, "--config", str(self.file)],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.stdout + done.stderr


@pytest.fixture
def planted_application(
    broker: DevelopmentBroker, create_topic: CreateTopic, tmp_path: Path
) -> Iterator[Planted]:
    topics = create_topic("in", partitions=2), create_topic("out", partitions=2)
    name = names.unique_name("planted")
    settings = {
        "application.id": name,
        "bootstrap.servers": broker.bootstrap_servers,
        "commit.interval.ms": 100,
        **planted(),
    }
    file = tmp_path / "application.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    topology = write_counts(tmp_path, *topics)
    with Application(name, tmp_path, topology, {}) as application:
        yield Planted(application, file, token_file, topology, topics)


def answer(port: int, path: str) -> str:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return str(response.read().decode())


def command_lines(group: int) -> list[str]:
    """Return the arguments of all processes of a group."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) == group:
                found.append(process.joinpath("cmdline").read_text(errors="replace"))
        except (ProcessLookupError, FileNotFoundError):
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
def test_a_run_tells_no_secret(broker: DevelopmentBroker, planted_application: Planted) -> None:
    application = planted_application.application
    produce(broker.bootstrap_servers, planted_application.topics[0], [(b"key", bytes(8))])
    port, _ = ports_in_a_row(2)
    options = ["--config", str(planted_application.file), "--processes", "2"]
    options += ["--http", str(port), "--http-token-file", str(planted_application.token_file)]
    with application.running(*options) as running:
        running.wait_until(
            lambda: read_all(broker.bootstrap_servers, planted_application.topics[1]), "output"
        )
        running.wait_for("served over HTTP", count=2)  # One process may have counted all by itself.
        shown = {path: answer(port, path) for path in PATHS}
        arguments = command_lines(running.process.pid)
        running.stop()

    assert len(arguments) == 3
    assert not leaks("\n".join(arguments))
    assert {path: leaks(text) for path, text in shown.items()} == {path: set() for path in PATHS}
    config = json.loads(shown["/v1/config"])
    assert {config[name] for name in planted()} == {"(hidden)"}
    log = (application.directory / f"{application.id}-1.log").read_text()
    assert "stopped" in log
    assert not leaks(log)
    for file in application.state_directory.rglob("*"):
        if file.is_file():
            assert not leaks(file.read_bytes().decode(errors="replace")), file


def test_commands_tell_no_secret(planted_application: Planted) -> None:
    topology = str(planted_application.topology)
    source, output = planted_application.topics
    name = planted_application.application.id
    for words, known in (
        (("describe", topology), source),
        (("topics", "list"), source),
        (("status", name), name),
        (("consume", topology, output, "--limit", "1"), ""),
        (("reset", topology), name),
    ):
        told = planted_application.told_by(*words)
        assert known in told, words
        assert not leaks(told), words


def test_a_wrong_configuration_is_told_without_its_secrets(planted_application: Planted) -> None:
    """What is wrong with a value that is hidden is said of its key alone."""
    with planted_application.file.open("a") as file:
        file.write("sasl.jaas.config=password=planted-sasl-password\n")
        file.write("ssl.truststore.password=planted-ssl-key-password\n")
        file.write("commit.interval.ms=often\n")

    told = planted_application.told_by("run", str(planted_application.topology))

    assert "commit.interval.ms = 'often'" in told
    assert "sasl.jaas.config" in told
    assert "ssl.truststore.password" in told
    assert not leaks(told)
