"""`pystreams status`: a group as the broker tells of it, while its application runs and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from structlog.testing import capture_logs

from pystreams import KafkaStreams
from pystreams.cli.application.topology_loader import load_topology
from pystreams.cli.commands.applications.status import status
from pystreams.cli.commands.development.check import check
from pystreams.cli.commands.records.topics import topics
from pystreams.config import StreamsConfig
from pystreams.ids import TopicPartition
from pystreams.runtime.adapters.client_factory import ConfluentClients
from pystreams.runtime.cluster.committed_offsets import (
    CommittedOffset,
    encode_entries,
    encode_partition_time,
)
from tests import names
from tests.broker.waiting import wait_until
from tests.broker.writing import writer_of

if TYPE_CHECKING:
    from pystreams.broker import DevelopmentBroker

COUNT = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
words = builder.stream("{name}-in", key_serde=serdes.STRING, value_serde=serdes.STRING)
words.group_by_key().count(name="{store}").to_stream().to(
    "{name}-out", value_serde=serdes.LONG
)
"""
CODE = """
from pystreams import StreamsBuilder, serdes

builder = StreamsBuilder()
builder.stream("{name}-in", key_serde=serdes.STRING, value_serde=serdes.STRING).to("{name}-out")
"""


class Group:
    """An application, and what the command says of its group."""

    def __init__(self, broker: DevelopmentBroker, directory: Path) -> None:
        self.name = names.unique_name("status")
        self.file = directory / "topology.py"
        self.file.write_text(CODE.format(name=self.name))
        self.servers = broker.bootstrap_servers
        self._directory = directory
        words = ["create", f"{self.name}-in", f"{self.name}-out", "--partitions", "2"]
        CliRunner().invoke(topics, [*words, "-c", f"bootstrap.servers={self.servers}"])

    def streams(self, **more: Any) -> KafkaStreams:
        config = {
            "application.id": self.name,
            "bootstrap.servers": self.servers,
            "state.dir": str(self._directory / "state"),
            "processing.guarantee": "exactly_once",
            "commit.interval.ms": 100,
            **more,
        }
        return KafkaStreams(load_topology(str(self.file)).topology, config)

    def write(self, partition: int, timestamp: int) -> None:
        writer = writer_of(self.servers, f"{self.name}-in")
        writer.write(f"{self.name}-in", "x", "k", partition, timestamp)
        writer.flush()

    def note(self, *digests: str, shown: int | None = None) -> None:
        """Commit an offset of a partition for each, as processes of these topologies would.

        Args:
            shown: How many of them are told as topologies; None for all.
        """
        config = {"application.id": self.name, "bootstrap.servers": self.servers}
        admin = ConfluentClients(StreamsConfig.of(config)).admin()
        offsets, count = {}, len(digests) if shown is None else shown
        for number, digest in enumerate(digests):
            entries = encode_entries([f"pystreams-topology {digest} {number + 1} 0 0"])
            metadata = encode_partition_time(0, entries)
            offsets[TopicPartition(f"{self.name}-in", number)] = CommittedOffset(0, metadata)
        admin.group_members(self.name)  # Its coordinator is there from now on.
        admin.alter_offsets(self.name, offsets)
        # What is answered is not always shown yet.
        wait_until(
            lambda: self.ask().exit_code == 0 and len(self.told()["topologies"]) == count,
            "committed",
            told=lambda: str(admin.committed_offsets(self.name)),
        )

    def set_offset(self) -> None:
        """Commit an offset as tools do, which note nothing with it."""
        config = {"application.id": self.name, "bootstrap.servers": self.servers}
        admin = ConfluentClients(StreamsConfig.of(config)).admin()
        admin.group_members(self.name)  # Its coordinator is there from now on.
        first = TopicPartition(f"{self.name}-in", 0)
        admin.alter_offsets(self.name, {first: CommittedOffset(0, "")})
        wait_until(lambda: admin.committed_offsets(self.name), "committed")

    def ask(self, *options: str) -> Result:
        words = [self.name, *options, "-c", f"bootstrap.servers={self.servers}"]
        return CliRunner().invoke(status, words)

    def told(self, *options: str) -> dict[str, Any]:
        answer = self.ask("--json", *options)
        assert answer.exit_code == 0, answer.output
        told: dict[str, Any] = json.loads(answer.stdout)
        return told

    def standby_tasks(self) -> list[str]:
        members = self.told()["members"]
        return sorted(task for member in members for task in member["standby_tasks"])

    def lags(self) -> list[int]:
        return [partition["lag_records"] for partition in self.told()["partitions"]]


