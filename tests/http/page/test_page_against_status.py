"""The page in Chromium, against the numbers that `/v1/status` tells, which move meanwhile."""

from __future__ import annotations

import re
import threading
from typing import Any

from pystreams import KafkaStreams, StateRestoreListener
from pystreams.http.page.quantities import count, duration, per_second, size
from pystreams.metrics.definitions import STATE_GROUP
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.http.asking import ask
from tests.http.page.chromium import Chromium
from tests.http.page.word_counting import (
    Application,
    TwoStores,
    processed_all,
    rows_of,
    value_of,
)

WORDS = 25_000
"""More than a restore reads at once."""
CARDS = (
    "Object.fromEntries([...document.querySelectorAll('#numbers .number')].map(card => "
    "[card.querySelector('h2').textContent, card.querySelector('.value').textContent]))"
)
EDGES = (
    "[...document.querySelectorAll('#topology figure')].map(figure => "
    "[...figure.querySelectorAll('svg .rate')].map(text => text.textContent))"
)
UP = "[...document.querySelectorAll('#head .facts div')].map(one => one.innerText.split('\\n'))"
RESTORE = re.compile(
    r"([\d,]+) changelog records restored, ([\d,]+) left at most · ([\d,.]+)/s · about (.+) left"
)


OF_A_STORE = re.compile(r"([\d,]+) records left · ([\d,.]+)/s · about (.+)")


class SteppingListener(StateRestoreListener):
    """Holds a restore after each batch, until it is let go on to the next.

    Args:
        holds_before: Whether it does so before a changelog's first batch, too.
    """

    def __init__(self, *, holds_before: bool = False) -> None:
        self._holds_before = holds_before
        self._steps = threading.Semaphore(0)
        self.is_held = threading.Event()

    def on_restore_start(self, *_: Any) -> None:
        if self._holds_before:
            self._hold()

    def on_batch_restored(self, *_: Any) -> None:
        self._hold()

    def _hold(self) -> None:
        self.is_held.set()
        assert self._steps.acquire(timeout=DEADLINE_S)

    def step(self) -> None:
        self.is_held.clear()
        self._steps.release()

    def open(self) -> None:
        self._steps.release(10 * WORDS)


def test_rates_of_cards_and_edges_and_the_time_it_is_up_are_those_of_the_status(
    application: Application, chromium: Chromium
) -> None:
    with application.served() as (_, url):
        chromium.open(url)
        chromium.wait_for_text("#head .state", "RUNNING")
        seen: list[Any] = []

        def they_agree() -> bool:
            application.write("calm", "sea")
            shown = (
                chromium.evaluate(CARDS),
                [set(rates) for rates in chromium.evaluate(EDGES)],
                dict(chromium.evaluate(UP))["Up"],
            )
            now = ask(url, "/v1/status").json()
            seen[:] = [shown, now["topics"], now["uptime_s"]]
            rates = {
                (row["direction"], row["topic"]): row["records_per_s"] for row in now["topics"]
            }
            come = rates.get(("in", application.words), 0)
            gone = rates.get(("out", application.counts), 0)
            if not (come and gone) or [part["subtopology"] for part in now["subtopologies"]] != [
                0,
                1,
            ]:
                return False
            cards, edges, up = shown
            flows = [
                {
                    per_second(rate)
                    for direction in ("in", "out")
                    for topic, rate in part[direction].items()
                    if not topic.endswith("-changelog")
                }
                for part in now["subtopologies"]
            ]
            return (cards["Records in"], cards["Records out"], edges, up) == (
                per_second(come),
                per_second(gone),
                flows,
                duration(now["uptime_s"]),
            )

        wait_until(they_agree, "the page and the status agree", told=lambda: str(seen))
        assert chromium.complaints == []


def test_what_a_store_has_on_disk_is_shown_once_it_was_flushed(
    application: Application, chromium: Chromium
) -> None:
    """A stop flushes it; after the next start nothing comes, so that all stands still."""
    application.write("calm", "sea", "boat")
    with application.served() as (streams, _):
        processed_all(streams, 6)
    with application.served() as (streams, url):
        processed_all(streams, 0)
        chromium.open(url)

        def shown() -> bool:
            on_disk = value_of(streams, "total-sst-files-size")
            (store,) = rows_of(chromium, "#stores")
            return on_disk > 0 and store[4] == size(on_disk)

        wait_until(shown, "what is on disk", told=lambda: chromium.text("#stores"))


