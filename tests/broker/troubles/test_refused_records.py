"""Records that output topics do not take, in applications as users run them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pystreams.broker import DevelopmentBroker
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.reading import produce, read_all

RECORDS = 4000
LIMIT = 20_000

PROGRAM = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
source = builder.stream("{source}", key_serde=serdes.STRING, value_serde=serdes.BYTES)
source.to("{fixed}")
source.to(lambda key, value, context: "{chosen}")
"""


@pytest.mark.parametrize(
    "guarantee",
    [
        "at_least_once",
        "exactly_once_v2",
        pytest.param("exactly_once", marks=pytest.mark.sweep),
    ],
)
def test_only_the_record_that_is_too_large_is_missing_from_topics_of_small_batches(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    """Of one the size of batches is known at the start; the other is named by each record."""
    servers = broker.bootstrap_servers
    limited = {"max.message.bytes": str(LIMIT)}
    source = create_topic("in")
    fixed, chosen = create_topic("fixed", config=limited), create_topic("chosen", config=limited)
    good = [(b"k", b"%08d" % number + b"x" * 92) for number in range(RECORDS)]
    half = RECORDS // 2
    produce(servers, source, [*good[:half], (b"large", b"y" * 2 * LIMIT), *good[half:]])
    file = tmp_path / "flow.py"
    file.write_text(PROGRAM.format(source=source, fixed=fixed, chosen=chosen))
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": guarantee,
        "production.exception.handler": "continue",
    }

    def arrived(topic: str) -> list[bytes | None]:
        return [message.value() for message in read_all(servers, topic)]

    def all_arrived() -> bool:
        return all(arrived(topic)[-1:] == [good[-1][1]] for topic in (fixed, chosen))

    with Application(unique_name, tmp_path, file, settings) as application:
        running = application.start(commit_interval_ms=500)
        running.wait_until(all_arrived, "all records of both topics")
        running.stop()

    wanted = [value for _, value in good]
    for topic in (fixed, chosen):
        found = arrived(topic)
        if guarantee == "at_least_once":
            assert set(found) == set(wanted)
            assert found[-RECORDS:] == wanted
        else:
            assert found == wanted
    skipped = running.lines("record skipped")
    assert {line["output_topic"] for line in skipped} == {fixed, chosen}
    assert {(line["task"], line["topic"], line["partition"]) for line in skipped} == {
        ("0_0", source, 0)
    }
    for line in skipped:
        assert _covers(line["error"], source, half)


def _covers(text: str, source: str, offset: int) -> bool:
    """Return whether a message names an offset of a topic, or a range that it lies in."""
    told = re.search(rf"while (?:one of )?{source}-0 offsets? (\d+)(?: to (\d+))? was", text)
    assert told, text
    return int(told[1]) <= offset <= int(told[2] or told[1])


def test_the_record_that_stops_the_application_is_named(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    source, chosen = create_topic("in"), create_topic("chosen")
    fixed = create_topic("fixed", config={"max.message.bytes": str(LIMIT)})
    small = [(b"k", b"x" * 100)] * RECORDS
    produce(servers, source, [*small, (b"large", b"y" * 2 * LIMIT), *small])
    file = tmp_path / "flow.py"
    file.write_text(PROGRAM.format(source=source, fixed=fixed, chosen=chosen))
    settings = {"bootstrap.servers": servers, "processing.guarantee": "exactly_once_v2"}

    with Application(unique_name, tmp_path, file, settings) as application:
        running = application.start()
        assert running.ended() == 1, running.tail()

    error = running.lines("stopped by an error")[0]
    assert error["kind"] == "ProductionError"
    assert fixed in error["error"]
    assert "b'large'" in error["error"]
    assert _covers(error["error"], source, RECORDS)
    assert "production.exception.handler=continue" in error["error"]
