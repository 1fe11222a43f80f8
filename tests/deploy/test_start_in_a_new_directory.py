"""A start whose state directory does not know what the group ran: it is asked what it has noted."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from pystreams import StreamsConfig
from pystreams.cli.commands.development.describe import describe
from pystreams.deploy.verdicts import Verdict
from pystreams.errors import RetriableClientError, TopologyError
from pystreams.ids import TopicPartition
from pystreams.runtime.adapters.state_directory import StateDirectory
from pystreams.runtime.cluster.committed_offsets import CommittedOffset, encode_partition_time
from pystreams.runtime.cluster.topology_note import noted_topologies
from pystreams.runtime.maintenance.application_reset import ApplicationReset
from pystreams.runtime.maintenance.earlier_topology import FINGERPRINT_FILE, EarlierTopology
from pystreams.runtime.topics.input_topic_watch import TopicWatch
from pystreams.runtime.topics.input_topics import InputTopics
from pystreams.runtime.topics.internal_topic_ids import InternalTopicIds
from pystreams.testing.simulation.admin import SimulatedAdmin
from pystreams.testing.simulation.faults import Lifeline
from pystreams.topology.plan.partition_plan import plan_partitions
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.deploy.pairs import COUNT, HEAD, PAIRS, SESSIONS, TABLE, TUMBLING, topology_of, windowed
from tests.simulation.applications import Application

pytestmark = pytest.mark.simulation

CONFIG = StreamsConfig.of({"application.id": "app", "bootstrap.servers": "none:1"})
TOPICS = ("in", "out", "first", "copy", "others", "other", "rows", "a", "b", "orders")
AT = TopicPartition("in", 0)
LONGER = windowed("TimeWindows.of_size_with_no_grace(20_000)")
UNLOGGED = 'materialized=Materialized(name="counts", logging=False)'

Told = list[tuple[str, str]]
"""Names of stores and topics of which the log says something, with the verdict."""


class Group:
    """Versions of one application that follow each other, without their threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._app = Application(root)
        for topic in TOPICS:
            self._app.broker.create_topic(topic, 4 if topic == "in" else 1)
        self.admin = SimulatedAdmin(self._app.broker, Lifeline("start", self._app.faults))
        self._starts = 0
        self.lines: list[Any] = []
        """What the last start has logged."""

    def file(self, directory: str) -> Path:
        return self._root / directory / "app" / FINGERPRINT_FILE

    def start(self, code: str, directory: str) -> Told:
        """Do what a start does before there are threads."""
        self._starts += 1
        plan = TopologyPlan(topology_of(code), "app")
        states = StateDirectory(self._root / directory, "app")
        try:
            with capture_logs() as self.lines:
                self._topics = self._prepare(plan, states)
        finally:
            states.close()
        return [
            (line["name"], line["verdict"])
            for line in self.lines
            if line["event"] == "the topology has changed"
        ]

    def run(
        self,
        code: str,
        directory: str,
        *,
        noting: bool = True,
        at: TopicPartition = AT,
        rows: int = 1,
    ) -> None:
        """Start a version, and let it commit and write into its changelogs."""
        self.start(code, directory)
        entries = self._topics.entries(at, {}, first=noting)
        offset = CommittedOffset(1, encode_partition_time(5, entries))
        self.admin.alter_offsets("app", {at: offset})
        self.write_rows(code, rows)

    def write_rows(self, code: str, rows: int = 1) -> None:
        plan = TopologyPlan(topology_of(code), "app")
        for topic in [*plan.changelogs(), *_topics_of_tables(plan)] * rows:
            self._app.broker.produce(topic, b"k", b"v", 1)

    def digests(self) -> list[str]:
        """Return those of the versions that the group tells, the last start last."""
        noted = noted_topologies(self.admin.committed_offsets("app"))
        return [each.digest for each in reversed(noted)]

    def lose_changelogs(self) -> None:
        topics = self._app.broker.partition_counts()
        self.admin.delete_topics([topic for topic in topics if topic.endswith("-changelog")])

    def reset(self, code: str, directory: str) -> list[str]:
        """Reset it with a version, and return what that has told."""
        plan = TopologyPlan(topology_of(code), "app")
        reset = ApplicationReset("app", plan, self.admin, self._root / directory)
        told: list[str] = []
        reset.execute(reset.look(), with_orphans=False, new_offsets=None, told=told.append)
        return told

    def fail_next(self, call: str, why: str) -> None:
        """Let the next call of the brokers have no answer in time."""
        self._app.faults.fail_next(call, RetriableClientError(why))

    def rows(self, topic: str) -> int:
        if topic not in self._app.broker.partition_counts():
            return 0
        at = TopicPartition(topic, 0)
        held = self.admin.offset_ranges([at])[at]
        return held.high_watermark - held.beginning

    def _prepare(self, plan: TopologyPlan, states: StateDirectory) -> InputTopics:
        broker = self._app.broker
        earlier = EarlierTopology(states, plan, CONFIG)
        earlier.check()
        partitions = plan_partitions(plan, broker.partition_counts())
        for changelog in plan.changelogs():
            broker.create_topic(changelog, 1)
        earlier.learn(partitions)
        note = earlier.note(self._starts, 0, self.admin)
        last = earlier.last_topology(self.admin)
        topics = InputTopics(plan, self.admin, "", note, last, exactly_once=False)
        internal = InternalTopicIds(plan, self.admin)
        TopicWatch(topics, internal, broker.partition_counts, threading.Event()).prepare()
        earlier.keep()
        return topics


