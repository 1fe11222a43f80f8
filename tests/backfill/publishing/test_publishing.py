"""Results are published once each, whoever dies on the way; on a simulated broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystreams import (
    FatalStreamsError,
    StreamsBuilder,
    StreamsError,
    TaskId,
    TopicPartition,
    Topology,
    serdes,
)
from pystreams.backfill import Published, PublishingSettings
from pystreams.backfill.broker_waiting import REAL_WAITING, Waiting
from pystreams.backfill.plan.rows import Result, ResultKind
from pystreams.backfill.publishing.broker_checks import refuse_used_group
from pystreams.backfill.publishing.hand_over import PublishingRefusedError
from pystreams.backfill.publishing.publication import (
    PartitionHistory,
    Publication,
    PublishedRecords,
    PublishingCommand,
    TaskResults,
)
from pystreams.backfill.publishing.publisher import FencedPublisherError, Publisher
from pystreams.backfill.staging.errors import StagingError
from pystreams.errors import RetriableClientError
from pystreams.record import StaticMessage
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, encode_partition_time
from pystreams.runtime.cluster.publishing_mark import encode_published, published_by
from pystreams.runtime.cluster.topic_ids import keys_to_note
from pystreams.runtime.topics.application_topics import TopicManager
from pystreams.testing.simulation import (
    FaultRates,
    Faults,
    InlineExecutor,
    Lifeline,
    ManualClock,
    SimulatedBroker,
    SimulatedClients,
    SimulatedCrash,
    SimulatedDisk,
    SimulatedProcess,
)
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.backfill.in_process import Row, run
from tests.backfill.publishing.publications import publication_of

COUNTS = {"in": 2, "by-key": 2, "by-group": 2}
CONFIG = {
    "application.id": "app",
    "processing.guarantee": "exactly_once",
    "statestore.cache.max.bytes": 0,
}
TYPES: Any = {"key_serde": serdes.STRING, "value_serde": serdes.STRING}
IDS: Any = {"key_serde": serdes.STRING, "value_serde": serdes.LONG}
ROUNDS = 6
KEYS = ("a", "b", "c", "d")


def counting() -> Topology:
    """Two sub-topologies, two stores, two outputs; each a running count."""
    builder = StreamsBuilder()
    source = builder.stream("in", **TYPES)
    source.group_by_key().count(name="keys").to_stream().to("by-key", **IDS)
    grouped = source.group_by(lambda _, value: value, name="group", **TYPES)
    grouped.count(name="groups").to_stream().to("by-group", **IDS)
    return builder.build()


def history() -> list[Row]:
    rows = []
    for number in range(ROUNDS):
        for index, key in enumerate(KEYS):
            time_ms, group = number * 10 + index, f"group {index % 2}"
            offset = number * 2 + index // 2
            rows.append(Row("in", index % 2, offset, time_ms, key.encode(), group.encode()))
    return rows


@dataclass(frozen=True)
class Arena:
    """A broker, and the results of a backfill that are to be published to it."""

    broker: SimulatedBroker
    plan: TopologyPlan
    results: list[Result]
    publication: Publication

    def publisher(self, **chosen: Any) -> tuple[Publisher, Lifeline]:
        """A publisher in a process of its own."""
        lifeline = Lifeline("publisher", self.broker.faults)
        clients = SimulatedClients(self.broker, lifeline)
        topics = TopicManager(self.plan, clients.admin(), {}, 0)
        settings = PublishingSettings(**{"transaction_records": 5, **chosen})

        def pause(seconds: float) -> None:
            self.broker.clock.advance_ms(seconds * 1000)
            self.broker.tick()

        waiting = Waiting(pause, InlineExecutor, self.broker.clock)
        publisher = Publisher(
            self.publication, self.plan, topics, clients, settings, waiting=waiting
        )
        return publisher, lifeline

    def publish(self, **chosen: Any) -> Published:
        return self.publisher(**chosen)[0].run()

    def publish_until_crash(self, calls: int, **chosen: Any) -> bool:
        """Publish in a process that dies at that call; return whether it came to the end."""
        publisher, lifeline = self.publisher(**chosen)
        lifeline.crash_in(calls)
        try:
            publisher.run()
        except SimulatedCrash:
            return False
        return True

    def records(self, topic: str) -> list[tuple[int, int, bytes | None, bytes | None]]:
        self.broker.settle()
        return [
            (
                record.message_partition,
                record.timestamp_ms,
                record.message_key,
                record.message_value,
            )
            for record in self.broker.committed_records(topic)
        ]

    def expected(self, kind: ResultKind, name: str) -> list[Any]:
        found = [row for row in self.results if row.kind is kind and row.name == name]
        found.sort(key=lambda row: row.partition)
        return [(row.partition, row.timestamp, row.key, row.value) for row in found]

    def check(self, *, with_outputs: bool) -> None:
        """Every row is there once, in order, and the group goes on behind the history."""
        for store in ("keys", "groups"):
            assert self.records(f"app-{store}-changelog") == self.expected(ResultKind.STATE, store)
        for topic in ("by-key", "by-group"):
            wanted = self.expected(ResultKind.OUTPUT, topic) if with_outputs else []
            assert self.records(topic) == wanted
        assert self.broker.group.offsets == {
            TopicPartition("in", 0): self.handed_over(ROUNDS * 2, 52),
            TopicPartition("in", 1): self.handed_over(ROUNDS * 2, 53),
            **self.repartition_offsets(),
        }

    def repartition_offsets(self) -> dict[TopicPartition, CommittedOffset]:
        return {
            partition: self.handed_over(0, history.partition_time)
            for task in self.publication.tasks
            for partition, history in task.histories.items()
            if partition.topic == "app-group-repartition"
        }

    def handed_over(self, offset: int, time_ms: int) -> CommittedOffset:
        """What was published is noted, and from which source topic."""
        ids = {"in": self.broker.topic_ids()["in"]}
        return CommittedOffset(
            offset, encode_published(time_ms, "backfill1", keys_to_note(ids, "in"))
        )


@pytest.fixture(scope="module")
def backfilled(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    return run(counting(), CONFIG, history(), COUNTS, tmp_path_factory.mktemp("backfill"))


def arena_of(results: list[Result], seed: int = 0) -> Arena:
    broker = SimulatedBroker(ManualClock(), Faults(seed))
    for topic, count in COUNTS.items():
        broker.create_topic(topic, count)
    for row in history():
        record = (row.key, row.value, row.timestamp, row.headers)
        broker.append("in", row.partition, [record])
    plan = TopologyPlan(counting(), "app")
    return Arena(broker, plan, results, publication_of(plan, results, COUNTS))


@pytest.fixture
def arena(backfilled: list[Result]) -> Arena:
    return arena_of(backfilled)


@pytest.mark.parametrize("with_outputs", [False, True])
def test_everything_is_published_once_and_the_group_handed_over(
    arena: Arena, with_outputs: bool
) -> None:
    done = arena.publish(with_outputs=with_outputs)

    arena.check(with_outputs=with_outputs)
    assert (done.resumed, done.was_done) == (False, False)


@pytest.mark.property
@settings(max_examples=60)
@given(
    crashes=st.lists(st.integers(0, 90), max_size=6),
    transaction_records=st.integers(1, 12),
    with_outputs=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_killed_at_any_call_it_goes_on_without_repeat_or_gap(
    backfilled: list[Result],
    crashes: list[int],
    transaction_records: int,
    with_outputs: bool,
    seed: int,
) -> None:
    arena = arena_of(backfilled, seed)
    chosen = {"transaction_records": transaction_records, "with_outputs": with_outputs}
    for calls in crashes:
        arena.publish_until_crash(calls, **chosen)
    arena.publish(**chosen)

    arena.check(with_outputs=with_outputs)


@pytest.mark.property
@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_trouble_on_the_way_is_mended_from_the_mark(backfilled: list[Result], seed: int) -> None:
    arena = arena_of(backfilled, seed)
    arena.broker.faults.rates = FaultRates(no_answer=0.03, abort=0.05)
    try:
        arena.publish(with_outputs=True)
    except RetriableClientError:
        arena.broker.faults.rates = FaultRates(no_answer=0, abort=0)
        arena.publish(with_outputs=True)

    arena.check(with_outputs=True)


def test_second_publisher_takes_over_and_the_first_is_fenced(arena: Arena) -> None:
    first, _ = arena.publisher()
    taken_over: list[Published] = []

    def take_over(*_: object) -> None:
        if not taken_over:
            taken_over.append(arena.publish())

    first._progress = take_over
    with pytest.raises(FencedPublisherError, match="another publisher"):
        first.run()

    assert taken_over[0].resumed
    arena.check(with_outputs=False)


def test_publisher_that_goes_on_tells_what_was_published_before_it(arena: Arena) -> None:
    assert not arena.publish_until_crash(60, with_outputs=True)
    publisher, _ = arena.publisher(with_outputs=True)
    told: list[PublishedRecords] = []
    publisher._progress = told.append
    done = publisher.run()

    wanted = sum(
        len(arena.expected(kind, name))
        for kind, name in (
            (ResultKind.STATE, "keys"),
            (ResultKind.STATE, "groups"),
            (ResultKind.OUTPUT, "by-key"),
            (ResultKind.OUTPUT, "by-group"),
        )
    )
    assert (
        sum(published.records for published in told if not published.by_earlier_run)
        == done.records
        < wanted
    )
    assert sum(published.records for published in told) == wanted


def test_published_twice_changes_nothing(arena: Arena) -> None:
    arena.publish(with_outputs=True)
    again = arena.publish(with_outputs=True)

    assert again == Published(0, 0, resumed=False, was_done=True)
    arena.check(with_outputs=True)


def test_transaction_ends_at_its_bytes(arena: Arena) -> None:
    by_records = arena.publish(transaction_records=1000)
    other = arena_of(arena.results)
    by_bytes = other.publish(transaction_records=1000, transaction_bytes=1)

    assert by_records.transactions == 5  # Claim, three tasks with state, hand-over.
    assert by_bytes.transactions == by_bytes.records + 2


def test_live_application_refuses_a_group_that_is_being_published(
    arena: Arena, tmp_path: Path
) -> None:
    assert not arena.publish_until_crash(40)
    process = SimulatedProcess(
        counting(), CONFIG, arena.broker, SimulatedDisk(tmp_path, arena.broker.faults)
    )
    process.start()

    with pytest.raises(FatalStreamsError, match="has not finished"):
        steps(process, 100)


def test_live_application_goes_on_with_the_state(arena: Arena, tmp_path: Path) -> None:
    arena.publish(with_outputs=True)
    for index, key in enumerate(KEYS):
        record = (key.encode(), f"group {index % 2}".encode(), 100 + index, ())
        arena.broker.append("in", index % 2, [record])
    process = SimulatedProcess(
        counting(), CONFIG, arena.broker, SimulatedDisk(tmp_path, arena.broker.faults)
    )
    process.start()
    steps(process, 300)
    process.stop()

    assert process.threads == []
    assert numbers(arena.broker.committed_records("by-key")) == {
        key.encode(): list(range(1, ROUNDS + 2)) for key in KEYS
    }


def steps(process: SimulatedProcess, count: int) -> None:
    for _ in range(count):
        process.step()


def numbers(messages: list[StaticMessage]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for message in messages:
        value = int.from_bytes(message.message_value or b"", "big")
        found.setdefault(message.message_key or b"", []).append(value)
    return found


# ---------------------------------------------------------------------- refusals


def create_internal_topics(arena: Arena) -> None:
    for changelog in ("app-keys-changelog", "app-groups-changelog"):
        arena.broker.create_topic(changelog, 2, {"cleanup.policy": "compact"})
    arena.broker.create_topic("app-group-repartition", 2)


def refusal(arena: Arena, **chosen: Any) -> str:
    arena.broker.settle()
    before = dict(arena.broker.group.offsets), arena.broker.partition_counts()
    with pytest.raises(PublishingRefusedError) as refused:
        arena.publish(**chosen)
    assert (dict(arena.broker.group.offsets), arena.broker.partition_counts()) == before
    return str(refused.value)


def test_running_application_is_refused_by_name(arena: Arena) -> None:
    arena.broker.group.join("shop-1", ["in"])

    assert "has members (shop-1-1)" in refusal(arena)


def test_application_that_starts_before_the_claim_finds_the_group_as_it_was(arena: Arena) -> None:
    publisher, _ = arena.publisher()
    check = publisher._checks.check_edges

    def start_after_the_checks() -> None:
        check()
        arena.broker.group.join("shop-1", ["in"])

    publisher._checks.check_edges = start_after_the_checks  # type: ignore[method-assign]
    with pytest.raises(PublishingRefusedError, match=r"has members \(shop-1-1\).*Stop it"):
        publisher.run()

    arena.broker.settle()
    assert arena.broker.group.offsets == {}


def test_application_that_starts_during_the_claim_is_told_with_what_it_may_have_done(
    arena: Arena,
) -> None:
    publisher, _ = arena.publisher()
    commit = publisher._transactions.commit

    def start_and_commit(*claim: Any) -> None:
        arena.broker.group.join("shop-1", ["in"])
        commit(*claim)

    publisher._transactions.commit = start_and_commit  # type: ignore[method-assign, assignment]
    with pytest.raises(PublishingRefusedError, match=r"got members \(shop-1-1\)") as refused:
        publisher.run()

    assert "has changed nothing: run the backfill again, and it goes on" in str(refused.value)
    assert "with `pystreams reset`" in str(refused.value)
    for topic in ("app-keys-changelog", "app-groups-changelog"):
        assert arena.records(topic) == []


def test_offsets_of_somebody_else_are_refused(arena: Arena) -> None:
    arena.broker.group.offsets[TopicPartition("in", 0)] = CommittedOffset(3, "")

    assert "in-0 3, in-1 none" in refusal(arena).replace(
        "app-group-repartition-0 none, ", ""
    ).replace("app-group-repartition-1 none, ", "")


def test_publishing_again_is_done_and_disturbs_nobody_while_the_application_runs(
    arena: Arena,
) -> None:
    """One partition that still says what was published is enough: all were handed over at once."""
    arena.publish()
    arena.broker.settle()
    arena.broker.group.join("shop-1", ["in"])
    epoch = arena.broker.transactions.init("app-0_0")
    offsets = arena.broker.group.offsets
    offsets[TopicPartition("in", 0)] = CommittedOffset(ROUNDS * 2 + 1, encode_partition_time(99))
    before = dict(offsets)

    assert arena.publish() == Published(0, 0, resumed=False, was_done=True)
    assert offsets == before
    assert arena.broker.transactions.init("app-0_0") == epoch + 1, "nobody has fenced it"


def test_group_that_was_set_back_behind_what_was_published_is_refused(arena: Arena) -> None:
    arena.publish()
    arena.broker.settle()
    offsets = arena.broker.group.offsets
    offsets[TopicPartition("in", 0)] = CommittedOffset(ROUNDS * 2 - 1, encode_partition_time(9))

    assert "committed offsets of its own" in refusal(arena)


def test_group_that_has_lost_an_offset_is_not_taken_for_published(arena: Arena) -> None:
    arena.publish()
    arena.broker.settle()
    del arena.broker.group.offsets[TopicPartition("in", 0)]

    assert "in-0 none" in refusal(arena)


def test_application_that_came_as_far_by_itself_is_not_taken_for_published(arena: Arena) -> None:
    arena.publish()
    arena.broker.settle()
    offsets = arena.broker.group.offsets
    for partition, offset in offsets.items():
        offsets[partition] = CommittedOffset(offset.next_offset, encode_partition_time(52))

    assert "committed offsets of its own" in refusal(arena)


def test_another_backfill_of_the_group_is_refused(arena: Arena) -> None:
    assert not arena.publish_until_crash(40)
    other = replace(arena, publication=replace(arena.publication, id="other"))

    assert "another backfill or rescale (backfill1)" in refusal(other)


def test_results_that_were_made_again_are_not_mixed_with_those_published_in_part(
    arena: Arena,
) -> None:
    """Their rows may stand in another order, so that the number published says nothing of them."""
    first = replace(arena, publication=replace(arena.publication, id="history-run1"))
    assert not first.publish_until_crash(40)
    again = replace(arena, publication=replace(arena.publication, id="history-run2"))

    told = refusal(again)
    assert "results of an earlier run of this backfill (history-run1) are published" in told
    assert "with `pystreams reset`" in told


def test_results_with_fewer_rows_than_are_published_are_refused(arena: Arena) -> None:
    assert not arena.publish_until_crash(60)
    tasks = [replace(task, num_rows=0, rows=lambda _: iter(())) for task in arena.publication.tasks]
    fewer = replace(arena, publication=replace(arena.publication, tasks=tasks))

    assert "rows are published, and these results have 0" in refusal(fewer)


def test_going_on_with_other_options_is_refused(arena: Arena) -> None:
    assert not arena.publish_until_crash(40)

    assert "go on without --publish-outputs" in refusal(arena, with_outputs=True)


def test_history_beyond_the_end_of_the_topic_is_refused(arena: Arena) -> None:
    create_internal_topics(arena)
    arena.broker.delete_topic("in")
    arena.broker.create_topic("in", 2)

    assert "in-0 goes up to offset 12, and the partition holds 0 to 0" in refusal(arena)


def test_history_before_what_the_topic_still_holds_is_refused(arena: Arena) -> None:
    create_internal_topics(arena)
    for number in range(2):
        arena.broker.append("in", number, [(b"k", b"v", 1, ())] * 5)
        arena.broker.log(TopicPartition("in", number)).delete_before(14)

    assert "in-0 goes up to offset 12, and the partition holds 14 to 17" in refusal(arena)


@pytest.mark.parametrize(("held", "is_refused"), [(3, False), (4, True)])
def test_topic_in_the_middle_that_others_write_to_is_refused(held: int, is_refused: bool) -> None:
    builder = StreamsBuilder()
    builder.stream("in", **TYPES).to("middle", **TYPES)
    builder.stream("middle", **TYPES).to("out", **TYPES)
    broker = SimulatedBroker(ManualClock(), Faults(0))
    for topic in ("in", "middle", "out"):
        broker.create_topic(topic, 1)
    broker.append("middle", 0, [(b"k", b"v", 1, ())] * held)
    tasks = [
        TaskResults(
            TaskId(number, 0),
            {TopicPartition(topic, 0): PartitionHistory(0, end)},
            0,
            lambda _: iter(()),
            lambda: iter(()),
        )
        for number, (topic, end) in enumerate([("in", 0), ("middle", 3)])
    ]
    publication = Publication(
        "b", {"in": 1, "middle": 1}, tasks, frozenset({"middle"}), frozenset()
    )
    arena = Arena(broker, TopologyPlan(builder.build(), "app"), [], publication)

    if is_refused:
        assert "middle-0 goes up to offset 4, and the history of it to 3" in refusal(arena)
    else:
        arena.publish()
        broker.settle()
        assert broker.group.offsets[TopicPartition("middle", 0)].next_offset == 3


def test_table_is_not_restored_from_a_topic_that_has_lost_rows_of_the_history() -> None:
    builder = StreamsBuilder()
    builder.table("in", **TYPES, name="rows")
    topology = builder.build({"topology.optimization": "reuse.ktable.source.topics"})
    broker = SimulatedBroker(ManualClock(), Faults(0))
    broker.create_topic("in", 1)
    broker.append("in", 0, [(b"k", b"v", 1, ())] * 3)
    clients = SimulatedClients(broker, Lifeline("retention", broker.faults))
    clients.admin().delete_records({TopicPartition("in", 0): 1})
    history = {TopicPartition("in", 0): PartitionHistory(0, 3)}
    tasks = [TaskResults(TaskId(0, 0), history, 0, lambda _: iter(()), lambda: iter(()))]
    publication = Publication("b", {"in": 1}, tasks, frozenset(), frozenset())

    told = refusal(Arena(broker, TopologyPlan(topology, "app"), [], publication))

    assert "'rows' is restored from in-0, which begins at offset 1 by now" in told


@pytest.mark.parametrize(
    ("partitions", "message"),
    [
        (None, "there is no topic 'by-key', which output records are for: create it with 2"),
        (3, "topic 'by-key' has 3 partitions, and the backfill has placed output records in 2"),
    ],
)
def test_outputs_for_a_topic_with_other_partitions_or_none_are_refused(
    arena: Arena, partitions: int | None, message: str
) -> None:
    arena.broker.delete_topic("by-key")
    if partitions is not None:
        arena.broker.create_topic("by-key", partitions)

    assert message in refusal(arena, with_outputs=True)
    arena.publish(with_outputs=False)


def test_outputs_that_were_placed_without_knowing_the_partitions_are_refused(
    tmp_path: Path,
) -> None:
    """All of them lie in partition 0; the live application would write to the other as well."""
    results = run(counting(), CONFIG, history(), {"in": 2}, tmp_path)
    arena = arena_of(results)
    arena = replace(arena, publication=publication_of(arena.plan, results, {"in": 2}))

    told = refusal(arena, with_outputs=True)
    assert "'by-group' has 2 partitions, and the backfill has placed output records in 1" in told
    assert "num_partitions={'by-group': 2} (--partitions by-group=2)" in told


def test_missing_topic_for_outputs_is_refused_before_the_backfill_runs(arena: Arena) -> None:
    arena.broker.delete_topic("by-key")
    admin = SimulatedClients(arena.broker, Lifeline("operator", arena.broker.faults)).admin()

    refuse_used_group(arena.plan, admin, REAL_WAITING, with_outputs=False)
    with pytest.raises(PublishingRefusedError, match=r"no topic 'by-key'.*create it first"):
        refuse_used_group(arena.plan, admin, REAL_WAITING, with_outputs=True)


def test_changed_partition_count_is_refused(arena: Arena) -> None:
    arena.broker.delete_topic("in")
    arena.broker.create_topic("in", 3)

    told = refusal(arena)
    assert "'in' has 3 partitions, and had 2" in told
    assert "again with another --output directory, or delete this one first" in told


def test_changelog_with_other_records_is_refused(arena: Arena) -> None:
    create_internal_topics(arena)
    arena.broker.append("app-keys-changelog", 1, [(b"k", b"v", 1, ())])

    assert "app-keys-changelog-1" in refusal(arena)


def test_backfill_after_another_one_that_was_handed_over_is_refused(arena: Arena) -> None:
    arena.publish()
    other = replace(arena, publication=replace(arena.publication, id="other"))

    assert "has been published to this group already" in refusal(other)


def test_publisher_of_another_backfill_is_refused_before_it_fences_the_first(arena: Arena) -> None:
    first, _ = arena.publisher()
    other = replace(arena, publication=replace(arena.publication, id="other"))
    refusals: list[str] = []

    def refuse_other(*_: object) -> None:
        with pytest.raises(PublishingRefusedError) as refused:
            other.publish()
        refusals.append(str(refused.value))

    first._progress = refuse_other
    first.run()

    assert all(
        "another backfill or rescale (backfill1) is being published" in told for told in refusals
    )
    assert refusals
    arena.check(with_outputs=False)


# ---------------------------------------------------------------------- rows that go meanwhile


def losing(arena: Arena, name: str, *, left: int) -> Arena:
    """The same, but all rows of one name are gone, but for the first of them, once it is read."""

    def rows_of(task: TaskResults) -> Callable[[int], Iterator[Result]]:
        def rows(first: int) -> Iterator[Result]:
            mine = [row for row in task.rows(0) if row.name != name]
            return islice(
                iter(mine + [r for r in task.rows(0) if r.name == name][:left]), first, None
            )

        return rows

    tasks = [replace(task, rows=rows_of(task)) for task in arena.publication.tasks]
    return replace(arena, publication=replace(arena.publication, tasks=tasks))


@pytest.mark.parametrize("left", [0, 1])
def test_rows_that_are_gone_when_they_are_read_are_no_reason_to_hand_over(
    arena: Arena, left: int
) -> None:
    with pytest.raises(
        PublishingRefusedError, match=r"task 0_0: its results give \d+ rows, and had"
    ):
        losing(arena, "keys", left=left).publish()

    arena.broker.settle()
    assert not any(published_by(offset.metadata) for offset in arena.broker.group.offsets.values())


def test_rows_that_come_back_are_published_where_it_had_stopped(arena: Arena) -> None:
    with pytest.raises(PublishingRefusedError, match="Bring back what was there"):
        losing(arena, "groups", left=0).publish()

    assert arena.publish().resumed
    arena.check(with_outputs=False)


def test_rows_that_go_while_they_are_passed_over_are_told(arena: Arena) -> None:
    assert not arena.publish_until_crash(60)

    with pytest.raises(PublishingRefusedError, match="Bring back what was there"):
        losing(arena, "keys", left=0).publish()


@pytest.mark.parametrize("error", [StagingError("the file is gone"), PublishingRefusedError("?")])
def test_rows_that_another_publisher_has_tidied_up_are_told_as_taken_over(
    arena: Arena, error: StreamsError
) -> None:
    """As when it removes the default directory: there is nothing left to mend."""
    assert not arena.publish_until_crash(60)

    def gone(_: int) -> Iterator[Result]:
        arena.publish()
        raise error

    tasks = [replace(task, rows=gone) for task in arena.publication.tasks]
    late = replace(arena, publication=replace(arena.publication, tasks=tasks))
    with pytest.raises(FencedPublisherError, match="taken over; nothing is repeated or lost"):
        late.publish()

    arena.check(with_outputs=False)


def test_rows_that_are_gone_are_told_as_such_while_nobody_has_handed_over(arena: Arena) -> None:
    def gone(_: int) -> Iterator[Result]:
        raise StagingError("the file is gone")

    tasks = [replace(task, rows=gone) for task in arena.publication.tasks]
    with pytest.raises(StagingError, match="the file is gone"):
        replace(arena, publication=replace(arena.publication, tasks=tasks)).publish()


def test_running_application_after_another_publisher_is_told_as_taken_over(arena: Arena) -> None:
    """It may go on running; only its publisher has to end."""
    first, _ = arena.publisher()

    def finish_and_start(_: PublishedRecords) -> None:
        if not arena.broker.group.members():
            arena.publish()
            arena.broker.group.join("shop-1", ["in"])

    first._progress = finish_and_start
    with pytest.raises(FencedPublisherError, match="has taken over"):
        first.run()


# ---------------------------------------------------------------------- refusals by their command

each_command = pytest.mark.parametrize("command", list(PublishingCommand))


def made_by(command: PublishingCommand, arena: Arena, **other: Any) -> Arena:
    return replace(arena, publication=replace(arena.publication, command=command, **other))


def names_only(told: str, command: PublishingCommand) -> bool:
    """Whether a text speaks of one command, where it is not of both."""
    [other] = set(PublishingCommand) - {command}
    text = told.replace("backfill or rescale", "").replace("backfill1", "")
    return command in text and other not in text


@each_command
def test_members_are_refused_in_the_words_of_the_command(
    arena: Arena, command: PublishingCommand
) -> None:
    arena.broker.group.join("shop-1", ["in"])
    told = refusal(made_by(command, arena))

    assert "has members (shop-1-1)" in told
    assert told.endswith(f"wait for its session to end, and run the {command} again")
    assert names_only(told, command)


@each_command
def test_offsets_are_refused_in_the_words_of_the_command(
    arena: Arena, command: PublishingCommand
) -> None:
    arena.broker.group.offsets[TopicPartition("in", 0)] = CommittedOffset(3, "")
    told = refusal(made_by(command, arena))

    assert f"has run, and a {command} would repeat or lose records" in told
    assert f"run the {command} again; or run it for another application.id" in told
    assert names_only(told, command)


@each_command
def test_live_publisher_of_something_else_is_told_in_the_words_of_the_command(
    arena: Arena, command: PublishingCommand
) -> None:
    assert not arena.publish_until_crash(40)
    told = refusal(made_by(command, arena, id="other"))

    assert "another backfill or rescale (backfill1) is being published to this group" in told
    assert f"and this {command} is other: finish that one" in told
    assert names_only(told, command)


@each_command
def test_fenced_publisher_is_told_in_the_words_of_the_command(
    arena: Arena, command: PublishingCommand
) -> None:
    arena = made_by(command, arena)
    first, _ = arena.publisher()

    def take_over(_: PublishedRecords) -> None:
        arena.publish()

    first._progress = take_over
    with pytest.raises(FencedPublisherError) as fenced:
        first.run()

    assert f"another publisher of this {command}, or the live application" in str(fenced.value)
    assert names_only(str(fenced.value), command)


@each_command
def test_what_was_handed_over_is_told_in_the_words_of_the_command(
    arena: Arena, command: PublishingCommand
) -> None:
    arena.publish()
    told = refusal(made_by(command, arena, id="other"))

    assert "a backfill or rescale has been published to this group already" in told
    assert f"For another {command}, delete" in told
    assert names_only(told, command)


@each_command
def test_old_changelogs_are_refused_in_the_words_of_the_command(
    arena: Arena, command: PublishingCommand
) -> None:
    create_internal_topics(arena)
    arena.broker.append("app-keys-changelog", 1, [(b"k", b"v", 1, ())])

    assert names_only(refusal(made_by(command, arena)), command)


@each_command
def test_changed_topics_are_refused_in_the_words_of_the_command(
    arena: Arena, command: PublishingCommand
) -> None:
    create_internal_topics(arena)
    arena.broker.delete_topic("in")
    arena.broker.create_topic("in", 2)
    emptied = refusal(made_by(command, arena))
    arena.broker.delete_topic("in")
    arena.broker.create_topic("in", 3)
    counted = refusal(made_by(command, arena))

    assert ("Run the rescale again" in emptied) is (command is PublishingCommand.RESCALE)
    assert "backfill" not in emptied
    assert names_only(counted, command)
