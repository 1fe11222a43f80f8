"""Names: Kafka's, each once, and those of Prometheus that follow from them."""

from __future__ import annotations

import re

import pytest

from pystreams import MetricName
from pystreams.metrics import DEFINITIONS, MetricDefinition, RecordingLevel
from pystreams.metrics.definitions import (
    GROUP_TAGS,
    OPERATIONS,
    STATE_GROUP,
    TASK_GROUP,
    THREAD_GROUP,
    Kind,
    Unit,
    definition_of,
)
from pystreams.metrics.prometheus_names import (
    prometheus_labels,
    prometheus_name,
    prometheus_value,
)

KIP_892 = {"uncommitted-bytes", "commit-rate", "commit-latency-avg", "commit-latency-max"}
OF_ROCKSDB = {"estimate-num-keys", "total-sst-files-size"}
"""KIP-607."""


def definition(group: str, name: str) -> MetricDefinition:
    return definition_of(MetricName(name, group, ()))


def test_each_metric_is_defined_once() -> None:
    names = [(metric.group, metric.name) for metric in DEFINITIONS]

    assert len(set(names)) == len(names)
    assert {group for group, _ in names} == set(GROUP_TAGS)


OF_RESTORES = {
    "restored-records-total",
    "restored-records-rate",
    "restore-remaining-records-total",
}
"""Kafka has them of tasks only."""


def test_the_metrics_of_kip_892_are_there_at_info() -> None:
    at_info = {
        metric.name
        for metric in DEFINITIONS
        if metric.group == STATE_GROUP and metric.level is RecordingLevel.INFO
    }

    assert at_info == KIP_892 | OF_ROCKSDB | OF_RESTORES


def test_operations_of_stores_are_there_at_debug() -> None:
    for operation in OPERATIONS:
        for end in ("rate", "latency-avg", "latency-max"):
            assert definition(STATE_GROUP, f"{operation}-{end}").level is RecordingLevel.DEBUG


def test_texts_keep_the_capitals_of_names() -> None:
    assert (
        definition(STATE_GROUP, "put-if-absent-rate").doc == "Calls of put-if-absent, per second."
    )
    assert definition(STATE_GROUP, "restore-rate").doc == (
        "Batches restored (Kafka: openings of the store), per second."
    )
    assert [metric.name for metric in DEFINITIONS if re.search(r"\bkafka\b", metric.doc)] == []


def test_no_two_metrics_have_one_name_in_prometheus() -> None:
    names = [prometheus_name(metric) for metric in DEFINITIONS]

    assert len(set(names)) == len(names)
    assert all(re.fullmatch("pystreams(_[a-z0-9]+)+", name) for name in names)


@pytest.mark.parametrize(
    ("group", "name", "expected"),
    [
        ("stream-metrics", "alive-stream-threads", "pystreams_alive_stream_threads"),
        ("stream-metrics", "state", "pystreams_state_info"),
        ("stream-metrics", "block-cache-usage", "pystreams_block_cache_usage_bytes"),
        (THREAD_GROUP, "commit-latency-max", "pystreams_thread_commit_latency_max_seconds"),
        (TASK_GROUP, "dropped-records-total", "pystreams_task_dropped_records_total"),
        (TASK_GROUP, "cache-size-bytes-total", "pystreams_task_cache_size_bytes"),
        (TASK_GROUP, "restore-remaining-records-total", "pystreams_task_restore_remaining_records"),
        (STATE_GROUP, "uncommitted-bytes", "pystreams_state_uncommitted_bytes"),
        (STATE_GROUP, "commit-latency-avg", "pystreams_state_commit_latency_avg_seconds"),
        (STATE_GROUP, "put-if-absent-rate", "pystreams_state_put_if_absent_rate"),
    ],
)
def test_names_in_prometheus(group: str, name: str, expected: str) -> None:
    assert prometheus_name(definition(group, name)) == expected


def test_total_ends_the_names_of_counters_and_no_others() -> None:
    for metric in DEFINITIONS:
        assert prometheus_name(metric).endswith("_total") == (metric.kind is Kind.COUNTER), metric


def test_times_are_in_seconds() -> None:
    in_ms = definition(THREAD_GROUP, "commit-latency-avg")
    in_ns = definition(STATE_GROUP, "commit-latency-avg")

    assert (in_ms.unit, in_ns.unit) == (Unit.MILLISECONDS, Unit.NANOSECONDS)
    assert prometheus_value(in_ms, 1.5) == pytest.approx(0.0015)
    assert prometheus_value(in_ns, 1_500_000) == pytest.approx(0.0015)


def test_bytes_and_counts_stay_as_they_are() -> None:
    assert prometheus_value(definition(STATE_GROUP, "uncommitted-bytes"), 7) == 7
    assert prometheus_value(definition(TASK_GROUP, "process-total"), 7) == 7


def test_the_tag_of_a_store_becomes_two_labels() -> None:
    tags = (("thread-id", "t"), ("task-id", "0_1"), ("rocksdb-window-state-id", "counts"))

    assert prometheus_labels(MetricName("commit-rate", STATE_GROUP, tags)) == {
        "thread_id": "t",
        "task_id": "0_1",
        "store_type": "rocksdb-window",
        "state_id": "counts",
    }


def test_a_tag_is_found_by_name() -> None:
    name = MetricName("process-total", TASK_GROUP, (("thread-id", "t"), ("task-id", "0_1")))

    assert name.tag("task-id") == "0_1"
    assert name.tag("topic-name") is None
