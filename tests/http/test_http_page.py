"""The examples of docs/http.md do what the page says."""

from __future__ import annotations

import re
from typing import Any

from click.testing import CliRunner

from pystreams.cli.main import pystreams
from tests.docs.blocks import ROOT, examples_of
from tests.http.conftest import Served

PAGE = (ROOT / "docs" / "http.md").read_text("utf-8")
URL = "http://127.0.0.1:8080"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_python_of_the_page_asks_a_running_application(filed: Served) -> None:
    (block,) = examples_of(ROOT / "docs" / "http.md")
    asked = block.text.replace(URL, filed.url).replace("alice", "a").splitlines()
    known: dict[str, Any] = {}
    exec("\n".join(asked[:3]), known)
    of_key, of_all, of_range = (eval(line, known) for line in asked[3:])
    assert of_key["value"] == 4
    for found in (of_all, of_range):
        assert {entry["key"] for entry in found} == set("abcde")


def test_the_queries_of_the_page_are_answered(filed: Served) -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines() if " query " in line]
    assert len(commands) == 2
    for command in commands:
        words = command.replace(URL, filed.url).replace("alice", "a").split()
        done = CliRunner().invoke(pystreams, words[1:])
        assert done.exit_code == 0, done.output
        assert '"value":4' in done.output.replace(" ", "")


def test_the_commands_of_the_page_have_options_that_there_are() -> None:
    run = CliRunner().invoke(pystreams, ["run", "--help"]).output
    told = set(re.findall(r"`(--http[a-z-]*)", PAGE))
    assert {"--http", "--http-token-file", "--http-tls-cert", "--http-tls-key"} <= told
    assert all(option in run for option in told)