def _topics_of_tables(plan: TopologyPlan) -> list[str]:
    return [topic for part in plan.subtopologies for topic in plan.source_changelogs(part).values()]


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


@pytest.mark.parametrize("name", PAIRS)
def test_a_new_directory_is_told_and_refused_what_one_is_that_knows_the_version_before(
    group: Group, name: str
) -> None:
    pair = PAIRS[name]
    group.run(pair.old, "first")

    if Verdict.WRONG in pair.verdicts.values():
        with pytest.raises(TopologyError, match="state that is not its own"):
            group.start(pair.new, "elsewhere")
    else:
        assert group.start(pair.new, "elsewhere") == group.start(pair.new, "first")


def test_it_is_refused_at_each_start_and_nothing_is_written_down(group: Group) -> None:
    group.run(windowed(TUMBLING), "first")

    for _ in range(2):
        with pytest.raises(TopologyError) as refused:
            group.start(LONGER, "elsewhere")
        assert not group.file("elsewhere").exists()

    assert "store 'counts' (count at orders.py:8): its windows have changed" in str(refused.value)
    assert "what group 'app' ran last (digest 4-" in str(refused.value)
    group.start(LONGER.replace("counts", "anew"), "elsewhere")


def test_who_knows_better_says_so_as_the_refusal_tells(group: Group, tmp_path: Path) -> None:
    new = tmp_path / "orders.py"
    new.write_text(f"{HEAD}{LONGER}")
    group.run(windowed(TUMBLING), "first")
    with pytest.raises(TopologyError) as refused:
        group.start(LONGER, "elsewhere")

    file = group.file("elsewhere")
    command = f"pystreams describe NEW --json > {file}.new && mv {file}.new {file}"
    assert f"`{command}`" in str(refused.value)
    file.write_text(CliRunner().invoke(describe, [str(new), "--json"]).stdout)

    assert group.start(LONGER, "elsewhere") == [("counts", "wrong results")]


def test_who_knows_better_says_so_in_a_directory_that_is_new_at_each_start(
    group: Group, tmp_path: Path
) -> None:
    new = tmp_path / "orders.py"
    new.write_text(f"{HEAD}{LONGER}")
    group.run(windowed(TUMBLING), "first")
    file = group.file("a pod")
    with pytest.raises(TopologyError) as refused:
        group.start(LONGER, "a pod")
    shutil.rmtree(file.parents[1])

    assert f"behind `mkdir -p '{file.parent}'`" in str(refused.value)
    assert f"json > '{file}.new' && mv '{file}.new' '{file}'`" in str(refused.value)
    file.parent.mkdir(parents=True)
    file.write_text(CliRunner().invoke(describe, [str(new), "--json"]).stdout)

    assert group.start(LONGER, "a pod") == [("counts", "wrong results")]


