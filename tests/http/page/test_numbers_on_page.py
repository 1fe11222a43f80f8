"""The numbers of the page in Chromium, against the application's own, while records wait in it."""

from __future__ import annotations

import re
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pystreams.http.page.quantities import ago, count, milliseconds, moment, size
from tests.broker.conftest import CreateTopic
from tests.broker.waiting import wait_until
from tests.http.page.chromium import Chromium
from tests.http.page.gated import AGE_MS, WORDS, Gated

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker
    from pystreams.runtime.loop.reports.thread_metadata import TaskMetadata

LATE_MS = (0, 500, 1000, 1500, 2000)
"""How old what a page shows may be."""
FACTS = "[...document.querySelectorAll('#head .facts div')].map(one => one.innerText.split('\\n'))"
CARDS = (
    "[...document.querySelectorAll('#numbers .number')].map(card => "
    "card.innerText.split('\\n').filter(line => line))"
)
ROWS = (
    "[...document.querySelectorAll('{} tbody tr')].map(row => "
    "[...row.cells].map(cell => cell.innerText.trim()))"
)


@pytest.fixture
def gated(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> Gated:
    topics = create_topic("words"), create_topic("counts")
    return Gated(broker, unique_name, topics, tmp_path / "state")


def test_what_waits_and_how_far_the_task_has_come(gated: Gated, chromium: Chromium) -> None:
    streams = gated.streams
    gated.write()
    with gated.served() as url:
        chromium.open(url)
        chromium.wait_for_text("#head .state", "RUNNING")
        wait_until(gated.some_wait, "others wait")
        # From here on it stands still, in a record.
        facts = dict(chromium.evaluate(FACTS))
        assert facts["Version"] == version("pystreams-kafka")
        assert facts["Threads"] == "1"
        assert facts["Guarantee"] == streams.config.processing_guarantee.value
        up = facts["Up"]
        chromium.wait_for(f"Object.fromEntries({FACTS}).Up !== '{up}'")

        def is_of_now(row: list[str], task: TaskMetadata) -> bool:
            assert task.lag_ms is not None
            now_ms = round(time.time() * 1000)
            return (
                task.lag_ms >= AGE_MS
                and row[3] in {milliseconds(task.lag_ms - late_ms) for late_ms in LATE_MS}
                and row[6] in {ago(task.progressed_ms, now_ms - late_ms) for late_ms in LATE_MS}
            )

        def shown() -> bool:
            task = gated.task()
            (row,) = chromium.evaluate(ROWS.format("#tasks"))
            return [row[0], row[2], row[5], *row[7:]] == [
                str(task.task_id),
                count(task.lag_records),
                count(task.processed_records),
                moment(task.stream_time_ms),
                "StreamThread-1",
                f"{gated.words}-0",
            ] and is_of_now(row, task)

        wait_until(shown, "the task", told=lambda: f"{chromium.text('#tasks')} {gated.task()}")
        lag = streams.statistics().lag_records
        assert lag
        assert 0 < lag < WORDS
        cards = {card[0].lower(): card[1:] for card in chromium.evaluate(CARDS)}
        assert cards["lag"][0] == count(lag)
        assert " old; " in cards["lag"][1]
        at_source = chromium.evaluate("document.querySelector('#topology svg .lag').textContent")
        assert at_source == f"lag {lag}"
        assert f"lag {lag}" in chromium.text("#topology figcaption")
        gated.open()
        chromium.wait_for_text("#numbers", f"{WORDS} processed")
        assert chromium.complaints == []


def test_rates_and_what_is_not_committed(gated: Gated, chromium: Chromium) -> None:
    streams = gated.streams
    gated.open()
    with gated.served() as url:
        chromium.open(url)
        chromium.wait_for_text("#head .state", "RUNNING")
        gated.write()

        def cards() -> dict[str, list[str]]:
            return {card[0].lower(): card[1:] for card in chromium.evaluate(CARDS)}

        def rate_of(name: str) -> float:
            found = re.fullmatch(r"([\d,.]+)/s", cards()[name][0])
            return 0.0 if found is None else float(found[1].replace(",", ""))

        # All have come at once, and count for five seconds, or a look longer.
        wait_until(lambda: rate_of("records in") > 0, "records in", told=lambda: str(cards()))
        assert rate_of("records in") <= WORDS
        chromium.wait_for_text("#numbers", f"{WORDS} processed")
        wait_until(lambda: streams.statistics().processed_records == WORDS, "all are processed")
        held = gated.value("uncommitted-bytes")
        assert held > 0
        limit = streams.config.statestore_uncommitted_max_bytes

        def uncommitted_is_shown() -> bool:
            (store,) = chromium.evaluate(ROWS.format("#stores"))
            shown = cards()["uncommitted"][:2]
            return shown == [size(held), f"of {size(limit)}"] and store[5] == size(held)

        wait_until(
            uncommitted_is_shown, "what is not committed", told=lambda: chromium.text("#stores")
        )
        wait_until(lambda: rate_of("records in") == 0, "nothing comes any more")
        assert cards()["commit, p99"][1].startswith("every 600,000 ms; ")
        assert chromium.complaints == []
