"""What a shell is told that asks for completions."""

from __future__ import annotations

import pytest
from click.shell_completion import CompletionItem, ShellComplete

from pystreams.cli import main


def completions(*words: str) -> list[CompletionItem]:
    *before, incomplete = words
    asked = ShellComplete(main.pystreams, {}, "pystreams", "_PYSTREAMS_COMPLETE")
    return asked.get_completions(before, incomplete)


@pytest.mark.parametrize(
    "command", ["run", "reset", "describe", "check", "produce", "consume", "replay", "backfill"]
)
def test_a_shell_completes_the_file_of_a_topology(command: str) -> None:
    (told,) = completions(command, "topol")

    assert (told.type, told.value) == ("file", "topol")


def test_a_shell_completes_the_key_that_config_explains() -> None:
    told = [item.value for item in completions("config", "commit.int")]

    assert told == ["commit.interval.ms"]