def test_after_a_reset_it_starts(group: Group) -> None:
    group.run(windowed(TUMBLING), "first")

    group.reset(LONGER, "elsewhere")

    assert group.start(LONGER, "elsewhere") == []


def test_a_refusal_that_waits_for_the_leader_of_a_changelog_says_so(group: Group) -> None:
    group.run(windowed(TUMBLING), "first")
    group.fail_next("topic_ids", "topic ids: no answer")
    group.fail_next("offset_ranges", "offsets of app-counts-changelog-0: no answer")

    with pytest.raises(TopologyError, match="its windows have changed"):
        group.start(LONGER, "elsewhere")

    waits = [line for line in group.lines if "the start waits" in line["event"]]
    assert [line["why"] for line in waits] == [
        "topic ids: no answer",
        (
            "whether topic 'app-counts-changelog' has records that store 'counts' would take for "
            "something else is not known: offsets of app-counts-changelog-0: no answer"
        ),
    ]


def test_who_starts_beside_a_process_that_has_not_committed_is_told_to_start_again(
    group: Group,
) -> None:
    group.run(windowed(TUMBLING), "first")
    group.lose_changelogs()
    group.start(LONGER, "one")
    group.write_rows(LONGER)

    with pytest.raises(TopologyError, match="start again once it has") as refused:
        group.start(LONGER, "two")
    group.run(LONGER, "one")

    assert "another process of this version that has not committed yet" in str(refused.value)
    assert group.start(LONGER, "two") == []


@pytest.mark.parametrize("known_by", ["group", "directory"])
def test_a_reset_tells_which_changelogs_of_former_stores_it_leaves_and_how_to_be_rid_of_them(
    group: Group, known_by: str
) -> None:
    group.run(windowed(TUMBLING), "first", noting=known_by == "group")
    renamed = COUNT.replace("counts", "others")
    group.run(renamed, "first", noting=known_by == "group")

    told = group.reset(renamed, "first" if known_by == "directory" else "elsewhere")

    (left,) = [line for line in told if "app-counts-changelog" in line]
    assert "app-counts-changelog (of store 'counts', which an earlier version had)" in left
    command = "pystreams topics delete app-counts-changelog"
    assert f"`{command} -c bootstrap.servers=simulated:9092 --execute`" in left
    assert group.rows("app-counts-changelog") == 1
    group.admin.delete_topics(command.split()[3:])
    assert group.start(LONGER, "anywhere") == []
    assert group.rows("app-counts-changelog") == 0


def test_of_a_store_whose_changelog_is_empty_nothing_can_be_wrong(group: Group) -> None:
    group.run(windowed(TUMBLING), "first")
    group.lose_changelogs()

    assert group.start(LONGER, "elsewhere") == []


@pytest.mark.parametrize(
    ("without", "told"),
    [
        ((0,), [("counts", Verdict.UNSURE.value)]),
        ((1,), [("counts", Verdict.UNSURE.value)]),
        ((0, 1), []),
    ],
)
def test_of_a_store_that_has_or_had_no_changelog_no_rows_come_that_could_be_wrong(
    group: Group, without: tuple[int, ...], told: Told
) -> None:
    """Told is that the rows on other disks are not here."""
    old, new = (
        code.replace('name="counts"', UNLOGGED) if number in without else code
        for number, code in enumerate((windowed(TUMBLING), LONGER))
    )
    group.run(old, "first")

    assert group.start(new, "elsewhere") == told


def test_a_changelog_from_before_the_last_version_had_none_is_told(group: Group) -> None:
    group.run(windowed(TUMBLING), "first")
    group.run(windowed(TUMBLING).replace('name="counts"', UNLOGGED), "first")

    assert group.start(LONGER, "elsewhere") == [("counts", "wrong results")]


