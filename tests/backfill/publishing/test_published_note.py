"""What was handed over is known again when the application has run since; on a simulated broker."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pystreams import TopicPartition
from pystreams.backfill import Published
from pystreams.backfill.plan.rows import Result
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.backfill.publishing.published_note import PUBLISHED, PublishedNote
from pystreams.backfill.publishing.publisher import FencedPublisherError
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, encode_partition_time
from pystreams.testing.simulation import Lifeline, SimulatedClients
from tests.backfill.in_process import run
from tests.backfill.publishing.test_publishing import (
    CONFIG,
    COUNTS,
    Arena,
    arena_of,
    counting,
    history,
)

DONE_BEFORE = Published(0, 0, resumed=False, was_done=True)
INTERNAL = ("app-keys-changelog", "app-groups-changelog", "app-group-repartition")


@pytest.fixture(scope="module")
def backfilled(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    return run(counting(), CONFIG, history(), COUNTS, tmp_path_factory.mktemp("backfill"))


@pytest.fixture
def arena(backfilled: list[Result]) -> Arena:
    return arena_of(backfilled)


def note_of(arena: Arena, staging: Path) -> PublishedNote:
    clients = SimulatedClients(arena.broker, Lifeline("operator", arena.broker.faults))
    return PublishedNote(staging, arena.publication, arena.plan, clients.admin())


def publish(arena: Arena, staging: Path, **chosen: Any) -> Published:
    """Publish as from a staging directory."""
    done = arena.publisher(**chosen)[0].run(note=note_of(arena, staging))
    arena.broker.settle()
    return done


def let_application_commit(arena: Arena) -> dict[TopicPartition, CommittedOffset]:
    """Let it commit all partitions, one record further; nothing says what was published then."""
    offsets = arena.broker.group.offsets
    for partition, offset in offsets.items():
        offsets[partition] = CommittedOffset(offset.next_offset + 1, encode_partition_time(99))
    return dict(offsets)


def test_publishing_again_while_the_application_runs_does_nothing(
    arena: Arena, tmp_path: Path
) -> None:
    publish(arena, tmp_path)
    offsets = let_application_commit(arena)
    arena.broker.group.join("shop-1", ["in"])
    epoch = arena.broker.transactions.init("app-0_0")

    assert publish(arena, tmp_path) == publish(arena, tmp_path, with_outputs=True) == DONE_BEFORE
    assert arena.broker.group.offsets == offsets
    assert arena.broker.transactions.init("app-0_0") == epoch + 1, "nobody has fenced it"


def test_hand_over_that_was_not_noted_is_noted_by_who_finds_it(
    arena: Arena, tmp_path: Path
) -> None:
    """As by one that was killed in between."""
    arena.publish()
    arena.broker.settle()
    assert publish(arena, tmp_path) == DONE_BEFORE
    let_application_commit(arena)

    assert publish(arena, tmp_path) == DONE_BEFORE


def refusal(arena: Arena, staging: Path) -> str:
    with pytest.raises(PublishingRefusedError) as refused:
        publish(arena, staging)
    return str(refused.value)


def test_group_without_offsets_is_not_taken_for_published(arena: Arena, tmp_path: Path) -> None:
    publish(arena, tmp_path)
    arena.broker.group.offsets.clear()

    assert "changelogs have records already" in refusal(arena, tmp_path)


def test_group_that_begins_again_is_not_taken_for_published(arena: Arena, tmp_path: Path) -> None:
    """Its offsets were deleted, and the application has read some of the history since."""
    publish(arena, tmp_path)
    let_application_commit(arena)
    arena.broker.group.offsets[TopicPartition("in", 1)] = CommittedOffset(3, "")

    assert "committed offsets of its own" in refusal(arena, tmp_path)


@pytest.mark.parametrize("is_created_again", [False, True])
@pytest.mark.parametrize("topic", INTERNAL)
def test_deleted_topics_are_not_taken_for_published(
    arena: Arena, tmp_path: Path, topic: str, is_created_again: bool
) -> None:
    publish(arena, tmp_path)
    let_application_commit(arena)
    arena.broker.delete_topic(topic)
    if is_created_again:
        arena.broker.create_topic(topic, 2)

    assert "committed offsets of its own" in refusal(arena, tmp_path)


@pytest.mark.parametrize("topic", INTERNAL)
def test_deleted_topics_are_told_while_the_group_says_that_it_was_handed_over(
    arena: Arena, tmp_path: Path, topic: str
) -> None:
    """As by who wanted to publish once more, and has forgotten to delete the offsets."""
    publish(arena, tmp_path)
    arena.broker.delete_topic(topic)

    told = refusal(arena, tmp_path)
    assert f"group 'app' was handed over, and topics were deleted since ({topic})" in told
    assert "with `pystreams reset`" in told


def test_other_results_in_the_directory_are_not_taken_for_published(
    arena: Arena, tmp_path: Path
) -> None:
    publish(arena, tmp_path)
    let_application_commit(arena)
    again = replace(arena, publication=replace(arena.publication, id="history-run2"))

    assert "committed offsets of its own" in refusal(again, tmp_path)


def test_publishing_anew_goes_on_where_it_was_killed_whatever_was_noted_before(
    arena: Arena, tmp_path: Path
) -> None:
    """Topics and offsets were deleted, as one does to publish once more."""
    publish(arena, tmp_path)
    arena.broker.group.offsets.clear()
    for topic in INTERNAL:
        arena.broker.delete_topic(topic)
    assert not arena.publish_until_crash(60)

    assert publish(arena, tmp_path).resumed
    arena.check(with_outputs=False)
    let_application_commit(arena)
    assert publish(arena, tmp_path) == DONE_BEFORE


@pytest.mark.parametrize("content", ["", "{}", json.dumps({"format_version": 1})])
def test_damaged_note_or_one_of_another_version_says_nothing(
    arena: Arena, tmp_path: Path, content: str
) -> None:
    publish(arena, tmp_path)
    (tmp_path / PUBLISHED).write_text(content)
    assert publish(arena, tmp_path) == DONE_BEFORE, "the group says so"

    (tmp_path / PUBLISHED).write_text(content)
    let_application_commit(arena)
    assert "committed offsets of its own" in refusal(arena, tmp_path)


def test_what_can_not_be_noted_is_handed_over_all_the_same(arena: Arena, tmp_path: Path) -> None:
    """As from a directory that is mounted for reading only."""
    with capture_logs() as logs:
        done = publish(arena, tmp_path / "gone")

    arena.check(with_outputs=False)
    assert not done.was_done
    (line,) = [event for event in logs if "can't be noted" in event["event"]]
    assert line["file"].endswith(PUBLISHED)


def test_late_publisher_is_told_that_it_was_overtaken_when_the_application_runs(
    arena: Arena, tmp_path: Path
) -> None:
    """It must not tell its operator to stop what is at work, or to delete its state."""
    first, _ = arena.publisher()

    def finish_and_start(_: object) -> None:
        if not arena.broker.group.members():
            publish(arena, tmp_path)
            let_application_commit(arena)
            arena.broker.group.join("shop-1", ["in"])

    first._progress = finish_and_start
    with pytest.raises(FencedPublisherError, match="has taken over; nothing is repeated or lost"):
        first.run(note=note_of(arena, tmp_path))
