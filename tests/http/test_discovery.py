"""What `KafkaStreams` knows of the application's instances, and how far its stores are."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from pystreams import (
    KafkaStreams,
    StreamsBuilder,
    StreamsError,
    TimeWindows,
    Topology,
    TopologyError,
)
from pystreams.broker import DevelopmentBroker
from pystreams.kernel.partitioner import partition_of
from pystreams.runtime.cluster.streams_metadata import (
    HostInfo,
    LagInfo,
    client_id_with,
    digest_of,
    directory_of,
    host_of,
)
from pystreams.serdes import STRING
from tests.broker.waiting import wait_until
from tests.http.conftest import PARTITIONS, Served, Topics, served
from tests.http.test_health import counting

SERVER = "host.example:8080"


def test_an_instance_finds_itself_and_what_it_has(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("found")
    topics.write(topic, [(key, "x", 0) for key in "abcdef"])
    with served(broker, counting(topic), tmp_path, application_server=SERVER) as application:
        streams = application.streams
        with pytest.raises(StreamsError, match="the application is CREATED"):
            streams.metadata_for_all_streams_clients()
        assert streams.group_processes() is None
        streams.start()
        wait_until(lambda: streams.state.value == "RUNNING", "running")
        wait_until(lambda: streams.query_metadata_for_key("counts", "a").active_host, "an owner")

        (found,) = streams.metadata_for_all_streams_clients()
        assert (found.host_info, str(found.host_info)) == (HostInfo("host.example", 8080), SERVER)
        assert found.state_store_names == {"counts"}
        assert {number for _, number in found.topic_partitions} == set(range(PARTITIONS))
        assert streams.streams_metadata_for_store("counts") == [found]
        wait_until(lambda: [here.tasks for here in streams.group_processes() or ()], "itself")
        [here] = streams.group_processes() or []
        assert (here.is_here, here.host_info, here.threads) == (True, found.host_info, 1)
        assert {task.partition for task in here.tasks} == set(range(PARTITIONS))
        assert (here.topics, here.runs_another_topology) == ((topic,), False)
        with pytest.raises(TopologyError, match="absent"):
            streams.streams_metadata_for_store("absent")
        for key in "abcdef":
            of_key = streams.query_metadata_for_key("counts", key)
            assert of_key.partition == partition_of(key.encode(), PARTITIONS)
            assert of_key.active_host == found.host_info
        chosen = streams.query_metadata_for_key("counts", "a", partitioner=lambda *_: 2)
        assert chosen.partition == 2

        def lags() -> dict[int, int]:
            """What was counted just now is not committed yet."""
            found = streams.all_local_store_partition_lags()["counts"]
            return {number: lag.offset_lag for number, lag in found.items()}

        wait_until(lambda: lags() == dict.fromkeys(range(PARTITIONS), 0), "no lag")
    assert streams.group_processes() is None


def test_a_process_with_other_windows_on_the_same_input_is_told(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("windows")
    application_id = f"{topic}-app"

    def of(size_ms: int, name: str) -> AbstractContextManager[Served]:
        settings: Any = {"application_id": application_id, "application_server": f"{name}:8080"}
        return served(broker, windows_of(topic, size_ms), tmp_path / name, **settings)

    with of(60_000, "a") as one, of(60_000, "b") as same, of(30_000, "c") as other:
        for application in (one, same, other):
            application.streams.start()

        def told(application: Served) -> dict[str, bool]:
            found = application.streams.group_processes() or ()
            return {
                each.host_info.host: each.runs_another_topology for each in found if each.host_info
            }

        wait_until(
            lambda: told(one) == {"a": False, "b": False, "c": True},
            "the one that differs",
            told=lambda: str(told(one)),
        )
        wait_until(lambda: told(other) == {"a": True, "b": True, "c": False}, "both others")


def windows_of(topic: str, size_ms: int) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(topic, key_serde=STRING, value_serde=STRING).group_by_key()
    grouped.windowed_by(TimeWindows.of_size_with_no_grace(size_ms)).count(name="counts")
    return builder.build()


def test_a_key_that_the_serde_can_not_write_has_no_partition(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    with served(broker, counting(topics.make("keys")), tmp_path) as application:
        streams = application.streams
        streams.start()
        wait_until(lambda: streams.state.value == "RUNNING", "running")

        with pytest.raises(ValueError, match="the key 5 does not fit"):
            streams.query_metadata_for_key("counts", 5, key_serde=STRING)


def test_stores_that_restore_are_behind_their_changelogs(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("behind", partitions=1)
    topics.write(topic, [(str(number), "x", number) for number in range(20)])
    with served(
        broker, counting(topic), tmp_path / "first", application_id=f"{topic}-app"
    ) as application:
        application.streams.start()
        application.wait_for_value("/v1/stores/counts/19", "value", 1, isolation="read_committed")
    with served(
        broker, counting(topic), tmp_path / "second", application_id=f"{topic}-app"
    ) as application:
        streams: KafkaStreams = application.streams
        streams.pause()
        streams.start()
        wait_until(lambda: streams.statistics().tasks_restoring == 1, "a task")

        lag = streams.all_local_store_partition_lags()["counts"][0]
        assert lag.current_offset_position == 0
        assert lag.offset_lag == lag.end_offset_position >= 20


@pytest.mark.parametrize(
    ("endpoint", "host"),
    [
        ("localhost:80", HostInfo("localhost", 80)),
        ("[::1]:8080", HostInfo("::1", 8080)),
        ("", None),
        ("nowhere", None),
        (":80", None),
        ("host:port", None),
    ],
)
def test_a_client_id_says_where_its_instance_answers(endpoint: str, host: HostInfo | None) -> None:
    assert host_of(client_id_with("app-StreamThread-1-consumer", endpoint)) == host
    assert HostInfo.build_from_endpoint(endpoint) == host
    if host is not None:
        assert str(host) == endpoint


@pytest.mark.parametrize("directory", ["", "1c0ffee2"])
@pytest.mark.parametrize("digest", ["", "0.1.0-9f86d081"])
@pytest.mark.parametrize("server", ["", "host:80"])
def test_a_client_id_says_where_its_state_is_what_it_runs_and_where_it_answers(
    directory: str, digest: str, server: str
) -> None:
    told = client_id_with("app-StreamThread-1-consumer", server, digest, directory)

    assert directory_of(told) == directory
    assert digest_of(told) == (digest if server else "")
    assert host_of(told) == HostInfo.build_from_endpoint(server)


def test_a_store_that_is_ahead_has_no_lag() -> None:
    assert LagInfo(5, 3).offset_lag == 0
