"""How an application ends that something unforeseen was raised in."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
from structlog.testing import capture_logs

from pystreams import KafkaStreams, State, StreamsBuilder, StreamsError, serdes
from pystreams.errors import InternalError
from tests.thread_limits import no_more_threads, no_thread_named


class BrokenClients:
    """Makes no client: what goes wrong there is not foreseen."""

    def admin(self, *_: object) -> NoReturn:
        raise KeyError("internal")

    def consumer(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("not asked for")

    global_consumer = restore_consumer = producer = consumer


def client(tmp_path: Path) -> KafkaStreams:
    builder = StreamsBuilder()
    builder.stream("in", key_serde=serdes.STRING, value_serde=serdes.STRING).to("out")
    config = {
        "application.id": "app",
        "bootstrap.servers": "nowhere:9092",
        "state.dir": str(tmp_path),
    }
    return KafkaStreams(builder.build(), config, clients=BrokenClients())


def test_bug_before_the_threads_start_is_kept_and_logged_with_its_traceback(
    tmp_path: Path,
) -> None:
    streams = client(tmp_path)
    with capture_logs() as logs:
        streams.start()
        assert streams.wait(60)

    assert streams.state is State.ERROR
    assert isinstance(streams.error, InternalError)
    assert isinstance(streams.error.__cause__, KeyError)
    (line,) = [line for line in logs if line["event"] == "application failed"]
    assert "KeyError: 'internal'" in line["error"]
    assert line["exception"].endswith("\nKeyError: 'internal'")


@pytest.mark.parametrize("listens", [False, True])
def test_a_start_on_a_machine_that_gives_no_thread_fails_and_leaves_nothing_to_wait_for(
    tmp_path: Path, *, listens: bool
) -> None:
    streams = client(tmp_path)
    if listens:
        streams.set_state_listener(lambda _new, _old: None)
    with pytest.raises(StreamsError, match="starts no more threads"), no_more_threads():
        streams.start()

    assert streams.close(60)
    assert streams.state is State.ERROR
    assert not isinstance(streams.error, InternalError)


def test_a_watchdog_that_gets_no_thread_fails_the_application(tmp_path: Path) -> None:
    streams = client(tmp_path)
    with no_thread_named("watchdog"):
        streams.start()
        assert streams.wait(60)

    assert streams.state is State.ERROR
    assert "starts no more threads" in str(streams.error)
