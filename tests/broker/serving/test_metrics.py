"""Metrics of a running application, as Prometheus scrapes them: they add up."""

from __future__ import annotations

import os
import signal
import socket
import urllib.error
import urllib.request
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pystreams import ConfigError, KafkaStreams, StreamsBuilder, Topology
from pystreams.broker import DevelopmentBroker
from pystreams.metrics.definitions import CLIENT_GROUP, STATE_GROUP, THREAD_GROUP
from pystreams.serdes import LONG, STRING
from tests.broker.application import Application
from tests.broker.conftest import CreateTopic
from tests.broker.programs import write_counts
from tests.broker.reading import produce
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.docs.blocks import ROOT, examples_of
from tests.ports import ports_in_a_row

RECORDS = 600
KEYS = 7
PARTITIONS = 2
ENTRY_BYTES = len("k0") + 8 + 8
"""Key, timestamp and count."""

Labels = frozenset[tuple[str, str]]


class Scrape:
    """What an endpoint said."""

    def __init__(self, port: int) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        self.types: dict[str, str] = {}
        self.samples: dict[tuple[str, Labels], float] = {}
        for family in text_string_to_metric_families(text):
            self.types[family.name] = family.type
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                assert key not in self.samples, f"{key} stands there twice"
                self.samples[key] = sample.value

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric over all samples with these labels, 0 without any."""
        return sum(
            value
            for (sample, its), value in self.samples.items()
            if sample == name and labels.items() <= dict(its).items()
        )


def counting(source: str, output: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(source, key_serde=STRING, value_serde=STRING)
    counts = stream.group_by_key().count(name="counts")
    counts.to_stream().to(output, key_serde=STRING, value_serde=LONG)
    return builder.build()


def write_input(broker: DevelopmentBroker, topic: str, *, value: bytes = b"v") -> None:
    records = [(b"k%d" % (number % KEYS), value) for number in range(RECORDS)]
    produce(
        broker.bootstrap_servers,
        topic,
        records,
        partition_of=lambda number: number % KEYS % PARTITIONS,
    )


def config_of(
    broker: DevelopmentBroker, application_id: str, directory: Path, **config: object
) -> dict[str, object]:
    own = {name.replace("_", "."): value for name, value in config.items()}
    return {
        "application.id": application_id,
        "bootstrap.servers": broker.bootstrap_servers,
        "state.dir": str(directory),
        "statestore.cache.max.bytes": 0,
        **own,
    }


def told_on_the_page(streams: KafkaStreams) -> dict[str, int]:
    """Return what the Python of docs/metrics.md prints: uncommitted bytes by task."""
    (block,) = examples_of(ROOT / "docs" / "metrics.md")
    with redirect_stdout(StringIO()) as printed:
        exec(block.text, {"streams": streams})
    words = [line.split() for line in printed.getvalue().splitlines()]
    return {task: int(value) for task, value in words}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_numbers_add_up_before_and_after_the_commit(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    source, output = create_topic("in", partitions=PARTITIONS), create_topic("out")
    write_input(broker, source)
    (port,) = ports_in_a_row(1)
    config = config_of(
        broker,
        unique_name,
        tmp_path,
        processing_guarantee=guarantee,
        commit_interval_ms=600_000,
        producer_transaction_timeout_ms=660_000,
        metrics_prometheus_port=port,
    )
    streams = KafkaStreams(counting(source, output), config)
    streams.start()
    try:

        def all_sent() -> bool:
            now = Scrape(port)
            sent = [
                now.total("pystreams_topic_records_produced_total", topic_name=topic)
                for topic in (output, f"{unique_name}-counts-changelog")
            ]
            return now.total("pystreams_thread_process_total") == RECORDS and set(sent) == {RECORDS}

        wait_until(lambda: streams.error or all_sent(), "all records processed, and what came sent")
        assert streams.error is None
        wait_until(lambda: streams.state.value == "RUNNING", "all tasks run")
        seen, told = Scrape(port), told_on_the_page(streams)
    finally:
        streams.close(DEADLINE_S)
    after = {(name.name, name.group): value for name, value in streams.metrics().items()}

    changelog = f"{unique_name}-counts-changelog"
    assert seen.total("pystreams_topic_records_consumed_total", topic_name=source) == RECORDS
    assert seen.total("pystreams_topic_records_produced_total", topic_name=output) == RECORDS
    assert seen.total("pystreams_topic_records_produced_total", topic_name=changelog) == RECORDS
    assert seen.total("pystreams_task_process_total") == RECORDS
    assert seen.total("pystreams_task_process_total", task_id="0_0") > 0
    assert seen.total("pystreams_task_dropped_records_total") == 0
    assert sorted(told) == ["0_0", "0_1"]
    assert sum(told.values()) == KEYS * ENTRY_BYTES
    assert seen.total("pystreams_state_uncommitted_bytes") == KEYS * ENTRY_BYTES
    assert seen.total("pystreams_thread_commit_total") == 0
    assert seen.total("pystreams_alive_stream_threads") == 1
    assert seen.total("pystreams_state_info", state="RUNNING") == 1
    assert seen.types["pystreams_task_process"] == "counter"
    assert seen.types["pystreams_state_uncommitted_bytes"] == "gauge"
    assert not any("_put_" in name for name, _ in seen.samples)
    assert after["process-total", THREAD_GROUP] == RECORDS
    assert after["commit-total", THREAD_GROUP] == 1
    assert after["state", CLIENT_GROUP] == "NOT_RUNNING"
    assert after["alive-stream-threads", CLIENT_GROUP] == 0
    with pytest.raises(urllib.error.URLError):
        Scrape(port)


def test_commits_and_operations_are_timed(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    source, output = create_topic("in", partitions=PARTITIONS), create_topic("out")
    write_input(broker, source)
    (port,) = ports_in_a_row(1)
    config = config_of(
        broker,
        unique_name,
        tmp_path,
        commit_interval_ms=50,
        metrics_prometheus_port=port,
        metrics_recording_level="DEBUG",
    )
    streams = KafkaStreams(counting(source, output), config)
    streams.start()
    try:

        def all_committed() -> bool:
            now = Scrape(port)
            processed = now.total("pystreams_thread_process_total")
            return processed == RECORDS and not now.total("pystreams_state_uncommitted_bytes")

        wait_until(lambda: streams.error or all_committed(), "all records committed")
        assert streams.error is None
        seen, read = Scrape(port), streams.metrics()
    finally:
        streams.close(DEADLINE_S)

    store = {"store_type": "rocksdb", "state_id": "counts"}
    stores = [
        labels
        for name, labels in seen.samples
        if name == "pystreams_state_commit_rate" and store.items() <= dict(labels).items()
    ]
    assert len(stores) == PARTITIONS
    for labels in stores:
        average = seen.samples["pystreams_state_commit_latency_avg_seconds", labels]
        highest = seen.samples["pystreams_state_commit_latency_max_seconds", labels]
        assert seen.samples["pystreams_state_commit_rate", labels] > 0
        assert 0 < average <= highest < DEADLINE_S
        assert seen.samples["pystreams_state_put_rate", labels] > 0
        assert 0 < seen.samples["pystreams_state_get_latency_avg_seconds", labels] < DEADLINE_S
    assert seen.total("pystreams_thread_commit_total") >= 1
    assert 0 < seen.total("pystreams_thread_commit_latency_max_seconds") < DEADLINE_S
    in_ns = [
        value
        for name, value in read.items()
        if (name.group, name.name) == (STATE_GROUP, "commit-latency-max")
    ]
    assert len(in_ns) == PARTITIONS
    assert all(1_000 < float(value) < DEADLINE_S * 1e9 for value in in_ns)


def test_a_port_in_use_stops_the_start_with_the_key_to_set(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    source, output = create_topic("in"), create_topic("out")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = config_of(broker, unique_name, tmp_path, metrics_prometheus_port=port)
        streams = KafkaStreams(counting(source, output), config)

        with pytest.raises(ConfigError, match=rf"127.0.0.1:{port}: the port is in use; set metr"):
            streams.start()

    assert streams.state.value == "CREATED"


def test_each_process_serves_its_own_metrics_and_how_often_it_was_killed(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    source, output = create_topic("in", partitions=PARTITIONS), create_topic("out")
    write_input(broker, source, value=(1).to_bytes(8, "big"))
    file = write_counts(tmp_path, source, output)
    ports = ports_in_a_row(2)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "commit.interval.ms": 100}
    with Application(unique_name, tmp_path, file, settings) as application:
        running = application.start("--processes", "2", "--metrics-port", str(ports[0]))

        def consumed() -> float:
            try:
                scrapes = [Scrape(port) for port in ports]
            except OSError:
                return 0
            return sum(
                scrape.total("pystreams_topic_records_consumed_total", topic_name=source)
                for scrape in scrapes
            )

        # A task that moves to the other process takes its count along; so it may be counted again.
        running.wait_until(lambda: consumed() > 0, "both processes serve, and one has records")
        identities = {client_id_of(Scrape(port)) for port in ports}
        assert [restarts(port) for port in ports] == [0, 0]
        [told] = running.lines("started")
        os.kill(told["pids"][1], signal.SIGKILL)
        running.wait_until(lambda: restarts(ports[1]) == 1, "the one that was killed says so")
        assert restarts(ports[0]) == 0
        running.stop()

    assert len(identities) == 2


def restarts(port: int) -> float | None:
    """Return how often the process that serves there was started again; None if none serves."""
    try:
        return Scrape(port).total("pystreams_process_restarts_total")
    except OSError:
        return None


def client_id_of(scrape: Scrape) -> str:
    return next(
        dict(labels)["client_id"]
        for name, labels in scrape.samples
        if name == "pystreams_client_state"
    )