@pytest.fixture
def group(broker: DevelopmentBroker, tmp_path: Path) -> Group:
    return Group(broker, tmp_path)


def test_members_tasks_and_lag_are_told_while_it_runs_and_after(group: Group) -> None:
    with group.streams() as streams:
        for _ in range(3):
            group.write(0, 1)
        wait_until(lambda: streams.statistics().processed_records == 3, "processed")
        wait_until(lambda: group.told()["members"] and group.lags() == [0, 0], "no lag")
        told = group.told("--topology", str(group.file))
        (member,) = told["members"]
        assert member["partitions"] == [f"{group.name}-in-0", f"{group.name}-in-1"]
        assert not member["another_topology"]
        assert [partition["task"] for partition in told["partitions"]] == ["0_0", "0_1"]
    group.write(1, 1_000)
    group.write(1, 2_000)
    told = group.told()
    lagging = told["partitions"][1]

    assert lagging["lag_records"] == 2
    assert lagging["lag_ms"] > 1_000_000_000  # Since 1970.
    assert told["partitions"][0]["lag_ms"] == 0
    shown = group.ask("--topology", str(group.file)).stdout
    assert "lag: 2 records" in shown
    assert f"{group.name}-in-1  0_1 " in shown


def test_what_waits_behind_an_open_transaction_is_lag_and_told_with_where_it_begins(
    group: Group,
) -> None:
    with group.streams() as streams:
        group.write(0, 1)
        wait_until(lambda: streams.statistics().processed_records == 1, "processed")
        wait_until(lambda: group.told()["members"] and group.lags() == [0, 0], "no lag")
        upstream = Producer({"bootstrap.servers": group.servers, "transactional.id": group.name})
        upstream.init_transactions()
        upstream.begin_transaction()
        upstream.produce(f"{group.name}-in", "open", "k", 0)
        upstream.flush()
        group.write(0, 2)
        group.write(0, 3)
        told, shown = group.told(), group.ask().stdout
        upstream.abort_transaction()
        wait_until(lambda: group.lags() == [0, 0], "no lag again")
        after = group.told()["partitions"][0]

    waiting, other = told["partitions"]
    assert (waiting["lag_records"], waiting["lag_ms"]) == (3, None)
    assert (waiting["undecided_records"], waiting["undecided_from"]) == (3, 1)
    assert (other["undecided_records"], other["undecided_from"]) == (0, None)
    assert "lag: 3 records" in shown
    assert f"OPEN TRANSACTION: {group.name}-in-0 from offset 1 on; 3 records wait" in shown
    assert (after["undecided_records"], after["undecided_from"]) == (0, None)


def counting(group: Group, store: str = "counts") -> str:
    """Let the group count; return the topology's file."""
    group.file.write_text(COUNT.format(name=group.name, store=store))
    return str(group.file)


def test_tasks_and_standbys_are_told_by_what_the_group_has_noted(
    group: Group, tmp_path: Path
) -> None:
    counting(group)
    standbys = {"num.standby.replicas": 1}
    with (
        group.streams(**standbys) as first,
        group.streams(**standbys, **{"state.dir": str(tmp_path / "elsewhere")}) as second,
    ):
        for partition in (0, 1):
            group.write(partition, 1)
        wait_until(
            lambda: sum(each.statistics().processed_records for each in (first, second)) == 2,
            "processed",
        )
        wait_until(
            lambda: (
                group.standby_tasks() == ["0_0", "0_1"]
                and len({each["member"] for each in group.told()["partitions"]} - {None}) == 2
            ),
            "a standby of each task is told, and a member that has it",
        )
        told = group.told()

    (noted,) = told["topologies"]
    assert noted["partitions"] == 2
    for member in told["members"]:
        (own,) = [
            each["task"] for each in told["partitions"] if each["member"] == member["client_id"]
        ]
        assert member["tasks"] == [own]
        assert own not in member["standby_tasks"]
    shown = group.ask().stdout
    assert f"topology: {noted['digest']}, started 20" in shown
    assert f"{group.name}-in-1  0_1 " in shown


