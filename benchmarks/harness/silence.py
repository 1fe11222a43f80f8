"""A steady feed of a topic, and when its results come out, partition by partition."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.harness.counted_keys import CountedKeys, key_of
from pystreams.kernel.partitioner import partition_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_POLL_S = 0.005
_STEADY_S = 2.5
_NOTHING_NEW_S = 60.0


def keys_of_partitions(partitions: int, of_each: int) -> list[list[int]]:
    """Return the first keys of each partition, as their numbers: as many of one as of another."""
    found: list[list[int]] = [[] for _ in range(partitions)]
    for number in itertools.count():
        keys = found[partition_of(key_of(number), partitions)]
        if len(keys) < of_each:
            keys.append(number)
        if all(len(keys) == of_each for keys in found):
            return found
    raise AssertionError


class Feed:
    """Writes one record to each partition of a topic, at a steady pace, until it is told to stop.

    Args:
        servers: The broker.
        keys: The keys of each partition, taken in turn.
        pause_s: Between two records of a partition.
        counted: Is told of each record.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        keys: Sequence[Sequence[int]],
        pause_s: float,
        counted: CountedKeys,
    ) -> None:
        self._counted = counted
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "acks": "1"})
        self._topic, self._keys, self._pause_s = topic, keys, pause_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, when all is in the topic; may be called again."""
        self._stop.set()
        self._thread.join()
        self._producer.flush()

    def _run(self) -> None:
        due_s = time.perf_counter()
        for turn in itertools.count():
            for partition, keys in enumerate(self._keys):
                number = keys[turn % len(keys)]
                self._producer.produce(self._topic, b"", key_of(number), partition=partition)
                self._counted.write(number)
            self._producer.poll(0)
            due_s += self._pause_s
            if self._stop.wait(max(due_s - time.perf_counter(), 0)):
                return


class Arrivals:
    """Reads an output as it comes, committed records only, and notes when. A context manager.

    Args:
        servers: The broker.
        topic: The output.
        partitions: How many it has.
        counted: Is told of each result.
    """

    def __init__(self, servers: str, topic: str, partitions: int, counted: CountedKeys) -> None:
        self.partitions = range(partitions)
        self._times_s: Mapping[int, list[float]] = defaultdict(list)
        self._counted = counted
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._client = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "arrivals",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
            }
        )
        self._client.assign([TopicPartition(topic, number, 0) for number in self.partitions])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            messages = self._client.consume(1000, _POLL_S)
            now_s = time.perf_counter()
            for message in messages:
                key, value = message.key(), message.value()
                if message.error() is None and key is not None and value is not None:
                    times_s = self._times_s[message.partition() or 0]
                    if times_s[-1:] != [now_s]:
                        times_s.append(now_s)
                    self._counted.see(key, value)

    def flows(self, since_s: float) -> bool:
        """Return whether each partition has had output since then."""
        return all(self._times_s[number][-1:] > [since_s] for number in self.partitions)

    def longest_s(self, begin_s: float, end_s: float) -> dict[int, float]:
        """Return the longest time without output of each partition, begun before one moment too.

        Args:
            begin_s: What ended before that does not count.
            end_s: What began after that does not count.
        """
        found = {}
        for number in self.partitions:
            times_s = list(self._times_s[number])
            pairs = itertools.pairwise(times_s)
            gaps_s = [
                after - before for before, after in pairs if after > begin_s and before < end_s
            ]
            found[number] = max(gaps_s, default=0.0)
        return found

    def steady_s(self, until_s: float) -> float:
        """Return how long is without output when nothing happens: the median of the partitions."""
        return statistics.median(self.longest_s(until_s - _STEADY_S, until_s).values())

    def wait_until_counted(self, watch: Callable[[], None]) -> None:
        """Wait until there are as many results as records, or nothing new for a minute.

        Args:
            watch: Raises when a program has ended.
        """
        seen, news_s = self._counted.seen, time.monotonic()
        while seen < self._counted.written and time.monotonic() - news_s < _NOTHING_NEW_S:
            watch()
            time.sleep(_POLL_S)
            if self._counted.seen != seen:
                seen, news_s = self._counted.seen, time.monotonic()


@contextmanager
def fed(feed: Feed) -> Iterator[None]:
    """Feed as long as the block lasts."""
    feed.start()
    try:
        yield
    finally:
        feed.stop()
