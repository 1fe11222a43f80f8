"""The page in Chromium, beside a real broker: what it shows is what the application is."""

from __future__ import annotations

import re
import threading
from collections import Counter
from math import isnan
from typing import Any

from confluent_kafka import Consumer

from pystreams import (
    KafkaStreams,
    StateRestoreListener,
)
from pystreams.http.page.quantities import UNKNOWN, milliseconds
from pystreams.metrics import MetricName
from pystreams.metrics.definitions import STATE_GROUP, TASK_GROUP
from tests.broker.conftest import CreateTopic
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.http.page.chromium import Chromium
from tests.http.page.word_counting import Application, processed_all, rows_of, value_of

WORDS = ["calm", "sea", "calm", "boat", "calm"]
TEXTS_OF_EDGES = "[...document.querySelectorAll('svg .rate')].map(text => text.textContent)"


class HoldingListener(StateRestoreListener):
    """Holds a restore after its first batch, until it is let go."""

    def __init__(self) -> None:
        self.held, self.go_on = threading.Event(), threading.Event()

    def on_batch_restored(self, *_: Any) -> None:
        self.held.set()
        assert self.go_on.wait(DEADLINE_S)


def highest_of(streams: KafkaStreams, name: str) -> float:
    values = [value for key, value in streams.metrics().items() if key.name == name]
    return max(value for value in values if not isinstance(value, str) and not isnan(value))


def remaining_in(streams: KafkaStreams, group: str) -> float:
    """Return what is left to restore, by the metrics of tasks or of stores."""
    left = MetricName("restore-remaining-records-total", group, ())
    measured = streams.metrics().items()
    return sum(float(value) for name, value in measured if name._replace(tags=()) == left)


def tasks_of(streams: KafkaStreams) -> str:
    """Return what the page says that a process has."""
    threads = streams.metadata_for_local_threads()
    return ", ".join(sorted(str(task.task_id) for each in threads for task in each.active_tasks))


def number_of_edges(streams: KafkaStreams) -> int:
    parts = streams.topology.describe().subtopologies
    return sum(len(node.successors) for part in parts for node in part.nodes)


def shows_the_metrics(chromium: Chromium, streams: KafkaStreams) -> bool:
    """Return whether the page has the metrics as they are, and all words are committed."""
    p99_ms, entries = (
        value_of(streams, "commit-latency-p99"),
        value_of(streams, "estimate-num-keys"),
    )
    average, longest = (
        milliseconds(highest_of(streams, f"record-e2e-latency-{name}")) for name in ("avg", "max")
    )
    (store,) = rows_of(chromium, "#stores")
    return (
        entries >= len(set(WORDS))
        and f"{p99_ms:,.0f} ms" in chromium.text("#numbers")
        and f"{average}\n\non average; {longest} at most" in chromium.text("#numbers")
        and store[3] == f"up to {entries:,.0f}"
        and store[4] == "0 B"
    )


def test_while_running_all_elements_show_the_applications_numbers(
    application: Application, chromium: Chromium
) -> None:
    application.write(*WORDS)
    with application.served() as (streams, url):
        processed_all(streams, 2 * len(WORDS))
        chromium.open(url)
        chromium.wait_for_text("#numbers", f"{2 * len(WORDS)} processed")
        chromium.wait_for_text("#head .state", "RUNNING")
        head = chromium.text("#head")
        assert streams.config.application_id in head
        assert streams.config.processing_guarantee.value in head
        lag = chromium.text("#numbers .number:nth-child(3)").split("\n")
        assert [line for line in lag if line] == ["Lag", "0", "all that is there is processed"]
        assert "every 200 ms" in chromium.text("#numbers")
        shown = chromium.evaluate(
            "[...document.querySelectorAll('#tasks tbody tr')].map(row => "
            "[...row.cells].map(cell => cell.innerText).slice(0, 7))"
        )
        tasks = [
            task for thread in streams.metadata_for_local_threads() for task in thread.active_tasks
        ]
        assert sorted((row[0], row[1], row[2], row[3], row[5]) for row in shown) == sorted(
            (str(task.task_id), task.state.lower(), "0", UNKNOWN, str(task.processed_records))
            for task in tasks
        )
        for task in tasks:
            assert bool(task.progressed_ms) == bool(task.processed_records)
        for row in shown:
            assert row[6] == UNKNOWN if row[5] == "0" else row[6].endswith(("just now", " ago"))
        picture = chromium.text("#topology")
        assert picture.count("Sub-topology") == 2
        for part in (application.words, application.counts, "counts", "-repartition", "aggregate"):
            assert part in picture
        wait_until(
            lambda: shows_the_metrics(chromium, streams), "the page shows the metrics of now"
        )
        (store,) = rows_of(chromium, "#stores")
        assert (store[0], store[2]) == ("counts", "2")
        assert "metrics.recording.level=DEBUG" in chromium.text("#topology .hint")
        assert "lag 0" in picture
        # Here all follows from what is counted at topics.
        assert len(chromium.evaluate(TEXTS_OF_EDGES)) == number_of_edges(streams)
        assert "No warning and no error" in chromium.text("#lines")
        assert chromium.text("#restore") == ""
        # It is live: what comes now is seen without loading the page again.
        application.write("wind")
        chromium.wait_for_text("#numbers", f"{2 * len(WORDS) + 2} processed")
        chromium.evaluate(
            "document.querySelector('#ask input').value = 'calm';"
            "document.querySelector('#ask button').click()"
        )
        chromium.wait_for_text("#answer", '"value": 3')
        assert chromium.complaints == []


