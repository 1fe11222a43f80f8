"""What the process may hold of its input and output, shared by threads and clients."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from pystreams.config import StreamsConfig, clients
from pystreams.config.buffer_shares import MEBIBYTE, input_share

QUIET = {"log_level": 0}
LIBRDKAFKA_TAKES_MESSAGES = 1_000_000


def config(**settings: Any) -> StreamsConfig:
    keys = {name.replace("_", "."): value for name, value in settings.items()}
    return StreamsConfig.of({"application.id": "app", "bootstrap.servers": "127.0.0.1:9", **keys})


@pytest.mark.parametrize("threads", [1, 2, 4, 16])
@pytest.mark.parametrize("total", [64 * MEBIBYTE, 512 * MEBIBYTE, 8192 * MEBIBYTE])
def test_what_all_threads_may_hold_is_never_more_than_there_is(total: int, threads: int) -> None:
    share = input_share(total, threads)
    queue, fetch, held = share.client_bytes, share.client_bytes, 2 * share.client_bytes
    floor = 8 * MEBIBYTE * threads  # A client can't do with less than one fetch.
    assert threads * (queue + fetch + held + share.waiting_bytes) <= max(total, floor)


def test_by_default_a_client_has_a_queue_that_lasts_until_the_next_fetch() -> None:
    consumer = clients.consumer_config(config())
    assert consumer["queued.max.messages.kbytes"] == 65_536
    assert consumer["fetch.max.bytes"] == 52_428_800
    assert input_share(512 * MEBIBYTE, 1).waiting_bytes == 256 * MEBIBYTE


def test_all_consumers_and_producers_of_many_threads_have_small_queues_that_the_client_takes() -> (
    None
):
    made = config(num_stream_threads=16, input_buffer_max_bytes=1, output_buffer_max_bytes=1)
    for consumer in (
        clients.consumer_config(made),
        clients.restore_consumer_config(made),
        clients.global_consumer_config(made),
    ):
        assert consumer["queued.max.messages.kbytes"] == 1024
        assert consumer["fetch.max.bytes"] >= LIBRDKAFKA_TAKES_MESSAGES
        Consumer(consumer | QUIET).close()
    producer = clients.producer_config(made, sharing=16)
    assert producer["queue.buffering.max.kbytes"] * 1024 >= 2 * producer["message.max.bytes"]
    Producer(producer | QUIET)


def test_producers_have_equal_parts_in_which_two_of_the_largest_records_fit() -> None:
    made = config(output_buffer_max_bytes=100 * MEBIBYTE)
    assert clients.producer_config(made, sharing=4)["queue.buffering.max.kbytes"] == 25 * 1024
    assert clients.producer_config(made, sharing=4)["queue.buffering.max.messages"] == 102_400
    large = config(**{"producer.max.request.size": 30 * MEBIBYTE}, output_buffer_max_bytes=MEBIBYTE)
    assert clients.producer_config(large, sharing=4)["queue.buffering.max.kbytes"] == 60 * 1024


def test_who_sets_a_clients_queue_has_that() -> None:
    made = config(**{"consumer.queued.max.messages.kbytes": 77})
    assert clients.consumer_config(made)["queued.max.messages.kbytes"] == 77
    own = config(**{"producer.queue.buffering.max.kbytes": 99})
    assert clients.producer_config(own, sharing=2)["queue.buffering.max.kbytes"] == 99
