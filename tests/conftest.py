"""Fixtures of all tests. A test that takes `broker` is marked `broker` by itself."""

from __future__ import annotations

import faulthandler
import logging
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog

from pystreams.broker import DevelopmentBroker

if TYPE_CHECKING:
    from collections.abc import Iterator


_GRACE_S = 60.0
"""How long a test has, once its time limit has struck, to clean up after itself."""

_SLOW_PACKAGES = {"backfill", "benchmarks", "broker", "cli", "devbroker", "examples"}
"""Their tests start processes. They go first, so that what is left at the end is quickly shared."""

_stderr = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_stderr] = os.dup(sys.stderr.fileno())  # Before a test's output is captured.


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
        if "broker" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.broker)
    items.sort(key=_is_quick)


def _is_quick(item: pytest.Item) -> bool:
    return item.path.relative_to(Path(__file__).parent).parts[0] not in _SLOW_PACKAGES


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


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevelopmentBroker]:
    """One real Kafka broker for the whole session; use topic names of your own."""
    data_dir = tmp_path_factory.mktemp("broker")
    started = DevelopmentBroker.start(data_dir)
    try:
        yield started
    finally:
        started.stop()
        # pytest keeps the directories of three sessions; Kafka's are big.
        shutil.rmtree(data_dir, ignore_errors=True)
