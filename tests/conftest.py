"""Fixtures of all tests. A test that takes `broker` is marked `broker` by itself, and so on."""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import HealthCheck, settings

from pystreams.kernel.java import JavaNotFoundError
from pystreams.kernel.maven import ArtifactError
from tests import sharing
from tests.broker.reading import forget_readers, readers_kept
from tests.broker.writing import forget_writers, writers_kept

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from xdist.remote import Producer

    from pystreams.broker import DevelopmentBroker
    from tests.registry_server import RegistryServer


_GRACE_S = 60.0
"""How long a test has, once its time limit has struck, to clean up after itself."""

_SLOW_PACKAGES = {
    "backfill",
    "benchmarks",
    "broker",
    "chaos",
    "cli",
    "devbroker",
    "distribution",
    "docker",
    "docs",
    "examples",
    "http",
    "registry",
    "runtime",
    "simulation",
}
"""Their tests wait, for processes and brokers, or compute for long: these take what those leave of
the processors. They go first, so that what is left at the end is quickly shared."""

_stderr = pytest.StashKey[int]()

# The same examples in each run, and none fails because the machine stood still for a moment;
# `--hypothesis-profile=drawn` draws others, and four times as many.
_FAILS_BY_TIME = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("drawn", deadline=None, suppress_health_check=_FAILS_BY_TIME)
settings.register_profile(
    "same", settings.get_profile("drawn"), max_examples=25, derandomize=True, database=None
)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_stderr] = os.dup(sys.stderr.fileno())  # Before a test's output is captured.
    if _is_first(config):
        sharing.make_shared_directory()
        sharing.make_java_brief()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _is_first(config):
        sharing.remove_shared_directory()


def _is_first(config: pytest.Config) -> bool:
    """Return whether a process is no worker of xdist."""
    return not hasattr(config, "workerinput")


@pytest.hookimpl(optionalhook=True)  # Without xdist there is none.
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> sharing.SharingScheduling:
    return sharing.SharingScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without looking for garbage, and leave them out of later looks.

    They are half a million objects: passing over them is a tenth of what the quick tests cost. A
    test that ends a `collected_seldom` in its process puts them back.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End the process of a test that its time limit can't end, and show where all threads are.

    The limit strikes between two instructions of Python: not while a library waits for ever.
    """
    marker = item.get_closest_marker("timeout")
    limit_s = float(marker.args[0] if marker else item.config.getini("timeout"))
    file = item.config.stash[_stderr]
    faulthandler.dump_traceback_later(limit_s + _GRACE_S, exit=True, file=file)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)  # Before pytest picks by marker.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for shared in ("broker", "registry_server", "spark"):
            if shared in getattr(item, "fixturenames", ()):
                item.add_marker(shared)
        if item.get_closest_marker("spark"):
            # Spark's Python side leaves the sockets it collects rows through to the collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """Return 0 for what one process does alone, 2 for what is quick."""
    file = item.path.relative_to(Path(__file__).parents[1])
    if file.parts[1] not in _SLOW_PACKAGES:
        return 2
    return 0 if sharing.kept_together(file.as_posix()) else 1


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A test that sets up logging, as every in-process command does, does so for itself alone."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture(scope="module", autouse=True)
def _clients_of_one_file() -> Iterator[None]:
    """No client is kept for another file: each second it asks for topics that are gone by then."""
    yield
    forget_writers()
    forget_readers()


@pytest.fixture(scope="session")
def broker() -> Iterator[DevelopmentBroker]:
    """One real Kafka broker for all processes of the run; use names of `unique_name`'s kind."""
    shared = sharing.shared_broker()
    servers = shared.bootstrap_servers
    with writers_kept(servers), readers_kept(servers):
        yield shared


@pytest.fixture(scope="session")
def registry_server() -> RegistryServer:
    """One real schema registry for all processes of the run; use subjects of your own."""
    try:
        return sharing.shared_registry()
    except (ArtifactError, JavaNotFoundError) as error:
        pytest.skip(f"no schema registry can be started here: {error}")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for all tests of a process; backfills adopt it."""
    from tests.spark_session import small_session

    with small_session() as session:
        yield session
