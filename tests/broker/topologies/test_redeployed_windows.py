"""Windows of an application that is deployed again, with other windows or other emission."""

from __future__ import annotations

import shutil
from pathlib import Path

from pystreams.broker import DevelopmentBroker
from pystreams.kernel.clock import SystemClock
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.reading import long, produce, read_all

SIZE_MS = 10_000
CODE = """
from pystreams import EmitStrategy, SessionWindows, StreamsBuilder, TimeWindows, serdes

builder = StreamsBuilder()
records = builder.stream("{source}", key_serde=serdes.STRING, value_serde=serdes.STRING)
windowed = records.group_by_key().windowed_by({windows}({size_ms}))
counts = windowed.emit_strategy(EmitStrategy.{emit}()).count(name="{store}")
counts.to_stream(lambda windowed, _: str(windowed.window.start)).to(
    "{out}", key_serde=serdes.STRING, value_serde=serdes.LONG
)
"""


class Deployed:
    """One application with a topic to read and one to write, in several versions."""

    def __init__(self, broker: DevelopmentBroker, name: str, directory: Path) -> None:
        self.servers = broker.bootstrap_servers
        self.source = self.out = ""
        self.file = directory / "windows.py"
        settings = {
            "bootstrap.servers": self.servers,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 100,
            "window.emit.interval.ms": 0,
        }
        self.application = Application(name, directory, self.file, settings)
        self.first_ms = (SystemClock().now_ms() - 3_600_000) // (4 * SIZE_MS) * (4 * SIZE_MS)

    def write(
        self,
        *,
        emit: str = "on_window_update",
        windows: str = "TimeWindows.of_size_with_no_grace",
        store: str = "counts",
    ) -> None:
        values = {"source": self.source, "out": self.out, "size_ms": SIZE_MS}
        self.file.write_text(CODE.format(emit=emit, windows=windows, store=store, **values))

    def feed(self, *times: int) -> None:
        records = [(b"k", b"v")] * len(times)
        stamps = [self.first_ms + time for time in times]
        produce(self.servers, self.source, records, timestamps_ms=stamps)

    def results(self) -> list[tuple[int, int]]:
        """Return what came out: when a window begins, after the first record, and its count."""
        return [
            (int(message.key() or b"") - self.first_ms, long(message.value()))
            for message in read_all(self.servers, self.out)
        ]


def test_final_results_asked_for_later_refuse_the_directory_until_the_cure_is_followed(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    deployed = Deployed(broker, unique_name, tmp_path)
    deployed.source, deployed.out = create_topic("source"), create_topic("out")
    with deployed.application as application:
        deployed.write()
        deployed.feed(0, 1000, SIZE_MS)
        first = application.start()
        first.wait_until(lambda: (SIZE_MS, 1) in deployed.results(), "updates of both windows")
        first.stop()
        before = deployed.results()

        deployed.write(emit="on_window_close")
        deployed.feed(SIZE_MS + 1, 2 * SIZE_MS)
        refused = application.start()
        assert refused.ended() != 0
        refusal: str = refused.lines("stopped by an error")[0]["error"]
        assert "its files are laid out for another retention or emission" in refusal
        assert "delete its directory below each task's" in refusal
        assert deployed.results() == before

        for directory in directories_in(refusal):
            shutil.rmtree(directory)
        cured = application.start()
        cured.wait_until(lambda: len(deployed.results()) >= len(before) + 2, "both final results")
        cured.stop()

    assert deployed.results()[len(before) :] == [(0, 2), (SIZE_MS, 2)]


def test_windows_that_become_sessions_are_refused_and_cured_by_another_name(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    """The changelog is of the former kind, too: what it has would be noise."""
    deployed = Deployed(broker, unique_name, tmp_path)
    deployed.source, deployed.out = create_topic("source"), create_topic("out")
    sessions = "SessionWindows.of_inactivity_gap_with_no_grace"
    with deployed.application as application:
        deployed.write()
        deployed.feed(0)
        first = application.start()
        first.wait_until(lambda: (0, 1) in deployed.results(), "an update")
        first.stop()

        deployed.write(windows=sessions)
        deployed.feed(5 * SIZE_MS)
        refused = application.start()
        assert refused.ended() != 0
        refusal: str = refused.lines("stopped by an error")[0]["error"]
        assert "windows became sessions" in refusal
        assert "Give the store another name" in refusal

        deployed.write(windows=sessions, store="sessions")
        cured = application.start()
        cured.wait_until(lambda: (5 * SIZE_MS, 1) in deployed.results(), "a session")
        cured.stop()


def directories_in(refusal: str) -> list[Path]:
    """Return the directories that a refusal tells to delete."""
    told = next(word for word in refusal.split() if word.startswith("/"))
    return list(Path("/").glob(told.strip("/:")))
