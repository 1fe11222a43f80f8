"""Keys that are not where the bytes of the whole key would have them: windowed, or spelled else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pystreams import KafkaStreams, Materialized, StreamsBuilder, TimeWindows, Topology
from pystreams.broker import DevelopmentBroker
from pystreams.client import Client, HttpQueryError
from pystreams.http.server import HttpOptions
from pystreams.kernel.partitioner import partition_of
from pystreams.record import Headers
from pystreams.serdes import JSON, STRING
from pystreams.stores.contracts.window import Window, Windowed
from pystreams.topology.contracts.windowed_serdes import time_windowed_serde
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.http.conftest import FIRST_MS, Served, Topics, served
from tests.http.connecting import HOST, Raw
from tests.http.counting import counting
from tests.ports import ports_in_a_row

PARTITIONS = 4
SIZE_MS = 10_000
KEYS = [f"k{number}" for number in range(20)]


def windows(topic: str) -> Topology:
    """Return a topology of two stores with windowed keys; those of "again" come by repartition."""
    builder = StreamsBuilder()
    grouped = builder.stream(topic, key_serde=STRING, value_serde=STRING).group_by_key()
    # The broker keeps the changelog for as long, by its own clock, and these records are of 1970.
    counts = grouped.windowed_by(TimeWindows.of_size_and_grace(SIZE_MS, 10**13)).count(
        name="counts"
    )
    counts.filter(lambda _, count: count >= 1, materialized=Materialized(name="busy"))
    windowed = time_windowed_serde(STRING, SIZE_MS)
    counts.to_stream().group_by(lambda key, _: key, key_serde=windowed).count(name="again")
    return builder.build()


class IdInHeaders:
    """Texts that have an id before them where there are no headers, as in a store."""

    def serializer(self, topic: str) -> Callable[[str], bytes]:
        return lambda text: b"id" + text.encode()

    def deserializer(self, topic: str) -> Callable[[bytes], str]:
        return lambda data: data.removeprefix(b"id").decode()

    def headers_serializer(self, topic: str) -> Callable[[str, Headers], tuple[bytes, Headers]]:
        return lambda text, headers: (text.encode(), (*headers, ("id", b"id")))

    def headers_deserializer(self, topic: str) -> Callable[[bytes, Headers], str]:
        return lambda data, _: data.decode()


def ids_in_headers(topic: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(topic, key_serde=IdInHeaders(), value_serde=STRING)
    stream.group_by_key().count(name="counts")
    return builder.build()


def json_keys(topic: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(topic, key_serde=JSON, value_serde=STRING)
    stream.group_by_key().count(name="counts")
    return builder.build()


@contextlib.contextmanager
def two(
    broker: DevelopmentBroker,
    topology: Callable[[str], Topology],
    topic: str,
    directory: Path,
    **config: object,
) -> Iterator[list[Served]]:
    """Run two instances of an application that know of each other."""
    with contextlib.ExitStack() as stack:
        started = []
        for number, port in enumerate(ports_in_a_row(2)):
            settings: dict[str, Any] = {
                "application_id": f"{topic}-app",
                "application_server": f"127.0.0.1:{port}",
                **config,
            }
            options = HttpOptions(port=port)
            instance = served(broker, topology(topic), directory / str(number), options, **settings)
            started.append(stack.enter_context(instance))
            started[-1].streams.start()
        yield started


def wait_for_all(instances: list[Served], store: str, count: int) -> None:
    """Wait until both have partitions of a store, and all keys together."""

    def all_there() -> bool:
        with contextlib.suppress(HttpQueryError):
            for instance in instances:
                answer = instance.ask(f"/v1/stores/{store}").json()
                if not answer.get("partitions") or not answer["elsewhere"]:
                    return False
                if len(list(Client(instance.url).range(store))) != count:
                    return False
            return True
        return False

    wait_until(all_there, f"{count} keys, in two processes")


def _clients(instances: list[Served]) -> list[Client]:
    """Return clients that ask one process, or each what it has."""
    return [
        Client(instance.url, asks_owners=asks_owners)
        for instance in instances
        for asks_owners in (False, None, True)
    ]


def test_a_windowed_key_of_another_process_is_found(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("windowed", PARTITIONS)
    topics.write(topic, [(key, "x", 0) for key in KEYS])
    with two(broker, windows, topic, tmp_path) as instances:
        for store in ("busy", "again"):
            wait_for_all(instances, store, len(KEYS))
            for client in _clients(instances):
                for row in list(client.range(store)):
                    asked = {"key": row["key"], "window": row["window"]}
                    found = client.get(store, asked)
                    assert found is not None, (store, asked)
                    assert found["partition"] == row["partition"]
        streams = instances[0].streams
        serde = time_windowed_serde(STRING, SIZE_MS)
        for key in KEYS:
            windowed = Windowed(key, Window(FIRST_MS, FIRST_MS + SIZE_MS))
            whole = serde.serializer("")(windowed)
            busy = streams.query_metadata_for_key("busy", windowed)
            told = streams.query_metadata_for_key("busy", windowed, key_serde=serde)
            again = streams.query_metadata_for_key("again", windowed)
            assert busy.partition == told.partition == partition_of(key.encode(), PARTITIONS)
            assert again.partition == partition_of(whole, PARTITIONS)
            assert streams.key_partitioner("busy")(windowed) == busy.partition
            assert streams.key_partitioner("again")(windowed) == again.partition


def test_a_key_that_its_writer_spelled_otherwise_is_found_in_any_process(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    """`json.dumps` leaves spaces, which the partition depends on; the serde writes none."""
    topic = topics.make("spelled", PARTITIONS)
    keys = [{"user": number, "of": "x"} for number in range(20)]
    topics.write(topic, [(json.dumps(key), "x", 0) for key in keys])
    with two(broker, json_keys, topic, tmp_path) as instances:
        wait_for_all(instances, "counts", len(keys))
        for client in _clients(instances):
            found = [client.get("counts", key) for key in keys]
            assert [answer and answer["value"] for answer in found] == [1] * len(keys)
            assert client.get("counts", {"user": 99}) is None
        elsewhere = instances[0].ask("/v1/stores/counts").json()["elsewhere"]
        refused = instances[0].ask("/v1/stores/counts/%7B%7D", partition=elsewhere[0])
        assert refused.json()["detail"].endswith(f"in partition {elsewhere[0]} of store 'counts'")


def test_a_key_whose_id_is_in_headers_belongs_to_the_partition_of_its_record(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("headers", PARTITIONS)
    with served(broker, ids_in_headers(topic), tmp_path) as instance:
        instance.streams.start()
        wait_until(lambda: instance.streams.state.value == "RUNNING", "running")
        for key in KEYS:
            found = instance.streams.query_metadata_for_key("counts", key)
            assert found.partition == partition_of(key.encode(), PARTITIONS)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_key_is_not_said_to_be_missing_while_a_process_does_not_answer(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path, is_told: bool
) -> None:
    """It is in the group, but nobody listens where it says that it answers, or it says nothing."""
    topic = topics.make("silent", PARTITIONS)
    topics.write(topic, [(key, "x", 0) for key in KEYS])
    (port,) = ports_in_a_row(1)
    silent = KafkaStreams(
        counting(topic),
        {
            "application.id": f"{topic}-app",
            "bootstrap.servers": broker.bootstrap_servers,
            "state.dir": str(tmp_path / "silent"),
            "application.server": f"127.0.0.1:{port}" if is_told else "",
        },
    )
    with served(broker, counting(topic), tmp_path, application_id=f"{topic}-app") as instance:
        try:
            instance.streams.start()
            silent.start()

            def here() -> list[int]:
                parts = instance.ask("/v1/stores/counts").json().get("partitions", ())
                return [part["partition"] for part in parts]

            wait_until(lambda: len(here()) == PARTITIONS // 2, "half of the partitions")
            number = here()[0]
            absent = next(
                key
                for key in (f"absent-{number}" for number in range(1000))
                if partition_of(key.encode(), PARTITIONS) == number
            )
            answer = instance.ask(f"/v1/stores/counts/{absent}")
            why = "it does not answer" if is_told else "nobody says where it is"
            assert (answer.status, why in answer.json()["detail"]) == (503, True)
            assert answer.json().get("owner") == (f"127.0.0.1:{port}" if is_told else None)
            here_alone = instance.ask(f"/v1/stores/counts/{absent}", partition=number)
            assert here_alone.status == 404
        finally:
            silent.close(DEADLINE_S)


def test_who_asks_for_a_key_of_any_process_and_ends_its_side_is_answered(
    broker: DevelopmentBroker, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make("ended", PARTITIONS)
    topics.write(topic, [(key, "x", 0) for key in KEYS])
    with two(broker, counting, topic, tmp_path) as instances:
        wait_for_all(instances, "counts", len(KEYS))
        for key in KEYS:
            with contextlib.closing(Raw(instances[0].url)) as raw:
                raw.send(b"GET /v1/stores/counts/%b HTTP/1.1\r\n%b\r\n" % (key.encode(), HOST))
                raw.end()
                assert f'"key":"{key}"'.encode() in raw.answer()
                assert raw.answer() == b""
