"""How an application ends that something unforeseen was raised in."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from structlog.testing import capture_logs

from pystreams import KafkaStreams, State, StreamsBuilder, serdes
from pystreams.errors import InternalError


class BrokenClients:
    """Makes no client: what goes wrong there is not foreseen."""

    def admin(self, *_: object) -> NoReturn:
        raise KeyError("internal")

    def consumer(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("not asked for")

    global_consumer = restore_consumer = producer = consumer


def test_bug_before_the_threads_start_is_kept_and_logged_with_its_traceback(
    tmp_path: Path,
) -> None:
    builder = StreamsBuilder()
    builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING).to("out")
    config = {
        "application.id": "app",
        "bootstrap.servers": "nowhere:9092",
        "state.dir": str(tmp_path),
    }
    streams = KafkaStreams(builder.build(), config, clients=BrokenClients())
    with capture_logs() as logs:
        streams.start()
        assert streams.wait(60)

    assert streams.state is State.ERROR
    assert isinstance(streams.error, InternalError)
    assert isinstance(streams.error.__cause__, KeyError)
    (line,) = [line for line in logs if line["event"] == "application failed"]
    assert "KeyError: 'internal'" in line["error"]
    assert line["exception"].endswith("\nKeyError: 'internal'")
