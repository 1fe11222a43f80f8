"""A publisher in a process of its own, to be killed.

    python publish.py <pickled job>

Prints a line of JSON for each transaction of rows, and one at the end.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pystreams import StreamsConfig
from pystreams.backfill import Published, PublishingSettings
from pystreams.backfill.plan.rows import Result
from pystreams.backfill.publishing.publisher import Publisher, publishing_config
from pystreams.runtime.adapters.client_factory import ConfluentClients
from pystreams.runtime.topics.application_topics import TopicManager
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.publishing.publications import publication_of
from tests.broker.exactly_once import counting


@dataclass(frozen=True)
class Job:
    """What a publisher needs; the topology is the counting one."""

    servers: str
    application_id: str
    results: list[Result]
    num_partitions: Mapping[str, int]
    settings: PublishingSettings
    protocol: str = "classic"

    def run(self) -> Published:
        config = publishing_config(
            StreamsConfig.of(
                {
                    "application.id": self.application_id,
                    "bootstrap.servers": self.servers,
                    "group.protocol": self.protocol,
                }
            )
        )
        plan = TopologyPlan(counting.topology(), self.application_id)
        clients = ConfluentClients(config)
        topics = TopicManager(plan, clients.admin(), config.topic_config(), 86_400_000)
        publication = publication_of(plan, self.results, self.num_partitions)
        publisher = Publisher(
            publication,
            plan,
            topics,
            clients,
            self.settings,
            lambda found: tell("transaction", task=str(found.task_id), records=found.records),
        )
        return publisher.run()


def tell(message: str, **fields: object) -> None:
    print(json.dumps({"message": message, **fields}), flush=True)


if __name__ == "__main__":
    job: Job = pickle.loads(Path(sys.argv[1]).read_bytes())
    done = job.run()
    tell("published", records=done.records, resumed=done.resumed, was_done=done.was_done)