def test_at_debug_each_edge_has_its_rate_and_the_slowest_node_is_marked(
    application: Application, chromium: Chromium
) -> None:
    with application.served(level="DEBUG") as (streams, url):
        chromium.open(url)
        chromium.wait_for_text("#head .state", "RUNNING")
        written = 0

        def marked() -> bool:
            nonlocal written
            application.write(*WORDS)
            written += len(WORDS)
            return bool(chromium.evaluate("document.querySelectorAll('svg .slowest').length"))

        wait_until(marked, "the slowest node")
        parts = streams.topology.describe().subtopologies
        told = re.search(r"slowest: (\S+), \d+%", chromium.text("#topology figcaption .slow"))
        assert told
        assert told[1] in {node.name for part in parts for node in part.nodes}
        processed_all(streams, 2 * written)
        given: Counter[str] = Counter()
        for name, value in streams.metrics().items():
            if name.group == "stream-processor-node-metrics" and name.name == "process-total":
                assert isinstance(value, int)
                given[name.tag("processor-node-id") or ""] += value
        for part in parts:
            for node in part.nodes:
                # Behind the count there is its cache, which leaves some out.
                at_most = given[node.name] <= written
                assert at_most if part.id and node.kind == "sink" else given[node.name]
                assert part.id or given[node.name] == written
        chromium.wait_for(f"{TEXTS_OF_EDGES}.length === {number_of_edges(streams)}")
        assert chromium.text("#topology .hint") == ""


def test_the_processes_of_the_group_are_shown_with_their_tasks_and_who_differs(
    application: Application, chromium: Chromium, create_topic: CreateTopic
) -> None:
    with (
        application.served("first", server="127.0.0.1:7001") as (streams, url),
        application.served("second", server="127.0.0.1:7002") as (other, _),
    ):
        chromium.open(url)

        def both_are_shown() -> bool:
            rows = rows_of(chromium, "#processes")
            return [(row[1], row[4]) for row in rows] == [
                ("127.0.0.1:7001", tasks_of(streams)),
                ("127.0.0.1:7002", tasks_of(other)),
            ] and "(this one)" in rows[0][0]

        wait_until(both_are_shown, "both", told=lambda: chromium.text("#processes"))
        link = chromium.evaluate("document.querySelector('#processes a').href")
        assert link == "http://127.0.0.1:7002/"
        stranger = Consumer(
            {
                "bootstrap.servers": streams.config.bootstrap_servers,
                "group.id": streams.config.application_id,
                "client.id": "a-stranger",
                "partition.assignment.strategy": "range",
            }
        )
        elsewhere = create_topic("elsewhere", partitions=1)
        try:
            stranger.subscribe([elsewhere])

            def the_stranger_is_shown() -> bool:
                stranger.poll(0.1)
                return f"another topology: reads {elsewhere}" in chromium.text("#processes")

            wait_until(the_stranger_is_shown, "it", told=lambda: chromium.text("#processes"))
            assert "A process of the group runs another topology" in chromium.text("#processes")
            named = [row[0] for row in rows_of(chromium, "#processes") if "reads" in row[4]]
            assert named == ["a-stranger"]
        finally:
            stranger.close()
        wait_until(both_are_shown, "both again", told=lambda: chromium.text("#processes"))
    assert chromium.complaints == []


