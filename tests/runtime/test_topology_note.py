"""What committed offsets tell of the topology that has committed them."""

from __future__ import annotations

import base64

import pytest

from pystreams import StreamsBuilder, serdes
from pystreams.cli.application.group_topology import GroupTopology
from pystreams.ids import TopicPartition
from pystreams.runtime.cluster.committed_offsets import (
    CommittedOffset,
    encode_entries,
    encode_partition_time,
)
from pystreams.runtime.cluster.topic_ids import ENTRIES_MAX_BYTES, keys_to_note, partitions_to_note
from pystreams.runtime.cluster.topology_note import TopologyNote, noted_topologies
from pystreams.topology.plan.topology_plan import TopologyPlan

TEXT = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
AT = TopicPartition("in", 0)


@pytest.fixture(scope="module")
def plan() -> TopologyPlan:
    """One part that keeps nothing, and one that keeps counts."""
    builder = StreamsBuilder()
    words = builder.stream("in", **TEXT)  # type: ignore[arg-type]
    words.group_by(lambda _, word: word, key_serde=serdes.STRING, name="by-word").count()
    return TopologyPlan(builder.build(), "app")


def offset_of(note: TopologyNote, plan: TopologyPlan, topic: str) -> CommittedOffset:
    keys = note.keys_to_note(plan, topic)
    return CommittedOffset(1, encode_partition_time(5, encode_entries(keys)))


def test_the_layout_is_an_entry_of_processor_metadata(plan: TopologyPlan) -> None:
    metadata = offset_of(TopologyNote("ab", 12, 2), plan, "in").metadata
    key = b"pystreams-topology ab 12 0 0"

    assert base64.b64decode(metadata).hex() == (
        "020000000000000005" + "00000001" + "0000001c" + key.hex() + "00" * 8
    )


def test_the_topology_started_last_comes_first_however_few_partitions_it_has(
    plan: TopologyPlan,
) -> None:
    former, present = TopologyNote("former", 1_000, 0), TopologyNote("present", 2_000, 0)
    committed = {TopicPartition("in", n): offset_of(former, plan, "in") for n in range(3)}
    committed[TopicPartition("in", 3)] = offset_of(present, plan, "in")

    noted = noted_topologies(committed)

    assert [(each.digest, each.started_ms, each.partitions) for each in noted] == [
        ("present", 2_000, 1),
        ("former", 1_000, 3),
    ]


def test_parts_and_their_standbys_are_told(plan: TopologyPlan) -> None:
    note, internal = TopologyNote("ab", 1, 2), "app-by-word-repartition"
    committed = {
        TopicPartition(topic, 0): offset_of(note, plan, topic) for topic in ("in", internal)
    }

    (noted,) = noted_topologies(committed)

    assert noted.subtopologies == {"in": 0, internal: 1}
    assert noted.standbys == {0: 0, 1: 2}


def test_the_last_start_says_how_many_standbys_there_are(plan: TopologyPlan) -> None:
    topic = "app-by-word-repartition"
    for first, second in ((1, 2), (2, 1)):
        committed = {
            TopicPartition(topic, 0): offset_of(TopologyNote("ab", first, first), plan, topic),
            TopicPartition(topic, 1): offset_of(TopologyNote("ab", second, second), plan, topic),
        }
        assert noted_topologies(committed)[0].standbys == {1: 2}


def test_the_last_start_says_which_part_reads_a_topic() -> None:
    def note_at(started_ms: int, part: int) -> CommittedOffset:
        key = f"pystreams-topology ab {started_ms} {part} 0"
        return CommittedOffset(1, encode_partition_time(5, encode_entries([key])))

    for former, present in ((0, 1), (1, 0)):
        committed = {TopicPartition("in", former): note_at(1, 0)}
        committed[TopicPartition("in", present)] = note_at(2, 1)
        assert noted_topologies(committed)[0].subtopologies == {"in": 1}


@pytest.mark.parametrize(
    "key",
    [
        "",
        "pystreams-topology ab",
        "pystreams-topology ab 1 x 0",
        "pystreams-topology \x1b[2J 1 0 0",
        "pystreams-topology a\nb 1 0 0",
    ],
)
def test_other_metadata_tells_none(key: str) -> None:
    text = encode_partition_time(5, encode_entries([key]))

    assert noted_topologies({AT: CommittedOffset(1, text)}) == []
    assert noted_topologies({AT: CommittedOffset(1, "text")}) == []


def test_all_that_is_noted_stays_below_what_brokers_take(plan: TopologyPlan) -> None:
    topics = {letter * 249: "B" * 22 for letter in "abc"}
    keys = [
        *keys_to_note(topics, "a" * 249),
        *partitions_to_note({"a" * 249: 10_000}, "a" * 249),
        *TopologyNote("2-" + "f" * 16, 10**13, 9).keys_to_note(plan, "in"),
    ]
    numbers = {f"stream-time {'n' * 60}{number}": 10**13 for number in range(100)}

    assert len(encode_entries(keys[:2])) < ENTRIES_MAX_BYTES
    assert len(encode_partition_time(5, encode_entries(keys), numbers)) < 4096


@pytest.mark.parametrize("started_ms", ["9" * 20, "9" * 5000])
def test_a_start_that_no_calendar_has_is_no_error(started_ms: str) -> None:
    """Whoever may commit for the group may have written it."""
    keys = [f"pystreams-topology 3-ab {started_ms} 0 0", "pystreams-topology 3-cd 7 0 0"]
    offset = CommittedOffset(1, encode_partition_time(5, encode_entries(keys)))

    noted = noted_topologies({TopicPartition("in", 0): offset})

    told = [GroupTopology("orders", each, ()).told() for each in noted]
    assert told[-1].endswith("3-cd (started 1970-01-01T00:00:00+00:00)")
