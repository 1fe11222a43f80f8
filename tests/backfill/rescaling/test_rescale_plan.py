"""What moves, where it goes on and with what time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystreams import StreamsBuilder, TopicPartition, Topology, TopologyError, serdes
from pystreams.backfill.plan.store_changelogs import MissingChangelogError
from pystreams.backfill.publishing.publication import PartitionHistory
from pystreams.backfill.rescaling.move_plan import (
    MovePlan,
    RescaleRefusedError,
    begins,
    inherited,
    plan_move,
)
from pystreams.runtime.cluster.committed_offsets import (
    CommittedOffset,
    encode_partition_time,
    with_numbers,
)
from pystreams.topology.contracts.operator import STREAM_TIME_PREFIX
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.simulation.applications import PATIENCE, Application

TEXT: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
OLD = {
    "in": 8,
    "old-keys-changelog": 4,
    "old-group-repartition": 4,
    "old-groups-changelog": 4,
}


def counting(builder: StreamsBuilder | None = None) -> Topology:
    """Two sub-topologies with a store each; the second one behind a repartition topic."""
    builder = builder or StreamsBuilder()
    source = builder.stream("in", **TEXT)
    source.group_by_key().count(name="keys")
    source.group_by(lambda _, value: value, name="group", **TEXT).count(name="groups")
    return builder.build()


def planned(topology: Topology, counts: dict[str, int]) -> MovePlan:
    return plan_move(TopologyPlan(topology, "old"), TopologyPlan(topology, "new"), counts)


def committed(**offsets: tuple[int, int]) -> dict[TopicPartition, CommittedOffset]:
    """`in_3=(offset, time)`."""
    found = {}
    for name, (offset, time) in offsets.items():
        topic, _, number = name.rpartition("_")
        real_name = {"group": "old-group-repartition"}.get(topic, topic)
        metadata = encode_partition_time(time)
        found[TopicPartition(real_name, int(number))] = CommittedOffset(offset, metadata)
    return found


@given(st.integers(1, 24), st.integers(1, 24), st.integers(0, 100_000))
def test_a_key_comes_from_one_of_the_partitions_its_new_one_inherits(
    old: int, new: int, hashed: int
) -> None:
    assert hashed % old in inherited(old, new, hashed % new)


@given(st.integers(1, 12), st.integers(1, 12))
def test_each_partition_that_is_inherited_may_have_had_a_key(old: int, new: int) -> None:
    for number in range(new):
        found = {hashed % old for hashed in range(old * new) if hashed % new == number}
        assert inherited(old, new, number) == sorted(found)


def test_tasks_follow_the_topics_partitions() -> None:
    plan = planned(counting(), OLD)

    assert [(part.old_tasks, part.new_tasks) for part in plan.subtopologies] == [(4, 8), (4, 8)]
    names = [topic.new_name for part in plan.subtopologies for topic in part.topics]
    assert names == ["in", "new-group-repartition"]


def test_old_partitions_go_on_at_their_offsets_and_new_ones_begin() -> None:
    plan = planned(counting(), OLD)
    offsets = committed(in_0=(5, 50), in_1=(6, 60), in_2=(7, 70), in_3=(8, 80), group_2=(9, 90))
    beginnings = {TopicPartition("in", number): 0 for number in range(8)}

    found = begins(plan, offsets, beginnings | {TopicPartition("in", 1): 6})

    times = [50, 60, 70, 80]
    for number in range(8):
        offset = (5, 6, 7, 8)[number] if number < 4 else 0
        expected = PartitionHistory(offset, offset, times[number % 4])
        assert found[TopicPartition("in", number)] == expected
    group = [found[TopicPartition("new-group-repartition", number)] for number in range(8)]
    assert group == [PartitionHistory(0, 0, 90 if number in {2, 6} else -1) for number in range(8)]


def test_time_is_the_highest_of_those_that_may_have_had_a_key() -> None:
    counts = {**OLD, "in": 6}
    offsets = committed(in_0=(1, 10), in_1=(1, 20), in_2=(1, 30), in_3=(1, 5))
    beginnings = {TopicPartition("in", number): 0 for number in range(6)}

    found = begins(planned(counting(), counts), offsets, beginnings)

    times = [found[TopicPartition("in", number)].partition_time for number in range(6)]
    assert times == [30, 20, 30, 20, 30, 20]


def test_topic_created_again_is_read_from_its_beginning() -> None:
    beginnings = {TopicPartition("in", number): 0 for number in range(8)}

    found = begins(
        planned(counting(), OLD), committed(in_0=(100, 10)), beginnings, frozenset({"in"})
    )

    assert found[TopicPartition("in", 0)] == PartitionHistory(0, 0, 10)


def test_nothing_to_move_is_said() -> None:
    with pytest.raises(RescaleRefusedError, match="another number of partitions first"):
        planned(counting(), {**OLD, "in": 4})


def test_missing_changelog_is_named() -> None:
    counts = {topic: count for topic, count in OLD.items() if topic != "old-groups-changelog"}

    with pytest.raises(MissingChangelogError, match=r"'groups'.*'old-groups-changelog'"):
        planned(counting(), counts)


def test_changelogs_of_one_sub_topology_that_differ_are_refused() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", **TEXT)
    stream.group_by_key().count(name="keys")
    stream.group_by_key().count(name="more")
    counts = {"in": 8, "old-keys-changelog": 4, "old-more-changelog": 3}

    with pytest.raises(RescaleRefusedError, match="'old-more-changelog' has 3"):
        planned(builder.build(), counts)


def test_copartitioned_topics_that_do_not_grow_together_are_refused() -> None:
    builder = StreamsBuilder()
    table = builder.table("prices", **TEXT)
    builder.stream("in", **TEXT).join(table, lambda left, right: left + right).to("out")
    counts = {"in": 8, "prices": 4}

    message = (
        r"\(join at .*test_rescale_plan.py:\d+\) can't join topics with different numbers of "
        r"partitions: 'in' has 8, 'prices' has 4; .*repartition\(num_partitions=8\).*to_table\(\)"
    )
    with pytest.raises(TopologyError, match=message):
        planned(builder.build(), counts)


def test_repartition_topic_with_a_partitioner_of_one_s_own_is_refused() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", **TEXT).repartition(
        name="mine", partitioner=lambda _topic, _key, _value, _count: 0
    )
    stream.group_by_key().count(name="keys")
    counts = {"in": 8, "old-mine-repartition": 4, "old-keys-changelog": 4}

    with pytest.raises(RescaleRefusedError, match="partitioner of its own"):
        planned(builder.build(), counts)


def test_table_that_is_restored_from_its_topic_keeps_its_partitions() -> None:
    builder = StreamsBuilder()
    rows = builder.table("in", **TEXT, name="rows")
    rows.to_stream().group_by_key().count(name="keys")
    topology = builder.build({"topology.optimization": "reuse.ktable.source.topics"})
    counts = {"in": 8, "old-keys-changelog": 4}

    with pytest.raises(RescaleRefusedError, match="'rows' is restored from topic 'in'"):
        planned(topology, counts)


def beside_a_global_table() -> StreamsBuilder:
    """Its sub-topology is counted with the others, and has no tasks."""
    builder = StreamsBuilder()
    builder.global_table("names", **TEXT)
    return builder


def test_tasks_beside_a_global_table_follow_their_topics_partitions() -> None:
    plan = planned(counting(beside_a_global_table()), {**OLD, "names": 3})

    found = [(part.id, part.old_tasks, part.new_tasks) for part in plan.subtopologies]
    assert found == [(1, 4, 8), (2, 4, 8)]


def test_table_beside_a_global_one_that_is_restored_from_its_topic_keeps_its_partitions() -> None:
    builder = beside_a_global_table()
    rows = builder.table("in", **TEXT, name="rows")
    rows.to_stream().group_by_key().count(name="keys")
    builder.stream("others", **TEXT).group_by_key().count(name="stay")
    topology = builder.build({"topology.optimization": "reuse.ktable.source.topics"})
    counts = {"in": 8, "old-keys-changelog": 4, "others": 2, "old-stay-changelog": 2, "names": 3}

    with pytest.raises(RescaleRefusedError, match="'rows' is restored from topic 'in'"):
        planned(topology, counts)


def rows_and_those_who_ask(rows: str, asked: str) -> Topology:
    """A table that is restored from its topic, and a stream that looks its rows up."""
    builder = StreamsBuilder()
    table = builder.table(rows, **TEXT, name="rows")
    builder.stream(asked, **TEXT).join(table, lambda _, row: row, **TEXT).to("out", **TEXT)
    return builder.build({"topology.optimization": "reuse.ktable.source.topics"})


def test_cure_for_a_table_that_is_restored_from_its_topic_is_one(tmp_path: Path) -> None:
    topology = rows_and_those_who_ask("in", "asked")
    cure = (
        "'rows' .* has no changelog .* restored from topic 'in'.*Copy the topic, record by record"
    )
    with pytest.raises(RescaleRefusedError, match=cure):
        planned(topology, {"in": 8, "asked": 8})

    app = Application(tmp_path, partitions=2)
    keys = [f"key {number}" for number in range(16)]
    app.feed(*keys)
    for topic in ("wider", "asked"):
        app.broker.create_topic(topic, 8)
    for row in app.broker.committed_records("in"):
        app.broker.produce("wider", row.message_key, row.message_value, app.clock.now_ms())
    config = {"application.id": "another", "topology.optimization": "reuse.ktable.source.topics"}
    process = app.process(topology=rows_and_those_who_ask("wider", "asked"), config=config)
    for times in (1, 2):  # The second time the table is restored from the copy.
        process.start()
        for _ in range(PATIENCE):  # It has read the rows then.
            process.step()
        for key in keys:
            app.broker.produce("asked", key.encode(), b"?", app.clock.now_ms())
        for _ in range(PATIENCE):
            process.step()
            found = [message.message_key for message in app.broker.committed_records("out")]
            if len(found) == times * len(keys):
                break
        process.stop()
        process.disk.wipe()
        assert sorted(found, key=str) == sorted([key.encode() for key in keys] * times, key=str)


def naming() -> Topology:
    """Rows of `in` name rows of `others`."""
    builder = StreamsBuilder()
    primary, foreign = builder.table("in", **TEXT), builder.table("others", **TEXT)
    primary.join(
        foreign,
        lambda value, other: f"{value}{other}",
        foreign_key=lambda value: value,
        node_name="names",
        name="joined",
    )
    return builder.build()


def counts_of_naming(primary: int, foreign: int) -> dict[str, int]:
    """Of an application that ran with 4 and 2 partitions."""
    topology = naming()
    plan = TopologyPlan(topology, "old")
    counts = {"in": primary, "others": foreign}
    for part in plan.subtopologies:
        own = 4 if "in" in {topic for node in plan.sources_of(part) for topic in node.topics} else 2
        counts |= {plan.changelog_topic(store): own for store in part.stores}
        internal = (
            plan.topic_name(topic) for node in plan.sources_of(part) for topic in node.topics
        )
        counts |= {topic: own for topic in internal if topic in plan.repartition_topics()}
    return counts


def test_table_whose_rows_have_subscribed_to_others_keeps_its_partitions() -> None:
    with pytest.raises(
        RescaleRefusedError,
        match=r"8 tasks instead of 4.*foreign key.*partition that its changes are told to",
    ):
        planned(naming(), counts_of_naming(8, 2))


def test_table_that_others_name_may_get_other_partitions() -> None:
    plan = planned(naming(), counts_of_naming(4, 3))

    assert {(part.old_tasks, part.new_tasks) for part in plan.subtopologies} == {(4, 4), (2, 3)}


def numbers(**found: int) -> str:
    """Metadata of an offset; names that begin with `at_` are of stream times."""
    named = {
        f"{STREAM_TIME_PREFIX}{name[3:]}" if name.startswith("at_") else name: number
        for name, number in found.items()
    }
    return encode_partition_time(1, with_numbers(b"", named))


def test_final_results_count_as_sent_as_far_as_all_have_sent_them() -> None:
    offsets = {
        TopicPartition("in", 0): CommittedOffset(1, numbers(store=100, at_node=130)),
        TopicPartition("in", 1): CommittedOffset(1, numbers(store=50, at_node=200)),
        TopicPartition("in", 2): CommittedOffset(1, numbers(store=70, at_node=90)),
        TopicPartition("in", 3): CommittedOffset(1, numbers(at_node=10)),
    }
    beginnings = {TopicPartition("in", number): 0 for number in range(6)}

    found = begins(planned(counting(), {**OLD, "in": 6}), offsets, beginnings)

    of_node = f"{STREAM_TIME_PREFIX}node"
    # Of 6 partitions an even one inherits from 0 and 2, an odd one from 1 and 3, which sent none.
    for number in range(6):
        expected = {of_node: 200} if number % 2 else {"store": 70, of_node: 130}
        assert found[TopicPartition("in", number)].numbers == expected


def test_partition_that_inherits_from_one_goes_on_with_its_numbers() -> None:
    has = {"store": 100, f"{STREAM_TIME_PREFIX}node": 130}
    offsets = {TopicPartition("in", 1): CommittedOffset(1, numbers(store=100, at_node=130))}
    beginnings = {TopicPartition("in", number): 0 for number in range(8)}

    found = begins(planned(counting(), OLD), offsets, beginnings)

    assert [found[TopicPartition("in", number)].numbers for number in range(8)] == [
        has if number in {1, 5} else {} for number in range(8)
    ]
