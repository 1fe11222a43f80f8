"""What each stream thread gets of the application's configuration."""

from __future__ import annotations

import pytest

from pystreams import StreamsConfig
from pystreams.runtime.settings import ThreadSettings


def settings(**config: int) -> ThreadSettings:
    values = {name.replace("_", "."): value for name, value in config.items()}
    base = {"application.id": "app", "bootstrap.servers": "localhost:9092"}
    return ThreadSettings.of(StreamsConfig.of({**base, **values}))


@pytest.mark.parametrize(("threads", "share"), [(1, 9_000), (3, 3_000), (4, 2_250)])
def test_each_thread_has_its_share_of_the_uncommitted_bytes(threads: int, share: int) -> None:
    made = settings(num_stream_threads=threads, statestore_uncommitted_max_bytes=9_000)

    assert made.memory.uncommitted_max_bytes == share


def test_a_share_of_no_limit_is_no_limit() -> None:
    made = settings(num_stream_threads=3, statestore_uncommitted_max_bytes=-1)

    assert made.memory.uncommitted_max_bytes == -1


def test_each_thread_has_its_share_of_the_record_cache() -> None:
    made = settings(
        num_stream_threads=4, statestore_cache_max_bytes=4_000, statestore_read_cache_max_bytes=800
    )

    assert made.memory.cache_max_bytes == 1_000
    assert made.memory.read_cache_max_bytes == 200


def test_the_thread_of_global_stores_has_a_share_of_the_uncommitted_bytes_too() -> None:
    config = {"statestore.uncommitted.max.bytes": 9_000, "num.stream.threads": 2}
    base = {"application.id": "app", "bootstrap.servers": "localhost:9092"}
    made = ThreadSettings.of(StreamsConfig.of({**base, **config}), global_stores=True)

    assert made.memory.uncommitted_max_bytes == 3_000
