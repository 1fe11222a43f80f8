"""Changelogs are told to keep what is as old as the history; what would be lost is said."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import (
    FatalStreamsError,
    Materialized,
    Processor,
    ProcessorContext,
    Record,
    Stores,
    StreamsBuilder,
    Topology,
)
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.cli.display.backfill_results import show_age
from pystreams.serdes import STRING
from pystreams.testing.simulation import Faults, ManualClock, SimulatedBroker
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.in_process import Row, run
from tests.backfill.publishing.publications import publication_of
from tests.backfill.publishing.test_publishing import Arena

DAY_MS = 86_400_000
RETENTION_MS = 20 * DAY_MS
END_MS = 1_600_000_000_000
VISITS, PRICES, NAMES = (f"app-{store}-changelog" for store in ("visits", "prices", "names"))
COUNTS = {"left": 2, "table": 2, "people": 2, "out": 2}
TYPES: Any = {"key_serde": STRING, "value_serde": STRING}


class Visiting(Processor[str, str, str, str]):
    """Keeps what came on each day, and passes it on."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        self._context = context
        self._store: Any = context.get_state_store("visits")

    def process(self, record: Record[str, str]) -> None:
        self._store.put(record.key, record.value, record.timestamp)
        self._context.forward(record)


def topology() -> Topology:
    """A window store, a versioned one and a table of the latest."""
    builder = StreamsBuilder()
    windows = Stores.persistent_window_store("visits", RETENTION_MS, DAY_MS)
    builder.add_state_store(Stores.window_store_builder(windows, STRING, STRING))
    visits = builder.stream("left", **TYPES).process(Visiting, stores=["visits"])
    visits.to("out", **TYPES)
    prices: Materialized[str, str] = Materialized(name="prices", history_retention_ms=RETENTION_MS)
    builder.table("table", **TYPES, materialized=prices)
    builder.table("people", **TYPES, materialized=Materialized(name="names"))
    return builder.build()


def scene(directory: Path, *, now_ms: int, gap_ms: int = 0) -> Arena:
    """A history whose partition 1 ended at `END_MS`, and partition 0 before by the gap.

    It is somewhat shorter than what the stores keep.
    """
    broker = SimulatedBroker(ManualClock(now_ms), Faults(0))
    rows = []
    for topic in ("left", "table", "people"):
        broker.create_topic(topic, 2)
        for partition, end_ms in enumerate((END_MS - gap_ms, END_MS)):
            for number, days_before in enumerate((19, 10, 0)):
                time_ms, key = end_ms - days_before * DAY_MS, b"key of %d" % partition
                rows.append(Row(topic, partition, number, time_ms, key, b"%d" % number))
                broker.append(topic, partition, [(key, b"%d" % number, time_ms, ())])
    broker.create_topic("out", 2)
    plan = TopologyPlan(topology(), "app")
    config = {"application.id": "app", "statestore.cache.max.bytes": 0}
    results = run(plan.topology, config, rows, COUNTS, directory)
    return Arena(broker, plan, results, publication_of(plan, results, COUNTS))


def test_limits_are_counted_from_the_least_stream_time_of_the_partitions(tmp_path: Path) -> None:
    arena = scene(tmp_path, now_ms=END_MS + 1000 * DAY_MS, gap_ms=DAY_MS)

    with capture_logs() as logs:
        arena.publish()

    settings = arena.broker.topic_settings
    assert settings[VISITS]["retention.ms"] == str(RETENTION_MS + 1002 * DAY_MS)
    assert settings[PRICES]["min.compaction.lag.ms"] == str(RETENTION_MS + DAY_MS + 1002 * DAY_MS)
    told = {
        line["topic"]: line for line in logs if line["event"].startswith("changelog keeps longer")
    }
    assert told.keys() == {VISITS, PRICES}
    assert (told[VISITS]["records"], told[VISITS]["would_be_past"]) == (6, 6)
    assert told[VISITS]["before"] == {"retention.ms": str(RETENTION_MS)}
    assert told[PRICES]["oldest"] == "2020-08-24T12:26:40+00:00"
    assert told[PRICES]["stream_time"] == "2020-09-12T12:26:40+00:00"


def test_a_history_up_to_now_leaves_settings_as_they_are_made(tmp_path: Path) -> None:
    arena = scene(tmp_path, now_ms=END_MS + 60_000)

    arena.publish()

    settings = arena.broker.topic_settings
    assert settings[VISITS]["retention.ms"] == str(RETENTION_MS)
    assert settings[PRICES]["min.compaction.lag.ms"] == str(RETENTION_MS + DAY_MS)


