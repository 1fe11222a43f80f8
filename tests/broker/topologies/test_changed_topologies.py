"""What `pystreams check` says of a deploy is what happens on a real broker."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pystreams import KafkaStreams, KeyQuery, WindowKeyQuery, WindowRangeQuery
from pystreams.broker import DevelopmentBroker
from pystreams.cli.commands.development.describe import describe
from pystreams.config import StreamsConfig
from pystreams.deploy.verdicts import Verdict
from pystreams.errors import StoreNotAvailableError, TopologyError
from pystreams.ids import TopicPartition
from pystreams.kernel.clock import SystemClock
from pystreams.runtime.adapters.client_factory import ConfluentClients
from pystreams.runtime.cluster.committed_offsets import CommittedOffset
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.broker.conftest import CreateTopic
from tests.broker.reading import produce
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.deploy.pairs import HEAD, PAIRS, Pair, topology_of

TOPICS = ("in", "out", "first", "copy")
BASE_MS = (SystemClock().now_ms() - 3_600_000) // 20_000 * 20_000
"""Begins windows of 10 s and of 20 s."""

GOES_ON, EMPTY, REFUSED = "goes on", "starts empty", "is refused"
HAPPENS = {
    Verdict.KEPT: GOES_ON,
    Verdict.REBUILT: GOES_ON,
    Verdict.UNSURE: GOES_ON,
    Verdict.EMPTY: EMPTY,
    Verdict.REFUSED: REFUSED,
    Verdict.WRONG: REFUSED,
}
NOT_COUNTED = {
    "a store removed",  # There is nothing to look at.
    "a store in memory without a changelog removed",
    "a repartition topic renamed",  # What is lost had to be in it, unread.
    # Only the input's number of partitions says whether they are refused.
    "a number of partitions given to a repartition topic",
    "the number of partitions of a repartition topic taken away",
    "bytes that are read as text",
    "an unnamed store that comes to lie under the name of another",
    # Its store has keys that are made of more than the record's.
    "repeated records told apart by another function",
    # Of a topic that is not here.
    "a global table that was not there before",
    "a global table of another topic",
}
ALWAYS_EMPTY = {"a store without a changelog moved out of memory"}
"""What there was is gone with the process, whatever is deployed."""
EMPTY_STORES = {
    "another serde of keys",
    "another serde of values",
    "another ready aggregation",
    "repeated records dropped for longer",
    "repeated records told apart by more than their keys",
    "repeated records told apart by their keys alone",
    "repeated records told apart with another serde",
    "keys of another serde, of which repeated records are dropped",
    "windows of another size, in another store, above a suppression",
    "windows that begin to hop, in another store, above a suppression",
    "windows of another size, in another store, above a table of them",
    "windows that become sliding ones, in another store, above a table of them",
    "windows that become sessions, in another store, above a table of them",
    "foreign keys of another serde, of another table",
    "primary keys of another serde, of another table",
}
"""Their first run is not counted: it is enough that it has run."""


class Deployed:
    """One application, in two versions."""

    def __init__(self, servers: str, name: str, directory: Path, topics: dict[str, str]) -> None:
        self._settings = {
            "application.id": name,
            "bootstrap.servers": servers,
            "state.dir": str(directory),
            "commit.interval.ms": 100,
        }
        self._servers, self._topics = servers, topics

    def feed(self, records: int, *, at_ms: int = 0) -> None:
        stamps = [BASE_MS + at_ms] * records
        produce(self._servers, self._topics["in"], [(b"k", b"k")] * records, timestamps_ms=stamps)

    def start(self, code: str) -> KafkaStreams:
        topology = topology_of(self._named(code), self._topics["in"])
        streams = KafkaStreams(topology, self._settings)
        streams.start()
        return streams

    def refusal(self, code: str) -> str:
        """Return why a start is refused."""
        streams = self.start(code)
        try:
            wait_until(lambda: streams.error, "refused")
        finally:
            streams.close(DEADLINE_S)
        assert isinstance(streams.error, TopologyError)
        return str(streams.error)

    def described(self, code: str, file: Path) -> str:
        head = HEAD.replace('"in"', repr(self._topics["in"]))
        file.write_text(head + self._named(code))
        return CliRunner().invoke(describe, [str(file), "--json"]).stdout

    def committed(self) -> Mapping[TopicPartition, CommittedOffset]:
        config = StreamsConfig.of(self._settings)
        return ConfluentClients(config).admin().committed_offsets(config.application_id)

    def _named(self, code: str) -> str:
        for topic, real in self._topics.items():
            code = code.replace(f'"{topic}"', f'"{real}"')
        return code


def count_in(streams: KafkaStreams, store: str, at_ms: int | None = None) -> int | None:
    """Return how many records the store has of the one key, in the last window or that at a time.

    None while it can't be asked, or has nothing. A text has a letter for each record.
    """
    kind = streams.topology.stores[store].store_kind.name
    query: Any = KeyQuery("k")
    if kind == "window":
        query = WindowKeyQuery("k", at_ms or 0, at_ms or BASE_MS)
    elif kind == "session":
        query = WindowRangeQuery(key="k")
    try:
        answer = streams.query(query, store=store)
    except StoreNotAvailableError:
        return None
    found = [each.value for each in answer.partition_results.values() if each.is_success]
    values = [each if kind.endswith("key-value") else counted(each) for each in found]
    numbers = (getattr(value, "value", value) for value in values if value is not None)
    return next((len(found) if isinstance(found, str) else found for found in numbers), None)


def counted(windows: Any) -> Any:
    return next(reversed([value for _, value in windows]), None)


def reads_others(pair: Pair) -> bool:
    """Whether a version reads topics that are not here."""
    plans = (TopologyPlan(topology_of(code), "app") for code in (pair.old, pair.new))
    return any(topic not in TOPICS for plan in plans for topic in plan.source_topics())


@pytest.mark.parametrize(
    "name",
    [name for name, pair in PAIRS.items() if name not in NOT_COUNTED and not reads_others(pair)],
)
def test_the_verdict_is_what_happens(
    broker: DevelopmentBroker,
    create_topic: CreateTopic,
    unique_name: str,
    tmp_path: Path,
    name: str,
) -> None:
    pair = PAIRS[name]
    topics = {topic: create_topic(topic, partitions=1) for topic in TOPICS}
    deployed = Deployed(broker.bootstrap_servers, unique_name, tmp_path, topics)
    deployed.feed(2)
    old, new = stores_of(pair)
    first = deployed.start(pair.old)
    try:
        if name in EMPTY_STORES:
            wait_until(lambda: first.state.value == "RUNNING", "the first version")
        else:
            wait_until(
                lambda: count_in(first, old) == 2, "two counted", told=lambda: str(first.error)
            )
    finally:
        first.close(DEADLINE_S)

    deployed.feed(1)
    second = deployed.start(pair.new)
    happenings: list[str] = []

    def has_happened() -> bool:
        found = None if second.error else count_in(second, new)
        outcome = REFUSED if second.error else {1: EMPTY, 3: GOES_ON}.get(found or 0)
        happenings.extend([outcome] if outcome else [])
        return bool(happenings)

    try:
        wait_until(has_happened, "the second version", told=lambda: str(count_in(second, new)))
    finally:
        second.close(DEADLINE_S)

    worst = max(pair.verdicts.values(), key=list(Verdict).index)
    expected = EMPTY if name in ALWAYS_EMPTY else HAPPENS[worst]
    assert happenings == [expected], second.error


def test_files_that_lie_otherwise_are_refused_before_a_thread_begins_until_they_are_deleted(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    pair = PAIRS["results kept so much longer that segments are cut otherwise"]
    topics = {topic: create_topic(topic, partitions=1) for topic in TOPICS}
    deployed = Deployed(broker.bootstrap_servers, unique_name, tmp_path, topics)
    deployed.feed(2)
    first = deployed.start(pair.old)
    try:
        wait_until(lambda: count_in(first, "counts") == 2, "two counted")
    finally:
        first.close(DEADLINE_S)

    refused = deployed.start(pair.new)
    try:
        wait_until(lambda: refused.error, "refused")
        assert not refused.metadata_for_local_threads()
    finally:
        refused.close(DEADLINE_S)
    (files,) = re.findall(r"  (\S+): store 'counts'", str(refused.error))
    for directory in Path("/").glob(files.removeprefix("/")):
        shutil.rmtree(directory)
    deployed.feed(1)
    second = deployed.start(pair.new)
    try:
        wait_until(lambda: count_in(second, "counts") == 3, "the old rows, counted on")
    finally:
        second.close(DEADLINE_S)


def test_a_new_directory_is_refused_what_would_be_wrong_until_somebody_says_to_know_better(
    broker: DevelopmentBroker, create_topic: CreateTopic, unique_name: str, tmp_path: Path
) -> None:
    """Six records are in the window of 20 s: two in the first half, and four in the second one."""
    pair = PAIRS["a tumbling window of another size"]
    topics = {topic: create_topic(topic, partitions=1) for topic in TOPICS}
    servers = broker.bootstrap_servers
    deployed = Deployed(servers, unique_name, tmp_path / "first", topics)
    deployed.feed(2)
    deployed.feed(3, at_ms=12_000)
    first = deployed.start(pair.old)
    try:
        at_ms = BASE_MS + 10_000
        wait_until(lambda: count_in(first, "counts", at_ms) == 3, "all five counted")
        # Behind the last member there is no group until what it has committed is shown.
        wait_until(deployed.committed, "committed")
    finally:
        first.close(DEADLINE_S)

    elsewhere = Deployed(servers, unique_name, tmp_path / "elsewhere", topics)
    elsewhere.feed(1, at_ms=12_000)
    for _ in range(2):
        refusal = elsewhere.refusal(pair.new)
        assert "store 'counts' (count at orders.py:" in refusal
        assert "its windows have changed" in refusal
    (advice,) = re.findall("`pystreams describe NEW --json > [^`]* && mv [^`]* ([^`]*)`", refusal)
    Path(advice).write_text(elsewhere.described(pair.new, tmp_path / "orders.py"))
    second = elsewhere.start(pair.new)
    try:
        wait_until(lambda: count_in(second, "counts", BASE_MS) == 3, "the old row, counted on")
    finally:
        second.close(DEADLINE_S)


def stores_of(pair: Pair) -> tuple[str, str]:
    """Return the store to look at, in the old version and in the new one."""
    stores = {name: verdict for name, verdict in pair.verdicts.items() if "repart" not in name}
    old = next(name for name, verdict in stores.items() if verdict is not Verdict.NEW)
    fresh = [name for name, verdict in stores.items() if verdict is Verdict.NEW]
    return old, fresh[0] if fresh and stores[old] is Verdict.EMPTY else old
