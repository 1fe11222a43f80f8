"""What processes of one application tell each other of their topologies: who has other results."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections import UserDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    BufferConfig,
    EmitStrategy,
    JoinWindows,
    KStream,
    Retry,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from pystreams.deploy.results_digest import differ, results_digest_of
from pystreams.serdes import INT, JSON, LONG, STRING

Stream = KStream[Any, Any]
Declare = Callable[[Stream], object]
MINUTE_MS = 60_000


def digest(declare: Declare, **defaults: Any) -> str:
    builder = StreamsBuilder()
    declare(builder.stream("in", key_serde=STRING, value_serde=STRING))
    return results_digest_of(builder.build(), **defaults)


def counted(windows: Any, **options: Any) -> Declare:
    return lambda stream: stream.group_by_key().windowed_by(windows).count(name="counts", **options)


def joined(windows: JoinWindows) -> Declare:
    both: Any = {"key_serde": STRING, "value_serde": STRING, "other_value_serde": STRING}
    return lambda stream: stream.join(stream, lambda left, right: left + right, windows, **both)


def suppressed(limit_ms: int) -> Declare:
    told = Suppressed.until_time_limit(limit_ms, BufferConfig.unbounded())
    return lambda stream: stream.group_by_key().count(name="counts").suppress(told)


MINUTE = TimeWindows.of_size_with_no_grace(MINUTE_MS)
BETWEEN = JoinWindows.of_time_difference_with_no_grace(1000)
PAIRS: dict[str, tuple[Declare, Declare]] = {
    "windows": (counted(MINUTE), counted(TimeWindows.of_size_with_no_grace(30_000))),
    "advance": (counted(MINUTE), counted(MINUTE.advance_by(30_000))),
    "grace": (counted(MINUTE), counted(TimeWindows.of_size_and_grace(MINUTE_MS, 5))),
    "grace within the same retention": (
        counted(MINUTE, retention_ms=10**7),
        counted(TimeWindows.of_size_and_grace(MINUTE_MS, 5), retention_ms=10**7),
    ),
    "retention": (counted(MINUTE), counted(MINUTE, retention_ms=10**7)),
    "kind of windows": (
        counted(SessionWindows.of_inactivity_gap_with_no_grace(10)),
        counted(SlidingWindows.of_time_difference_with_no_grace(10)),
    ),
    "emission": (
        counted(MINUTE),
        lambda stream: (
            stream.group_by_key()
            .windowed_by(MINUTE)
            .emit_strategy(EmitStrategy.on_window_close())
            .count(name="counts")
        ),
    ),
    "join windows of one length": (
        joined(BETWEEN.before(2000).after(0)),
        joined(BETWEEN.before(0).after(2000)),
    ),
    "serde of a store": (
        lambda stream: stream.group_by_key().reduce(max, name="kept", value_serde=STRING),
        lambda stream: stream.group_by_key().reduce(max, name="kept", value_serde=JSON),
    ),
    "serde of a sink": (
        lambda stream: stream.map_values(len).to("out", value_serde=LONG),
        lambda stream: stream.map_values(len).to("out", value_serde=INT),
    ),
    "topic of a sink": (lambda stream: stream.to("out"), lambda stream: stream.to("elsewhere")),
    "operation": (
        lambda stream: stream.filter(lambda _, value: bool(value)).to("out"),
        lambda stream: stream.filter_not(lambda _, value: bool(value)).to("out"),
    ),
    "suppression": (suppressed(10), suppressed(20)),
    "distinct": (
        lambda stream: stream.distinct(within_ms=10).to("out"),
        lambda stream: stream.distinct(within_ms=20).to("out"),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_changes_results_changes_the_digest(name: str) -> None:
    one, other = PAIRS[name]

    assert differ(digest(one), digest(other))
    assert not differ(digest(one), digest(one))


def test_the_configured_serdes_count() -> None:
    def declare(stream: Stream) -> None:
        stream.map_values(len).to("out")

    plain = digest(declare, default_value_serde=LONG)

    assert differ(plain, digest(declare, default_value_serde=INT))
    assert not differ(plain, digest(declare, default_value_serde=LONG))


def test_where_it_stands_in_the_code_and_its_functions_change_nothing() -> None:
    def one(stream: Stream) -> None:
        stream.map_values(lambda value: value, retry=Retry(on=OSError, max=1)).to("out")

    def other(stream: Stream) -> None:
        mapped = stream.map_values(lambda value: value + "!", retry=Retry(on=OSError, max=1))
        mapped.to("out")

    assert not differ(digest(one), digest(other))


@dataclass
class Model:
    """A function of the user's: has a field that is set later, one by process, and circles."""

    path: str
    loaded: Any = field(init=False)
    session: str = field(default_factory=lambda: uuid.uuid4().hex)
    models: list[Model] = field(default_factory=list)

    def __call__(self, value: str) -> str:
        return value


class Table(UserDict[str, str]):
    """A function that is a mapping of many rows, which nobody but the user goes through."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the rows are the user's")

    def __call__(self, value: str) -> str:
        return self.get(value, value)


def test_what_is_in_objects_of_the_user_is_not_looked_at() -> None:
    def mapped(function: Callable[[str], str]) -> Declare:
        return lambda stream: stream.map_values(function).to("out")

    model = Model("model.pt")
    model.models.append(model)

    assert not differ(digest(mapped(model)), digest(mapped(Model("model.pt"))))
    assert not differ(digest(mapped(Table(a="b"))), digest(mapped(Table())))


def test_it_is_the_same_in_each_process_and_directory(tmp_path: Path) -> None:
    program = (
        "from tests.deploy.test_results_digest import PAIRS, digest\n"
        "print([digest(one) for pair in PAIRS.values() for one in pair])"
    )
    told = [
        subprocess.check_output(
            [sys.executable, "-c", program],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(Path.cwd()), "PYTHONHASHSEED": seed},
            text=True,
        )
        for directory, seed in ((Path.cwd(), "1"), (tmp_path, "2"))
    ]

    assert told[0] == told[1]


def test_digests_of_different_versions_and_of_who_tells_none_are_not_compared() -> None:
    assert differ("1.0-aa", "1.0-bb")
    assert not differ("1.0-aa", "1.1-bb")
    assert not differ("", "1.0-aa")
    assert not differ("1.0-aa", "")
