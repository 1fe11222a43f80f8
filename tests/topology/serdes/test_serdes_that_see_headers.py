"""A serde may look at the headers of the records that it reads, and say which it writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pystreams import SerializationError, StreamsBuilder, TimeWindows, serdes
from pystreams.record import Headers
from pystreams.testing import TopologyTestDriver
from pystreams.topology.graph.nodes import RecordForRouting

CIPHERS = {b"plain": 0, b"caesar": 1}


class Sealed:
    """Text, under a cipher that a header names: `sealed-` and the part. State has its own."""

    def __init__(self, part: str, cipher: bytes = b"caesar") -> None:
        self.header = f"sealed-{part}"
        self.cipher = cipher

    def serializer(self, topic: str) -> Callable[[str], bytes]:
        return lambda text: b"state:" + text.encode()

    def deserializer(self, topic: str) -> Callable[[bytes], str]:
        return lambda data: data.removeprefix(b"state:").decode()

    def headers_serializer(
        self, topic: str
    ) -> Callable[[str, Headers], tuple[bytes, Headers]] | None:
        def serialize(text: str, headers: Headers) -> tuple[bytes, Headers]:
            kept = tuple(header for header in headers if header[0] != self.header)
            return shifted(text.encode(), CIPHERS[self.cipher]), (
                *kept,
                (self.header, self.cipher),
            )

        return serialize

    def headers_deserializer(self, topic: str) -> Callable[[bytes, Headers], str] | None:
        def deserialize(data: bytes, headers: Headers) -> str:
            return shifted(data, -CIPHERS[dict(headers)[self.header] or b""]).decode()

        return deserialize


def shifted(data: bytes, by: int) -> bytes:
    return bytes(byte + by for byte in data)


KEYS, VALUES = Sealed("key"), Sealed("value")
SEALED: Headers = (("sealed-key", b"caesar"), ("sealed-value", b"plain"))


def test_sources_read_with_headers_and_sinks_write_them_the_keys_first() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key_serde=KEYS, value_serde=VALUES).to("out")

    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_raw("in", b"bcd", b"xyz", 0, (("trace", b"7"), *SEALED))
        ((key, value, _, headers),) = driver.produced_raw("out")
    assert (key, value) == (b"bcd", shifted(b"xyz", 1))
    assert headers == (("trace", b"7"), ("sealed-key", b"caesar"), ("sealed-value", b"caesar"))


def test_a_part_that_does_not_look_at_headers_is_read_beside_one_that_does() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=VALUES)
    stream.to("out", value_serde=serdes.STRING)

    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_raw("in", b"abc", b"xyz", 0, SEALED)
        driver.pipe_raw("in", None, None, 1)
        assert [record[:2] for record in driver.produced_raw("out")] == [
            (b"abc", b"xyz"),
            (None, None),
        ]


def test_sinks_that_choose_topics_write_headers_too() -> None:
    def topic(key: str, value: str, record: RecordForRouting) -> str:
        return f"out-{value}"

    builder = StreamsBuilder()
    builder.stream("in", key_serde=KEYS, value_serde=VALUES).to(topic)

    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_raw("in", b"bcd", b"x", 0, SEALED)
        assert driver.produced_raw("out-x")[0][1:] == (
            shifted(b"x", 1),
            0,
            (("sealed-key", b"caesar"), ("sealed-value", b"caesar")),
        )


def test_windowed_keys_are_written_and_read_with_the_headers_of_the_key_inside() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=KEYS, value_serde=VALUES)
    windows = stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10))
    windows.count().to_stream().to("out", value_serde=serdes.LONG)
    windowed = serdes_of_windows()

    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_raw("in", b"bcd", b"x", 25, SEALED)
        out = driver.create_output_topic("out", windowed, serdes.LONG)
        record = out.read_record()
    assert (record.key.key, record.key.window.start, record.value) == ("abc", 20, 1)


def serdes_of_windows() -> Any:
    from pystreams import time_windowed_serde

    return time_windowed_serde(KEYS, 10)


def test_state_is_written_without_headers() -> None:
    builder = StreamsBuilder()
    builder.table("in", name="table", key_serde=KEYS, value_serde=VALUES)

    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_raw("in", b"bcd", b"x", 0, SEALED)
        assert driver.get_key_value_store("table").get("abc") == "x"


def written_to(driver: TopologyTestDriver, name: str) -> list[Any]:
    """Return what was written to an internal topic."""
    (topic,) = (topic for topic in driver.produced_topic_names() if topic.endswith(f"-{name}"))
    return driver.produced_raw(topic)


def test_changes_of_a_regrouped_table_are_written_without_headers() -> None:
    """A change holds two values, and a header could tell of one of them alone."""
    builder = StreamsBuilder()
    table = builder.table("in", key_serde=KEYS, value_serde=VALUES)
    grouped = table.group_by(lambda _, value: ("all", value), key_serde=KEYS, value_serde=VALUES)
    latest = grouped.reduce(lambda _, value: value, lambda held, _: held, name="latest")
    latest.to_stream().to("out", key_serde=KEYS, value_serde=VALUES)

    with TopologyTestDriver(builder.build()) as driver:
        for value in (b"x", b"y"):
            driver.pipe_raw("in", b"bcd", value, 0, SEALED)
        changes = written_to(driver, "latest-repartition")
        assert [value for _, value, *_ in changes] == [
            b"state:x\x01",
            b"\x0estate:ystate:x\x02",
        ]
        assert [key for key, *_ in changes] == [shifted(b"all", 1)] * 2
        out = driver.create_output_topic("out", KEYS, VALUES)
        assert out.read_key_values() == [("all", "x"), ("all", "y")]


@pytest.mark.parametrize("method", ["join", "left_join"])
def test_what_stands_inside_records_of_a_foreign_key_join_is_written_without_headers(
    method: str,
) -> None:
    """A subscription holds a key beside the record's own; headers tell of that one."""
    builder = StreamsBuilder()
    left, right = (
        builder.table(name, key_serde=KEYS, value_serde=VALUES) for name in ("left", "right")
    )
    joined = getattr(left, method)(
        right, lambda row, other: row + other, foreign_key=str, node_name="fk"
    )
    joined.to_stream().to("out", key_serde=KEYS, value_serde=VALUES)

    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_raw("right", b"bcd", b"x", 0, SEALED)
        driver.pipe_raw("left", b"l", b"abc", 0, SEALED)
        ((key, subscription, *_),) = written_to(driver, "fk-subscription-registration-topic")
        assert key == b"bcd"
        assert b"state:k" in (subscription or b"")
        ((key, response, *_),) = written_to(driver, "fk-subscription-response-topic")
        assert key == b"l"
        assert (response or b"").endswith(b"state:x")
        out = driver.create_output_topic("out", KEYS, VALUES)
        assert out.read_key_values() == [("k", "abcx")]


def test_a_record_that_can_not_be_read_by_its_headers_is_a_bad_record() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key_serde=serdes.STRING, value_serde=VALUES).to("out")
    config = {"deserialization.exception.handler": "continue"}

    with TopologyTestDriver(builder.build(), config) as driver:
        driver.pipe_raw("in", b"a", b"x", 0)
        driver.pipe_raw("in", b"b", b"x", 0, SEALED)
        assert [record[0] for record in driver.produced_raw("out")] == [b"b"]


def test_a_value_that_can_not_be_written_is_told_and_may_be_dropped() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.JSON)
    stream.to("out", key_serde=KEYS, value_serde=VALUES)

    def run(config: dict[str, str]) -> int:
        with TopologyTestDriver(builder.build(), config) as driver:
            driver.pipe_raw("in", b"a", b"7", 0)
            driver.pipe_raw("in", b"a", b'"x"', 0)
            return len(driver.produced_raw("out"))

    with pytest.raises(SerializationError, match=r"value of a record for topic 'out'.*of type int"):
        run({})
    assert run({"production.exception.handler": "continue"}) == 1