def times_left(remaining: float, rate: float) -> set[str]:
    """Return how long it may take at a rate that is shown, from 10 on without its decimal."""
    rates = [rate + tenths / 10 for tenths in range(-5, 6)]
    return {duration(round(remaining / each, 1)) for each in rates if each > 0}


def left_in_stores(streams: KafkaStreams) -> dict[str, float]:
    """Return the records that each store lacks, by the metrics of stores."""
    left: dict[str, float] = {}
    for name, value in streams.metrics().items():
        if (name.name, name.group) == ("restore-remaining-records-total", STATE_GROUP):
            store = next(tag for key, tag in name.tags if key.endswith("state-id"))
            left[store] = left.get(store, 0) + float(value)
    return left


def test_between_two_batches_of_a_restore_its_rate_and_the_time_left_are_shown(
    application: Application, chromium: Chromium
) -> None:
    application.write(*(f"w{number}" for number in range(WORDS)))
    with application.served("first") as (streams, _):
        processed_all(streams, 2 * WORDS)
    listener = SteppingListener()
    with application.served("second", listener) as (streams, url):
        try:
            wait_until(listener.is_held.is_set, "a batch is restored")
            chromium.open(url)
            seen: dict[str, Any] = {}

            def time_left_is_shown() -> bool:
                """Return whether it is; go on by a batch once the page shows those before it."""
                seen["text"] = chromium.text("#restore p")
                if RESTORE.fullmatch(seen["text"]):
                    return True
                told = f"{count(streams.statistics().restored_records)} changelog records restored"
                if listener.is_held.is_set() and seen["text"].startswith(told):
                    listener.step()
                return False

            wait_until(time_left_is_shown, "the time left", told=lambda: str(seen))
            wait_until(listener.is_held.is_set, "the next batch is restored")
            found = RESTORE.fullmatch(seen["text"])
            assert found
            restored, remaining, rate = (
                float(part.replace(",", "")) for part in found.groups()[:3]
            )
            now = streams.statistics()
            assert (restored, remaining) == (now.restored_records, now.restore_remaining_records)
            assert 0 < restored < WORDS
            assert 0 < rate <= restored
            assert found[4] in times_left(remaining, rate)
        finally:
            listener.open()
        chromium.wait_for("document.querySelector('#restore').innerText === ''")
        chromium.wait_for_text("#head .state", "RUNNING")
        assert chromium.complaints == []


def test_of_each_store_its_own_rate_and_the_time_left_are_shown_between_two_batches(
    two_stores: TwoStores, chromium: Chromium
) -> None:
    two_stores.write(*(f"w{number}" for number in range(WORDS)))
    with two_stores.served("first") as (streams, _):
        processed_all(streams, two_stores.processed_of(WORDS))
    listener = SteppingListener(holds_before=True)
    with two_stores.served("second", listener) as (streams, url):
        try:
            wait_until(listener.is_held.is_set, "a restore begins")
            chromium.open(url)
            seen: dict[str, Any] = {}
            right: set[str] = set()

            def stores_shown() -> dict[str, str]:
                return {row[0]: row[7] for row in rows_of(chromium, "#stores")}

            def all_were_right() -> bool:
                """Return whether both had been; go on by a batch once the page shows the last."""
                if not listener.is_held.is_set():
                    return False
                left, shown = left_in_stores(streams), stores_shown()
                seen.update(shown=shown, left=left, right=right)
                told = {
                    store: f"{count(number)} records left · " if number else "no"
                    for store, number in left.items()
                }
                if all(shown[store].startswith(text) for store, text in told.items()):
                    for store, number in left.items():
                        found = OF_A_STORE.fullmatch(shown[store])
                        if found is not None:
                            rate = float(found[2].replace(",", ""))
                            assert 0 < rate <= WORDS
                            assert found[3] in times_left(number, rate), shown
                            right.add(store)
                    listener.step()
                return right == {"counts", "some"}

            wait_until(all_were_right, "the times left", told=lambda: str(seen))
        finally:
            listener.open()
        chromium.wait_for_text("#head .state", "RUNNING")
        chromium.wait_for("document.querySelector('#restore').innerText === ''")
        assert stores_shown() == {"counts": "no", "some": "no"}
        assert chromium.complaints == []
