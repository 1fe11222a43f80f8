"""Fetch pinned artifacts from Maven Central into a cache of the user.

An artifact is named by its coordinates and its SHA-256: what is not byte for byte the pinned file
is refused, whoever served it. Used for the development broker's jars and for Spark's connectors.

- The cache has Maven's repository layout below `$PYSTREAMS_CACHE_DIR/maven` (default: the
  `pystreams` folder of the XDG cache directory), so a jar is shared by all its users.
- A file appears in the cache by an atomic rename, complete and verified. Two processes that fetch
  the same artifact both download it and rename the same bytes; no lock, nothing to go stale.
- A cached file is verified on every use (a few ms a jar); a damaged one is fetched again.
- `PYSTREAMS_MAVEN_URL` names another repository, such as a company's mirror.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import ssl
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pystreams.errors import StreamsError

MAVEN_CENTRAL_URL = "https://repo1.maven.org/maven2"

_ATTEMPTS_MAX = 4
_CHUNK_BYTES = 1 << 18
_CONNECTIONS_MAX = 8
_TIMEOUT_S = 30
_RETRIED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_NETWORK_ERRORS = (
    urllib.error.URLError,
    http.client.HTTPException,
    ssl.SSLError,
    ConnectionError,
    TimeoutError,
)


class ArtifactError(StreamsError):
    """An artifact can't be had: no network, not in the repository, or no room for it."""


