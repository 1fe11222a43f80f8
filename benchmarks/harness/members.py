"""A group of processes that count one topic: started, ended, and which of them has which task."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks.harness.processes import Program
from benchmarks.harness.programs import (
    BENCHMARKS,
    KAFKA_STREAMS_VERSION,
    Job,
    kafka_streams_command,
    pystreams_command,
)
from pystreams.runtime.cluster.streams_metadata import host_of

_ANSWER_S = 10.0
_INSTANCE = "consumer.group.instance.id"


@dataclass(frozen=True, slots=True)
class Contender:
    """A program with the way it is in its group.

    Attributes:
        name: What the command line calls it.
        title: What tables call it.
        ours: Whether it is pystreams.
        settings: Its own, beside those that all have.
        named: Whether each process has a `group.instance.id`.
    """

    name: str
    title: str
    ours: bool
    settings: Mapping[str, str] = field(default_factory=dict)
    named: bool = False

    def command(self, job: Job, member: str, settings: Mapping[str, str]) -> list[str]:
        """Return the command of one process; `member` is its name in the group."""
        own = {**settings, **self.settings}
        # Our client id is left alone: what a dead member has left open is known by it.
        own |= {"application.server": f"{member}:1"} if self.ours else {"client.id": member}
        if self.named:
            own[_INSTANCE] = member
        if self.ours:
            program = BENCHMARKS / "apps" / "count_app.py"
            return pystreams_command(program, job, 0, [f"-c{key}={own[key]}" for key in own])
        command = kafka_streams_command(job, 0, "peer.CountApplication")
        return [*command, *(f"conf.{key}={own[key]}" for key in own)]


_KAFKA_STREAMS = f"Kafka Streams {KAFKA_STREAMS_VERSION}"

CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender("pystreams", "pystreams", ours=True),
        Contender(
            "pystreams-consumer",
            "pystreams, `group.protocol=consumer`",
            ours=True,
            settings={"group.protocol": "consumer"},
        ),
        Contender("kafka-streams", _KAFKA_STREAMS, ours=False),
        Contender(
            "kafka-streams-static",
            f"{_KAFKA_STREAMS}, `group.instance.id`",
            ours=False,
            named=True,
        ),
    )
}


class Members:
    """The processes of one application.

    Args:
        contender: What they run.
        job: What it is to do; `job.state` holds a directory for each process.
        settings: Settings of all of them.
    """

    def __init__(self, contender: Contender, job: Job, settings: Mapping[str, str]) -> None:
        self.running: dict[str, Program] = {}
        self._contender, self._job, self._settings = contender, job, settings
        self._edited = False
        self._starts = 0
        self._admin = AdminClient({"bootstrap.servers": job.bootstrap, "log_level": 0})

    def start(self, *names: str) -> None:
        """Start processes; one of a name that has run before finds its disk."""
        for name in names:
            self._starts += 1
            own = replace(self._job, state=self._job.state / name)
            command = self._contender.command(own, name, self._settings)
            if self._edited:
                command.append("--repartitioned" if self._contender.ours else "repartitioned=1")
            log = self._job.state / f"{name}-{self._starts}.log"
            self.running[name] = Program.start(command, log)

    def stop(self, name: str) -> None:
        """Ask a process to stop, and wait for that."""
        self.running.pop(name).stop()

    def kill(self, name: str) -> None:
        """End a process as a crash would."""
        self.running.pop(name).kill()

    def kill_all(self) -> None:
        """End all."""
        for name in list(self.running):
            self.kill(name)

    def lose_disk(self, name: str) -> None:
        """Remove what a process that has ended left on its disk."""
        shutil.rmtree(self._job.state / name)

    def spread_heartbeats(self, interval_s: float, chance: Random) -> None:
        """Let each process send its heartbeats at another time, as after days; waits for that.

        Those that were given shares together begin together, and would all hear at once of what
        happens in the group.
        """
        begun_s = time.monotonic()
        for program in self.running.values():
            program.stand_still(interval_s * (1 + chance.random()))
        time.sleep(max(begun_s + 2 * interval_s - time.monotonic(), 0))

    def edit(self) -> None:
        """Let what is started from now on run another version: with a repartition topic."""
        self._edited = True

    def watch(self) -> None:
        """See that all that were started run.

        Raises:
            ProgramError: One has ended.
        """
        for program in self.running.values():
            program.watch()

    def copies(self) -> Counter[str]:
        """Return on how many disks the state of each task lies."""
        tasks = self._job.state.glob(f"*/*/{self._job.app}/[0-9]*_[0-9]*")
        return Counter(task.name for task in tasks if task.is_dir())

    def state_bytes(self) -> int:
        """Return how much state lies on all disks."""
        return sum(_size_of(file) for file in self._job.state.glob(f"*/*/{self._job.app}/**/*"))

    def owners(self) -> dict[int, str] | None:
        """Return which process has the task of each partition; None while the group shares out."""
        try:
            answer = self._admin.describe_consumer_groups(
                [self._job.app], request_timeout=_ANSWER_S
            )
            found = answer[self._job.app].result()
        except KafkaException:
            return None
        if found.state is not ConsumerGroupState.STABLE:
            return None
        return {
            partition.partition: _name_of(member.client_id)
            for member in found.members
            for partition in member.assignment.topic_partitions
            # Edited, a task counts what comes through the repartition topic.
            if (partition.topic != self._job.input) is self._edited
        }


def _size_of(file: Path) -> int:
    """Return a file's size; 0 of one that is gone by now."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _name_of(client_id: str) -> str:
    """Return what a process was called when it was started."""
    host = host_of(client_id)
    return client_id.partition("-StreamThread")[0] if host is None else host.host