def test_processes_that_share_a_directory_are_told_with_their_tasks_and_keep_no_standbys(
    group: Group,
) -> None:
    counting(group)
    standbys = {"num.standby.replicas": 1}
    with group.streams(**standbys) as first, group.streams(**standbys) as second:
        wait_until(
            lambda: (
                group.ask().exit_code == 0
                and [len(each["partitions"]) for each in group.told()["members"]] == [1, 1]
            ),
            "two members",
        )
        for partition in (0, 1):
            group.write(partition, 1)
        wait_until(
            lambda: sum(each.statistics().processed_records for each in (first, second)) == 2,
            "processed",
        )
        wait_until(
            lambda: (
                [each["tasks"] for each in group.told()["members"]]
                in ([["0_0"], ["0_1"]], [["0_1"], ["0_0"]])
            ),
            "its task told of each",
        )
        told, shown = group.told(), group.ask("--topology", str(group.file)).stdout

    assert [member["standby_tasks"] for member in told["members"]] == [[], []]
    assert "standbys" not in shown


def test_check_takes_what_the_group_has_noted_for_the_old_topology(
    group: Group, tmp_path: Path
) -> None:
    file, servers = counting(group), f"bootstrap.servers={group.servers}"
    new = tmp_path / "new.py"
    new.write_text(COUNT.format(name=group.name, store="totals"))

    def checked(*topologies: str) -> Result:
        return CliRunner().invoke(check, [*topologies, "--group", group.name, "-c", servers])

    nothing = checked(file)
    with group.streams() as streams:
        group.write(0, 1)
        wait_until(lambda: streams.statistics().processed_records == 1, "processed")
        wait_until(lambda: group.told()["topologies"], "committed")
        while_it_runs = checked(str(new))
    same, other, both, wrong = (
        checked(*topologies)
        for topologies in ([file], [str(new)], [file, str(new)], [str(new), file])
    )

    assert nothing.exit_code == 1
    assert "has committed nothing" in nothing.stderr
    assert f"group '{group.name}' runs 4-" in while_it_runs.stdout
    assert ") on 127.0.0.1" in while_it_runs.stdout
    assert (same.exit_code, "nothing is lost" in same.stdout) == (0, True), same.output
    assert other.stdout.startswith(f"group '{group.name}' has run 4-")
    assert both.stdout.startswith("STARTS EMPTY")
    for found in (while_it_runs, other, both):
        assert found.exit_code == 1
        assert "STARTS EMPTY, OLD DATA ORPHANED: store counts (count at " in found.stdout
    assert wrong.exit_code == 1
    assert wrong.stdout == ""
    assert "is not what group" in wrong.stderr
    assert "Leave OLD out" in wrong.stderr


def test_check_asks_the_brokers_that_the_config_of_the_new_module_names(group: Group) -> None:
    group.note(*["4-0"])
    config = f'config = {{"bootstrap.servers": "{group.servers}"}}\n'
    group.file.write_text(config + group.file.read_text("utf-8") + "print('loading')\n")

    answer = CliRunner().invoke(check, [str(group.file), "--group", group.name])

    assert answer.exit_code == 1, answer.output
    assert f"is not what group '{group.name}' runs" in answer.stderr
    assert answer.stdout == ""


def test_check_loads_the_module_of_the_new_topology_once(group: Group, tmp_path: Path) -> None:
    group.note(*["3-0"])
    loads = tmp_path / "loads"
    note = f"with open({str(loads)!r}, 'a') as file:\n    file.write('once ')\n"
    group.file.write_text(note + group.file.read_text("utf-8"))
    servers = f"bootstrap.servers={group.servers}"

    CliRunner().invoke(check, [str(group.file), "--group", group.name, "-c", servers])

    assert loads.read_text() == "once "


