"""Tasks with a producer each commit side by side, not one after the other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka.admin import AdminClient

from pystreams import KafkaStreams, StreamsBuilder, serdes
from pystreams.broker import DevelopmentBroker
from tests.broker.conftest import CreateTopic
from tests.broker.reading import committed_offsets
from tests.broker.troubles.request_proxy import END_TXN, RequestProxy
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.broker.writing import Writer

TASKS = 4
BEFORE_THE_NEXT_S = 25.0
"""Less than the 30 s that a commit waits: one after the other there is one of them by then."""


def test_tasks_of_one_thread_wait_together_for_the_ends_of_their_transactions(
    broker: DevelopmentBroker,
    admin: AdminClient,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
) -> None:
    source = create_topic(partitions=TASKS)
    builder = StreamsBuilder()
    stream = builder.stream(source, key_serde=serdes.STRING, value_serde=serdes.STRING)
    stream.group_by_key().count(name="counts")
    proxy = RequestProxy(broker.bootstrap_servers)
    config = {
        "application.id": unique_name,
        "bootstrap.servers": proxy.bootstrap_servers,
        "state.dir": str(tmp_path),
        "processing.guarantee": "exactly_once",
        "commit.interval.ms": 300_000,  # So that the stop commits all of them.
        "producer.transaction.timeout.ms": 600_000,
    }
    names = [f"{unique_name}-0_{task}".encode() for task in range(TASKS)]

    def ends() -> list[bytes]:
        return [name for name in names if any(name in kept.request for kept in list(proxy.kept))]

    streams = KafkaStreams(builder.build(), config)
    streams.start()
    writer = Writer(broker.bootstrap_servers)
    for partition in range(TASKS):
        writer.write(source, "value", "key", partition, 0)
    writer.flush()
    wait_until(lambda: streams.statistics().processed_records == TASKS, "records")
    proxy.keep_next(END_TXN, 1000, cuts=False)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(streams.close, DEADLINE_S)
        try:
            wait_until(lambda: ends() == names, "all ends at once", deadline_s=BEFORE_THE_NEXT_S)
        finally:
            proxy.keep_next(END_TXN, 0)
            proxy.refuse()
            proxy.accept()
        assert closing.result()
    proxy.close()
    assert len(committed_offsets(admin, unique_name)) == TASKS
