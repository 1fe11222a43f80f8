"""A real schema registry for the tests: Apicurio Registry, which speaks Confluent's API.

Pinned by its checksum and kept in the download cache; it needs Java 21 (the extra `java`), listens
on loopback alone, and has its schemas in memory. `python -m tests.registry_server` downloads it.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from pystreams.broker.process import has_exited, is_running, spawn_detached, terminate
from pystreams.kernel import maven
from pystreams.kernel.java import Java, find_java
from tests.archives import unpack
from tests.broker.waiting import wait_until
from tests.ports import ports_in_a_row

ARCHIVE = maven.Artifact(
    "io.apicurio",
    "apicurio-registry-app",
    "3.3.3",
    "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63",
    ending="-all.tar.gz",
)
JAVA_VERSION_MIN = 21
_PROGRAM = "quarkus-run.jar"
_STOP_S = 10.0


@dataclass(frozen=True)
class RegistryServer:
    """A registry that runs.

    Attributes:
        url: Of Confluent's API.
        pid: Its process.
        marker: What its command line has.
    """

    url: str
    pid: int
    marker: str

    def stop(self) -> None:
        terminate(self.pid, self.marker, timeout_s=_STOP_S)


def download() -> Path:
    """Return the archive.

    Raises:
        ArtifactError: It can't be had.
    """
    return maven.fetch([ARCHIVE], title="Apicurio Registry")[0]


def java_of_registry() -> Java:
    """Return a Java that it runs on.

    Raises:
        JavaNotFoundError: There is none.
    """
    return find_java(version_min=JAVA_VERSION_MIN)


def shared_registry(directory: Path) -> RegistryServer:
    """Return the registry of a directory, starting one where none runs; one process at a time."""
    running = attach(directory)
    return running or start(directory)


def attach(directory: Path) -> RegistryServer | None:
    """Return the registry that was started in a directory, if it runs."""
    try:
        server = RegistryServer(**json.loads((directory / "running.json").read_text()))
    except FileNotFoundError:
        return None
    return server if is_running(server.pid, server.marker) else None


def start(directory: Path) -> RegistryServer:
    """Start a registry in a directory and wait for its answer.

    Raises:
        JavaNotFoundError: There is no Java that it runs on.
        ArtifactError: It can't be downloaded.
    """
    java, archive = java_of_registry(), download()
    directory.mkdir(parents=True)
    unpack(archive, directory)
    (port, management_port), marker = ports_in_a_row(2), str(directory / _PROGRAM)
    command = [
        str(java.executable),
        "-Xmx400m",
        "-XX:TieredStopAtLevel=1",
        "-Dquarkus.http.host=127.0.0.1",
        f"-Dquarkus.http.port={port}",
        "-Dquarkus.management.host=127.0.0.1",
        f"-Dquarkus.management.port={management_port}",
        "-Dapicurio.storage.kind=sql",
        "-Dapicurio.storage.sql.kind=h2",
        "-Dapicurio.datasource.url=jdbc:h2:mem:registry",
        "-jar",
        marker,
    ]
    log = directory / "log"
    server = RegistryServer(
        f"http://127.0.0.1:{port}/apis/ccompat/v7", spawn_detached(command, log), marker
    )
    wait_until(
        lambda: has_exited(server.pid) or _answers(server.url),
        "the registry to answer",
        told=lambda: log.read_text(errors="replace")[-2000:],
    )
    assert is_running(server.pid, marker), log.read_text(errors="replace")[-2000:]
    (directory / "running.json").write_text(json.dumps(vars(server)))
    return server


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/subjects", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


if __name__ == "__main__":
    download()
