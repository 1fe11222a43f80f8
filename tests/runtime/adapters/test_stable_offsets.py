"""Questions for committed offsets that are answered late, or refused for now."""

from __future__ import annotations

from threading import Event
from typing import Any, NoReturn, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from pystreams import TopicPartition
from pystreams.errors import RetriableClientError
from pystreams.runtime.adapters.consuming.stable_offsets import StableOffsets

WANTED = [TopicPartition("in", 0)]


class Refused:
    """A client whose coordinator is loading."""

    def committed(self, _partitions: list[Any], timeout: float) -> NoReturn:
        raise KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, "it loads"))


class Unanswered:
    """A client that gets no answer until the end."""

    def __init__(self) -> None:
        self.ends = Event()

    def committed(self, _partitions: list[Any], timeout: float) -> list[Any]:
        self.ends.wait()
        return []

    def close(self) -> None:
        """Release nothing."""


def test_an_answer_that_is_waited_for_names_the_last_refusal() -> None:
    other = Unanswered()
    offsets = StableOffsets(cast("Any", Refused()), lambda: cast("Any", other), "committed offsets")
    with pytest.raises(RetriableClientError, match="it loads"):
        offsets.committed(WANTED)
    with pytest.raises(RetriableClientError, match=r"no answer yet.*the last try: it loads"):
        offsets.committed(WANTED)

    other.ends.set()
    offsets.close()