def test_a_start_in_a_new_directory_is_told_by_the_group_what_has_changed(
    group: Group, tmp_path: Path
) -> None:
    counting(group)
    with group.streams() as streams:
        group.write(0, 1)
        wait_until(lambda: streams.statistics().processed_records == 1, "processed")
        # A commit is answered before a group's offsets show it; until then, behind the last
        # member, there is no group to be told of.
        wait_until(lambda: group.told()["topologies"], "committed")
    counting(group, "totals")
    elsewhere = {"state.dir": str(tmp_path / "elsewhere")}
    with capture_logs() as logs, group.streams(**elsewhere) as streams:
        wait_until(lambda: streams.state.name == "RUNNING", "running")

    (told,) = [line for line in logs if line["event"] == "the topology has changed"]
    assert (told["name"], told["verdict"]) == ("counts", "starts empty, old data orphaned")
    assert told["former_digest"] == group.told()["topologies"][0]["digest"]


def test_check_says_what_helps_where_a_tool_has_set_the_offsets(group: Group) -> None:
    file, servers = counting(group), f"bootstrap.servers={group.servers}"
    group.set_offset()
    answers = [
        CliRunner().invoke(check, [*topologies, "--group", group.name, "-c", servers])
        for topologies in ([file], [file, file])
    ]

    for answer in answers:
        assert answer.exit_code == 1
        assert "or a tool has set them" in answer.stderr
        assert "Leave --group out, and name what it runs as OLD" in answer.stderr


def test_what_an_earlier_pystreams_has_noted_in_another_form_is_not_compared(
    group: Group, tmp_path: Path
) -> None:
    file, servers = counting(group), f"bootstrap.servers={group.servers}"
    group.note("9f86d081884c7d65")
    answer = CliRunner().invoke(check, [file, "--group", group.name, "-c", servers])
    with capture_logs() as logs, group.streams() as streams:
        wait_until(lambda: streams.state.name == "RUNNING", "running")

    assert answer.exit_code == 1
    assert "another version of pystreams has noted its digest" in answer.stderr
    assert "What it keeps the group does not tell" in answer.stderr
    assert not [line for line in logs if "another topology" in line["event"]]


def test_all_topologies_that_a_group_has_noted_are_shown_the_last_start_first(
    group: Group,
) -> None:
    group.note("2-former", "2-present")

    shown = [line for line in group.ask().stdout.splitlines() if line.startswith("topology: ")]

    assert [line.split(",")[0] for line in shown] == ["topology: 2-present", "topology: 2-former"]
    assert all(line.endswith(", the last to commit 1 partition") for line in shown)


def test_what_a_group_notes_can_not_command_the_terminal(group: Group) -> None:
    group.note("4-\x1b[2J", shown=0)
    file, servers = counting(group), f"bootstrap.servers={group.servers}"

    shown = group.ask().stdout
    refused = CliRunner().invoke(check, [file, "--group", group.name, "-c", servers])

    assert "topology: " not in shown
    assert refused.exit_code == 1
    assert "does not say which topology it runs" in refused.stderr
    assert "\x1b" not in shown + refused.stderr


def test_a_member_that_runs_another_topology_is_marked(group: Group, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text(CODE.format(name="something-else"))
    with group.streams():
        wait_until(lambda: group.ask().exit_code == 0 and group.told()["members"], "joined")
        wait_until(
            lambda: group.told("--topology", str(other))["members"][0]["another_topology"],
            "assigned",
        )
        assert "ANOTHER TOPOLOGY: " in group.ask("--topology", str(other)).stdout


def test_a_group_that_never_was_is_told(group: Group) -> None:
    answer = group.ask()

    assert answer.exit_code == 1
    assert answer.stderr.startswith(f"Error: there is no group '{group.name}'")


def test_without_a_broker_the_exit_code_says_so() -> None:
    answer = CliRunner().invoke(
        status, ["app", "-c", "bootstrap.servers=127.0.0.1:1", "-c", "request.timeout.ms=1500"]
    )

    assert answer.exit_code == 3
    assert "no broker answered at 127.0.0.1:1" in answer.stderr
