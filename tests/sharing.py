"""What the processes of a test run share: a broker, a registry; and which tests keep together.

Starting a broker or a Spark session takes longer than most tests do.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

from pystreams.broker import DevelopmentBroker
from tests import registry_server, spark_classes
from tests.registry_server import RegistryServer

_DIRECTORY = "TEST_RUN_SHARED_DIR"
"""Names the directory that the processes of a run share; they inherit it from the first one."""
_OF_EACH_JAVA = "JAVA_TOOL_OPTIONS"
_OF_SPARKS_JAVA = "SPARK_SUBMIT_OPTS"
_START_S = 300.0
"""A limit, no target: a machine that has much else to do takes minutes to start Java."""
_SECURED = "tests/broker/security"
_TAKES_SPARK = re.compile(r'\bspark: Any\b|usefixtures\("spark"\)')
_ROOT = Path(__file__).parents[1]


def make_shared_directory() -> None:
    """Called once, before other processes start."""
    os.environ[_DIRECTORY] = tempfile.mkdtemp(prefix="pystreams-tests-")


def make_java_brief() -> None:
    """Called once, before other processes start: each Java of the run is told that it is brief.

    Compiling hot code well takes half of the time of a broker, or a Spark, that runs for minutes.
    """
    given = os.environ.get(_OF_EACH_JAVA, "")
    os.environ[_OF_EACH_JAVA] = f"{given} {spark_classes.BRIEF}".strip()
    os.environ.setdefault(_OF_SPARKS_JAVA, spark_classes.java_options())


def start_broker(
    data_dir: Path, port: int | None = None, settings: Mapping[str, str] | None = None
) -> DevelopmentBroker:
    """Start a broker that lives for minutes at most, however long that takes."""
    return DevelopmentBroker.start(data_dir, port, settings=settings, timeout_s=_START_S)


def shared_broker() -> DevelopmentBroker:
    """Return the broker of the run; who comes first starts it."""
    directory = Path(os.environ[_DIRECTORY])
    data_dir = directory / "broker"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running = DevelopmentBroker.attach(data_dir)
        return running or start_broker(data_dir)


def shared_registry() -> RegistryServer:
    """Return the schema registry of the run; who comes first starts it."""
    directory = Path(os.environ[_DIRECTORY])
    with (directory / "registry-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return registry_server.shared_registry(directory / "registry")


def remove_shared_directory() -> None:
    """Called once, after all other processes have ended: stops the broker and the registry."""
    directory = Path(os.environ.pop(_DIRECTORY))
    broker = DevelopmentBroker.attach(directory / "broker")
    if broker is not None:
        broker.stop()
    registry = registry_server.attach(directory / "registry")
    if registry is not None:
        registry.stop()
    shutil.rmtree(directory, ignore_errors=True)


@cache
def kept_together(file: str) -> str | None:
    """Return what one process does alone, if a file is part of such: on Spark, or secured."""
    if file.startswith(_SECURED):
        return _SECURED
    return "spark" if _TAKES_SPARK.search((_ROOT / file).read_text("utf-8")) else None


class SharingScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types.
    """Gives each process whole files, and one all files on Spark, or on the secured broker."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return kept_together(file) or file
