"""The bounds of a history in Kafka; what Spark reads of it is in tests/broker/backfill."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from structlog.testing import capture_logs

from pystreams import (
    ConfigError,
    MissingSourceTopicError,
    StreamsBuilder,
    StreamsConfig,
    TopicPartition,
)
from pystreams.backfill import HistoryError, KafkaBound, KafkaPartitionReader, KafkaSource
from pystreams.backfill.broker_waiting import Waiting
from pystreams.backfill.execution import backfill as running
from pystreams.backfill.plan.identity import BackfillIdentity
from pystreams.backfill.plan.partition_bounds import PartitionBounds
from pystreams.backfill.sources.history import WantedTopics
from pystreams.backfill.spark.connector_jars import CONNECTOR_VERSION, with_connector
from pystreams.serdes import STRING
from pystreams.testing.simulation import (
    NO_FAULTS,
    Faults,
    Lifeline,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
)
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.sources.covered import TEXT

ROOT = Path(__file__).parents[3]
PARTITION = TopicPartition("in", 0)
WANTED = WantedTopics(("in",), ())


@pytest.fixture
def broker() -> SimulatedBroker:
    """A topic of offsets 3 to 10, times 30 to 90, and an open transaction behind them."""
    made = SimulatedBroker(ManualClock(), Faults(0))
    made.create_topic("in", 1)
    made.create_topic("elsewhere", 4)
    for number in range(10):
        made.produce("in", b"k", b"v", number * 10)
    made.log(PARTITION).delete_before(3)
    epoch = made.transactions.init("open")
    made.append("in", 0, [(b"k", b"v", 200, ())], ("open", epoch))
    return made


def source_of(broker: SimulatedBroker, **chosen: Any) -> KafkaSource:
    admin = SimulatedClients(broker, Lifeline("backfill", broker.faults)).admin()
    return KafkaSource("none:9092", admin, **chosen)


def bounds(broker: SimulatedBroker, wanted: WantedTopics = WANTED, **chosen: Any) -> Any:
    return source_of(broker, **chosen).bounds(wanted)[1]


def test_default_is_from_the_first_offset_to_the_last_stable_one(broker: SimulatedBroker) -> None:
    assert bounds(broker) == {PARTITION: PartitionBounds(3, 10, 7)}


def test_offsets_and_times_bound_it(broker: SimulatedBroker) -> None:
    by_offset = bounds(broker, start=KafkaBound({PARTITION: 4}), end=KafkaBound({PARTITION: 8}))
    by_time = bounds(broker, start=KafkaBound({}, {"in": 41}), end=KafkaBound({}, {"in": 80}))

    assert by_offset == {PARTITION: PartitionBounds(4, 8, 4)}
    assert by_time == {PARTITION: PartitionBounds(5, 8, 3)}


def test_time_behind_all_records_is_the_end(broker: SimulatedBroker) -> None:
    assert bounds(broker, start=KafkaBound({}, {"in": 10_000})) == {
        PARTITION: PartitionBounds(10, 10, 0)
    }
    assert bounds(broker, end=KafkaBound({}, {"in": 10_000})) == {
        PARTITION: PartitionBounds(3, 10, 7)
    }


def test_patterns_choose_among_the_topics_there_are(broker: SimulatedBroker) -> None:
    found = bounds(broker, WantedTopics((), (re.compile("else.*"),)))

    assert list(found) == [TopicPartition("elsewhere", number) for number in range(4)]


def test_brokers_that_do_not_answer_at_once_are_asked_again(broker: SimulatedBroker) -> None:
    """As the leader does that has yet to learn of its topic."""

    def learn(_: float) -> None:
        broker.faults.rates = NO_FAULTS

    broker.faults.rates = replace(NO_FAULTS, no_answer=1.0)

    assert bounds(broker, waiting=Waiting(pause=learn)) == {PARTITION: PartitionBounds(3, 10, 7)}


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"start": KafkaBound({PARTITION: 2})}, "holds 3 to 10"),
        ({"end": KafkaBound({PARTITION: 11})}, "3 to 10 to choose from"),
        ({"start": KafkaBound({PARTITION: 8}), "end": KafkaBound({PARTITION: 5})}, "8 to 10"),
        ({"start": KafkaBound({TopicPartition("in", 1): 0})}, "start of in-1 is given"),
        ({"end": KafkaBound({}, {"inn": 0})}, "end of topic 'inn' is given"),
    ],
)
def test_bound_that_is_not_in_its_partition_is_refused(
    broker: SimulatedBroker, chosen: dict[str, KafkaBound], told: str
) -> None:
    with pytest.raises(HistoryError, match=told):
        bounds(broker, WANTED, **chosen)


def test_times_behind_an_open_transaction_are_the_last_stable_offset(
    broker: SimulatedBroker,
) -> None:
    for _ in range(3):
        broker.produce("in", b"k", b"v", 500)

    assert bounds(broker, end=KafkaBound({}, {"in": 400})) == {PARTITION: PartitionBounds(3, 10, 7)}
    assert bounds(broker, start=KafkaBound({}, {"in": 400})) == {
        PARTITION: PartitionBounds(10, 10, 0)
    }


BEGUN = WantedTopics(("in",), (), {PARTITION: PartitionBounds(4, 9, 5)})


def test_backfill_that_was_begun_keeps_its_bounds_whatever_has_come_and_gone(
    broker: SimulatedBroker,
) -> None:
    log = broker.log(PARTITION)
    broker.transactions.end("open", 0, commit=True)
    broker.transactions.complete_all()
    log.delete_before(6)

    assert bounds(broker, BEGUN) == {PARTITION: PartitionBounds(4, 9, 5)}
    same = {"start": KafkaBound({PARTITION: 4}), "end": KafkaBound({PARTITION: 9})}
    assert bounds(broker, BEGUN, **same) == {PARTITION: PartitionBounds(4, 9, 5)}


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"start": KafkaBound({PARTITION: 5})}, "in-0 is to begin at offset 5.*begun with 4"),
        ({"end": KafkaBound({PARTITION: 8})}, "in-0 is to end at offset 8.*begun with 9"),
    ],
)
def test_offsets_that_a_backfill_was_not_begun_with_are_refused(
    broker: SimulatedBroker, chosen: dict[str, KafkaBound], told: str
) -> None:
    with pytest.raises(HistoryError, match=told):
        bounds(broker, BEGUN, **chosen)


def test_topic_that_was_made_anew_since_the_backfill_was_begun_is_refused(
    broker: SimulatedBroker,
) -> None:
    begun = WantedTopics(("in",), (), {PARTITION: PartitionBounds(0, 500, 500)})

    with pytest.raises(HistoryError, match=r"went up to offset 500.*ends at 10"):
        bounds(broker, begun)


# ---------------------------------------------------------------------- patterns

LATER = "log-later"


def by_pattern() -> TopologyPlan:
    builder = StreamsBuilder()
    builder.stream(pattern="log-.*", **TEXT).group_by(
        lambda _, value: value, name="by-value", **TEXT
    ).count(name="counts").to_stream().to("counted")
    return TopologyPlan(builder.build(), "app")


def identity_now(source: KafkaSource, begun: BackfillIdentity | None) -> BackfillIdentity:
    """What a backfill is of that is started now."""
    counts, found = source.bounds(WantedTopics.of(by_pattern(), begun))
    partitions = plan_partitions(by_pattern(), counts)
    return BackfillIdentity.of(by_pattern(), partitions.num_partitions, partitions.num_tasks, found)


def test_topics_that_a_pattern_matches_later_are_left_to_the_live_application(
    broker: SimulatedBroker,
) -> None:
    broker.create_topic("log-a", 2)
    source = source_of(broker)
    begun = identity_now(source, None)
    broker.create_topic(LATER, 8)
    broker.produce(LATER, b"k", b"v", 7)

    with capture_logs() as logs:
        resumed = identity_now(source, begun)
    fresh = identity_now(source, None)

    assert resumed == begun
    assert [(line["topics"], line["log_level"]) for line in logs] == [([LATER], "warning")]
    assert "left to the live application" in logs[0]["event"]
    assert f"{LATER}-7" in fresh.bounds


def test_bound_of_a_topic_that_came_later_is_refused(broker: SimulatedBroker) -> None:
    broker.create_topic("log-a", 2)
    begun = identity_now(source_of(broker), None)
    broker.create_topic(LATER, 8)

    with pytest.raises(HistoryError, match=r"log-later.* which the backfill does not read"):
        identity_now(source_of(broker, end=KafkaBound({}, {LATER: 0})), begun)


def test_changelog_that_a_pattern_matches_later_is_left_out(broker: SimulatedBroker) -> None:
    """It is created when results are published."""
    builder = StreamsBuilder()
    builder.stream(pattern="log-.*", **TEXT).group_by_key().count(name="counts")
    plan = TopologyPlan(builder.build(), "log-app")
    broker.create_topic("log-a", 2)
    source = source_of(broker)
    counts, found = source.bounds(WantedTopics.of(plan, None))
    partitions = plan_partitions(plan, counts)
    begun = BackfillIdentity.of(plan, partitions.num_partitions, partitions.num_tasks, found)
    broker.create_topic(plan.changelog_topic("counts"), 2)

    assert source.bounds(WantedTopics.of(plan, begun))[1] == found


def test_topics_that_were_there_or_have_a_name_never_come_later() -> None:
    builder = StreamsBuilder()
    builder.stream("in", **TEXT).to("out")
    builder.stream(pattern="log-.*", **TEXT).to("far")
    plan = TopologyPlan(builder.build(), "app")
    held = {TopicPartition("log-a", 0): PartitionBounds(0, 3, 3)}
    # As an archive has it: the topic without records has a count, and no bounds.
    begun = BackfillIdentity.of(plan, {"log-a": 1, "log-empty": 1}, {0: 1, 1: 1}, held)
    there = ["in", "log-a", "log-empty", LATER, "elsewhere"]

    assert WantedTopics.of(plan, begun).came_later(there) == {LATER}
    assert WantedTopics.of(plan, None).came_later(there) == frozenset()


def test_connector_is_not_needed_for_topics_that_came_later(broker: SimulatedBroker) -> None:
    config = StreamsConfig.of({"application.id": "app", "bootstrap.servers": "none:9092"})
    builder = StreamsBuilder()
    builder.stream("in", **TEXT).to(LATER)
    builder.stream(pattern="log-.*", **TEXT).to("far")
    plan = TopologyPlan(builder.build(), "app")
    begun = BackfillIdentity.of(
        plan, {"in": 1}, {0: 1, 1: 1}, {PARTITION: PartitionBounds(3, 9, 6)}
    )
    broker.create_topic(LATER, 1)

    source = source_of(broker, reader=KafkaPartitionReader(config))

    assert source.needs_connector(plan, WantedTopics.of(plan, None))
    assert not source.needs_connector(plan, WantedTopics.of(plan, begun))


# ---------------------------------------------------------------------- Spark's connector

READER = KafkaPartitionReader(
    StreamsConfig.of({"application.id": "app", "bootstrap.servers": "none:9092"})
)


def passing_on(*, is_merged: bool) -> TopologyPlan:
    """Two streams; merged, the one writes behind the history of what the other reads."""
    builder = StreamsBuilder()
    builder.stream("in", key_serde=STRING, value_serde=STRING).to(
        "elsewhere" if is_merged else "out"
    )
    builder.stream("elsewhere", key_serde=STRING, value_serde=STRING).to("far")
    return TopologyPlan(builder.build(), "app")


@pytest.mark.parametrize(("has_reader", "is_merged"), [(True, False), (True, True), (False, False)])
def test_connector_of_spark_s_is_needed_where_workers_can_t_read_all(
    broker: SimulatedBroker, has_reader: bool, is_merged: bool
) -> None:
    source = source_of(broker, reader=READER if has_reader else None)

    needed = source.needs_connector(passing_on(is_merged=is_merged), WANTED)
    assert needed == (is_merged or not has_reader)


OPTION = {"minPartitions": "8"}


@pytest.mark.parametrize(("has_reader", "is_merged"), [(True, True), (False, False)])
def test_options_are_taken_where_a_stage_needs_the_connector(
    broker: SimulatedBroker, has_reader: bool, is_merged: bool
) -> None:
    source = source_of(broker, reader=READER if has_reader else None, options=OPTION)

    source.needs_connector(passing_on(is_merged=is_merged), WANTED)


def test_options_that_nothing_would_take_are_refused_with_where_they_belong(
    broker: SimulatedBroker,
) -> None:
    source = source_of(broker, reader=READER, options=OPTION)
    told = "'minPartitions' is for Spark's Kafka connector.*no stage.*Leave the option out"

    with pytest.raises(HistoryError, match=told):
        source.needs_connector(passing_on(is_merged=False), WANTED)
    source_of(broker, reader=READER).needs_connector(passing_on(is_merged=False), WANTED)


def test_option_that_the_backfill_sets_is_refused_before_spark_starts(
    broker: SimulatedBroker,
) -> None:
    source = source_of(broker, reader=READER, options={"startingOffsets": "latest"})

    with pytest.raises(HistoryError, match="'startingOffsets' is set by the backfill itself"):
        source.needs_connector(passing_on(is_merged=True), WANTED)


def test_backfill_with_idle_options_is_refused_before_spark_starts(
    broker: SimulatedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setattr(running, "spark_session", None)
    source = source_of(broker, reader=READER, options=OPTION)
    config = {"application.id": "app"}

    with pytest.raises(HistoryError, match="'minPartitions' is for Spark's Kafka connector"):
        running.run(passing_on(is_merged=False).topology, config, source=source, output=tmp_path)


def test_missing_topic_is_named(broker: SimulatedBroker) -> None:
    with pytest.raises(MissingSourceTopicError, match="'nowhere'"):
        bounds(broker, WantedTopics(("nowhere",), ()))


def test_connector_of_one_s_own_is_left_alone() -> None:
    own = {"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.0"}

    assert with_connector(own) == own


def test_pinned_connector_is_refused_for_another_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark, "__version__", "4.1.2")

    with pytest.raises(ConfigError, match=rf"is Spark {CONNECTOR_VERSION}'s.*_2.13:4.1.2"):
        with_connector({})


def test_the_extra_installs_a_spark_that_the_connector_runs_on() -> None:
    """Of its minor version: with another one `with_connector` refuses to begin."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = map(Requirement, project["optional-dependencies"]["spark"])
    (pyspark,) = (each.specifier for each in requirements if each.name == "pyspark")
    major, minor, _ = map(int, CONNECTOR_VERSION.split("."))

    assert CONNECTOR_VERSION in pyspark
    assert f"{major}.{minor}.999" in pyspark
    assert f"{major}.{minor + 1}.0" not in pyspark
    locked = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]
    assert [each["version"] for each in locked if each["name"] == "pyspark"] == [CONNECTOR_VERSION]
