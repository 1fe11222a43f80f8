"""What is said of a method that a class of the DSL has not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from pystreams import StreamsBuilder

Ask = Callable[[StreamsBuilder], Any]


def stream(builder: StreamsBuilder) -> Any:
    return builder.stream("in")


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (
            lambda builder: stream(builder).count(),
            "KStream has no 'count': group its records first, as in .group_by_key().count(...)",
        ),
        (
            lambda builder: stream(builder).windowedBy(1),
            (
                "KStream has no 'windowedBy': group its records first, as in "
                ".group_by_key().windowed_by(...)"
            ),
        ),
        (
            lambda builder: builder.table("in").to("out"),
            "KTable has no 'to': make it a stream first, as in .to_stream().to(...)",
        ),
        (
            lambda builder: builder.table("in").count(),
            "KTable has no 'count': group its rows first, as in .group_by(...).count(...)",
        ),
        (
            lambda builder: stream(builder).group_by_key().to("out"),
            "KGroupedStream has no 'to': aggregate first, as in .count().to_stream().to(...)",
        ),
        (
            lambda builder: stream(builder).split().to("out"),
            (
                "BranchedKStream has no 'to': its branches are in a dict, as in "
                '.default_branch()["NAME"].to(...)'
            ),
        ),
        (
            lambda builder: stream(builder).mapValues(str),
            "KStream has no 'mapValues': it is 'map_values' here",
        ),
        (
            lambda builder: stream(builder).branch(bool),
            "KStream has no 'branch': in its place there is .split().branch(...)",
        ),
        (
            lambda builder: stream(builder).transform_values(str),
            "KStream has no 'transform_values': in its place there is .process_values(...)",
        ),
        (
            lambda builder: stream(builder).flatTransformValues(str),
            "KStream has no 'flatTransformValues': in its place there is .process_values(...)",
        ),
        (
            lambda builder: stream(builder).transform(str),
            "KStream has no 'transform': in its place there is .process(...)",
        ),
        (
            lambda builder: stream(builder).flat_transform(str),
            "KStream has no 'flat_transform': in its place there is .process(...)",
        ),
        (
            lambda builder: stream(builder).through("out"),
            (
                "KStream has no 'through': in its place there is .repartition(...), "
                "or .to(TOPIC) and builder.stream(TOPIC)"
            ),
        ),
        (
            lambda builder: builder.table("in").through("out"),
            (
                "KTable has no 'through': in its place there is "
                ".to_stream().to(TOPIC) and builder.table(TOPIC)"
            ),
        ),
        (
            lambda builder: stream(builder).fliter(bool),
            "KStream has no 'fliter'; did you mean 'filter'?",
        ),
        (
            lambda builder: builder.addStateStore(None),
            "StreamsBuilder has no 'addStateStore': it is 'add_state_store' here",
        ),
        (
            lambda builder: builder.consume("in"),
            (
                "StreamsBuilder has no 'consume'; it has add_global_store, add_state_store, build, "
                "global_table, stream, table"
            ),
        ),
    ],
)
def test_an_unknown_method_is_answered_with_what_to_write(ask: Ask, told: str) -> None:
    with pytest.raises(AttributeError) as raised:
        ask(StreamsBuilder())

    assert str(raised.value) == told


def test_what_is_advised_works() -> None:
    builder = StreamsBuilder()

    stream(builder).group_by_key().count().to_stream().to("counts")
    builder.table("rows").to_stream().to("out")
    stream_of = builder.stream("others").split().default_branch(name="rest")
    next(iter(stream_of.values())).to("rest")

    assert "counts" in str(builder.build().describe())


def test_python_s_own_questions_are_answered_as_ever() -> None:
    asked = stream(StreamsBuilder())

    assert not hasattr(asked, "__len__")
    assert not hasattr(asked, "count")
    assert getattr(asked, "_absent", None) is None
    assert type(copy.copy(asked)) is type(asked)
