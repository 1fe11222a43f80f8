"""What window stores in order of time promise beyond others; what they share: test_window_store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams import IsolationLevel, StateStoreError, StoreEngine, Window, Windowed
from pystreams.stores.build import build_store
from pystreams.stores.engines.rocksdb import RocksDBSegmentEngine
from pystreams.stores.kinds.window.keys import window_key
from pystreams.stores.time_segments.time_order import TimeOrder
from tests.contract.test_window_store import RETENTION, TIME_ORDERED, Shop, names, restored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.contract


@pytest.fixture(params=list(StoreEngine), ids=lambda engine: engine.value)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path, request.param, timestamped=True, retention=TIME_ORDERED)
    yield made
    made.store.close()


def test_stored_keys_begin_with_segment_and_time_and_an_index_leads_to_them() -> None:
    order = TimeOrder(from_end=12, num_bytes=8)
    segment, key = bytes(7) + b"\x01", window_key(b"a", 50)

    assert order.stored(segment, key) == segment + key[1:9] + key
    assert order.entry(segment, key) == segment + b"\xff" + key


def test_windows_of_all_keys_come_in_order_of_time(shop: Shop) -> None:
    shop.put_all("c3 a60 b1")
    shop.commit()
    shop.put_all("a3 b61 a0 z2")

    assert shop.content() == "a0 b1 z2 a3 c3 a60 b61"
    assert names(shop.store.backward_all()) == "b61 a60 c3 a3 z2 b1 a0"
    assert names(shop.store.fetch_all(1, 60)) == "b1 z2 a3 c3 a60"


def test_a_deleted_window_is_found_neither_by_time_nor_by_key(shop: Shop) -> None:
    shop.put_all("a1 a2 b2")
    shop.commit()
    shop.put("a", None, 2)
    shop.put("b", None, 2)
    shop.put("b", 7, 2)

    assert shop.content() == "a1 b2"
    assert [start for start, _ in shop.store.fetch("a", 0, 9)] == [1]
    shop.commit()
    assert [start for start, _ in shop.store.fetch("a", 0, 9)] == [1]
    assert names(shop.store.fetch_range("b", "b", 0, 9)) == "b2"


def test_what_is_still_to_be_sent_on_is_kept_however_old_it_is(shop: Shop) -> None:
    shop.store.keep_from(10)
    shop.put_all("a9 b10 c1000")
    shop.commit()

    assert shop.content() == "c1000", "readers go by the retention"
    assert names(shop.store.fetch_kept(10, 900)) == "b10"
    shop.store.keep_from(900)
    assert names(shop.store.fetch_kept(0, 1000)).endswith("c1000")
    shop.commit()
    assert shop.keys_in_engine() == {b"c"}


def test_a_wide_hole_in_time_costs_no_walk_over_its_segments(shop: Shop) -> None:
    """Else the test would not end: between the two are 2 * 10^14 segments."""
    far = 10**16
    shop.store.keep_from(0)
    shop.put_all(f"a9 b{far}")

    assert names(shop.store.fetch_kept(0, far)) == f"a9 b{far}"
    shop.commit()
    assert names(shop.store.fetch_kept(0, far)) == f"a9 b{far}"


def test_a_restore_keeps_a_segment_more_than_the_retention(shop: Shop) -> None:
    """Whether it is still to be sent on is not known before the task starts."""
    store: Any = build_store(shop.spec)
    store.init(replace(shop.home, directory=shop.home.directory / "other").context())
    store.restore([restored(1, 0, b"a", 49), restored(2, 1, b"a", 60), restored(3, 2, b"b", 199)])
    store.keep_from(0)

    assert names(store.fetch_kept(0, 159)) == "a49 a60"
    store.close()


def test_a_changelog_dump_has_the_plain_keys_and_no_index(shop: Shop) -> None:
    shop.put_all("b1 a2")
    shop.commit()

    dumped = list(shop.store.changelog_records())
    assert [key for key, *_ in dumped] == [window_key(b"b", 1), window_key(b"a", 2)]


def test_readers_of_other_threads_find_windows_by_key_and_time(shop: Shop) -> None:
    shop.put_all("a1 b2 a60")
    shop.commit()
    for level in IsolationLevel:
        view = shop.store.read_only(level)
        assert names(view.all()) == "a1 b2 a60"
        assert [start for start, _ in view.fetch("a", 0, 100)] == [1, 60]
        assert view.fetch("b", 2) == shop.value(1002)


def test_a_directory_in_another_order_is_refused(tmp_path: Path) -> None:
    engine = RocksDBSegmentEngine("s", 50)
    engine.open(tmp_path / "s")
    engine.close()

    with pytest.raises(StateStoreError, match="in order of time"):
        RocksDBSegmentEngine("s", 50, time_ordered=True).open(tmp_path / "s")


def test_writing_through_keeps_index_and_windows_together(tmp_path: Path) -> None:
    shop = Shop(
        tmp_path,
        StoreEngine.ROCKSDB,
        timestamped=True,
        retention=TIME_ORDERED,
        transactional=False,
    )
    shop.put_all(" ".join(f"a{start}" for start in range(150)))
    found = [start for start, _ in shop.store.fetch("a", 60, 149)]
    assert found == list(range(60, 150))
    assert list(shop.store.fetch_all(149, 149)) == [
        (Windowed("a", Window(149, 159)), shop.value(1149))
    ]
    shop.store.close()


STEPS = st.lists(
    st.tuples(st.sampled_from(["fold", "fold", "fold", "delete"]), st.sampled_from("ab"))
    | st.tuples(st.sampled_from(["commit", "rollback", "reopen"]), st.just("")),
    max_size=40,
)


def play(shop: Shop, steps: Sequence[tuple[str, str]]) -> list[str]:
    """Take steps as an aggregation takes them; return what the store shows after each."""
    shown = []
    for number, (step, key) in enumerate(steps):
        start = number % 4 * 10
        if step == "fold":
            row_key = shop.store.row_key(key)
            held, _ = shop.store.fetch_row(row_key, start)
            shop.store.put_row(row_key, number, number, start, replaces=held is not None)
        elif step == "delete":
            shop.put(key, None, start)
        elif step == "commit":
            shop.commit(number)
        elif step == "rollback":
            shop.store.rollback()
        else:
            shop.reopen()
        by_key = [list(shop.store.fetch(key, 0, 40)) for key in "ab"]
        by_key += [list(shop.store.rows_latest_first(key.encode(), 0, 40)) for key in "ab"]
        shown.append(f"{step} {by_key} {sorted(shop.store.all())}")
    shop.store.close()
    return shown


@pytest.mark.parametrize("transactional", [True, False])
@settings(max_examples=40)
@given(steps=STEPS)
def test_values_that_are_replaced_are_found_as_in_a_store_in_order_of_keys(
    transactional: bool, steps: list[tuple[str, str]]
) -> None:
    with TemporaryDirectory() as directory:
        by_key, by_time = (
            Shop(
                Path(directory) / str(retention.time_ordered),
                StoreEngine.ROCKSDB,
                timestamped=True,
                retention=retention,
                transactional=transactional,
            )
            for retention in (RETENTION, TIME_ORDERED)
        )
        assert play(by_time, steps) == play(by_key, steps)


def test_a_value_that_is_replaced_costs_no_entry_of_the_index(shop: Shop) -> None:
    shop.put_all("a1")
    shop.commit()

    row_key = shop.store.row_key("a")
    shop.store.put_row(row_key, 7, 5, 1, replaces=True)

    assert shop.store._buffer.approximate_num_entries() == 3, "two of the engine, and the value"
    shop.commit()
    assert [start for start, _ in shop.store.fetch("a", 0, 9)] == [1]
