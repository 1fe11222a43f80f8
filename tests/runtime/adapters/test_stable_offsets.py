"""Questions for committed offsets that are answered late, or refused for now."""

from __future__ import annotations

import subprocess
import sys
from threading import Event
from typing import Any, NoReturn, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from pystreams import TopicPartition
from pystreams.errors import RetriableClientError
from pystreams.runtime.adapters.consuming.stable_offsets import StableOffsets
from tests.broker.waiting import DEADLINE_S

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


AFTER_THE_PROGRAM = """
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from confluent_kafka import KafkaError, KafkaException
from pystreams import TopicPartition
from pystreams.errors import RetriableClientError
from pystreams.runtime.adapters.consuming.stable_offsets import StableOffsets
from tests.broker.waiting import DEADLINE_S

class Refused:
    def committed(self, partitions, timeout):
        raise KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS))

class Answering:
    def committed(self, partitions, timeout):
        for partition in partitions:
            partition.offset = 7
        return partitions

    def close(self):
        print("closed", flush=True)

def wait_for_the_end_of_pools():
    threading.main_thread().join()
    try:
        while True:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(int).result()
    except RuntimeError:
        pass

def committed(offsets, partition):
    while True:
        try:
            return offsets.committed([partition])[partition].next_offset
        except RetriableClientError:
            if sys.argv[1] == "asked before":
                wait_for_the_end_of_pools()

def go_on():
    if sys.argv[1] == "asked after":
        wait_for_the_end_of_pools()
    offsets = StableOffsets(Refused(), Answering, "committed offsets")
    print(committed(offsets, TopicPartition("in", 0)), flush=True)
    offsets.close()

threading.Thread(target=go_on).start()
"""


@pytest.mark.parametrize("when", ["asked before", "asked after"])
def test_offsets_are_asked_for_also_where_the_program_has_ended_and_its_pools_with_it(
    when: str,
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", AFTER_THE_PROGRAM, when],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )

    assert (sorted(ended.stdout.split()), ended.stderr) == (["7", "closed"], "")
