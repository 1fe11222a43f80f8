"""The brokers that are restarted, killed and held, with the proxy that the members go through.

One broker is a whole Kafka. Of three, the first is the controller, too: while it is away the other
two go on, and nothing can be decided about them.
"""

from __future__ import annotations

import os
import re
import signal
import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pystreams.broker import DevelopmentBroker, network
from pystreams.broker.settings import LOOPBACK
from tests.chaos.proxy import Proxy

_START_S = 240.0
_ASK_S = 5.0
_META = "version=1\ncluster.id={}\nnode.id={}\ndirectory.id={}\n"


@dataclass(frozen=True)
class _Node:
    """A broker: where it listens, and with which settings it is started."""

    directory: Path
    port: int
    settings: dict[str, str]

    def start(self) -> DevelopmentBroker:
        return DevelopmentBroker.start(
            self.directory, self.port, settings=self.settings, timeout_s=_START_S
        )


class Cluster:
    """Brokers, by number from 0.

    Attributes:
        servers: Where the test finds them.
        member_servers: Where the members find them: the proxy.
        proxy: Between the members and the brokers.
        replicas: How many of each topic.
    """

    def __init__(self, directory: Path, brokers: int) -> None:
        direct, told, behind = (network.free_ports(brokers * 3)[n::3] for n in range(3))
        (controller,) = network.free_ports(1)
        self.replicas = brokers
        self.servers = ",".join(f"{LOOPBACK}:{port}" for port in direct)
        self.member_servers = ",".join(f"{LOOPBACK}:{port}" for port in told)
        self._nodes = [
            _Node(
                directory / f"broker-{number}",
                direct[number],
                _settings(
                    number, brokers, (direct[number], behind[number], told[number]), controller
                ),
            )
            for number in range(brokers)
        ]
        self._brokers: dict[int, DevelopmentBroker] = {}
        self.proxy = Proxy(dict(zip(told, behind, strict=True)))
        self._admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def __len__(self) -> int:
        return len(self._nodes)

    def __enter__(self) -> Self:
        try:
            for number in range(len(self)):
                self.start(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self._brokers.values():
            broker.kill()
        self.proxy.close()

    def start(self, number: int) -> None:
        """Start a broker, with the data it has; returns when clients can work with it."""
        if number:
            self._join(number)
        self._brokers[number] = self._nodes[number].start()

    def stop(self, number: int) -> None:
        """Let a broker end in order."""
        self._brokers[number].stop(timeout_s=60)

    def kill(self, number: int) -> None:
        self._brokers[number].kill()

    def hold(self, number: int) -> None:
        """Stop a broker's process as it stands."""
        os.kill(self._brokers[number].state.pid, signal.SIGSTOP)

    def let_go(self, number: int) -> None:
        os.kill(self._brokers[number].state.pid, signal.SIGCONT)

    def is_whole(self) -> bool:
        """Whether each replica of each partition has all that its leader has.

        Where the last one of a partition dies, Kafka 4.3.1 forgets the transactions that it was
        just ending: they stay open for ever.
        """
        try:
            topics = self._admin.list_topics(timeout=_ASK_S).topics.values()
        except KafkaException:
            return False
        partitions = [partition for topic in topics for partition in topic.partitions.values()]
        return all(len(partition.isrs) == len(self) for partition in partitions)

    def _join(self, number: int) -> None:
        """Give a broker the cluster's id: that of the first, which was formatted as it should be.

        What a cluster can (`group.version`, `transaction.version`) is its controller's.
        """
        kafka = self._nodes[number].directory / "kafka"
        if kafka.exists():
            return
        meta = (self._nodes[0].directory / "kafka" / "meta.properties").read_text("utf-8")
        (cluster,) = re.findall(r"^cluster\.id=(.+)$", meta, re.MULTILINE)
        kafka.mkdir(parents=True)
        (kafka / "meta.properties").write_text(_META.format(cluster, number + 1, _new_id()))


def _settings(
    number: int, brokers: int, ports: tuple[int, int, int], controller: int
) -> dict[str, str]:
    direct, behind, told = ports
    listeners = f"PLAINTEXT://{LOOPBACK}:{direct},MEMBERS://{LOOPBACK}:{behind}"
    advertised = f"PLAINTEXT://{LOOPBACK}:{direct},MEMBERS://{LOOPBACK}:{told}"
    protocols = "PLAINTEXT:PLAINTEXT,MEMBERS:PLAINTEXT,CONTROLLER:PLAINTEXT"
    settings = {
        "node.id": f"{number + 1}",
        "listener.security.protocol.map": protocols,
        "listeners": listeners,
        "advertised.listeners": advertised,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
    }
    if number == 0:
        settings["listeners"] += f",CONTROLLER://{LOOPBACK}:{controller}"
    else:
        settings["process.roles"] = "broker"
    if brokers > 1:
        settings |= {
            "default.replication.factor": f"{brokers}",
            "offsets.topic.replication.factor": f"{brokers}",
            "transaction.state.log.replication.factor": f"{brokers}",
            "transaction.state.log.min.isr": "2",
            "min.insync.replicas": "2",
            "metadata.max.idle.interval.ms": "500",  # Kafka's own: here there are some who watch.
        }
    return settings


def _new_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
