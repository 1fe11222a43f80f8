"""A stage that merges a topic with what an earlier stage wrote, read by Spark's Kafka connector.

A live run is fed step by step, so that it takes all records in the order of their times; then the
same topics are backfilled. Some of the records were written in transactions that were aborted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient, NewTopic

from pystreams.backfill.plan.stages import merges_history
from pystreams.broker import DevelopmentBroker
from pystreams.cli.main import pystreams
from pystreams.topology.plan.topology_plan import TopologyPlan
from tests.broker.application import Application
from tests.broker.backfill import merging_app
from tests.broker.exactly_once.arena import entries
from tests.broker.reading import create_topics, read_all
from tests.broker.transactions import TransactionalWriter

PARTITIONS = 2
ROUNDS = 3
PRODUCTS = [f"product {number}".encode() for number in range(4)]
ORDERS_A_ROUND = 12
OUTPUTS = ("prices", "priced", "sold")
STORES = ("prices", "sold")
FIRST_MS = 1_700_000_000_000
HEADERS: list[tuple[str, bytes | None]] = [("from", b"shop"), ("empty", None)]
SETTINGS = {
    "processing.guarantee": "exactly_once_v2",
    "commit.interval.ms": 100,
    "statestore.cache.max.bytes": 0,
}

pytestmark = pytest.mark.timeout(600)


@dataclass
class Shop:
    """The topics of one history, and the applications that read it.

    Attributes:
        name: Start of all names.
        servers: The broker.
        directory: For logs and state.
        writer: Writes the history, in transactions.
        time_ms: The time of the last record.
    """

    name: str
    servers: str
    directory: Path
    writer: TransactionalWriter
    time_ms: int = FIRST_MS

    def write_prices(self, number: int, *, commit: bool = True) -> None:
        """Give each product a price, in a transaction that is committed or not."""
        self.writer.begin()
        for product in PRODUCTS:
            self._write("prices", product, b"price %d" % number)
        self._end(commit=commit)

    def write_orders(self, number: int, *, commit: bool = True) -> None:
        """Order products in turn, in a transaction that is committed or not."""
        self.writer.begin()
        for index in range(ORDERS_A_ROUND):
            place = index % len(PRODUCTS)
            # Those of a product stand in one partition: so a live run has an order of them.
            partition = place % PARTITIONS
            self._write("orders", b"order %d-%d" % (number, index), PRODUCTS[place], partition)
        self._end(commit=commit)

    def _end(self, *, commit: bool) -> None:
        if commit:
            self.writer.commit()
        else:
            self.writer.abort()

    def _write(self, topic: str, key: bytes, value: bytes, partition: int = -1) -> None:
        self.time_ms += 1
        name = f"{self.name}-{topic}"
        self.writer.write(name, value, key, partition, self.time_ms, HEADERS)

    def id_of(self, application: str) -> str:
        return f"{self.name}-{application}"

    def environment(self, application: str) -> dict[str, str]:
        return {"MERGING_NAME": self.name, "MERGING_OUT": f"{self.id_of(application)}-out"}

    def live(self) -> Application:
        file = Path(f"{merging_app.__file__}")
        settings = {"bootstrap.servers": self.servers, **SETTINGS}
        return Application(
            self.id_of("live"), self.directory, file, settings, self.environment("live")
        )

    def backfill(self) -> Result:
        """Run a backfill that publishes all, and builds the stores here."""
        words = ["backfill", str(merging_app.__file__)]
        own = {
            "application.id": self.id_of("filled"),
            "bootstrap.servers": self.servers,
            "state.dir": self.directory / "state",
            **SETTINGS,
        }
        for key, value in own.items():
            words += ["-c", f"{key}={value}"]
        words += ["--publish-outputs", "--seed-state", "--output", str(self.directory / "staged")]
        return CliRunner().invoke(
            pystreams, words, env=self.environment("filled"), catch_exceptions=False
        )

    def outputs(self, application: str, output: str) -> dict[bytes, list[Any]]:
        """What an output says of each key, in order."""
        found: dict[bytes, list[Any]] = {}
        for message in read_all(self.servers, f"{self.id_of(application)}-out-{output}"):
            record = (message.value(), message.timestamp(), message.headers())
            found.setdefault(message.key() or b"", []).append(record)
        return found

    def num_outputs(self, output: str) -> int:
        return sum(map(len, self.outputs("live", output).values()))

    def stored(self, application: str, store: str) -> dict[int, dict[bytes, bytes]]:
        """What a store holds on this host, by partition; nothing may have it open."""
        state = self.directory / "state" / self.id_of(application)
        return {
            number: dict(entries(state / f"0_{number}" / "rocksdb" / store, store))
            for number in range(PARTITIONS)
        }


@pytest.fixture
def shop(broker: DevelopmentBroker, admin: AdminClient, unique_name: str, tmp_path: Path) -> Shop:
    servers = broker.bootstrap_servers
    outputs = [f"{who}-out-{output}" for who in ("live", "filled") for output in OUTPUTS]
    topics = [
        NewTopic(f"{unique_name}-{end}", num_partitions=PARTITIONS)
        for end in ("orders", "prices", *outputs)
    ]
    create_topics(admin, topics)
    as_repartition_topics = {"partitioner": "murmur2_random"}  # So that keys meet.
    writer = TransactionalWriter(servers, f"{unique_name}-history", as_repartition_topics)
    return Shop(unique_name, servers, tmp_path, writer)


def run_live(shop: Shop) -> None:
    """Feed a live run, each step when it is through with the one before."""
    with shop.live() as application:
        running = application.start()
        for number in range(1, ROUNDS + 1):
            shop.write_prices(number)
            running.wait_until(
                lambda: shop.num_outputs("prices") == number * len(PRODUCTS),  # noqa: B023
                "the new prices",
            )
            shop.write_prices(100 + number, commit=False)
            shop.write_orders(100 + number, commit=False)
            shop.write_orders(number)
            running.wait_until(
                lambda: shop.num_outputs("sold") == number * ORDERS_A_ROUND,  # noqa: B023
                "the new orders",
            )
        running.stop()


def test_topic_merged_with_a_repartitioned_one_gives_what_a_live_run_gives(
    spark: Any, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in shop.environment("live").items():
        monkeypatch.setenv(name, value)
    plan = TopologyPlan(merging_app.topology(), shop.id_of("live"))
    assert merges_history(plan, {f"{shop.name}-{end}": PARTITIONS for end in ("orders", "prices")})
    run_live(shop)

    done = shop.backfill()
    assert done.exit_code == 0, done.output

    priced = shop.outputs("live", "priced")
    assert [value for value, _, _ in priced[PRODUCTS[0]]] == [
        b"order %d-%d at price %d" % (number, index, number)
        for number in range(1, ROUNDS + 1)
        for index in range(0, ORDERS_A_ROUND, len(PRODUCTS))
    ]
    for output in OUTPUTS:
        assert shop.outputs("filled", output) == shop.outputs("live", output)
    for store in STORES:
        live = shop.stored("live", store)
        assert sum(map(len, live.values())) == len(PRODUCTS)
        assert shop.stored("filled", store) == live
