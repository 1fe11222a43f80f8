"""A note in a staging directory: that its results were handed over, and with which topics.

The group says so itself (`hand_over`), until the application has committed every partition for the
first time. From then on the note does, as long as it is still so: the group stands where it was
handed over or further on, and the topics are the same ones. Where offsets or topics were deleted
since, or on another cluster, it tells of nothing that is there.

Spec: KIP-516 (a topic that is created again has another id).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pystreams.backfill.broker_waiting import REAL_WAITING, Waiting
from pystreams.backfill.publishing.hand_over import (
    Offsets,
    PublishingRefusedError,
    goes_on,
    start_again,
)
from pystreams.backfill.publishing.publication import Publication
from pystreams.backfill.staging.errors import StagingError
from pystreams.backfill.staging.notes import read_note, write_note
from pystreams.errors import StreamsError
from pystreams.kernel.loggers import get_logger
from pystreams.runtime.ports import AdminPort
from pystreams.topology.plan.topology_plan import TopologyPlan

PUBLISHED = "published.json"

_log = get_logger("pystreams.backfill")


@dataclass(frozen=True, slots=True)
class PublishedNote:
    """The note of one staging directory."""

    path: Path
    publication: Publication
    plan: TopologyPlan
    admin: AdminPort
    waiting: Waiting = REAL_WAITING

    def is_true(self, committed: Offsets) -> bool:
        """Return whether these results were handed over to this group, and that holds still.

        Raises:
            RetriableClientError: The broker stays unreachable.
        """
        noted = self._noted()
        return (
            noted is not None
            and goes_on(self.publication, committed)
            and noted == self._topic_ids()
        )

    def refuse_other_topics(self) -> None:
        """Refuse a group that still says it was handed over, when its topics are gone since.

        Raises:
            PublishingRefusedError: They are; names them.
            RetriableClientError: The broker stays unreachable.
        """
        noted = self._noted()
        now = {} if noted is None else self._topic_ids()
        gone = [topic for topic, noted_id in (noted or {}).items() if now.get(topic) != noted_id]
        if gone:
            raise PublishingRefusedError(
                f"group {self.plan.application_id!r} was handed over, and topics were deleted "
                f"since ({', '.join(sorted(gone)[:4])}): what was published to them is lost. "
                f"{start_again(self.publication.command)}"
            )

    def write(self) -> None:
        """Note that the results were handed over.

        They are, noted or not: what keeps it from being written is logged.
        """
        try:
            ids = self._topic_ids()
            write_note(self.path / PUBLISHED, {"publication": self.publication.id, "topics": ids})
        except (OSError, StreamsError) as error:
            _log.warning(
                "the hand-over can't be noted: publishing again is refused once the application "
                "has committed",
                file=str(self.path / PUBLISHED),
                why=str(error),
            )

    def _noted(self) -> Mapping[str, str] | None:
        """Return the ids of the topics with which these results were handed over, if they were."""
        # One of another version, or that can't be read, says nothing.
        with suppress(StagingError):
            note = read_note(self.path / PUBLISHED)
            if note.get("publication") == self.publication.id:
                topics: Mapping[str, str] = note.get("topics", {})
                return topics
        return None

    def _topic_ids(self) -> dict[str, str]:
        sources = {partition.topic for partition in self.publication.histories}
        topics = sorted(sources | self.plan.changelogs().keys())
        return self.waiting.until_answered(lambda: self.admin.topic_ids(topics))
