"""`/livez`, `/readyz` and `/v1/status` through an application's life."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from pystreams import KafkaStreams, StreamsBuilder, Topology
from pystreams.broker import DevelopmentBroker
from pystreams.http.snapshot import Snapshots
from pystreams.serdes import STRING
from tests.broker.waiting import wait_until
from tests.http.conftest import Served, Topics, served

FAILS = "fails"
UNREADY: dict[str, Any] = {"ready": False, "why": "CREATED", "troubles": []}
READY: dict[str, Any] = {"ready": True, "why": "", "troubles": []}


def counting(topic: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(topic, key_serde=STRING, value_serde=STRING)
    stream.map_values(_checked).group_by_key().count(name="counts")
    return builder.build()


def _checked(value: str) -> str:
    if value == FAILS:
        raise ValueError("a value that nobody expected")
    return value


def health(application: Served) -> tuple[int, int]:
    """Return the statuses of `/livez` and `/readyz`."""
    return application.ask("/livez").status, application.ask("/readyz").status


def _states_of_tasks(application: Served) -> list[str]:
    return [task["state"] for task in application.ask("/v1/tasks").json()]


def test_a_process_is_alive_from_the_start_and_ready_when_all_its_tasks_run(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("health")
    with served(broker, counting(topic), tmp_path) as application:
        assert health(application) == (200, 503)
        assert application.ask("/readyz").json() == UNREADY

        application.streams.start()
        wait_until(lambda: health(application) == (200, 200), "ready")
        assert application.ask("/readyz").json() == READY

        application.streams.close()
        assert health(application) == (503, 503)
        assert application.ask("/livez").json()["why"] == "NOT_RUNNING"


def test_a_process_that_restores_is_alive_and_says_what_is_left(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("restored", partitions=1)
    topics.write(topic, [(str(number), "x", number) for number in range(20)])
    name: dict[str, Any] = {"application_id": f"{topic}-app"}
    with served(broker, counting(topic), tmp_path / "first", **name) as application:
        application.streams.start()
        application.wait_for_value("/v1/stores/counts/19", "value", 1, isolation="read_committed")
    with served(broker, counting(topic), tmp_path / "second", **name) as application:
        application.streams.pause()  # Restores wait, too.
        application.streams.start()
        wait_until(lambda: _states_of_tasks(application) == ["restoring"], "a task")

        assert health(application) == (200, 503)
        # A thread tells its tasks just before its state.
        restores = "1 tasks restore their stores"
        wait_until(lambda: restores in application.ask("/readyz").json()["why"], restores)
        refused = application.ask("/v1/stores/counts/19")
        assert (refused.status, refused.json()["reason"]) == (503, "NOT_ACTIVE")
        (store,) = _status(application)["stores"]
        assert store["restore"] == {
            "restored_records": 0,
            "remaining_records": 20,
            "records_per_s": 0.0,
            "left_s": None,
        }

        application.streams.resume()
        wait_until(lambda: health(application) == (200, 200), "ready")
        assert application.ask("/v1/stores/counts/19").json()["value"] == 1
        wait_until(lambda: _status(application)["stores"][0]["restore"] is None, "over")
        assert _status(application)["stores"][0]["restored_records_total"] == 20


def test_a_process_that_warms_up_before_it_joins_is_alive_and_says_what_is_left(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("warmed", partitions=1)
    topics.write(topic, [(str(number), "x", number) for number in range(20)])
    name: dict[str, Any] = {"application_id": f"{topic}-app", "acceptable_recovery_lag": 5}
    with (
        served(broker, counting(topic), tmp_path / "first", **name) as first,
        served(broker, counting(topic), tmp_path / "second", **name) as second,
    ):
        first.streams.start()
        first.wait_for_value("/v1/stores/counts/19", "value", 1, isolation="read_committed")
        second.streams.pause()  # Warm-ups wait, too.
        second.streams.start()
        wait_until(lambda: "warms up" in second.ask("/readyz").json()["why"], "a warm-up")

        assert health(second) == (200, 503)
        assert "it is paused" in second.ask("/readyz").json()["why"]
        assert _status(second)["state"] == "REBALANCING"
        assert health(first) == (200, 200)

        second.streams.resume()
        wait_until(lambda: health(second) == (200, 200), "ready")


def test_a_process_that_waits_for_a_member_that_has_gone_says_for_which(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("left", partitions=1)
    name: dict[str, Any] = {
        "application_id": f"{topic}-app",
        "consumer_session_timeout_ms": 120_000,
    }
    with served(broker, counting(topic), tmp_path / "gone", **name) as gone:
        gone.streams.start()
        wait_until(lambda: health(gone) == (200, 200), "ready")
        gone.streams.close(leave_group=False)
    with served(broker, counting(topic), tmp_path / "comes", **name) as comes:
        comes.streams.start()
        waits = "it waits for other members of the group"
        wait_until(lambda: waits in comes.ask("/readyz").json()["why"], waits)
        assert "StreamThread-1" in comes.ask("/readyz").json()["why"]
        assert _status(comes)["state"] == "REBALANCING"
        page = comes.ask("/").body.decode()
        assert f"Not ready: {waits}" in page


def test_a_process_that_an_error_has_ended_is_not_alive_and_says_which(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("failing", partitions=1)
    with served(broker, counting(topic), tmp_path) as application:
        application.streams.start()
        topics.write(topic, [("a", FAILS, 0)])
        wait_until(lambda: application.streams.state.value == "ERROR", "an error")

        assert health(application) == (503, 503)
        assert "a value that nobody expected" in application.ask("/livez").json()["why"]
        wait_until(lambda: _status(application)["state"] == "ERROR", "told")
        assert "a value that nobody expected" in _status(application)["error"]
        assert application.ask("/v1/stores/counts/a").status == 503


def test_the_status_is_never_of_a_state_that_is_over(created: KafkaStreams) -> None:
    snapshots = Snapshots(created)
    assert snapshots.latest()["state"] == "CREATED"
    with created:  # There is no broker.
        assert snapshots.latest()["state"] == "REBALANCING"


def test_the_status_tells_how_many_records_went_to_the_dead_letter_queue(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    topic, queue = topics.make("letters", partitions=1), topics.make("dead", partitions=1)
    answers: dict[str, Any] = {
        "errors.dead.letter.queue.topic.name": queue,
        "processing.exception.handler": "continue",
    }
    with served(broker, counting(topic), tmp_path, **answers) as application:
        application.streams.start()
        topics.write(topic, [("a", FAILS, 0), ("a", "x", 0), ("a", FAILS, 0)])
        wait_until(lambda: _status(application)["dead_letter_records"] == 2, "both letters")

        assert _status(application)["dead_letter_queue"] == queue
        lines = application.ask("/metrics").body.decode().splitlines()
        (counted,) = (
            line for line in lines if line.startswith("pystreams_processing_dead_letters_total")
        )
        assert float(counted.split()[-1]) >= 2, "those of an aborted transaction count again"


def test_a_function_that_blocks_is_told_and_makes_a_process_not_ready_but_alive(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic, answered = topics.make("blocked", partitions=1), threading.Event()

    def waits_for_an_answer(value: str) -> str:
        answered.wait()
        return value

    builder = StreamsBuilder()
    stream = builder.stream(topic, key_serde=STRING, value_serde=STRING)
    stream.map_values(waits_for_an_answer).group_by_key().count(name="counts")
    polls: dict[str, Any] = {"consumer.max.poll.interval.ms": 120_000}
    with served(broker, builder.build(), tmp_path, **polls) as application:
        application.streams.start()
        wait_until(lambda: health(application) == (200, 200), "ready")
        topics.write(topic, [("a", "x", 0)])
        try:
            wait_until(lambda: health(application) == (200, 503), "told")
            seen = application.ask("/readyz").json()
            blocked = application.streams.metrics()
        finally:
            answered.set()
        wait_until(lambda: health(application) == (200, 200), "ready again")

    assert f"stands still: task 0_0 is at the record at {topic}-0 offset 0" in seen["why"]
    assert [told.partition(":")[0] for told in seen["troubles"]] == ["stream thread stands still"]
    assert {name.name: value for name, value in blocked.items()}["blocked-stream-threads"] == 1
    [line] = [
        record.getMessage()
        for record in caplog.records
        if "stream thread stands still" in record.getMessage()
    ][:1]
    assert "waits_for_an_answer" in line


def test_the_status_has_the_numbers_of_the_application(filed: Served) -> None:
    streams: KafkaStreams = filed.streams
    filed.wait_for_value("/v1/status", "lag_records", 0)
    numbers = streams.statistics()
    status = _status(filed)

    assert status["state"] == "RUNNING"
    assert status["application_id"] == streams.config.application_id
    assert status["processed_records"] == numbers.processed_records
    assert status["lag_records"] == 0
    assert status["threads"] == 1
    assert status["guarantee"] == streams.config.processing_guarantee.value
    assert sorted(task["task"] for task in status["tasks"]) == sorted(
        str(task.task_id)
        for thread in streams.metadata_for_local_threads()
        for task in thread.active_tasks
    )
    read = {row["topic"]: row["records"] for row in status["topics"] if row["direction"] == "in"}
    assert read[filed.topics[0]] == 20
    assert {"counts", "windows", "plain"} <= {row["store"] for row in status["stores"]}
    assert filed.ask("/v1/tasks").json() == status["tasks"]


def test_metrics_are_those_of_the_application(filed: Served) -> None:
    text = filed.ask("/metrics").body.decode()

    assert "pystreams_thread_process_total" in text
    assert f'topic_name="{filed.topics[0]}"' in text


def test_the_topology_is_what_describe_prints(filed: Served) -> None:
    described = filed.ask("/v1/topology").json()["description"]

    assert described == str(filed.streams.topology.describe())


def test_the_configuration_is_shown_without_secrets(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("secrets", partitions=1)
    secrets: dict[str, Any] = {
        "sasl_password": "hunter-1",
        "consumer.ssl.key.password": "hunter-2",
        "sasl.oauthbearer.client.secret": "hunter-3",
        "ssl.key.pem": "hunter-5",
        "producer.ssl.keystore.password": "hunter-6",
        "sasl.oauthbearer.config": "secret=hunter-7",
        "consumer.sasl.oauthbearer.config": "secret=hunter-8",
    }
    with served(broker, counting(topic), tmp_path, **secrets) as application:
        shown = application.ask("/v1/config")

    assert shown.json()["application.id"] == application.streams.config.application_id
    assert b"hunter" not in shown.body


def _status(application: Served) -> Any:
    return application.ask("/v1/status").json()
