"""An outer join under exactly-once, run by `pystreams run` and killed: each result comes once.

Kafka's KStreamKStreamOuterJoinTransactionalStoreIntegrationTest (KAFKA-20749) on a real broker and
real stores on disk.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pystreams.broker import DevelopmentBroker
from pystreams.kernel.clock import SystemClock
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.reading import produce, read_all
from tests.broker.waiting import wait_until

KEYS = 3000
WINDOW_MS = 60_000
CODE = """
from pystreams import JoinWindows, StreamsBuilder, serdes

builder = StreamsBuilder()
left = builder.stream("{left}", key_serde=serdes.STRING, value_serde=serdes.STRING)
right = builder.stream("{right}", key_serde=serdes.STRING, value_serde=serdes.STRING)
windows = JoinWindows.of_time_difference_with_no_grace({window_ms})
left.outer_join(right, lambda value, other: f"{{value}}+{{other}}", windows).to(
    "{out}", value_serde=serdes.STRING
)
"""


def test_each_result_of_an_outer_join_comes_once_over_kills(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    left, right, out = (create_topic(stem) for stem in ("left", "right", "joined"))
    file = tmp_path / "join.py"
    file.write_text(CODE.format(left=left, right=right, out=out, window_ms=WINDOW_MS))
    servers = broker.bootstrap_servers
    settings = {
        "bootstrap.servers": servers,
        "processing.guarantee": "exactly_once",
        "commit.interval.ms": 100,
        "outer.join.emit.interval.ms": 0,
    }
    # All in one window, and near the broker's own time: it deletes what it finds too old.
    first_ms = SystemClock().now_ms() - 10 * WINDOW_MS
    times = [first_ms + number for number in range(KEYS)]

    def feed(begin: int, end: int) -> None:
        """A third of the keys on both sides, a third on the left, a third on the right."""
        for topic, other in ((left, 2), (right, 1)):
            chosen = [number for number in range(begin, end) if number % 3 != other]
            records = [(f"k{number}".encode(), topic[:1].encode()) for number in chosen]
            produce(servers, topic, records, timestamps_ms=[times[number] for number in chosen])

    def results() -> Counter[tuple[bytes, bytes]]:
        found: Counter[tuple[bytes, bytes]] = Counter()
        for message in read_all(servers, out):
            key, value = message.key() or b"", message.value() or b""
            if key.startswith(b"k"):
                found[key, value] += 1
        return found

    values = (b"l+r", b"l+None", b"None+r")
    expected = Counter({(f"k{number}".encode(), values[number % 3]): 1 for number in range(KEYS)})
    with Application(unique_name, tmp_path, file, settings) as application:
        feed(0, KEYS // 2)
        killed = application.start()
        killed.wait_until(lambda: sum(results().values()) >= KEYS // 10, "some records joined")
        feed(KEYS // 2, KEYS)
        killed.kill()
        # What moves the stream time lets go of what has no match: a kill in the middle of that.
        ends = [(b"end", b"moves")]
        again = application.start()
        again.wait_until(lambda: sum(results().values()) >= KEYS // 3, "all matches found")
        for topic in (left, right):
            produce(servers, topic, ends, timestamps_ms=[first_ms + 3 * WINDOW_MS])
        again.kill()
        last = application.start()
        wait_until(lambda: sum(results().values()) >= KEYS, "all results", told=last.tail)
        last.stop()

        assert results() == expected
