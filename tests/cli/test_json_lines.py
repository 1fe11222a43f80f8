"""Records as lines of JSON: what `consume --json` prints is what `produce --json` writes."""

from __future__ import annotations

import json
import pickle

import pytest

from pystreams import Headers, serde_of
from pystreams.cli.application.json_lines import line_of, record_of
from pystreams.cli.application.topic_serdes import TopicSerdes
from pystreams.record import StaticMessage
from pystreams.serdes import JSON, STRING

SERDES = TopicSerdes(STRING, JSON)
PICKLED = serde_of(pickle.dumps, pickle.loads, "pickled")


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("h", b"1"),),
        (("h", b"1"), ("other", b"x"), ("h", b"2")),
        (("trace", b"\xff\xfe"), ("none", None), ("", b"")),
    ],
)
def test_a_record_that_is_printed_is_the_same_again(headers: Headers) -> None:
    message = StaticMessage("t", 0, 5, b"a", b'{"x":1}', 7, headers)

    line = line_of(message, "a", {"x": 1})

    assert record_of(line, "t", SERDES, 0) == (b"a", b'{"x":1}', 7, headers)


@pytest.mark.parametrize("value", [None, b"null"])
@pytest.mark.parametrize("key", [None, b"null"])
def test_a_null_and_nothing_are_told_apart(key: bytes | None, value: bytes | None) -> None:
    message = StaticMessage("t", 0, 5, key, value, 7)
    serdes = TopicSerdes(JSON, JSON)

    line = line_of(message, None, None)

    assert record_of(line, "t", serdes, 0)[:2] == (key, value)


@pytest.mark.parametrize("data", ['"?"', "5", '"bnVsbA"', '["bnVsbA=="]'])
def test_what_is_no_base64_is_refused(data: str) -> None:
    with pytest.raises(ValueError, match='"value_base64" is bytes in base64, not '):
        record_of(f'{{"value": null, "value_base64": {data}}}', "t", SERDES, 0)


def test_a_value_is_given_once() -> None:
    with pytest.raises(ValueError, match="leave one out"):
        record_of('{"value": 1, "value_base64": "bnVsbA=="}', "t", SERDES, 0)


@pytest.mark.parametrize("value", [{(1, 2): 3}, 2**70, "\ud800", {"half": "\ud800"}, {1j: 2}])
def test_what_json_can_t_say_has_its_bytes_beside_it(value: object) -> None:
    serdes = TopicSerdes(STRING, PICKLED)
    data = pickle.dumps(value)

    line = line_of(StaticMessage("t", 0, 5, b"a", data, 7), "a", value)

    assert json.loads(line)["value"] is not None
    assert record_of(line, "t", serdes, 0) == (b"a", data, 7, ())
    with pytest.raises(ValueError, match="leave one out"):
        record_of(json.dumps({**json.loads(line), "value": "another"}), "t", serdes, 0)


def test_a_number_that_would_be_rounded_is_refused() -> None:
    with pytest.raises(ValueError, match=f"'{2**64}' does not fit"):
        record_of(f'{{"value": {2**64}}}', "t", SERDES, 0)


def test_headers_may_be_an_object() -> None:
    record = record_of('{"value": 1, "headers": {"h": "1", "none": null}}', "t", SERDES, 9)

    assert record == (None, b"1", 9, (("h", b"1"), ("none", None)))


@pytest.mark.parametrize("timestamp", ["-5", "true", "null", "1.5", "9223372036854775808", '"7"'])
def test_what_is_no_timestamp_is_refused(timestamp: str) -> None:
    line = f'{{"value": 1, "timestamp": {timestamp}}}'

    with pytest.raises(ValueError, match='"timestamp" is a whole number, 0 or more'):
        record_of(line, "t", SERDES, 0)


@pytest.mark.parametrize(
    "headers",
    [
        '["h"]',
        '["ab"]',
        "[[]]",
        '{"h": 5}',
        '{"h": [1]}',
        '[["h"]]',
        '[[5, "h"]]',
        '{"h": {"base64": "?"}}',
        "5",
    ],
)
def test_what_are_no_headers_is_refused(headers: str) -> None:
    with pytest.raises(ValueError, match='"headers" are pairs'):
        record_of(f'{{"value": 1, "headers": {headers}}}', "t", SERDES, 0)
