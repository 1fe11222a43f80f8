"""Whether the topics of global stores are still those that were read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pystreams.errors import FatalStreamsError
from pystreams.ids import NO_TOPIC_ID


class GlobalTopicIds:
    """The ids of the topics that one thread reads.

    Args:
        store_of: Returns the store that is filled from a topic.

    Attributes:
        known: The id of each topic as it was when it began to be read.
    """

    def __init__(self, store_of: Callable[[str], str]) -> None:
        self.known: dict[str, str] = {}
        self._store_of = store_of
        self._missing: set[str] = set()

    def check(self, found: Mapping[str, str]) -> None:
        """Compare them with the ids that there are.

        Raises:
            FatalStreamsError: A topic was deleted, or created again.
        """
        for topic, topic_id in self.known.items():
            present = found.get(topic)
            # While brokers begin to give ids (Kafka 2.8), not all of them do.
            is_same = present == topic_id or NO_TOPIC_ID in {present, topic_id}
            if present is not None and is_same:
                self._missing.discard(topic)
                continue
            store = self._store_of(topic)
            if present is not None:
                raise FatalStreamsError(
                    f"topic {topic!r} of global store {store!r} was deleted and created again "
                    f"while the application ran (it had the id {topic_id}, and has {present} now): "
                    "start again, the store is then read anew from its beginning"
                )
            if topic in self._missing:  # A broker may not show it for a moment.
                raise FatalStreamsError(
                    f"topic {topic!r} of global store {store!r} was deleted: create it again, and "
                    "start again; the store is then read anew from its beginning"
                )
            self._missing.add(topic)
