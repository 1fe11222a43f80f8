"""The four programs that do the same job, and how each is started.

- `pystreams`: apps/count_app.py.
- `kafka-streams`: Java, built with Maven on the first use.
- `quix`: Quix Streams, in a virtual environment that uv makes on the first use.
- `floor`: no framework, by hand.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.harness.processes import ProgramError

BENCHMARKS = Path(__file__).resolve().parents[1]
QUIX_VERSION = "3.28.1"
KAFKA_STREAMS_VERSION = "4.3.1"

_JAVA_PROJECT = BENCHMARKS / "peers" / "kafka_streams"
_JAVA_SESSION_TIMEOUT_MS = 6000
"""Kafka's default of 45 s is how long the group would wait for a member that was killed."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a program is to do.

    Attributes:
        bootstrap: The broker.
        app: Application id, which is also the consumer group.
        input: Input topic.
        output: Output topic.
        state: A directory of its own.
        guarantee: `at_least_once`, `exactly_once` or `exactly_once_v2`.
        commit_ms: Commit interval (ms).
        cache_bytes: Record cache, for those that have one.
        operators: How many stateless operators stand before the count: 0 or 3.
    """

    bootstrap: str
    app: str
    input: str
    output: str
    state: Path
    guarantee: str
    commit_ms: int = 100
    cache_bytes: int = 0
    operators: int = 0


Command = Callable[[Job, int], list[str]]
"""Returns the command of the process with this number (from 0)."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One of the things compared.

    Attributes:
        name: What the command line calls it.
        title: What tables call it.
        command: How its processes are started.
        caches: Whether it has a record cache.
        prepare: Builds or installs what it needs, once.
    """

    name: str
    title: str
    command: Command
    caches: bool = False
    prepare: Callable[[], object] = lambda: None


def _pystreams(job: Job, process: int) -> list[str]:
    return pystreams_command(BENCHMARKS / "apps" / "count_app.py", job, process, [])


def pystreams_command(program: Path, job: Job, process: int, options: list[str]) -> list[str]:
    """Return the command of count_app.py, or of a program that takes its arguments and more."""
    return [
        sys.executable,
        str(program),
        *options,
        f"--input={job.input}",
        f"--output={job.output}",
        f"--operators={job.operators}",
        *(f"-c{key}={value}" for key, value in pystreams_settings(job, process).items()),
    ]


def pystreams_settings(job: Job, process: int = 0) -> dict[str, str]:
    """Return our configuration; what it does not name is the default."""
    return {
        "application.id": job.app,
        "bootstrap.servers": job.bootstrap,
        "state.dir": str(job.state / str(process)),
        "processing.guarantee": job.guarantee,
        "commit.interval.ms": str(job.commit_ms),
        "statestore.cache.max.bytes": str(job.cache_bytes),
    }


def _kafka_streams(job: Job, process: int) -> list[str]:
    return kafka_streams_command(job, process, "peer.CountApplication")


def kafka_streams_command(job: Job, process: int, program: str) -> list[str]:
    """Return the command of a Java program that takes CountApplication's arguments."""
    exactly_once = job.guarantee != "at_least_once"
    settings = {
        "processing.guarantee": "exactly_once_v2" if exactly_once else "at_least_once",
        "commit.interval.ms": str(job.commit_ms),
        "statestore.cache.max.bytes": str(job.cache_bytes),
        "session.timeout.ms": str(_JAVA_SESSION_TIMEOUT_MS),
    }
    target = _JAVA_PROJECT / "target"
    return [
        "java",
        "-Xmx1g",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        os.pathsep.join([str(target / "kafka-streams-peer-1.jar"), str(target / "libs" / "*")]),
        program,
        f"bootstrap={job.bootstrap}",
        f"app={job.app}",
        f"in={job.input}",
        f"out={job.output}",
        f"state={job.state / str(process)}",
        f"operators={job.operators}",
        *(f"conf.{key}={value}" for key, value in settings.items()),
    ]


def _quix(job: Job, process: int) -> list[str]:
    operators = f"--operators={job.operators}"
    return [*quix_command(job, process, "count_with_quix.py"), operators]


