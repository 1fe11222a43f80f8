"""The same topologies run by Kafka Streams and by pystreams, each under its own application ids."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, IsolationLevel, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from pystreams import KafkaStreams, State, StateRestoreListener
from pystreams import TopicPartition as Changelog
from tests.broker.interop.java_applications import JavaApplications
from tests.broker.interop.shared_inputs import PARTITIONS
from tests.broker.interop.topologies import GLOBAL, INPUTS, LOOKS_ANEW, OUTPUTS, topologies
from tests.broker.reading import answer_of, create_topics, read_topics, topics_of
from tests.broker.waiting import DEADLINE_S, wait_until
from tests.parity.generated.answer import DUPLICATES, OLDEST, Answer, _duplicates, shown
from tests.parity.generated.build import CaseTopology
from tests.parity.generated.compare import differences

_SESSION_MS = 6_000
_COMMIT_MS = 40
_NEVER_MS = 3_600_000
_OWN: dict[str, object] = {
    "default.key.serde": "string",
    "default.value.serde": "string",
    "consumer.session.timeout.ms": _SESSION_MS,
    "outer.join.emit.interval.ms": 0,
    "window.emit.interval.ms": 0,
}


class Restored(StateRestoreListener):
    """Counts what is restored.

    Attributes:
        records: How many records each store was restored from; those that had all are not in it.
    """

    def __init__(self) -> None:
        self.records: Counter[str] = Counter()

    def on_restore_end(
        self, topic_partition: Changelog, store_name: str, total_restored: int
    ) -> None:
        """Count them."""
        if total_restored:
            self.records[store_name] += total_restored


class PythonApplications:
    """Starts and stops applications of pystreams, in this process.

    Attributes:
        restored: By application, what it restored when it started last.
    """

    def __init__(self) -> None:
        self._running: dict[str, KafkaStreams] = {}
        self.restored: dict[str, Restored] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for streams in self._running.values():
            streams.close(0)
        for streams in self._running.values():
            streams.close(DEADLINE_S)

    def start(self, application_id: str, steps: list[Any], config: Mapping[str, object]) -> None:
        """Start an application; `wait_until_running` tells when it has begun."""
        topology = CaseTopology(steps).builder.build()
        streams = KafkaStreams(topology, {"application.id": application_id, **_OWN, **config})
        self.restored[application_id] = Restored()
        streams.set_global_state_restore_listener(self.restored[application_id])
        self._running[application_id] = streams
        streams.start()

    def wait_until_running(self) -> None:
        """Wait for all of them."""

        def run() -> bool:
            self.check()
            return all(streams.state is State.RUNNING for streams in self._running.values())

        wait_until(run, "all run")

    def stop(self, application_ids: Iterable[str]) -> None:
        """Stop applications, side by side."""
        stopping = [self._running.pop(application_id) for application_id in application_ids]
        for streams in stopping:
            streams.close(0)
        for streams in stopping:
            assert streams.close(DEADLINE_S)
            assert streams.error is None, streams.error

    def check(self) -> None:
        """Fail if an application has."""
        for application_id, streams in self._running.items():
            assert streams.error is None, f"{application_id}: {streams.error}"


@dataclass
class SideBySide:
    """Two sets of applications over the same inputs, and what they write.

    Attributes:
        servers: The broker.
        admin: Its client.
        name: Begins the names of all topics and applications.
        directory: For state.
        java: Runs applications.
        python: Runs applications.
        guarantee: The processing guarantee of both sides.
        restarted: Whether applications have gone on with what others left.
    """

    servers: str
    admin: AdminClient
    name: str
    directory: Path
    java: JavaApplications
    python: PythonApplications
    guarantee: str = "at_least_once"
    restarted: bool = False
    _sources: dict[str, list[str]] = field(default_factory=dict)
    _groups: dict[str, Consumer] = field(default_factory=dict)

    def close(self) -> None:
        """Let go of the clients that ask for offsets."""
        for consumer in self._groups.values():
            consumer.close()

    def names(self) -> list[str]:
        """Return the topologies' names."""
        return list(topologies(self.name, str))

    def create_topics(self) -> None:
        """Create inputs, and the outputs of both sets."""
        names = [f"{self.name}-{topic}" for topic in (*INPUTS, GLOBAL)]
        for first in "jp":
            for topology in self.names():
                names += [f"{self.application(first, topology)}-{topic}" for topic in OUTPUTS]
        topics = [NewTopic(topic, num_partitions=PARTITIONS) for topic in names]
        create_topics(self.admin, topics)

    def application(self, first: str, topology: str) -> str:
        """Return an application's id.

        Args:
            first: Who ran it first: "j" for Java, "p" for Python.
            topology: What it runs.
        """
        return f"{self.name}-{first}-{topology}-app"

    def start(self, side: str, first: str, state: str, names: Iterable[str]) -> None:
        """Start applications; `wait_until_running` waits for all of them.

        Args:
            side: Who runs them: "java" or "python".
            first: Who ran them first.
            state: The directory for their state.
            names: Their topologies.
        """
        config = {
            "bootstrap.servers": self.servers,
            "state.dir": str(self.directory / state),
            "processing.guarantee": self.guarantee,
            "commit.interval.ms": _COMMIT_MS,
            "statestore.cache.max.bytes": 0,
            "repartition.purge.interval.ms": _NEVER_MS,
        }
        applications = self.java if side == "java" else self.python
        for topology in names:
            applications.start(
                self.application(first, topology), self._steps(first, topology), config
            )

    def wait_until_running(self) -> None:
        """Wait until all that was started runs."""
        self.java.wait_until_running()
        self.python.wait_until_running()
        self._find_sources()

    def stop(self, side: str, first: str, names: Iterable[str]) -> None:
        """Stop applications, and wait until they have stopped."""
        applications = self.java if side == "java" else self.python
        applications.stop([self.application(first, topology) for topology in names])

    def settle(self) -> None:
        """Wait until all has been read and committed, what they send themselves included."""
        left: list[str] = []

        def settled() -> bool:
            self.java.check()
            self.python.check()
            left[:] = answer_of(self._left)
            return not left

        wait_until(settled, "all input is committed", told=lambda: f"{left}")

    def restored(self, first: str, names: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return how many records our applications restored stores from when they started last."""
        return {
            topology: dict(self.python.restored[self.application(first, topology)].records)
            for topology in names
        }

    def differences(self) -> list[str]:
        """Return how what Java's set has written differs from ours, as lines."""
        lines = []
        written = tuple(f"{self.name}-{first}-" for first in "jp")
        topics = topics_of(self.admin)
        records = read_topics(
            self.servers, [topic for topic in topics if topic.startswith(written)]
        )
        for topology in self.names():
            java = self._answers("j", topology, records)
            ours = self._answers("p", topology, records)
            for partition in range(PARTITIONS):
                if self.restarted and topology in LOOKS_ANEW:
                    _forget_when(java[partition])
                    _forget_when(ours[partition])
                found = differences(java[partition], ours[partition])
                lines += [f"{topology}, partition {partition}:", *found] if found else []
        return lines

    def _steps(self, first: str, topology: str) -> list[Any]:

        def application_id(which: str) -> str:
            return self.application(first, which)

        return topologies(self.name, application_id)[topology]

    def _find_sources(self) -> None:
        topics = topics_of(self.admin)
        for first in "jp":
            for topology in self.names():
                application = self.application(first, topology)
                steps = self._steps(first, topology)
                read = {each for step in steps for each in step.get("topics", ())}
                read |= {step["topic"] for step in steps if step["op"] == "table"}
                read |= {
                    topic
                    for topic in topics
                    if topic.startswith(f"{application}-")
                    and topic.endswith(("-repartition", "-topic"))
                }
                self._sources[application] = sorted(read)

    def _left(self) -> list[str]:
        """Return which partitions are not committed to their ends."""
        # Offsets first: what they cover has been sent on before, and is in the ends.
        read = {
            application: [(topic, number) for topic in topics for number in range(PARTITIONS)]
            for application, topics in self._sources.items()
        }
        committed = {
            application: self._committed(application, read[application]) for application in read
        }
        newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        ends = self.admin.list_offsets(
            {TopicPartition(*at): newest for partitions in read.values() for at in partitions},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
        )
        end_of = {
            (partition.topic, partition.partition): found.result(DEADLINE_S).offset
            for partition, found in ends.items()
        }
        return [
            f"{application}: {topic}-{number}"
            for application, partitions in read.items()
            for topic, number in partitions
            if committed[application].get((topic, number), 0)
            < end_of[topic, number] - self._marks(topic)
        ]

    def _committed(
        self, application: str, partitions: Sequence[tuple[str, int]]
    ) -> dict[tuple[str | None, int | None], int]:
        """Return the offsets of an application; a consumer that stays asks for them again."""
        if application not in self._groups:
            config = {"bootstrap.servers": self.servers, "group.id": application}
            self._groups[application] = Consumer(config)
        wanted = [TopicPartition(*at) for at in partitions]
        found = self._groups[application].committed(wanted, timeout=DEADLINE_S)
        return {(at.topic, at.partition): max(0, at.offset) for at in found}

    def _marks(self, topic: str) -> int:
        """Return how many records of a transaction may stand behind the last one."""
        inside = topic not in {f"{self.name}-{each}" for each in INPUTS}
        return int(inside and self.guarantee != "at_least_once")

    def _answers(
        self, first: str, topology: str, records: Mapping[str, Sequence[Message]]
    ) -> list[Answer]:
        """Return what stands in each partition of all topics of an application."""
        prefix = f"{self.application(first, topology)}-"
        built = CaseTopology(self._steps(first, topology)).builder.build()
        answers: list[Answer] = [
            {
                "description": "",
                "topics": {},
                "stores": {},
                "seen": {},
                "printed": {},
                DUPLICATES: _duplicates(built),
                OLDEST: {},
            }
            for _ in range(PARTITIONS)
        ]
        for topic, messages in records.items():
            if not topic.startswith(prefix):
                continue
            name = f"app-{topic.removeprefix(prefix)}"
            for answer in answers:
                answer["topics"][name] = []
            for message in messages:
                if message.key() is None:  # Whichever partition the client chooses.
                    answers[0]["topics"].setdefault(f"{name}, no key", []).append(
                        _shown(name, message)
                    )
                    continue
                answers[message.partition() or 0]["topics"][name].append(_shown(name, message))
            answers[0]["topics"].get(f"{name}, no key", []).sort(key=str)
        return answers


def _forget_when(answer: Answer) -> None:
    """Leave out of the records what comes of the one that has let go of them: order, headers."""
    for topic, records in answer["topics"].items():
        if topic in answer[DUPLICATES]:
            continue
        deletes = topic.endswith("-changelog")
        short = [
            [key, value, 0 if deletes and value is None else timestamp]
            for key, value, timestamp, *_ in records
        ]
        answer["topics"][topic] = sorted(short, key=str)


def _shown(topic: str, message: Message) -> list[Any]:
    # Kafka Streams leaves the time of these to the producer.
    is_buffer = topic.endswith("-Buffer-changelog")
    timed = not is_buffer and "SUPPRESS-STATE-STORE" not in topic and "closing-store" not in topic
    key = _bytes(message.key())
    # A buffer numbers what waits; after a restart Kafka Streams' begins again.
    return [
        shown(key[:-4] if is_buffer and key is not None else key),
        shown(_bytes(message.value())),
        message.timestamp()[1] if timed else None,
        *([name, shown(_bytes(content))] for name, content in _headers(message)),
    ]


def _headers(message: Message) -> list[tuple[str, str | bytes | None]]:
    found: Any = message.headers() or []
    return list(found)


def _bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


def now_ms() -> int:
    """Return the present time (ms)."""
    return time.time_ns() // 1_000_000