@pytest.mark.parametrize(("rows", "told"), [(0, []), (1, [("table", "wrong results")])])
def test_of_a_store_that_is_restored_from_its_topic_the_records_there_may_be_wrong(
    group: Group, rows: int, told: Told
) -> None:
    table = TABLE.format("reuse.ktable.source.topics").replace(
        'name="table"', 'materialized=Materialized(name="table")'
    )
    other = table.replace("**text", "key_serde=serdes.STRING, value_serde=serdes.LONG")
    group.run(table, "first", at=TopicPartition("rows", 0), rows=rows)

    assert group.start(other, "elsewhere") == told


@pytest.mark.parametrize("directory", ["first", "second", "elsewhere"])
def test_a_store_that_comes_back_is_refused_over_the_changelog_it_has_left(
    group: Group, directory: str
) -> None:
    group.run(windowed(TUMBLING), "first")
    group.run(COUNT.replace("counts", "others"), "first")
    group.run(COUNT.replace("counts", "others"), "second")

    with pytest.raises(TopologyError, match="its windows have changed"):
        group.start(LONGER, directory)


def test_a_refusal_for_a_former_store_does_not_say_that_the_last_version_is_unknown(
    group: Group,
) -> None:
    group.run(windowed(TUMBLING), "first")
    group.run(COUNT.replace("counts", "others"), "first")
    group.run(COUNT.replace("counts", "others"), "second")

    with pytest.raises(TopologyError) as refused:
        group.start(LONGER, "second")

    last = group.digests()[-1]
    told = f"what group 'app' has noted of stores of earlier versions, with digest {last}"
    assert f"{told} (this state directory knows less of them" in str(refused.value)
    assert "ran last" not in str(refused.value)


@pytest.mark.parametrize("directory", ["first", "second"])
def test_a_store_that_comes_back_as_it_was_is_told_once(group: Group, directory: str) -> None:
    group.run(COUNT, "first")
    group.run(COUNT.replace("counts", "others"), "first")
    group.run(COUNT.replace("counts", "others"), "second")

    told = [sorted(group.start(COUNT, directory)) for _ in range(2)]

    assert told == [[("counts", Verdict.UNSURE.value), ("others", Verdict.EMPTY.value)], []]


@pytest.mark.parametrize("known", ['words.to("out")', LONGER])
def test_a_directory_that_knows_an_outdated_version_is_refused_likewise(
    group: Group, known: str, tmp_path: Path
) -> None:
    """As of a process that was scaled down, and up again after two deploys."""
    new = tmp_path / "orders.py"
    longest = LONGER + '\nwords.to_table(materialized=Materialized(name="latest"))'
    new.write_text(f"{HEAD}{longest}")
    group.run(known, "away")
    if known == LONGER:
        group.reset(LONGER, "first")
        group.lose_changelogs()
    group.run(windowed(TUMBLING), "first")

    for _ in range(2):
        with pytest.raises(TopologyError, match="its windows have changed"):
            group.start(longest, "away")
    group.file("away").write_text(CliRunner().invoke(describe, [str(new), "--json"]).stdout)

    assert group.start(longest, "away") == [("counts", "wrong results")]


def _former_store_that_was_away(group: Group, *, by: str) -> None:
    """Let `counts` change while a directory is away, and go before that directory is back."""
    gone = COUNT.replace("counts", "others")
    group.run(windowed(TUMBLING), "away")
    group.reset(LONGER, "first")
    group.lose_changelogs()
    group.run(LONGER, "first")
    if by == "first":
        group.run(gone, "first")
    group.run(gone, "away")


@pytest.mark.parametrize("by", ["first", "away"])
@pytest.mark.parametrize("directory", ["away", "elsewhere"])
def test_what_the_group_knows_of_a_former_store_wins_over_a_directory_that_was_away(
    group: Group, directory: str, by: str
) -> None:
    _former_store_that_was_away(group, by=by)

    with pytest.raises(TopologyError, match="its windows have changed"):
        group.start(windowed(TUMBLING), directory)
    assert ("counts", Verdict.UNSURE.value) in group.start(LONGER, directory)


