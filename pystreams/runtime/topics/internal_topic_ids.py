"""Whether changelogs and repartition topics are still those that were there at the start.

One that is deleted and made anew under a running application goes on being written, without a word
from any client: of what a changelog held, stores and standbys have the only copies then.
"""

from __future__ import annotations

from pystreams.errors import DELETED_CHANGELOG, DELETED_REPARTITION, FatalStreamsError
from pystreams.runtime.cluster.topic_ids import known_ids
from pystreams.runtime.ports import AdminPort
from pystreams.topology.plan.topology_plan import TopologyPlan


class InternalTopicIds:
    """The ids of an application's internal topics."""

    def __init__(self, plan: TopologyPlan, admin: AdminPort) -> None:
        self._admin = admin
        self._repartition = frozenset(plan.repartition_topics())
        self._topics = sorted(self._repartition | plan.changelogs().keys())
        self._known: dict[str, str] = {}

    def check(self) -> None:
        """Learn the ids of topics that are new, and compare the others.

        Of one that is not there nothing is said: who sends to it learns that.

        Raises:
            FatalStreamsError: One was deleted and created again.
            RetriableClientError: No answer in time.
        """
        if not self._topics:
            return
        for topic, topic_id in sorted(known_ids(self._admin.topic_ids(self._topics)).items()):
            former = self._known.setdefault(topic, topic_id)
            if former != topic_id:
                cure = DELETED_REPARTITION if topic in self._repartition else DELETED_CHANGELOG
                raise FatalStreamsError(
                    f"internal topic {topic!r} was deleted and created again while the application "
                    f"ran (its id was {former} and is {topic_id}), and what it held is lost; {cure}"
                )
