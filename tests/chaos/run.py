"""How a run is set up, and what came of it: outputs and stores beside the model."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from confluent_kafka import IsolationLevel, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from pystreams.client import Client, HttpQueryError
from tests.broker.reading import answer_of, create_topics, read_topics, topics_of
from tests.chaos.application import INPUTS, NOTHING, OUTPUTS, STORES
from tests.chaos.checks import (
    Stores,
    differences,
    differences_of_input,
    differences_of_stores,
)
from tests.chaos.members import Ended, Member
from tests.chaos.model import Model, Record, Topics

STANDSTILL_S = 180.0
"""How long nothing may be added to the outputs, once all troubles are over, before all is there."""
_LIMIT = 10_000
_ASK_S = 10.0
_LOOK_EVERY_S = 0.2


@dataclass(frozen=True)
class Setting:
    """How a run is set up.

    Attributes:
        name: The application's id.
        servers: Where the test finds the brokers.
        settings: The members' configuration, the brokers as they find them included.
        partitions: Of each topic.
        replicas: Of each topic.
    """

    name: str
    servers: str
    settings: Mapping[str, object]
    partitions: int
    replicas: int = 1

    @property
    def exactly_once(self) -> bool:
        return self.settings["processing.guarantee"] != "at_least_once"

    def create_topics(self) -> None:
        topics = [
            NewTopic(f"{self.name}-{end}", self.partitions, self.replicas)
            for end in (*INPUTS, *OUTPUTS)
        ]
        create_topics(self._admin, topics)
        self.written()  # Once all have leaders.

    def member(self, number: int, directory: Path, plant: str | None = None) -> Member:
        return Member(number, self.name, directory, self.settings, plant)

    def read(self, ends: Sequence[str]) -> Topics:
        """Read topics to their ends, as a read_committed consumer does."""
        found = read_topics(self.servers, [f"{self.name}-{end}" for end in ends])
        return {end: [_record(message) for message in found[f"{self.name}-{end}"]] for end in ends}

    def written(self) -> int:
        """Return how far the outputs go, committed or not."""
        outputs = [
            TopicPartition(f"{self.name}-{end}", partition)
            for end in OUTPUTS
            for partition in range(self.partitions)
        ]
        return sum(self._ends(outputs, IsolationLevel.READ_UNCOMMITTED).values())

    def open_transactions(self) -> dict[tuple[str, int], int]:
        """Return where a transaction stands open: its first offset, for each partition."""
        partitions = [
            TopicPartition(topic, partition)
            for topic, count in topics_of(self._admin).items()
            if topic.startswith(f"{self.name}-")
            for partition in range(count)
        ]
        committed = self._ends(partitions, IsolationLevel.READ_COMMITTED)
        ends = self._ends(partitions, IsolationLevel.READ_UNCOMMITTED)
        return {at: offset for at, offset in committed.items() if offset < ends[at]}

    def _ends(
        self, partitions: Sequence[TopicPartition], level: IsolationLevel
    ) -> dict[tuple[str, int], int]:
        asked = {
            partition: OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for partition in partitions
        }

        def ends() -> dict[tuple[str, int], int]:
            answers = self._admin.list_offsets(
                asked, isolation_level=level, request_timeout=_ASK_S
            ).items()
            try:
                return {
                    (partition.topic, partition.partition): answer.result(2 * _ASK_S).offset
                    for partition, answer in answers
                }
            except KafkaException:
                self._admin.list_topics(timeout=_ASK_S)  # Else it asks the old leaders for ever.
                raise

        return answer_of(ends)

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})


@dataclass
class Outcome:
    """What came of a run.

    Attributes:
        differences: What is not as it must be; empty if all is well.
        records: How many records each topic has.
        ended: Members that ended by themselves, and not because their disk was full.
        full: Members that ended because their disk was full.
        hanging: Partitions whose transactions nobody ends any more, with their offsets.
        behind: Clicks that met an older tariff than the one of their time, for it came later.
    """

    differences: list[str] = field(default_factory=list)
    records: Counter[str] = field(default_factory=Counter)
    ended: list[Ended] = field(default_factory=list)
    full: list[Ended] = field(default_factory=list)
    hanging: list[str] = field(default_factory=list)
    behind: int = 0


def settle(
    setting: Setting,
    members: Sequence[Member],
    tend: Callable[[], None],
    acknowledged: Mapping[str, int],
) -> Outcome:
    """Wait until all that was fed has come out, stop the members, and compare.

    Args:
        setting: How the run is set up.
        members: Those that run.
        tend: Starts those again that have ended by themselves.
        acknowledged: How many records of each input the brokers have taken.
    """
    model = Model(setting.read(INPUTS))
    open_before = _wait_for_outputs(setting, model, tend)
    stores = _wait_for_stores(setting, model, members, tend)
    for member in members:
        member.leave()
    outputs = setting.read(OUTPUTS)
    outcome = Outcome()
    outcome.hanging = [
        f"{at} at {offset}"
        for at, offset in setting.open_transactions().items()
        if open_before.get(at) == offset
    ]
    for ended in (ended for member in members for ended in member.ended):
        (outcome.full if ended.full else outcome.ended).append(ended)
    for topic, records in (*model.inputs.items(), *outputs.items()):
        outcome.records[topic] = len(records)
    outcome.differences = [
        *differences_of_input(model, acknowledged),
        *differences(model, outputs, exactly_once=setting.exactly_once),
        *differences_of_stores(model, stores, exactly_once=setting.exactly_once),
    ]
    outcome.behind = sum(
        record.value.split(" ")[1] != model.tariff_at(record.key, record.time)
        for record in outputs["priced"]
    )
    return outcome


def _wait_for_outputs(
    setting: Setting, model: Model, tend: Callable[[], None]
) -> dict[tuple[str, int], int]:
    """Wait until the outputs are as they must be, or nothing has been added for long.

    Returns:
        Where transactions stood open meanwhile, as `open_transactions` does.
    """
    expected, written = model.expected(), -1
    moved_s = time.monotonic()
    while time.monotonic() - moved_s < STANDSTILL_S:
        tend()
        threading.Event().wait(_LOOK_EVERY_S)
        now = setting.written()
        if now != written:
            written, moved_s = now, time.monotonic()
            continue  # While it moves it is not complete, most likely; reading all is dear.
        outputs = setting.read(OUTPUTS)
        if any(len(outputs[output]) < count for output, count in expected.items()):
            continue
        if not differences(model, outputs, exactly_once=False):
            return {}
    return setting.open_transactions()


def _wait_for_stores(
    setting: Setting, model: Model, members: Sequence[Member], tend: Callable[[], None]
) -> Stores:
    """Ask the members until all stores are as they must be; return the last answers."""
    stores: dict[str, dict[str, str]] = {store: {} for store in (*STORES, "tariffs")}
    refused = ""
    end_s = time.monotonic() + STANDSTILL_S
    while time.monotonic() < end_s:
        tend()
        for member in members:
            if not member.alive:
                continue
            threading.Event().wait(_LOOK_EVERY_S)
            try:
                stores = {store: _store(member, store) for store in STORES}
                stores["tariffs"] = _versions(member, model)
            except HttpQueryError as error:
                refused = str(error)
                continue
            if not differences_of_stores(model, stores, exactly_once=setting.exactly_once):
                return stores
    print(f"the stores were not as they must be within {STANDSTILL_S:.0f} s; {refused}")
    return stores


def _store(member: Member, store: str) -> dict[str, str]:
    client = Client(f"http://127.0.0.1:{member.port}", timeout_s=60)
    found = {}
    for entry in client.range(store, limit=_LIMIT, isolation="read_committed"):
        key = str(entry["key"])
        window = entry.get("window")
        if window is not None:
            key = f"{key} {window['start']}"
        found[key] = str(entry["value"])
    return found


def _versions(member: Member, model: Model) -> dict[str, str]:
    client = Client(f"http://127.0.0.1:{member.port}", timeout_s=60)
    found = {}
    for user, time_ms in model.versions:
        entry = client.get("tariffs", user, as_of=time_ms, isolation="read_committed")
        found[f"{user} at {time_ms}"] = NOTHING if entry is None else str(entry["value"])
    return found


def _record(message: Message) -> Record:
    return Record(
        key=(message.key() or b"").decode(),
        value=(message.value() or b"").decode(),
        time=message.timestamp()[1],
        partition=message.partition() or 0,
        offset=message.offset() or 0,
    )
