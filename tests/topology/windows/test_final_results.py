"""Results of time windows that are sent once, when the window has closed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from pystreams import (
    StoreEngine,
    Stores,
    StreamsConfig,
    TimeWindows,
    TopologyError,
    UnlimitedWindows,
)
from tests.topology.windows.windowing import CLOSE, Windows, joined

GRACEFUL = TimeWindows.of_size_and_grace(10, 5).advance_by(5)
ONE_A_SECOND = {"window.emit.interval.ms": 1000}
LEAST = {"application.id": "a", "bootstrap.servers": "b:1"}


def final(windows: TimeWindows = GRACEFUL, **options: Any) -> Windows:
    return Windows(windows, emit=CLOSE, **options)


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("engine", list(StoreEngine))
def test_each_window_is_sent_once_when_stream_time_has_passed_its_end_and_grace(
    engine: StoreEngine, *, caching: bool
) -> None:
    def kept(windowed: Any) -> Any:
        return joined(windowed, store_type=engine, caching=caching)

    with Windows(GRACEFUL, kept, emit=CLOSE) as windows:
        assert windows.pipe("A1@0 A1@5 B2@10") == []
        assert windows.pipe("C3@15") == [("A@0/10", "0+1+1", 5)]
        assert windows.pipe("D4@20") == [("A@5/15", "0+1", 5), ("B@5/15", "0+2", 10)]
        assert windows.pipe("D4@20 D4@21") == []


def test_windows_come_in_order_of_time_and_of_keys() -> None:
    with final(TimeWindows.of_size_with_no_grace(10)) as windows:
        windows.pipe("c1@25 b1@25 a1@19 a1@25")
        windows.pipe("b1@31")
        assert windows.pipe("z1@100") == [("b@30/40", "0+1", 31)]
    with final(TimeWindows.of_size_and_grace(10, 50)) as windows:
        assert windows.pipe("c1@25 b1@5 a1@29 b1@39 a1@5 z1@200") == [
            ("a@0/10", "0+1", 5),
            ("b@0/10", "0+1", 5),
            ("a@20/30", "0+1", 29),
            ("c@20/30", "0+1", 25),
            ("b@30/40", "0+1", 39),
        ]


def test_no_result_is_lost_however_far_time_jumps() -> None:
    """Kafka Streams loses those that are older than the retention by then: here [10,20)."""
    hopping = TimeWindows.of_size_with_no_grace(10).advance_by(5)
    with final(hopping) as windows:
        assert windows.pipe("A1@0 A2@5 A3@10 B4@6 B5@11 B6@15 C7@25") == [
            ("A@0/10", "0+1+2", 5),
            ("A@5/15", "0+2+3", 10),
            ("B@5/15", "0+4+5", 11),
            ("A@10/20", "0+3", 10),
            ("B@10/20", "0+5+6", 15),
            ("B@15/25", "0+6", 15),
        ]
        assert len(windows.pipe("z1@10000000000")) == 2


def test_with_grace_late_records_are_in_the_final_result() -> None:
    with final() as windows:
        assert windows.pipe("A1@0 A2@5 A3@10 B4@6 B5@11 B6@15") == [
            ("A@0/10", "0+1+2", 5),
            ("B@0/10", "0+4", 6),
        ]
        assert windows.pipe("C7@25") == [
            ("A@5/15", "0+2+3", 10),
            ("B@5/15", "0+4+5", 11),
            ("A@10/20", "0+3", 10),
            ("B@10/20", "0+5+6", 15),
        ]


def test_looks_for_closed_windows_are_a_second_of_the_wall_clock_apart() -> None:
    with final(config=ONE_A_SECOND) as windows:
        assert windows.pipe("A1@0 A1@5 B2@10 C3@15") == []
        windows.driver.advance_wall_clock_ms(10_000)
        assert windows.pipe("D4@20") == [
            ("A@0/10", "0+1+1", 5),
            ("A@5/15", "0+1", 5),
            ("B@5/15", "0+2", 10),
        ]
        windows.driver.advance_wall_clock_ms(100)
        assert windows.pipe("E5@40") == []
        windows.driver.advance_wall_clock_ms(900)
        assert [key for key, *_ in windows.pipe("E5@40")] == [
            "B@10/20",
            "C@10/20",
            "C@15/25",
            "D@15/25",
            "D@20/30",
        ]


def test_results_wait_for_the_clock_no_longer_than_a_segment_of_stream_time() -> None:
    """What is restored from the changelog reaches back that far beyond the retention."""
    with final(config=ONE_A_SECOND) as windows:
        assert windows.pipe("A1@0 B2@60000") == []
        assert len(windows.pipe("C3@60030")) == 1 + 2


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {"transactional": False},
        {"supplier": Stores.persistent_timestamped_window_store("mine", 10, 10)},
        {"supplier": Stores.in_memory_window_store("mine", 10, 10)},
    ],
)
def test_what_waits_for_the_clock_outlives_its_segment(kept: dict[str, Any]) -> None:
    tumbling = TimeWindows.of_size_with_no_grace(10)
    with final(tumbling, aggregation=partial(joined, **kept), config=ONE_A_SECOND) as windows:
        windows.pipe("A1@20 A1@59990 B1@60015")
        windows.driver.advance_wall_clock_ms(1000)
        assert windows.pipe("B1@60016") == [("A@20/30", "0+1", 20), ("A@59990/60000", "0+1", 59990)]


def test_the_interval_is_a_second_and_goes_by_kafkas_internal_name_too() -> None:
    internal = "__emit.interval.ms.kstreams.windowed.aggregation__"
    assert StreamsConfig.of(LEAST).window_emit_interval_ms == 1000
    assert StreamsConfig.of({**LEAST, internal: 7}).window_emit_interval_ms == 7


def test_time_that_passes_no_end_of_a_window_sends_nothing() -> None:
    with final() as windows:
        assert len(windows.pipe("A1@0 B2@16")) == 1
        assert windows.pipe("B2@17 B2@18 B2@19") == []


def test_a_result_carries_the_headers_of_the_record_that_led_to_it() -> None:
    with final() as windows:
        windows.pipe_with_headers("A", "1", 0, (("trace", b"first"),))
        windows.pipe_with_headers("B", "1", 15, (("trace", b"last"),))
        assert windows.sent_headers() == [(("trace", b"last"),)]


def test_a_row_that_was_deleted_is_not_sent() -> None:
    def aggregation(windowed: Any) -> Any:
        return joined(windowed).filter(lambda *_: True)

    def emptied(windowed: Any) -> Any:
        return windowed.reduce(lambda *_: None)

    with Windows(GRACEFUL, aggregation, emit=CLOSE) as windows:
        assert len(windows.pipe("A1@0 B1@15")) == 1
    with Windows(GRACEFUL, emptied, emit=CLOSE) as windows:
        assert windows.pipe("A1@0 A2@1 B1@15") == []


def test_unlimited_windows_never_close_and_are_refused() -> None:
    with pytest.raises(TopologyError, match="never close"):
        Windows(UnlimitedWindows.of(), emit=CLOSE)


def test_a_supplier_of_the_users_gives_the_same_results() -> None:
    supplier = Stores.persistent_timestamped_window_store("mine", 15, 10)
    with Windows(GRACEFUL, lambda w: joined(w, supplier=supplier), emit=CLOSE) as windows:
        assert windows.pipe("A1@0 C3@15") == [("A@0/10", "0+1", 0)]
        assert len(windows.pipe("D4@1000000")) == 2
