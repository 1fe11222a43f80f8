"""A new user's first hour, by the wheel, in an empty directory: a count, its page, a kill, a test.

What it takes: `pytest -s` prints each command with the seconds it took.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.waiting import wait_until
from tests.distribution.terminal import Terminal
from tests.http.page.chromium import Chromium
from tests.ports import ports_in_a_row

SEA = 4
PRODUCE = "pystreams produce topology.py words-lines --dev --from-file lines.txt"


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Chromium]:
    """A browser of the test's own."""
    with Chromium(tmp_path / "chromium") as browser:
        yield browser


def timed(told: str, what: Callable[[], Any]) -> Any:
    begun_s = time.monotonic()
    came_of_it = what()
    print(f"{time.monotonic() - begun_s:6.1f} s  {told}")
    return came_of_it


def count_on_page(chromium: Chromium, url: str, word: str) -> None:
    """Look at the page until it shows the count of a word."""
    chromium.open(url)
    chromium.wait_for_text("#head .state", "RUNNING")
    chromium.wait_for("document.querySelector('#ask button') !== null")
    chromium.evaluate(
        f"document.querySelector('#ask input').value = '{word}';"
        "document.querySelector('#ask button').click()"
    )
    chromium.wait_for_text("#answer", f'"value": {SEA}')


@pytest.mark.sweep
@pytest.mark.broker
def test_from_an_empty_directory_to_a_count_that_survives_a_kill(
    variables: dict[str, str], tmp_path: Path, chromium: Chromium
) -> None:
    (port,) = ports_in_a_row(1)
    run, url = f"pystreams run topology.py --dev --http {port}", f"http://127.0.0.1:{port}"
    query = f"pystreams query {url} word-counts sea"
    new = "pystreams new words"
    timed(new, lambda: Terminal(tmp_path, variables).type(new))
    terminal = Terminal(tmp_path / "words", variables)

    def asked() -> int:
        value: int = json.loads(terminal.type(query))["value"]
        return value

    with terminal.running(run) as process:
        timed(f"{run} &", lambda: terminal.wait_for("all tasks run"))
        timed(PRODUCE, lambda: terminal.type(PRODUCE))
        wait_until(lambda: terminal.counts().get("sea") == SEA, "counted")
        timed("the page", lambda: count_on_page(chromium, url, "sea"))
        assert timed(query, asked) == SEA
        assert chromium.complaints == []
        process.send_signal(signal.SIGKILL)
    with terminal.running(run):
        timed(f"kill -9; {run} &", lambda: terminal.wait_for("all tasks run", count=2))
        assert timed(query, asked) == SEA
        timed("the page", lambda: count_on_page(chromium, url, "sea"))
    assert "1 passed" in timed("python -m pytest", lambda: terminal.type("python -m pytest"))
