"""Where a group stands with a publication, and why it may not be published to: pure functions.

A group is *free* (no committed offset), *begun* (every partition has this publication's mark) or
*done* (handed over by it). Begun and done are set in one transaction each, for all partitions; so
a single partition that says it was handed over speaks for all, and the others hold what the
application has committed since. Anything else is somebody else's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from pystreams.backfill.publishing.publication import Publication, PublishingCommand, TaskResults
from pystreams.errors import StreamsError
from pystreams.ids import TopicPartition
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, OffsetRange
from pystreams.runtime.cluster.publishing_mark import (
    PublishingMark,
    encode_published,
    is_being_published,
    published_by,
)
from pystreams.runtime.cluster.topic_ids import keys_to_note

Offsets = Mapping[TopicPartition, CommittedOffset]


class PublishingRefusedError(StreamsError):
    """Results may not be published here now. Says what to do.

    Before the group is claimed nothing of it is changed. After that it keeps its marks, and nobody
    but a publisher goes on with it.
    """


class Standing(Enum):
    """Where a group stands with a publication."""

    FREE = "free"
    BEGUN = "begun"
    DONE = "done"


def edges_of(publication: Publication) -> list[TopicPartition]:
    """Return the partitions of topics that the topology both writes and reads, sorted."""
    return [
        partition
        for partition in sorted(publication.histories)
        if partition.topic in publication.edge_topics
    ]


def marks(
    task: TaskResults,
    starts: Mapping[TopicPartition, int],
    mark: PublishingMark,
) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets to commit while a task is published.

    Args:
        starts: The offset each partition keeps meanwhile.
    """
    metadata = mark.encode()
    return {partition: CommittedOffset(starts[partition], metadata) for partition in task.histories}


def claimed_offsets(
    publication: Publication, ranges: Mapping[TopicPartition, OffsetRange]
) -> dict[TopicPartition, int]:
    """Return the offset each partition has while it is published.

    Args:
        ranges: What the partitions of edge topics hold now.
    """
    return {
        partition: (
            ranges[partition].high_watermark
            if partition.topic in publication.edge_topics
            else history.start
        )
        for partition, history in publication.histories.items()
    }