def test_while_restoring_it_shows_how_far_and_that_it_is_not_done(
    application: Application, chromium: Chromium
) -> None:
    application.write(*WORDS)
    with application.served("first") as (streams, _):
        processed_all(streams, 2 * len(WORDS))
    listener = HoldingListener()
    with application.served("second", listener) as (streams, url):
        try:
            wait_until(listener.held.is_set, "a batch is restored")
            chromium.open(url)
            restoring = streams.statistics()
            assert restoring.tasks_restoring > 0
            chromium.wait_for_text("#head .state", "REBALANCING, restoring")
            assert "Restoring" in chromium.text("#restore h2")
            assert f"{restoring.restore_remaining_records} left at most" in chromium.text(
                "#restore"
            )
            restored = restoring.restored_records
            assert f"{restored} changelog records restored, " in chromium.text("#restore")
            assert re.search(r" left at most · [\d,.]+/s", chromium.text("#restore"))
            assert "restoring" in chromium.text("#tasks")
            told = [
                re.match(r"(\d+) records left · ", row[7]) for row in rows_of(chromium, "#stores")
            ]
            left = sum(int(found[1]) for found in told if found is not None)
            assert left == remaining_in(streams, TASK_GROUP) == remaining_in(streams, STATE_GROUP)
        finally:
            listener.go_on.set()
        chromium.wait_for_text("#head .state", "RUNNING")
        chromium.wait_for("document.querySelector('#restore').innerText === ''")


def test_when_it_fails_it_shows_the_error_and_the_line_that_was_logged(
    application: Application, chromium: Chromium
) -> None:
    application.write(*WORDS)
    with application.served() as (streams, url):
        processed_all(streams, 2 * len(WORDS))
        chromium.open(url)
        chromium.wait_for_text("#head .state", "RUNNING")
        application.write("poison")
        chromium.wait_for_text("#head .state", "ERROR")
        assert streams.error is not None
        chromium.wait_for_text("#head .error", str(streams.error).splitlines()[0])
        chromium.wait_for_text("#lines .is-error", "this word can't be counted")
        assert f"{application.words}-" in chromium.text("#lines .is-error")
        assert f" offset {len(WORDS)}" in chromium.text("#lines .is-error")
        chromium.wait_for_text("#tasks", "No tasks: the application is ERROR.")
        # What it was is shown still.
        done = streams.statistics().processed_records
        assert done >= len(WORDS)
        chromium.wait_for_text("#numbers", f"{done} processed")
        assert chromium.evaluate("document.querySelectorAll('#numbers .number').length") == 6
        boxes = "document.querySelectorAll('#topology svg g').length"
        parts = streams.topology.describe().subtopologies
        assert chromium.evaluate(boxes) == sum(len(part.nodes) for part in parts)
        assert chromium.text("#topology").count("no task in this process") == len(parts)
        (store,) = rows_of(chromium, "#stores")
        assert (store[0], store[2]) == ("counts", "0")


def test_when_the_application_is_gone_an_open_page_says_so_and_what_was_last_known(
    application: Application, chromium: Chromium
) -> None:
    with application.served() as (streams, url):
        chromium.open(url)
        chromium.wait_for_text("#head .state", "RUNNING")
        application.write("poison")
        wait_until(lambda: streams.wait(1), "it has failed")
    # As `run` does, which ends then.
    assert streams.error is not None
    chromium.wait_for_text("#connection", "Connection lost: the application can't be reached.")
    assert re.search(r"since \d\d:\d\d:\d\dZ, \d+ s ago", chromium.text("#connection"))
    assert chromium.text("#head .state") == "ERROR"
    assert str(streams.error).splitlines()[0] in chromium.text("#head .error")
    assert chromium.evaluate("document.title").startswith("Not live · ")
    assert chromium.fits_a_phone()


def test_without_scripts_it_is_a_page_of_the_moment(
    application: Application, chromium: Chromium
) -> None:
    application.write(*WORDS)
    with application.served() as (streams, url):
        processed_all(streams, 2 * len(WORDS))
        chromium.without_scripts()
        chromium.open(url)
        assert "RUNNING" in chromium.text("#head .state")
        assert "Sub-topology 1" in chromium.text("#topology")


def test_with_a_token_it_asks_for_it_and_shows_nothing_before(
    application: Application, chromium: Chromium
) -> None:
    with application.served(token="open-sesame") as (streams, url):
        chromium.open(url)
        chromium.wait_for("document.querySelector('#token').checkVisibility()")
        assert streams.config.application_id not in chromium.evaluate("document.body.outerHTML")
        _give_token(chromium, "wrong")
        chromium.wait_for_text("#refused", "That is not the token.")
        _give_token(chromium, "open-sesame")
        chromium.wait_for_text("#head h1", streams.config.application_id)
        assert not chromium.evaluate("document.querySelector('#token').checkVisibility()")
        chromium.open(f"{url}/?again")
        chromium.wait_for_text("#head h1", streams.config.application_id)


def _give_token(chromium: Chromium, token: str) -> None:
    chromium.evaluate(
        f"document.querySelector('#token input').value = '{token}';"
        "document.querySelector('#token button').click()"
    )
