"""Which lines of a traceback are told: the user's for an error of theirs, all for one of ours."""

from __future__ import annotations

import inspect
import json
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pystreams
from pystreams import (
    ProcessingError,
    Processor,
    ProcessorContext,
    Record,
    Serde,
    StateStoreError,
    Stores,
    StreamsBuilder,
    serde_of,
)
from pystreams.errors import InternalError, StateDirectoryError, as_streams_error
from pystreams.kernel.user_tracebacks import is_users, traceback_field, traceback_lines
from pystreams.runtime.adapters.state_directory import StateDirectory
from pystreams.serdes import STRING
from pystreams.testing import TopologyTestDriver
from pystreams.topology.graph.subtopologies import subtopologies_of

PACKAGE = Path(pystreams.__file__).parent


def outer(value: str) -> str:
    return inner(value)


def inner(value: str) -> str:
    return {"known": value}["missing"]


def translating(value: str) -> str:
    try:
        return inner(value)
    except KeyError as error:
        raise ValueError("no such field") from error


def error_of(function: Callable[[str], str], serde: Serde[str] = STRING) -> Exception:
    """Return what a topology ends with whose mapper or sink's serde fails."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    stream.map_values(function).to("out", key_serde=STRING, value_serde=serde)
    return run(builder)


def run(builder: StreamsBuilder) -> Exception:
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(pystreams.StreamsError) as caught,
    ):
        driver.create_input_topic("in", STRING, STRING).pipe_input("k", "v")
    return caught.value


def functions_in(lines: str) -> list[str]:
    """Return the functions of the frames, in order; all must be of this file."""
    frames = re.findall(r'File "(.*)", line \d+, in (\w+)', lines)
    assert {file for file, _ in frames} <= {__file__}
    return [function for _, function in frames]


def test_error_of_the_users_code_is_told_by_its_own_lines() -> None:
    lines = traceback_lines(error_of(outer))

    assert functions_in(lines) == ["outer", "inner"]
    assert 'return {"known": value}["missing"]' in lines
    assert lines.endswith("\nKeyError: 'missing'")


def test_causes_come_first() -> None:
    lines = traceback_lines(error_of(translating))

    assert functions_in(lines) == ["translating", "inner", "translating"]
    assert lines.index("KeyError: 'missing'") < lines.index("ValueError: no such field")


def test_serde_of_the_user_is_told_once_though_it_is_called_twice() -> None:
    def refuse(value: str) -> bytes:
        raise TypeError(f"never {value}")

    lines = traceback_lines(error_of(str, serde_of(refuse, bytes.decode)))

    assert functions_in(lines) == ["refuse"]
    assert lines.endswith("\nTypeError: never v")


def test_line_that_called_a_store_is_told() -> None:
    class Keeping(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            self._store: Any = context.get_state_store("kept")

        def process(self, record: Record[str, str]) -> None:
            self._store.put(record.key, 5)

    builder = StreamsBuilder()
    supplied = Stores.in_memory_key_value_store("kept")
    builder.add_state_store(Stores.key_value_store_builder(supplied, STRING, STRING))
    stream = builder.stream("in", key_serde=STRING, value_serde=STRING)
    stream.process(Keeping, stores=["kept"])
    lines = traceback_lines(run(builder))

    assert functions_in(lines) == ["process"]
    assert "self._store.put(record.key, 5)" in lines


def test_bug_of_ours_is_told_by_all_lines() -> None:
    with pytest.raises(TypeError) as caught:
        subtopologies_of(None, {})  # type: ignore[arg-type]
    error = as_streams_error(caught.value)

    assert isinstance(error, InternalError)
    assert "TypeError" in str(error)
    assert "bug in pystreams" in str(error)
    lines = traceback_lines(error)
    assert inspect.getfile(subtopologies_of) in lines
    assert lines.startswith("Traceback (most recent call last):")
    assert "TypeError: " in lines.splitlines()[-1]


def test_error_of_ours_is_what_it_is() -> None:
    error = ProcessingError("raised", task_id=None, node=None)

    assert as_streams_error(error) is error


def test_error_without_code_of_the_user_has_no_lines() -> None:
    error = StateStoreError("counts", "the disk is full")
    error.__cause__ = OSError("no space left")

    assert traceback_lines(error) == ""
    assert traceback_field(error) == {}


def test_lines_of_a_library_alone_are_not_told(tmp_path: Path) -> None:
    occupied = tmp_path / "state"
    occupied.touch()
    with pytest.raises(StateDirectoryError) as caught:
        StateDirectory(str(occupied), "app")

    assert isinstance(caught.value.__cause__, OSError)
    assert traceback_lines(caught.value) == ""


def test_a_library_that_the_user_has_put_into_the_topology_is_told() -> None:
    assert "JSONDecodeError" in traceback_lines(error_of(json.loads))


@pytest.mark.parametrize(
    ("file", "users"),
    [
        (PACKAGE / "runtime" / "thread.py", False),
        (PACKAGE.parent / "pystreams_of_mine" / "app.py", True),
        (Path("<frozen importlib._bootstrap>"), False),
    ],
)
def test_frames_of_the_package_and_of_imports_are_not_the_users(file: Path, users: bool) -> None:
    assert is_users(traceback.FrameSummary(str(file), 1, "function")) is users
