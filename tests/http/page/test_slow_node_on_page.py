"""The slowest node on the page in Chromium, at the default recording level."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from pystreams import JoinWindows, KafkaStreams, StreamsBuilder, TimeWindows, Topology, serdes
from pystreams.http.server import HttpOptions, HttpServer
from tests.broker.conftest import CreateTopic
from tests.broker.reading import produce
from tests.broker.waiting import wait_until
from tests.http.asking import ask
from tests.http.page.chromium import Chromium

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker

TOOK_S = 0.002
SLOW_BOX = "[...document.querySelectorAll('svg g:has(> .slowest) title')].map(one => one.innerHTML)"
ROWS = (
    "[...document.querySelectorAll('#topology tbody tr')].map(row => "
    "[...row.cells].map(cell => cell.innerText))"
)


def slowly(value: str) -> str:
    """Work without letting any other thread work."""
    until_s = time.perf_counter() + TOOK_S
    while time.perf_counter() < until_s:
        pass
    return value


def topology(words: str, pairs: str) -> Topology:
    """Return one that counts in windows and joins, and one of whose own functions is slow."""
    builder = StreamsBuilder()
    stream = builder.stream(words, key_serde=serdes.STRING, value_serde=serdes.STRING)
    quick = stream.filter(lambda _, word: bool(word), name="quick")
    slow = quick.map_values(slowly, name="slow")
    windows = TimeWindows.of_size_with_no_grace(1_000)
    grouped = slow.group_by_key(key_serde=serdes.STRING, value_serde=serdes.STRING)
    grouped.windowed_by(windows).count(name="counts")
    joined = slow.join(
        stream,
        lambda one, other: one + other,
        JoinWindows.of_time_difference_with_no_grace(1),
        name="pairs",
        value_serde=serdes.STRING,
        other_value_serde=serdes.STRING,
        key_serde=serdes.STRING,
    )
    joined.to(pairs, key_serde=serdes.STRING, value_serde=serdes.STRING)
    return builder.build()


def looks_right(chromium: Chromium) -> None:
    """The slowest node stands out and the ground is as the scheme has it; it fits a phone."""
    drawn = {}
    for scheme in ("light", "dark"):
        chromium.look(scheme=scheme)
        assert chromium.style("svg .slowest", "strokeWidth") == "2px"
        drawn[scheme] = [
            chromium.style(selector, name)
            for selector, name in (
                ("body", "backgroundColor"),
                ("svg .slowest", "fill"),
                ("svg .slowest", "stroke"),
            )
        ]
    assert drawn == {
        "light": ["rgb(247, 247, 245)", "rgb(251, 241, 220)", "rgb(154, 103, 0)"],
        "dark": ["rgb(18, 22, 26)", "rgb(54, 44, 22)", "rgb(224, 176, 74)"],
    }
    others = "svg rect:not(.slowest):not(.source):not(.sink)"
    assert chromium.style(others, "stroke") not in {stroke for _, _, stroke in drawn.values()}
    chromium.look()
    picture_is_wide = "document.querySelector('#topology svg').getBoundingClientRect().width > 700"
    for shown in ("#tasks tbody tr", "#stores tbody tr", "#topology svg"):
        assert chromium.evaluate(f"document.querySelector('{shown}') !== null")
    assert chromium.evaluate(picture_is_wide)
    assert chromium.fits_a_phone()


def test_the_slowest_node_is_marked_and_nodes_have_their_shares_of_the_time(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    chromium: Chromium,
) -> None:
    words, pairs = create_topic("words"), create_topic("pairs")
    config = {
        "application.id": unique_name,
        "bootstrap.servers": broker.bootstrap_servers,
        "state.dir": str(tmp_path),
    }
    written = 0
    streams = KafkaStreams(topology(words, pairs), config)
    with HttpServer(streams, HttpOptions(port=0)) as server, streams:
        chromium.open(server.url)
        chromium.wait_for_text("#head .state", "RUNNING")
        assert chromium.evaluate(SLOW_BOX) == []  # A thread that waits for records is no node's.
        assert chromium.evaluate(ROWS) == []

        def marked() -> bool:
            nonlocal written
            numbers = range(written, written + 100)
            records = [(b"k", b"%d" % number) for number in numbers]
            produce(broker.bootstrap_servers, words, records, timestamps_ms=[*numbers])
            written += len(records)
            return bool(chromium.evaluate(SLOW_BOX))

        wait_until(marked, "the slowest node", told=lambda: chromium.text("#topology"))
        wait_until(
            lambda: marked() and len(chromium.evaluate(ROWS)) > 3,
            "shares",
            told=lambda: str(chromium.evaluate(ROWS)),
        )
        assert chromium.evaluate(SLOW_BOX) == ["slow"]
        assert "slowest: slow, " in chromium.text("#topology figcaption .slow")
        looks_right(chromium)
        first, *others = chromium.evaluate(ROWS)
        assert first[:2] == ["slow", "0"]
        assert 50 < float(first[2].rstrip("%")) < 100
        assert any("JOIN" in row[0] or "pairs" in row[0] for row in others)
        (part,) = ask(server.url, "/v1/status").json()["subtopologies"]
        shares = {name: node["busy_share"] for name, node in part["nodes"].items()}
        assert max(shares, key=lambda name: shares[name]) == "slow"
        assert 0.98 < sum(shares.values()) < 1.02
        assert {node["records_per_s"] for node in part["nodes"].values()} == {None}
        assert chromium.complaints == []
