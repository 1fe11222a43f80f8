"""What the stores answer of an application that does not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from pystreams import (
    KafkaStreams,
    KeyQuery,
    State,
    StoreNotAvailableError,
    StreamsBuilder,
    serdes,
)

STRINGS: dict[str, Any] = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}


class NoClients:
    """Makes no client: the application ends as it starts."""

    def admin(self, *_: object) -> NoReturn:
        raise ConnectionError("no broker")

    def consumer(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError("not asked for")

    global_consumer = restore_consumer = producer = consumer


@pytest.fixture
def streams(tmp_path: Path) -> KafkaStreams:
    """An application with a store of its tasks and a global one."""
    builder = StreamsBuilder()
    builder.stream("in", **STRINGS).group_by_key().count(name="counts")
    builder.global_table("prices", name="shared", **STRINGS)
    config = {
        "application.id": "app",
        "bootstrap.servers": "nowhere:9092",
        "state.dir": str(tmp_path),
    }
    return KafkaStreams(builder.build(), config, clients=NoClients())


def refused(streams: KafkaStreams, store: str) -> set[str]:
    """Return what reads of a store and questions to it are refused with."""
    with pytest.raises(StoreNotAvailableError) as of_reads:
        streams.store(store).get("k")
    with pytest.raises(StoreNotAvailableError) as of_queries:
        streams.query(KeyQuery("k"), store=store)
    return {str(of_reads.value), str(of_queries.value)}


@pytest.mark.parametrize("store", ["counts", "shared"])
def test_a_store_of_an_application_that_was_not_started_says_to_start_it(
    streams: KafkaStreams, store: str
) -> None:
    [told] = refused(streams, store)

    assert told.startswith(f"state store {store!r} can't be asked: the application is CREATED; ")


@pytest.mark.parametrize("store", ["counts", "shared"])
def test_a_store_of_an_application_that_has_stopped_says_so(
    streams: KafkaStreams, store: str
) -> None:
    streams.start()
    assert streams.wait(120)
    assert streams.state is State.ERROR

    [told] = refused(streams, store)

    assert "the application has stopped, in state ERROR; ask another instance" in told