class ChecksumError(ArtifactError):
    """A repository served bytes that differ from the pinned artifact.

    Attributes:
        found: The SHA-256 of what came.
    """

    def __init__(self, artifact: Artifact, found: str, url: str) -> None:
        self.artifact = artifact
        self.found = found
        super().__init__(
            f"checksum of {artifact.file_name} is wrong: expected {artifact.sha256}, "
            f"found {found}. {url} does not serve the pinned file: try again, and if it stays, "
            "look for a proxy that rewrites downloads or correct PYSTREAMS_MAVEN_URL"
        )


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file in a Maven repository, pinned by its checksum.

    Attributes:
        group: Maven's groupId, such as `org.apache.kafka`.
        name: Maven's artifactId.
        version: An exact version.
        sha256: Checksum of the file, 64 hexadecimal digits.
        ending: What stands behind name and version: a jar's, or a classifier and another type.
    """

    group: str
    name: str
    version: str
    sha256: str
    ending: str = ".jar"

    @property
    def file_name(self) -> str:
        """The file's name without its folder."""
        return f"{self.name}-{self.version}{self.ending}"

    @property
    def path(self) -> str:
        """The file's place in a repository, relative to its root."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.file_name}"


def parse_artifacts(text: str) -> list[Artifact]:
    """Read a list of pins: `<sha256>  <group>:<name>:<version>` a line, `#` begins a comment."""
    artifacts = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        sha256, coordinates = line.split()
        group, name, version = coordinates.split(":")
        artifacts.append(Artifact(group, name, version, sha256))
    return artifacts


def default_cache_dir() -> Path:
    """The cache directory: `PYSTREAMS_CACHE_DIR`, else `pystreams` in the XDG cache directory."""
    chosen = os.environ.get("PYSTREAMS_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pystreams"


def fetch(artifacts: Sequence[Artifact], *, title: str, backoff_s: float = 0.5) -> list[Path]:
    """Return the artifacts' files, in order, downloading what the cache lacks.

    Shows a progress bar on standard error while it downloads (one plain line when that is not a
    terminal), and nothing when all are there.

    Args:
        title: What the artifacts are, for the progress bar: "Apache Kafka 4.3.1".
        backoff_s: The pause before the second attempt (s); it doubles with each.

    Raises:
        ChecksumError: The repository serves other bytes than the pinned ones.
        ArtifactError: A download failed after several attempts, or the cache can't be written.
    """
    root = default_cache_dir() / "maven"
    url = (os.environ.get("PYSTREAMS_MAVEN_URL") or MAVEN_CENTRAL_URL).rstrip("/")
    missing = [artifact for artifact in artifacts if not _is_cached(root, artifact)]
    if missing:
        with (
            _progress(title, len(missing)) as advance,
            ThreadPoolExecutor(_CONNECTIONS_MAX, "maven") as executor,
        ):
            downloads = [
                executor.submit(_download, artifact, root, url, backoff_s, advance)
                for artifact in missing
            ]
            try:
                for download in downloads:
                    download.result()
            except BaseException:
                # The first failure decides; what has not begun would only delay its report.
                executor.shutdown(wait=False, cancel_futures=True)
                raise
    return [root / artifact.path for artifact in artifacts]


def _is_cached(root: Path, artifact: Artifact) -> bool:
    try:
        with (root / artifact.path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == artifact.sha256
    except OSError:
        return False


def _download(
    artifact: Artifact,
    root: Path,
    repository_url: str,
    backoff_s: float,
    advance: Callable[[int, int], None],
) -> None:
    """Download one artifact with retries, verify it, and rename it into the cache."""
    url = f"{repository_url}/{artifact.path}"
    target = root / artifact.path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, partial_name = tempfile.mkstemp(dir=target.parent, prefix=".partial-")
    except OSError as error:
        raise _unwritable(root, error) from error
    partial = Path(partial_name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for attempt in range(1, _ATTEMPTS_MAX + 1):
                file.seek(0)
                file.truncate()
                try:
                    found = _receive(url, file.write, advance)
                    break
                except _NETWORK_ERRORS as error:
                    if isinstance(error, urllib.error.HTTPError):
                        # It is the response as well, with an open connection.
                        error.close()
                    if attempt == _ATTEMPTS_MAX or not _is_passing(error):
                        raise _unreachable(artifact, url, error) from error
                    time.sleep(backoff_s * 2 ** (attempt - 1))
        if found != artifact.sha256:
            raise ChecksumError(artifact, found, url)
        # mkstemp's files are private; the cache may serve several users.
        partial.chmod(0o644)
        partial.replace(target)
    except OSError as error:
        raise _unwritable(root, error) from error
    finally:
        partial.unlink(missing_ok=True)
    advance(0, 1)


def _receive(
    url: str, write: Callable[[bytes], object], advance: Callable[[int, int], None]
) -> str:
    """Copy the body of one response; return its SHA-256."""
    digest = hashlib.sha256()
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
        expected_bytes = response.headers.get("Content-Length")
        received_bytes = 0
        while chunk := response.read(_CHUNK_BYTES):
            digest.update(chunk)
            write(chunk)
            received_bytes += len(chunk)
            advance(len(chunk), 0)
    # urllib ends a body that was cut short without a word.
    if expected_bytes is not None and received_bytes != int(expected_bytes):
        raise http.client.IncompleteRead(b"", int(expected_bytes) - received_bytes)
    return digest.hexdigest()


def _is_passing(error: Exception) -> bool:
    """Whether trying again may help: a page that is not there will not appear."""
    return not isinstance(error, urllib.error.HTTPError) or error.code in _RETRIED_STATUSES


def _unreachable(artifact: Artifact, url: str, error: Exception) -> ArtifactError:
    if isinstance(error, urllib.error.HTTPError):
        reason = f"the server answered {error.code} {error.reason}"
    elif isinstance(error, urllib.error.URLError):
        reason = str(error.reason)
    else:
        reason = str(error) or type(error).__name__
    return ArtifactError(
        f"can't download {artifact.file_name} from {url}: {reason}. "
        "Check the network (HTTPS_PROXY is honoured), or set PYSTREAMS_MAVEN_URL to a mirror"
    )


def _unwritable(root: Path, error: OSError) -> ArtifactError:
    return ArtifactError(
        f"can't write to the download cache {root}: {error.strerror or error}. "
        "Make it writable or set PYSTREAMS_CACHE_DIR to another directory"
    )


@contextmanager
def _progress(title: str, files: int) -> Iterator[Callable[[int, int], None]]:
    """Show a download on standard error. Yields `advance(received_bytes, finished_files)`."""
    if not sys.stderr.isatty():
        sys.stderr.write(f"Downloading {title} ({files} files)\n")
        yield lambda _received_bytes, _finished_files: None
        return
    # Imported here: a warm cache, the usual case, should not pay for the terminal library.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(
        TextColumn("Downloading {task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} files"),
        TextColumn("{task.fields[megabytes]:.1f} MB"),
        console=Console(stderr=True),
    ) as progress:
        task = progress.add_task(title, total=files, megabytes=0.0)
        received = [0]

        def advance(received_bytes: int, finished_files: int) -> None:
            received[0] += received_bytes
            progress.update(task, advance=finished_files, megabytes=received[0] / 1e6)

        yield advance
