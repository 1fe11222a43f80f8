"""Pinned artifacts, fetched from a repository on this machine."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from pystreams.broker.jars import class_path
from pystreams.kernel.maven import (
    Artifact,
    ArtifactError,
    ChecksumError,
    default_cache_dir,
    parse_artifacts,
)
from pystreams.kernel.maven import fetch as fetch_patiently

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

fetch = partial(fetch_patiently, backoff_s=0.001)
CONTENT = b"the bytes of a jar" * 50_000
JAR = Artifact("org.example", "thing_2.13", "1.2.3", hashlib.sha256(CONTENT).hexdigest())
JAR_PATH = "/org/example/thing_2.13/1.2.3/thing_2.13-1.2.3.jar"


@dataclass
class Repository:
    """A Maven repository: what it serves, and the statuses it answers first."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    statuses: list[int] = field(default_factory=list)
    cut_short: list[int] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    served = Repository(files={JAR_PATH: CONTENT})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests.append(self.path)
            body = served.files.get(self.path)
            status = served.statuses.pop() if served.statuses else 200
            if body is None or status != 200:
                self.send_error(404 if body is None else status)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: served.cut_short.pop()] if served.cut_short else body)

        def log_message(self, *_arguments: object) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("PYSTREAMS_MAVEN_URL", served.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield served
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYSTREAMS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_artifact_is_downloaded_once(
    repository: Repository, cache_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = fetch([JAR], title="A thing")
    assert file == cache_dir / ("maven" + JAR_PATH)
    assert file.read_bytes() == CONTENT
    assert capsys.readouterr().err == "Downloading A thing (1 files)\n"

    assert fetch([JAR], title="A thing") == [file]
    assert repository.requests == [JAR_PATH]
    assert capsys.readouterr().err == ""


def test_damaged_file_in_the_cache_is_downloaded_again(
    repository: Repository, cache_dir: Path
) -> None:
    (file,) = fetch([JAR], title="A thing")
    file.write_bytes(b"damaged")
    (file,) = fetch([JAR], title="A thing")
    assert file.read_bytes() == CONTENT


def test_wrong_checksum_names_the_jar_what_was_expected_what_came_and_the_cure(
    repository: Repository, cache_dir: Path
) -> None:
    repository.files[JAR_PATH] = b"other bytes"
    with pytest.raises(ChecksumError) as raised:
        fetch([JAR], title="A thing")

    message = str(raised.value)
    assert raised.value.found == hashlib.sha256(b"other bytes").hexdigest()
    for part in (JAR.file_name, JAR.sha256, raised.value.found, repository.url, "try again"):
        assert part in message
    # Nothing wrong stays behind, neither under the jar's name nor under another one.
    assert [path for path in cache_dir.rglob("*") if path.is_file()] == []


def test_passing_faults_are_retried(repository: Repository, cache_dir: Path) -> None:
    """A busy server, then a connection cut in the middle of the body."""
    repository.statuses = [200, 429, 503]
    repository.cut_short = [1000]
    (file,) = fetch([JAR], title="A thing")
    assert file.read_bytes() == CONTENT
    assert len(repository.requests) == 4


def test_missing_artifact_is_not_asked_for_again(repository: Repository, cache_dir: Path) -> None:
    del repository.files[JAR_PATH]
    with pytest.raises(ArtifactError, match="404"):
        fetch([JAR], title="A thing")
    assert repository.requests == [JAR_PATH]


def test_no_network_names_the_url(
    repository: Repository, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Port 9, "discard": nobody listens there.
    monkeypatch.setenv("PYSTREAMS_MAVEN_URL", "http://127.0.0.1:9/maven2/")
    with pytest.raises(ArtifactError, match=f"http://127.0.0.1:9/maven2{JAR_PATH}"):
        fetch([JAR], title="A thing")


def test_cache_that_cannot_be_written_is_an_error(repository: Repository, cache_dir: Path) -> None:
    cache_dir.write_text("a file is in the way")
    with pytest.raises(ArtifactError, match="PYSTREAMS_CACHE_DIR"):
        fetch([JAR], title="A thing")


def test_several_fetch_the_same_artifact_at_once(repository: Repository, cache_dir: Path) -> None:
    with ThreadPoolExecutor(8) as executor:
        results = [executor.submit(fetch, [JAR], title="A thing") for _ in range(8)]
        files = {result.result()[0] for result in results}
    (file,) = files
    assert file.read_bytes() == CONTENT
    assert [path for path in cache_dir.rglob("*") if path.is_file()] == [file]


def test_broker_refuses_jars_that_are_not_the_pinned_ones(
    repository: Repository, cache_dir: Path
) -> None:
    lz4 = "/at/yawk/lz4/lz4-java/1.10.2/lz4-java-1.10.2.jar"
    repository.files[lz4] = b"not lz4"
    with pytest.raises(ChecksumError, match=r"lz4-java-1\.10\.2\.jar"):
        class_path()


def test_list_of_pins_is_read() -> None:
    text = f"# a comment\n\n{JAR.sha256}  org.example:thing_2.13:1.2.3\n"
    assert parse_artifacts(text) == [JAR]


def test_cache_directory_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSTREAMS_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / "pystreams"