def handed_over(
    publication: Publication, edges: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets at which the live application goes on.

    Args:
        edges: The offsets of the partitions of edge topics.
        topic_ids: The ids of the source topics, as far as they tell topics apart.
    """
    return {
        partition: CommittedOffset(
            edges.get(partition, history.next_offset),
            encode_published(
                history.partition_time,
                publication.id,
                keys_to_note(topic_ids, partition.topic),
                history.numbers,
            ),
        )
        for partition, history in publication.histories.items()
    }


def standing(publication: Publication, committed: Offsets, *, with_outputs: bool) -> Standing:
    """Return where the group stands.

    Args:
        committed: The group's committed offsets of all source partitions, as far as it has some.
        with_outputs: Whether output records are published too.

    Raises:
        PublishingRefusedError: It has other offsets, or another publication's mark.
    """
    wanted = sorted(publication.histories)
    if not any(partition in committed for partition in wanted):
        return Standing.FREE
    if all(
        _is_marked(committed.get(partition), publication, with_outputs, partition)
        for partition in wanted
    ):
        return Standing.BEGUN
    if is_handed_over(publication, committed):
        return Standing.DONE
    own = {partition: committed[partition] for partition in wanted if partition in committed}
    # Without all of them, starting the application is no cure.
    already = _published_already(own, publication.command) if len(own) == len(wanted) else None
    raise PublishingRefusedError(already or _other_offsets(wanted, committed, publication.command))


def is_handed_over(publication: Publication, committed: Offsets) -> bool:
    """Return whether a publication has handed the group over, as far as the group still says so.

    The application's first commit of a partition takes the place of what says it.
    """
    return goes_on(publication, committed) and is_said_of_some(publication, committed)


def is_said_of_some(publication: Publication, committed: Offsets) -> bool:
    """Return whether the group says of any partition that it was handed over.

    Kafka deletes the offsets of a deleted topic: then it is said of the others.
    """
    said = (committed.get(partition) for partition in publication.histories)
    return any(
        offset is not None and published_by(offset.metadata) == publication.id for offset in said
    )


def is_handed_over_with(fingerprint: str, committed: Offsets) -> bool:
    """Return whether a group says that it was handed over with results of one fingerprint.

    They need not be there any more. It is said until the application has committed every partition.

    Args:
        fingerprint: `BackfillIdentity.fingerprint` of what the results are of.
    """
    said = {published_by(offset.metadata) for offset in committed.values()} - {None}
    return (
        bool(said)
        and all(each is not None and _of_one_history(each, fingerprint) for each in said)
        and not any(is_being_published(offset.metadata) for offset in committed.values())
    )


def goes_on(publication: Publication, committed: Offsets) -> bool:
    """Return whether a group stands where a publication has handed it over, or further on."""
    for partition, history in publication.histories.items():
        offset = committed.get(partition)
        if offset is None or is_being_published(offset.metadata):
            return False
        if published_by(offset.metadata) not in {None, publication.id}:
            return False
        is_edge = partition.topic in publication.edge_topics
        if not is_edge and offset.next_offset < history.next_offset:
            return False
    return True


def published_rows(task: TaskResults, committed: Offsets, publication: Publication) -> int:
    """Return how many rows of a task are published.

    Raises:
        PublishingRefusedError: The mark is gone or another one: somebody else has committed. Or it
            tells of more rows than there are.
    """
    found = set()
    for partition in task.histories:
        offset = committed.get(partition)
        mark = None if offset is None else PublishingMark.decode(offset.metadata)
        if mark is None or mark.publication != publication.id:
            raise PublishingRefusedError(
                f"task {task.task_id}: {partition} has lost the mark of this "
                f"{publication.command} while it was being published: something else commits "
                f"offsets for the group. Stop it, then {start_again(publication.command)}"
            )
        found.add(mark.rows)
    if len(found) != 1:
        raise PublishingRefusedError(
            f"task {task.task_id}: its partitions say different numbers of published rows "
            f"({sorted(found)}), which one transaction never does; "
            f"{start_again(publication.command)}"
        )
    rows = found.pop()
    if rows > task.num_rows:
        raise PublishingRefusedError(
            f"task {task.task_id}: {rows} rows are published, and these results have "
            f"{task.num_rows}: they are not the same any more; {start_again(publication.command)}"
        )
    return rows


def other_rows(task: TaskResults, rows: int, command: PublishingCommand) -> PublishingRefusedError:
    """Return what is wrong when a task's results give another number of rows than it has."""
    return PublishingRefusedError(
        f"task {task.task_id}: its results give {rows} rows, and had {task.num_rows} when "
        "publishing began: somebody removes or adds files. Bring back what was there, and run "
        f"the {command} again, which goes on"
    )


def start_again(command: PublishingCommand) -> str:
    """Return how to publish to a group that something else was done with."""
    return (
        "delete the application's state and committed offsets with `pystreams reset`, and run the "
        f"{command} again; or run it for another application.id"
    )


def _is_marked(
    offset: CommittedOffset | None,
    publication: Publication,
    with_outputs: bool,  # noqa: FBT001
    partition: TopicPartition,
) -> bool:
    """Return whether a partition has this publication's mark.

    Raises:
        PublishingRefusedError: It has the mark of another one, or of one with other options.
    """
    mark = None if offset is None else mark_at(partition, offset.metadata)
    if mark is None:
        return False
    if mark.publication != publication.id:
        if _of_one_history(mark.publication, publication.id):
            raise PublishingRefusedError(
                f"results of an earlier run of this {publication.command} ({mark.publication}) are "
                f"published to this group in part, and these ({publication.id}) were made again: "
                "their rows may come in another order, so that they can't go on from there. If "
                f"the earlier ones are in another directory, finish from that; else "
                f"{start_again(publication.command)}"
            )
        raise PublishingRefusedError(
            f"another backfill or rescale ({mark.publication}) is being published to this group, "
            f"and this {publication.command} is {publication.id}: finish that one; or "
            f"{start_again(publication.command)}"
        )
    if mark.with_outputs != with_outputs:
        begun, now = ("with", "without") if mark.with_outputs else ("without", "with")
        raise PublishingRefusedError(
            f"this backfill has been published in part {begun} its outputs, and now it is to go on "
            f"{now} them: go on {begun} --publish-outputs"
        )
    return True


def mark_at(partition: TopicPartition, metadata: str) -> PublishingMark | None:
    """Return the mark in an offset's metadata, or None.

    Raises:
        PublishingRefusedError: Another version has made it.
    """
    try:
        return PublishingMark.decode(metadata)
    except ValueError as error:
        raise PublishingRefusedError(
            f"{partition}: {error}: finish with the version of pystreams that has begun"
        ) from error


def _of_one_history(publication_id: str, other: str) -> bool:
    """Return whether two publications differ only in the run that made them.

    An id is `<fingerprint of what the results are of>-<hash of the attempts they came from>`.
    """
    return publication_id.partition("-")[0] == other.partition("-")[0]


def _other_offsets(
    wanted: Sequence[TopicPartition], committed: Offsets, command: PublishingCommand
) -> str:
    some = [
        f"{partition} {committed[partition].next_offset if partition in committed else 'none'}"
        for partition in wanted[:4]
    ]
    more = ", ..." if len(wanted) > len(some) else ""
    return (
        f"the group has committed offsets of its own ({', '.join(some)}{more}): an application "
        f"with this id has run, and a {command} would repeat or lose records. "
        f"{start_again(command)}"
    )


def _published_already(committed: Offsets, command: PublishingCommand) -> str | None:
    """Return what to say of a group that was handed over before; else None."""
    if any(published_by(offset.metadata) is None for offset in committed.values()):
        return None
    return (
        "a backfill or rescale has been published to this group already, and the application has "
        f"not run since: start it. For another {command}, {start_again(command)}"
    )


def why_not_free(committed: Offsets, command: PublishingCommand) -> str:
    """Return why a group with these offsets is not free for new results, and what to do."""
    if any(is_being_published(offset.metadata) for offset in committed.values()):
        return (
            "a backfill or rescale is being published to this group already: finish that one from "
            f"its directory; or {start_again(command)}"
        )
    return _published_already(committed, command) or _other_offsets(
        sorted(committed), committed, command
    )
