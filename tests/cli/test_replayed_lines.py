"""The JSON lines of `pystreams replay`."""

from __future__ import annotations

import io
import json

from pystreams import TopicPartition
from pystreams.cli.display.replayed import JsonLines, SourceRecord
from pystreams.testing.trace import StateChange, Written


def test_bytes_that_are_no_text_are_told_apart_from_a_text() -> None:
    written = io.BytesIO()
    show = JsonLines(io.TextIOWrapper(written), None)
    record = SourceRecord(TopicPartition("in", 0), 5, b"\x00\xff", b"AP8=", 7)

    show(record, StateChange("rows", b"\x00\xff", {}, None, b"\xff", 7))
    show(record, Written("out", b"AP8=", b"\x00\xff", 7, ()))

    told, change, write = [
        part for line in written.getvalue().splitlines() for part in json.loads(line).values()
    ]
    assert (told["key"], told["value"]) == ({"base64": "AP8="}, "AP8=")
    assert (change["key"], change["old"], change["new"]) == (
        {"base64": "AP8="},
        None,
        {"base64": "/w=="},
    )
    assert (write["key"], write["value"]) == ("AP8=", {"base64": "AP8="})
