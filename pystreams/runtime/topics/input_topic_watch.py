"""Compares the ids of source and internal topics: at the start of the client, and as it runs.

While it runs, on a thread of its own that nobody waits for: a broker that does not answer delays
neither records nor the stop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pystreams.errors import RetriableClientError, StreamsError, as_streams_error
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.topics.input_topics import InputTopics
from pystreams.runtime.topics.internal_topic_ids import InternalTopicIds

_log = get_logger("pystreams.topics")

_RETRY_AFTER_S = 0.5


@dataclass(frozen=True, slots=True)
class TopicWatch:
    """Watches over the source topics of one client.

    Attributes:
        counts: Returns partition counts of all topics that are read.
        stop: Set when the client is asked to stop.
    """

    input_topics: InputTopics
    internal: InternalTopicIds
    counts: Callable[[], Mapping[str, int]]
    stop: threading.Event

    def prepare(self) -> None:
        """Compare the topics with what the group has noted, for as long as that takes.

        Returns early when the client is asked to stop.

        Raises:
            FatalStreamsError: As `InputTopics.prepare`, and `InternalTopicIds.check`.
            TopologyError: As `InputTopics.prepare`.
        """
        told = ""
        while not self.stop.is_set():
            try:
                self.input_topics.prepare(self.counts())
                self.internal.check()
            except RetriableClientError as error:
                if told != (why := str(error)):
                    told = why
                    _log.info("the start waits for an answer of the brokers", why=why)
                self.stop.wait(_RETRY_AFTER_S)
            else:
                return

    def start(self, interval_ms: int, failed: Callable[[StreamsError], None]) -> None:
        """Look again at this interval, until the client stops.

        Args:
            interval_ms: How often (ms).
            failed: Called, at most once, with what the client is to stop for.
        """
        arguments = (interval_ms / 1000, failed)
        threading.Thread(
            target=self._run, args=arguments, name="pystreams-topic-watch", daemon=True
        ).start()

    def _run(self, interval_s: float, failed: Callable[[StreamsError], None]) -> None:
        while not self.stop.wait(interval_s):
            try:
                self.input_topics.watch(self.counts())
                self.internal.check()
            except RetriableClientError:
                continue
            except Exception as error:  # noqa: BLE001 - handed on, whatever it is
                if not self.stop.is_set():
                    failed(as_streams_error(error))
                return
