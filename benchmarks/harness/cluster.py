"""The broker as the benchmarks see it: topics, their ends, and how far a group has committed.

Everything that is measured is measured from here, outside of the programs: no program times
itself, so that none can do it differently from the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

_TIMEOUT_S = 30.0
_ABSENT_GONE_S = 15.0


class Cluster:
    """One broker.

    Args:
        bootstrap_servers: Where it is.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        # Errors come out of its calls; librdkafka need not print them as well.
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def create_topic(
        self, name: str, partitions: int, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic."""
        topic = NewTopic(name, num_partitions=partitions, config=dict(config or {}))
        created = self._admin.create_topics([topic])
        created[name].result(_TIMEOUT_S)

    def topics(self) -> set[str]:
        """Return the names of all topics that are not Kafka's own."""
        found = self._admin.list_topics(timeout=_TIMEOUT_S).topics
        return {name for name in found if not name.startswith("__")}

    def keep_only(self, kept: Iterable[str]) -> None:
        """Delete all topics but these: what a run has left costs the next one disk and cleaning."""
        unwanted = self.topics() - set(kept)
        if not unwanted:
            return
        for deleted in self._admin.delete_topics(list(unwanted)).values():
            deleted.result(_TIMEOUT_S)
        deadline_s = time.monotonic() + _ABSENT_GONE_S
        while self.topics() & unwanted and time.monotonic() < deadline_s:
            time.sleep(0.1)

    def end_offsets(self, topic: str) -> list[int]:
        """Return the end of each partition of a topic, records of open transactions included."""
        found = self._admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        client = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "ends",
                "isolation.level": "read_uncommitted",
            }
        )
        try:
            ends = []
            for number in sorted(found):
                partition = TopicPartition(topic, number)
                ends.append(client.get_watermark_offsets(partition, timeout=_TIMEOUT_S)[1])
            return ends
        finally:
            client.close()


class GroupProgress:
    """How far a group has committed one topic. A context manager.

    Asked through a consumer that joins nothing, not through the admin client: the answer for a
    group that does not exist yet crashes librdkafka 2.16.0's `ListConsumerGroupOffsets`.

    Args:
        cluster: Where the group is.
        partitions: How many partitions it has.
    """

    def __init__(self, cluster: Cluster, group: str, topic: str, partitions: int) -> None:
        self._wanted = [TopicPartition(topic, number) for number in range(partitions)]
        self._client = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": group,
                "enable.auto.commit": False,
                # Does not wait for offsets that are pending in a transaction.
                "isolation.level": "read_uncommitted",
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def committed_records(self) -> int:
        """Return the sum of the committed offsets; partitions without one count as 0.

        So does everything while the group's coordinator has no answer, as in the moments in which
        it is created.
        """
        try:
            found = self._client.committed(self._wanted, timeout=_TIMEOUT_S)
        except KafkaException:
            return 0
        return sum(max(partition.offset, 0) for partition in found)