def test_what_the_group_knows_of_a_former_store_wins_over_a_file_that_still_has_it(
    group: Group,
) -> None:
    group.run(windowed(TUMBLING), "away")
    before = json.loads(group.file("away").read_text())["stores"]
    _former_store_that_was_away(group, by="first")
    kept = json.loads(group.file("away").read_text())
    kept["former_stores"] |= before
    group.file("away").write_text(json.dumps(kept))

    with pytest.raises(TopologyError, match="its windows have changed"):
        group.start(windowed(TUMBLING), "away")


def test_a_directory_that_was_away_does_not_overwrite_what_the_group_knows_of_a_former_store(
    group: Group,
) -> None:
    gone = COUNT.replace("counts", "others")
    group.run(windowed(TUMBLING), "away")
    group.run(gone, "away")
    group.reset(LONGER, "first")
    group.lose_changelogs()
    group.run(LONGER, "first")
    group.run(gone, "first")
    group.run(gone, "away")

    with pytest.raises(TopologyError, match="its windows have changed"):
        group.start(windowed(TUMBLING), "elsewhere")
    assert ("counts", Verdict.UNSURE.value) in group.start(LONGER, "elsewhere")


def test_a_rollback_in_a_directory_that_knows_the_version_is_told(group: Group) -> None:
    group.run(LONGER, "away")
    group.reset(LONGER, "first")
    group.lose_changelogs()
    group.run(windowed(TUMBLING), "first")

    assert group.start(LONGER, "away") == [("counts", "wrong results")]
    with pytest.raises(TopologyError, match="its windows have changed"):
        group.start(f'{LONGER}\nwords.repartition(name="anew").to("out")', "away")


def test_where_the_last_version_has_told_no_more_than_a_digest_that_before_it_counts(
    group: Group,
) -> None:
    group.run(windowed(TUMBLING), "first")
    also = 'words.to_table(materialized=Materialized(name="latest"))'
    group.run(f"{windowed(TUMBLING)}\n{also}", "first", at=TopicPartition("in", 3))
    former, last = group.digests()

    with pytest.raises(TopologyError, match="its windows have changed") as refused:
        group.start(LONGER, "elsewhere")

    assert f"digest {former}" in str(refused.value)
    assert f"of the last one, {last}, it tells no more than its digest" in str(refused.value)
    assert group.start(COUNT.replace("counts", "totals"), "elsewhere") == [
        ("counts", Verdict.EMPTY.value)
    ]
    assert [line.get("former_digest") for line in group.lines] == [former, last]


def test_who_knows_the_last_version_and_who_runs_it_are_told_nothing_by_the_group(
    group: Group,
) -> None:
    renamed = COUNT.replace("counts", "totals")
    group.run(COUNT, "first")
    group.start(COUNT, "second")

    assert group.start(COUNT, "elsewhere") == []
    assert group.start(renamed, "first") == [("counts", Verdict.EMPTY.value)]
    group.run(renamed, "first")
    assert group.start(renamed, "elsewhere-too") == []
    assert group.start(renamed, "second") == [("counts", Verdict.EMPTY.value)]


@pytest.mark.parametrize("directory", ["first", "elsewhere"])
def test_what_was_told_is_not_told_again_before_the_new_version_has_had_a_record(
    group: Group, directory: str
) -> None:
    renamed = COUNT.replace("counts", "totals")
    group.run(COUNT, "first")

    told = [group.start(renamed, directory) for _ in range(2)]
    group.run(COUNT, "rolled-back")
    told.append(group.start(renamed, directory))

    empty = [("counts", Verdict.EMPTY.value)]
    assert told == [empty, [], empty]


@pytest.mark.parametrize("directory", ["elsewhere", "away"])
def test_where_the_group_tells_no_more_than_a_digest_the_log_says_so(
    group: Group, directory: str
) -> None:
    group.run('words.to("out")', "away")
    group.run(windowed(TUMBLING), "first", noting=False)

    group.start(windowed(SESSIONS), directory)

    told = [line for line in group.lines if "the group ran another topology" in line["event"]]
    assert [line["former_digest"] for line in told] == [
        json.loads(group.file("first").read_text())["digest"]
    ]
