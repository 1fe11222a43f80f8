"""Whether somebody may go on from the results in a staging directory: by what they are of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pystreams.backfill.plan.fingerprint import topology_fingerprint
from pystreams.backfill.plan.identity import APPLICATION_ID, TOPOLOGY, BackfillIdentity
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.backfill.sources.history import History
from pystreams.backfill.staging.errors import StagingError
from pystreams.topology.plan.topology_plan import TopologyPlan


def check_identity(
    path: Path,
    identity: BackfillIdentity,
    plan: TopologyPlan,
    configuration: Mapping[str, str] | None = None,
) -> None:
    """Refuse results of another application, topology or configuration.

    Args:
        configuration: See `fingerprint.declared_configuration`; None where it has no part.

    Raises:
        PublishingRefusedError: They are; says what differs.
    """
    wanted = replace(
        identity,
        application_id=plan.application_id,
        topology=topology_fingerprint(plan.topology),
        configuration=dict(configuration or {}),
    )
    different = identity.differences(wanted)
    if APPLICATION_ID in different:
        raise PublishingRefusedError(
            f"{path} holds results for application.id {identity.application_id!r}, and this is "
            f"{plan.application_id!r}: publish them under their own, or start again in another "
            "directory"
        )
    if TOPOLOGY in different:
        raise PublishingRefusedError(
            f"the topology is not the one that {path} holds results of: nodes, serdes, windows, "
            "stores or names of functions differ. Publish with that one, or start again in "
            "another directory"
        )
    if different:
        raise PublishingRefusedError(
            f"{path} holds results that were made with another {', '.join(different)}: what goes "
            "on from them would read them, or treat records, in another way. Give what the "
            "backfill was run with, or start again in another directory"
        )


def refuse_other_offsets(of: History | BackfillIdentity, what: str) -> None:
    """Refuse results whose offsets are not those of Kafka's partitions.

    Args:
        of: The history, or what was staged of it.
        what: Begins the message: "... holds results", or the like.

    Raises:
        PublishingRefusedError: Offsets were computed, or partitions guessed.
    """
    if of.computed_offsets:
        raise PublishingRefusedError(
            f"{what} of an archive without offsets: the application could not go on right behind "
            "the history, since computed offsets are not the topic's. They give a data set "
            "(write_dataset, or --no-publish); for a hand-over run the backfill in another "
            "directory, over an archive with Kafka's offsets or over Kafka"
        )
    if of.guessed_partitions:
        raise PublishingRefusedError(
            f"{what} of an archive without partitions, whose offsets may have gaps: partitions "
            "were computed from the keys as Kafka's default partitioner does, and nothing shows "
            "that the topic's producer has done the same. The application could go on at offsets "
            "of another partition. They give a data set (write_dataset, or --no-publish); for a "
            "hand-over run the backfill in another directory: over an archive with Kafka's "
            "partitions, over one without gaps (and without gaps_allowed), or over Kafka"
        )


def check_begun(
    path: Path,
    begun: BackfillIdentity,
    plan: TopologyPlan,
    configuration: Mapping[str, str],
    num_partitions: Mapping[str, int],
) -> None:
    """Refuse to go on in a directory where something else was begun.

    Args:
        configuration: What it is to be run with; see `fingerprint.declared_configuration`.
        num_partitions: The partition counts of topics now.

    Raises:
        PublishingRefusedError: It is of another application, topology or configuration.
        StagingError: A topic has other partitions by now.
    """
    check_identity(path, begun, plan, configuration)
    for topic, count in begun.num_partitions.items():
        found = num_partitions.get(topic, count)
        if found != count:
            raise StagingError(
                f"topic {topic!r} has {found} partitions, and had {count} when the backfill in "
                f"{path} was begun: keys belong to other tasks now. Delete the directory, and run "
                "the backfill again"
            )
