"""What goes wrong, on the page in Chromium: what stands still, and dead letters."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pystreams import KafkaStreams, StreamsBuilder, Topology, serdes
from pystreams.http.page.quantities import moment
from pystreams.http.server import HttpOptions, HttpServer
from pystreams.kernel.clock import SystemClock
from tests.broker.conftest import CreateTopic
from tests.broker.reading import produce, read_all
from tests.broker.waiting import wait_until
from tests.http.page.chromium import Chromium

if TYPE_CHECKING:
    from pystreams import ErrorContext
    from pystreams.broker import DevelopmentBroker

LIMIT_BYTES = 2000
SECRET = "hunter-23"
IS_OPEN = "document.querySelector('#troubles pre').checkVisibility()"


class AheadClock(SystemClock):
    """The machine's clock, from some moment on ahead of it."""

    ahead_ms = 0.0

    def monotonic_ms(self) -> float:
        return super().monotonic_ms() + self.ahead_ms


@contextlib.contextmanager
def served(
    topology: Topology, config: dict[str, Any], clock: SystemClock | None = None
) -> Iterator[tuple[KafkaStreams, str]]:
    streams = KafkaStreams(topology, {"commit.interval.ms": 100, **config}, clock=clock)
    with HttpServer(streams, HttpOptions(port=0)) as server:
        streams.start()
        try:
            yield streams, server.url
        finally:
            streams.close()


def causes_shown(chromium: Chromium) -> list[list[str]]:
    """Return the parts of each cause."""
    found: list[list[str]] = chromium.evaluate(
        "[...document.querySelectorAll('#letters li')].map(cause => "
        "[...cause.querySelectorAll('.event, .count, .place > *')].map(part => part.innerText))"
    )
    return found


def causes_known(streams: KafkaStreams) -> list[list[str]]:
    """Return what the parts of causes should be."""
    return [
        [
            cause.error.replace(SECRET, "(hidden)"),
            f"{cause.records} record{'' if cause.records == 1 else 's'}",
            f"{cause.stage} in {cause.where}",
            f"last at {cause.record}",
            *([] if cause.task is None else [f"task {cause.task}"]),
            moment(cause.last_ms),
        ]
        for letters in streams.dead_letters
        for cause in letters.causes
    ]


def test_a_function_that_blocks_is_shown_with_its_stack_until_it_goes_on(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    chromium: Chromium,
) -> None:
    topic, asked, answered = create_topic("blocked"), threading.Event(), threading.Event()

    def waits_for_an_answer(value: str) -> str:
        asked.set()
        answered.wait()
        return value

    builder = StreamsBuilder()
    stream = builder.stream(topic, key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.map_values(waits_for_an_answer)
    config = {
        "application.id": unique_name,
        "bootstrap.servers": broker.bootstrap_servers,
        "state.dir": str(tmp_path / "state"),
    }
    clock = AheadClock()
    with served(builder.build(), config, clock) as (streams, url):
        try:
            chromium.open(url)
            chromium.wait_for("document.querySelector('#head .state').innerText === 'RUNNING'")
            produce(broker.bootstrap_servers, topic, [(b"a", b"x")])
            wait_until(asked.is_set, "the function is called")
            clock.ahead_ms = 20_000.0  # It seems to have taken so long.

            chromium.wait_for_text("#troubles", "Stream thread stands still")
            (trouble,) = streams.troubles
            shown = chromium.text("#troubles")
            assert trouble.of in shown
            assert f"task 0_0 is at the record at {topic}-0 offset 0" in trouble.text
            assert trouble.text in shown
            chromium.wait_for_text("#head .state", "RUNNING, not ready")
            assert chromium.text("#head .error") == ""  # It is told once.
            chromium.wait_for_text("#numbers", "not known for 2")
            assert "all that is there is processed" not in chromium.text("#numbers")
            chromium.wait_for_text("#tasks", "unknown for 2")
            assert "lag 0" not in chromium.text("#topology")
            assert not chromium.evaluate(IS_OPEN)
            chromium.evaluate("document.querySelector('#troubles summary').click()")
            chromium.wait_for(IS_OPEN)
            assert "in waits_for_an_answer" in chromium.text("#troubles pre")
            since = chromium.text("#troubles .since")
            chromium.wait_for(f"document.querySelector('#troubles .since').innerText !== '{since}'")
            assert chromium.evaluate(IS_OPEN)
            assert chromium.fits_a_phone()
        finally:
            answered.set()
        chromium.wait_for("document.querySelector('#troubles').innerText === ''")
        chromium.wait_for("document.querySelector('#head .state').innerText === 'RUNNING'")
        assert chromium.complaints == []


def test_dead_letters_are_shown_by_topic_with_their_last_causes(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    chromium: Chromium,
) -> None:
    """Of each stage: records that can't be read, processed, and written."""
    source, unread, failed = create_topic("source"), create_topic("unread"), create_topic("failed")
    output = create_topic("output", config={"max.message.bytes": str(LIMIT_BYTES)})

    def queue_of(context: ErrorContext, _: Exception) -> str:
        return unread if context.stage == "deserialization" else failed

    def long_text(value: int) -> str:
        if value < 0:
            raise ValueError(f"{value} is below 0; password={SECRET}")
        return "x" * value

    builder = StreamsBuilder()
    stream = builder.stream(source, key_serde=serdes.STRING, value_serde=serdes.JSON)
    texts = stream.map_values(long_text, name="lengthen")
    texts.to(output, key_serde=serdes.STRING, value_serde=serdes.STRING)
    config: dict[str, Any] = {
        "application.id": unique_name,
        "bootstrap.servers": broker.bootstrap_servers,
        "state.dir": str(tmp_path / "state"),
        "errors.dead.letter.queue.topic.name": queue_of,
        **dict.fromkeys(
            [f"{stage}.exception.handler" for stage in ("deserialization", "processing")],
            "continue",
        ),
        "production.exception.handler": "continue",
    }
    values = [b"-1", b"{", b"5", b"-2", b"%d" % (2 * LIMIT_BYTES), b"-3", b"7"]
    with served(builder.build(), config) as (streams, url):
        chromium.open(url)
        chromium.wait_for_text("#head .state", "RUNNING")
        assert chromium.text("#letters") == ""
        produce(broker.bootstrap_servers, source, [(b"a", value) for value in values])
        wait_until(
            lambda: (
                len(read_all(broker.bootstrap_servers, failed)) >= 4
                and len(read_all(broker.bootstrap_servers, unread)) >= 1
            ),
            "all dead letters are on the broker",
        )
        wait_until(
            lambda: causes_shown(chromium) == causes_known(streams),
            "the page shows the dead letters of now",
            told=lambda: f"{causes_shown(chromium)}\n{causes_known(streams)}",
        )
        told = {letters.topic: letters for letters in streams.dead_letters}
        for topic, letters in told.items():
            chromium.wait_for_text("#letters", f"{topic}\n{letters.records} record")
        text = chromium.text("#letters")
        fits = chromium.fits_a_phone()

    assert told.keys() == {unread, failed}
    assert {(cause.stage, cause.where) for cause in told[failed].causes} == {
        ("processing", "lengthen"),
        ("production", output),
    }
    assert "ValueError: -3 is below 0; password=(hidden)" in text
    assert SECRET not in text
    assert fits
    assert chromium.complaints == []
