"""Log lines of structlog and of the standard library: one form, to standard error."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import structlog

from pystreams.cli.display.logs import configure_logging
from pystreams.kernel.user_tracebacks import traceback_field


def log_lines() -> None:
    """Log through both libraries."""
    log = structlog.get_logger("pystreams.test")
    log.debug("too quiet")
    log.info("task started", task="0_1", size=3)
    logging.getLogger("library").warning("%s went wrong", "it")


def test_not_on_a_terminal_every_line_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", fields={"process": 2})
    log_lines()

    captured = capsys.readouterr()
    lines: list[dict[str, Any]] = [json.loads(line) for line in captured.err.splitlines()]
    assert captured.out == ""
    assert [line.pop("timestamp")[-1] for line in lines] == ["Z", "Z"]
    assert lines == [
        {
            "message": "task started",
            "level": "info",
            "logger": "pystreams.test",
            "task": "0_1",
            "size": 3,
            "process": 2,
        },
        {"message": "it went wrong", "level": "warning", "logger": "library", "process": 2},
    ]


def test_exceptions_and_strange_values_become_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    try:
        raise KeyError("x")
    except KeyError:
        structlog.get_logger("pystreams.test").exception("failed", kind=KeyError)

    line = json.loads(capsys.readouterr().err)
    assert "KeyError: 'x'" in line["exception"]
    assert line["kind"] == "<class 'KeyError'>"


def test_console_lines_are_readable(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "console")
    log_lines()

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "task started" in lines[0]
    assert "task=0_1" in lines[0]
    assert "\x1b" not in lines[0]
    assert "it went wrong" in lines[1]


def test_lines_of_a_traceback_are_a_field_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    structlog.get_logger("pystreams.test").error("failed", **traceback_field(failed()))

    told = json.loads(capsys.readouterr().err)["exception"]
    assert "in fail\n" in told
    assert told.endswith("\nKeyError: 'x'")


def test_lines_of_a_traceback_stand_below_a_console_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("info", "console")
    structlog.get_logger("pystreams.test").error("failed", **traceback_field(failed()))

    lines = capsys.readouterr().err.splitlines()
    assert "failed" in lines[0]
    assert lines[1].startswith(f'  File "{__file__}", line ')
    assert lines[-1] == "KeyError: 'x'"


def fail() -> None:
    raise KeyError("x")


def failed() -> KeyError:
    try:
        fail()
    except KeyError as error:
        return error
    raise AssertionError("it raises")


def test_the_web_server_is_heard_from_warnings_on(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "json")
    server = logging.getLogger("uvicorn.error")
    server.info("Started server process [%d]", 7, extra={"color_message": "\x1b[36m%d"})
    server.warning("too many connections")

    told = capsys.readouterr().err
    assert "too many connections" in told
    assert "Started" not in told
    configure_logging("error", "json")
    server.warning("too many connections")
    assert capsys.readouterr().err == ""


def test_the_level_holds_for_both(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("warning", "json")
    log_lines()

    assert len(capsys.readouterr().err.splitlines()) == 1