def test_latest_values_are_kept_where_a_topic_also_deletes_by_age(tmp_path: Path) -> None:
    arena = scene(tmp_path, now_ms=END_MS, gap_ms=300 * DAY_MS)
    arena.broker.create_topic(NAMES, 2, {"cleanup.policy": "compact,delete"})

    arena.publish()

    assert int(arena.broker.topic_settings[NAMES]["retention.ms"]) > 300 * DAY_MS


def test_a_changelog_that_is_not_compacted_is_refused_and_nothing_published(
    tmp_path: Path,
) -> None:
    """As one that a broker has made when it was mentioned."""
    arena = scene(tmp_path, now_ms=END_MS)
    arena.broker.create_topic(NAMES, 2, {"cleanup.policy": "delete"})

    with pytest.raises(FatalStreamsError, match=f"{NAMES}.*cleanup.policy=delete"):
        arena.publish()

    assert not arena.broker.group.offsets


def test_topics_that_keep_all_or_longer_are_left_alone(tmp_path: Path) -> None:
    arena = scene(tmp_path, now_ms=END_MS + 1000 * DAY_MS)
    own = {VISITS: {"retention.ms": "-1"}, PRICES: {"min.compaction.lag.ms": str(10**12)}}
    arena.broker.create_topic(VISITS, 2, {"cleanup.policy": "compact,delete", **own[VISITS]})
    arena.broker.create_topic(PRICES, 2, {"cleanup.policy": "compact", **own[PRICES]})

    arena.publish()

    for topic, settings in own.items():
        assert arena.broker.topic_settings[topic].items() >= settings.items()


def test_a_publication_that_goes_on_much_later_moves_them_again(tmp_path: Path) -> None:
    arena = scene(tmp_path, now_ms=END_MS + 1000 * DAY_MS)
    assert not arena.publish_until_crash(60)
    assert arena.broker.group.offsets, "it was claimed"

    arena.broker.clock.advance_ms(10 * DAY_MS)
    arena.publish()

    kept_ms = int(arena.broker.topic_settings[VISITS]["retention.ms"])
    assert kept_ms >= RETENTION_MS + 1010 * DAY_MS


def test_settings_that_may_not_be_changed_refuse_it_and_say_what_to_set(tmp_path: Path) -> None:
    arena = scene(tmp_path, now_ms=END_MS + 1000 * DAY_MS)
    denied = FatalStreamsError("Topic authorization failed")
    arena.broker.faults.fail_next("change_topic_settings", denied)

    with pytest.raises(
        PublishingRefusedError, match="6 of 6 records are past its limits"
    ) as raised:
        arena.publish()

    assert not arena.broker.group.offsets, "nothing is claimed"
    told = re.search(r"--entity-name (\S+) --add-config (\S+)=(\d+)\)", str(raised.value))
    assert told is not None
    topic, name, value = told.groups()
    arena.broker.topic_settings[topic][name] = value
    # Time goes on, and no other setting of it is changed; of other topics they may be.
    arena.broker.clock.advance_ms(DAY_MS // 2)
    arena.publish()
    assert arena.broker.topic_settings[topic][name] == value


def test_output_records_older_than_their_topic_keeps_them_are_told(tmp_path: Path) -> None:
    arena = scene(tmp_path, now_ms=END_MS + DAY_MS)

    with capture_logs() as logs:
        arena.publish(with_outputs=True)

    (told,) = (line for line in logs if line["event"].startswith("output records are older"))
    assert (told["topic"], told["records"], told["retention_ms"]) == ("out", 4, 7 * DAY_MS)
    assert arena.broker.topic_settings["out"]["retention.ms"] == str(7 * DAY_MS)


def test_a_plan_says_which_limits_would_be_moved(capsys: pytest.CaptureFixture[str]) -> None:
    plan, now_ms = TopologyPlan(topology(), "app"), END_MS + 36 * DAY_MS // 24

    show_age(plan, lambda: END_MS, ManualClock(now_ms))

    assert capsys.readouterr().out == (
        "The history goes up to about 2020-09-13T12:26:40+00:00, 1.5 days ago, and brokers count "
        "from now what they keep. Published records would be past it: publishing adds that to "
        "app-prices-changelog min.compaction.lag.ms, app-visits-changelog retention.ms\n"
    )
    show_age(plan, lambda: END_MS, ManualClock(END_MS + 60_000))
    assert not capsys.readouterr().out
