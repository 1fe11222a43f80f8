"""Stores whose keys are JSON, and whose values JSON can't say: each is asked for and answered."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from pystreams import StreamsBuilder, Topology, serde_of
from pystreams.broker import DevelopmentBroker
from pystreams.client import Client, HttpQueryError
from pystreams.serdes import JSON, LONG, STRING
from tests.http.conftest import Served, Topics, served
from tests.http.connecting import HOST, ORDINARILY, Raw


class Unsaid(dict[str, int]):
    """A value of which nobody learns what is in it."""

    def items(self) -> Any:
        raise RuntimeError("not for you")


PICKLED = serde_of(pickle.dumps, pickle.loads, "pickled")
UNSAID: Any = serde_of(
    str.encode, lambda data: Unsaid(big=2**70) if data == b"usual" else {}, "unsaid"
)
ROUND: list[Any] = [1]
ROUND.append(ROUND)
VALUES: dict[str, tuple[Any, Any]] = {
    "big": (2**70, 2**70),
    "pairs": ({(1, 2): 3, 4: 5}, {"[1,2]": 3, "4": 5}),
    "half": ("a\ud800", "a\ud800"),
    "inside": ({"n": [2**64]}, {"n": [2**64]}),
    "round": (ROUND, [1, "[1, [...]]"]),
    "bytes": (b"\x00\xff", {"base64": "AP8="}),
    "text": (b"AP8=", "AP8="),
    "usual": ({"n": 1}, {"n": 1}),
}
"""What is kept, and what is answered."""
JSON_KEYS = ["a", "1", 1, {"of": "tea"}, "null", '"a"']


def unusual(topic: str) -> Topology:
    builder = StreamsBuilder()
    words = builder.stream(topic, key_serde=STRING, value_serde=STRING)
    words.map_values(lambda name: VALUES[name][0] if name in VALUES else name).to_table(
        name="values", value_serde=PICKLED
    )
    keys = words.filter(lambda key, _: key == "big").flat_map(
        lambda _, value: [(each, value) for each in JSON_KEYS]
    )
    keys.to_table(name="by-json", key_serde=JSON, value_serde=STRING)
    numbers = words.filter(lambda key, _: key == "big").map(lambda _, value: (1, value))
    numbers.to_table(name="by-number", key_serde=LONG, value_serde=STRING)
    words.to_table(name="unsaid", value_serde=UNSAID)
    return builder.build()


@pytest.fixture(scope="module")
def application(
    broker: DevelopmentBroker, topics: Topics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    topic = topics.make("unusual", 1)
    topics.write(topic, [(name, name, 0) for name in VALUES])
    with served(broker, unusual(topic), tmp_path_factory.mktemp("state")) as application:
        application.streams.start()
        application.wait_for_value("/v1/stores/by-number/1", "value", "big")
        application.wait_for_value("/v1/stores/values/usual", "value", {"n": 1})
        application.wait_for_value("/v1/stores/by-json/1", "value", "big")
        yield application


def test_values_that_json_can_t_say_are_told_as_it_can(application: Served) -> None:
    with Client(application.url) as client:
        by_key = {name: (client.get("values", name) or {})["value"] for name in VALUES}
        ranged = {entry["key"]: entry["value"] for entry in client.range("values")}

    assert by_key == ranged == {name: shown for name, (_, shown) in VALUES.items()}


def test_a_value_that_raises_when_it_is_told_is_a_problem_whatever_was_asked_before(
    application: Served,
) -> None:
    answers = []
    for before in ([], [b"big"], [b"big", b"round"]):
        with contextlib.closing(Raw(application.url)) as connection:
            for key in (*before, b"usual"):
                connection.send(b"GET /v1/stores/unsaid/" + key + b" HTTP/1.1\r\n" + HOST + b"\r\n")
                answer = connection.answer()
            answers.append(answer)

    assert b"HTTP/1.1 500 " in answers[0]
    assert b"RuntimeError: not for you" in answers[0]
    assert answers == answers[:1] * 3


@pytest.mark.parametrize("headers", [HOST, HOST + ORDINARILY])
def test_after_a_value_that_raises_the_next_one_is_answered_on_the_same_connection(
    application: Served, headers: bytes
) -> None:
    with contextlib.closing(Raw(application.url)) as connection:
        for key, status in ((b"usual", b"500"), (b"big", b"200")) * 2:
            request = b"GET /v1/stores/unsaid/" + key + b" HTTP/1.1\r\n" + headers + b"\r\n"
            connection.send(request)
            assert b"HTTP/1.1 " + status in connection.answer()


def test_each_key_that_a_range_shows_can_be_asked_for(application: Served) -> None:
    with Client(application.url) as client:
        for store, count in (
            ("by-json", len(JSON_KEYS)),
            ("by-number", 1),
            ("values", len(VALUES)),
        ):
            shown = [entry["key"] for entry in client.range(store)]
            found = [client.get(store, key, as_shown=True) for key in shown]

            assert [each and each["key"] for each in found] == shown
            assert len(shown) == count
        assert client.get("by-json", "missing", as_shown=True) is None
        assert client.get("values", "missing", as_shown=True) is None


def test_a_text_is_the_key_as_the_serde_writes_it(application: Served) -> None:
    with Client(application.url) as client:
        keys = ('"a"', "1", 1, {"of": "tea"})
        found = [(client.get("by-json", key) or {})["key"] for key in keys]
        with pytest.raises(HttpQueryError, match='a text is written as JSON for it: "a"') as told:
            client.get("by-json", "a")

    assert found == ["a", 1, 1, {"of": "tea"}]
    assert told.value.status == 400


def test_null_is_refused_as_a_key(application: Served) -> None:
    answers = [
        application.ask("/v1/stores/by-json/null"),
        application.ask("/v1/stores/by-json/null", partition=0),
        application.ask("/v1/stores/by-json", **{"from": "null"}),
    ]

    assert [answer.status for answer in answers] == [400] * 3
    assert "is null: no store has such a key" in answers[0].json()["detail"]
