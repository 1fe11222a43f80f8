"""The library's log lines: printed by nobody who was not asked to."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

import pystreams
from pystreams.kernel.loggers import get_logger

LOG = """
import logging, sys
from pystreams.kernel.loggers import get_logger
log = get_logger("pystreams.test")
log.error("too early to be seen")
exec(sys.argv[1])
log.debug("too quiet")
log.info("task started", task="0_1", size=3)
"""


def told(set_up: str) -> str:
    """Return what a program prints that logs, and has set up logging so."""
    answer = subprocess.run(
        [sys.executable, "-c", LOG, set_up],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return answer.stdout


def test_a_program_that_has_not_set_up_logging_sees_nothing() -> None:
    assert told("") == ""


def test_logging_shows_the_lines_with_their_fields() -> None:
    assert told("logging.basicConfig(level=logging.INFO)") == (
        "INFO:pystreams.test:task started task='0_1' size=3\n"
    )


def test_the_level_may_be_chosen_for_pystreams_alone() -> None:
    set_up = "logging.basicConfig(); logging.getLogger('pystreams').setLevel('DEBUG')"
    assert told(set_up).splitlines()[0] == "DEBUG:pystreams.test:too quiet"


def test_where_structlog_is_configured_lines_go_through_it() -> None:
    assert "task started" in told("import structlog; structlog.configure()")
    with capture_logs() as lines:
        get_logger("pystreams.test").warning("slow", seconds=2)
    assert lines == [{"event": "slow", "seconds": 2, "log_level": "warning"}]


def test_an_exception_stands_below_its_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "pystreams"):
        try:
            raise KeyError("x")
        except KeyError:
            get_logger("pystreams.test").exception("100 % failed", kind="test")

    first, *below = caplog.messages[0].splitlines()
    assert first == "100 % failed kind='test'"
    assert below[-1] == "KeyError: 'x'"


def test_every_module_logs_through_the_librarys_loggers() -> None:
    """One of structlog's own prints to standard output where structlog is not configured."""
    package = Path(pystreams.__file__).parent
    files = set(package.rglob("*.py")) - {package / "kernel/loggers.py"}
    assert not [file for file in files if "structlog.get_logger(" in file.read_text("utf-8")]