def quix_command(job: Job, process: int, program: str) -> list[str]:
    """Return the command of a program in peers/quix, with what all of them take."""
    exactly_once = job.guarantee != "at_least_once"
    return [
        str(quix_environment() / "bin" / "python"),
        str(BENCHMARKS / "peers" / "quix" / program),
        f"--bootstrap={job.bootstrap}",
        f"--app={job.app}",
        f"--input={job.input}",
        f"--output={job.output}",
        f"--state={job.state / str(process)}",
        f"--guarantee={'exactly_once' if exactly_once else 'at_least_once'}",
        f"--commit-ms={job.commit_ms}",
    ]


def _floor(job: Job, process: int) -> list[str]:
    return [
        sys.executable,
        str(BENCHMARKS / "peers" / "floor" / "count_by_hand.py"),
        f"--bootstrap={job.bootstrap}",
        f"--app={job.app}",
        f"--input={job.input}",
        f"--output={job.output}",
        f"--changelog={floor_changelog(job)}",
        f"--state={job.state / str(process)}",
        f"--partition={process}",
        f"--guarantee={job.guarantee}",
        f"--commit-ms={job.commit_ms}",
        f"--operators={job.operators}",
    ]


def floor_changelog(job: Job) -> str:
    """Return the changelog topic that the floor wants to exist."""
    return f"{job.app}-changelog"


def store_bench_command(
    kind: str, operations: int, keys: int, value_bytes: int, directory: Path
) -> list[str]:
    """Return the command of Kafka Streams' part in stores.py."""
    target = _JAVA_PROJECT / "target"
    return [
        "java",
        "-Xmx1g",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        os.pathsep.join([str(target / "kafka-streams-peer-1.jar"), str(target / "libs" / "*")]),
        "peer.StoreBench",
        kind,
        *map(str, (operations, keys, value_bytes, directory)),
    ]


@cache
def build_kafka_streams() -> None:
    """Compile the Java program and get its jars.

    Raises:
        ProgramError: There is no Java or Maven, or it does not compile.
    """
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            message = f"Kafka Streams needs {tool}, which is not on the PATH: choose --engines"
            raise ProgramError(message)
    _run(
        ["mvn", "-q", "package", "dependency:copy-dependencies", "-DoutputDirectory=target/libs"],
        _JAVA_PROJECT,
    )


@cache
def quix_environment() -> Path:
    """Return a virtual environment with Quix Streams, made on the first use.

    Raises:
        ProgramError: There is no uv, or the installation failed.
    """
    environment = BENCHMARKS / "build" / f"quix-{QUIX_VERSION}"
    if (environment / "complete").exists():
        return environment
    uv = _find_uv()
    python = str(environment / "bin" / "python")
    _run([uv, "venv", "--quiet", "--clear", "--python=3.11", str(environment)], BENCHMARKS)
    package = f"quixstreams=={QUIX_VERSION}"
    _run([uv, "pip", "install", "--quiet", f"--python={python}", package], BENCHMARKS)
    (environment / "complete").touch()
    return environment


def _find_uv() -> str:
    """Return the uv on the PATH, or the one `scripts/setup` has made where there is none."""
    on_path = shutil.which("uv")
    if on_path is not None:
        return on_path
    own = BENCHMARKS.parent / "build" / "uv" / "bin" / "uv"
    if own.exists():
        return str(own)
    raise ProgramError("Quix Streams needs uv: run scripts/setup, or choose --engines without quix")


def _run(command: list[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ProgramError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


ENGINES = {
    engine.name: engine
    for engine in (
        Engine("pystreams", "pystreams", _pystreams, caches=True),
        Engine(
            "kafka-streams",
            f"Kafka Streams {KAFKA_STREAMS_VERSION}",
            _kafka_streams,
            caches=True,
            prepare=build_kafka_streams,
        ),
        Engine("quix", f"Quix Streams {QUIX_VERSION}", _quix, prepare=quix_environment),
        Engine("floor", "by hand, no framework", _floor),
    )
}
