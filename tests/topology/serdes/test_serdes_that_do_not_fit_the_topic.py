"""Records that a source's serde can't read: told with the call that reads the topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pystreams import KStream, ProcessingError, SerializationError, StreamsBuilder
from pystreams.serdes import LONG, STRING

READS: dict[str, Callable[[StreamsBuilder], object]] = {
    "stream": lambda builder: builder.stream("in", key_serde=STRING, value_serde=LONG),
    "table": lambda builder: builder.table("in", key_serde=STRING, value_serde=LONG),
    "global_table": lambda builder: builder.global_table("in", key_serde=STRING, value_serde=LONG),
}


def used(read: object) -> None:
    if isinstance(read, KStream):
        read.to("out", value_serde=LONG)


@pytest.mark.parametrize("method", READS)
def test_the_users_line_is_told(builder: StreamsBuilder, drive: Any, method: str) -> None:
    used(READS[method](builder))
    driver = drive()

    with pytest.raises(SerializationError) as caught:
        driver.pipe_raw("in", b"k", b"text", 0, ())

    told = f"({method} at tests/topology/serdes/test_serdes_that_do_not_fit_the_topic.py:"
    assert "set the right value_serde on source " in str(caught.value)
    assert told in str(caught.value)


def test_an_extractor_that_fails_is_told_with_the_users_line(
    builder: StreamsBuilder, drive: Any
) -> None:
    def extractor(_record: Any, _time: int) -> Any:
        return "noon"

    builder.stream("in", timestamp_extractor=extractor, key_serde=STRING, value_serde=STRING)
    driver = drive()

    with pytest.raises(ProcessingError, match=r"'KSTREAM-SOURCE-\d+' \(stream at tests/.*py:\d+\)"):
        driver.pipe_raw("in", b"k", b"text", 0, ())
