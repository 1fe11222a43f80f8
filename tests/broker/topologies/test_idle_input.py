"""An input that falls silent, on a real broker: windows close by the wall clock, each once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pystreams.broker import DevelopmentBroker
from pystreams.kernel.clock import SystemClock
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.reading import produce, read_all
from tests.broker.transactions import TransactionalWriter

TIMEOUT_MS = 500
SIZE_MS = 1000
KEYS = 200
CODE = """
from pystreams import EmitStrategy, JoinWindows, SlidingWindows, StreamsBuilder, TimeWindows, serdes

builder = StreamsBuilder(idle_timeout_ms={timeout_ms})
records = builder.stream("{source}", key_serde=serdes.STRING, value_serde=serdes.STRING)


def count(kind, name):
    closing = records.group_by_key().windowed_by(kind).emit_strategy(EmitStrategy.on_window_close())
    counts = closing.count().to_stream(lambda key, count: f"{{name}} {{key.key}}")
    counts.map_values(str).to("{out}", key_serde=serdes.STRING, value_serde=serdes.STRING)


count(TimeWindows({size_ms}), "tumbling")
count(SlidingWindows({size_ms}), "sliding")
others = builder.stream("{other}", key_serde=serdes.STRING, value_serde=serdes.STRING)
windows = JoinWindows.of_time_difference_with_no_grace({size_ms})
joined = records.left_join(others, lambda one, two: f"{{one}}+{{two}}", windows)
joined.select_key(lambda key, value: f"left join {{key}}").to(
    "{out}", key_serde=serdes.STRING, value_serde=serdes.STRING
)
"""


def test_what_waits_for_a_silent_input_comes_once_over_a_kill(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    source, other, out = (create_topic(stem) for stem in ("records", "others", "out"))
    file = tmp_path / "silent.py"
    file.write_text(
        CODE.format(source=source, other=other, out=out, timeout_ms=TIMEOUT_MS, size_ms=SIZE_MS)
    )
    servers = broker.bootstrap_servers
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": "exactly_once",
        "commit.interval.ms": 100,
    }
    first_ms = SystemClock().now_ms() // SIZE_MS * SIZE_MS
    kinds = ("tumbling", "sliding", "left join")

    # So that the marker of a transaction, which is no record, ends what is read.
    writer = TransactionalWriter(servers, f"{unique_name}-records")

    def results() -> Counter[str]:
        return Counter((message.key() or b"").decode() for message in read_all(servers, out))

    def expected(keys: int) -> Counter[str]:
        return Counter(f"{kind} k{number}" for kind in kinds for number in range(keys))

    def feed(begin: int, end: int, time_ms: int) -> None:
        writer.begin()
        for number in range(begin, end):
            writer.write(source, b"x", f"k{number}".encode(), timestamp=time_ms)
        writer.commit()

    with Application(unique_name, tmp_path, file, settings) as application:
        feed(0, KEYS, first_ms)
        killed = application.start()
        killed.wait_until(lambda: results() == expected(KEYS), "all that waited")
        killed.kill()

        feed(KEYS, 2 * KEYS, first_ms + 10 * SIZE_MS)
        again = application.start()
        again.wait_until(lambda: results() == expected(2 * KEYS), "all that waited after the kill")
        # What is behind the time that silence has reached is late.
        produce(servers, source, [(b"k0", b"late")], timestamps_ms=[first_ms])
        again.wait_for("records dropped by an operation", reason="expired window")
        again.stop()

        assert results() == expected(2 * KEYS)
