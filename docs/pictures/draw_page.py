"""Takes the pictures of docs/page.md: an application on the development broker, in Chromium.

`python docs/pictures/draw_page.py`, from the root of the clone.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from pystreams import KafkaStreams, StreamsBuilder, Topology, serdes  # noqa: E402
from pystreams.http.server import HttpOptions, HttpServer  # noqa: E402
from tests import sharing  # noqa: E402
from tests.http.page.chromium import Chromium  # noqa: E402

_TOPICS = ("orders", "customers", "rejected", "orders-by-region", "orders-dead")
_WARM_S = 10.0


class Pricing:
    """A function of the user's: it refuses some orders, and blocks when it is told to."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()

    def __call__(self, order: str, region: str) -> str:
        """Return the region of an order; one in a hundred has no price."""
        self.goes_on.wait()
        if order.endswith("77"):
            raise ValueError(f"order {order} has no price")
        return region


def topology(pricing: Pricing) -> Topology:
    """Return what is shown: orders, joined with customers, counted by region."""
    builder = StreamsBuilder()
    text = serdes.STRING
    orders = builder.stream("orders", key_serde=text, value_serde=text)
    customers = builder.table("customers", key_serde=text, value_serde=text)
    orders.filter(lambda _, order: order < "1").to("rejected", key_serde=text, value_serde=text)
    regions = orders.join(customers, pricing)
    by_region = regions.group_by(lambda _, region: region, key_serde=text, value_serde=text)
    counts = by_region.count(name="regions").to_stream()
    counts.to("orders-by-region", key_serde=text, value_serde=serdes.LONG)
    return builder.build()


def write_until(stopped: threading.Event, servers: str) -> None:
    """Write customers, then orders, some hundred a second."""
    producer, chance = Producer({"bootstrap.servers": servers}), random.Random(18)
    for number in range(100):
        region = ("north", "south", "east", "west")[number % 4]
        producer.produce("customers", region, f"customer-{number}")
    while not stopped.wait(0.1):
        for _ in range(chance.randrange(60, 90)):
            order, customer = chance.randrange(30_000), chance.randrange(100)
            producer.produce("orders", f"{order:05}", f"customer-{customer}")
        producer.poll(0)
    producer.flush(30)


def main() -> None:
    """Write the pictures."""
    sharing.make_shared_directory()
    servers = sharing.shared_broker().bootstrap_servers
    topics = [NewTopic(topic, num_partitions=3) for topic in _TOPICS]
    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics(topics).values():
        created.result(30)
    place, stopped = Path(tempfile.mkdtemp()), threading.Event()
    config = {
        "application.id": "order-regions",
        "bootstrap.servers": servers,
        "state.dir": str(place / "state"),
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 500,
        "metrics.recording.level": "DEBUG",
        "processing.exception.handler": "continue",
        "errors.dead.letter.queue.topic.name": "orders-dead",
    }
    writer = threading.Thread(target=write_until, args=(stopped, servers))
    pricing = Pricing()
    streams = KafkaStreams(topology(pricing), config)
    with HttpServer(streams, HttpOptions(port=0)) as server, Chromium(place) as chromium, streams:
        writer.start()
        chromium.look(width=1200, height=1000)
        chromium.open(server.url)
        chromium.wait_for_text("#head .state", "RUNNING")
        stopped.wait(_WARM_S)
        chromium.picture(HERE / "page-light.png")
        chromium.look(scheme="dark", width=1200, height=1000)
        chromium.picture(HERE / "page-dark.png")
        chromium.look(width=390, height=844)
        chromium.picture(HERE / "page-phone.png")
        pricing.goes_on.clear()
        chromium.look(width=1200, height=420)
        chromium.wait_for_text("#troubles", "stands still")
        chromium.picture(HERE / "page-troubles.png")
        chromium.look(width=1200, height=320)
        chromium.evaluate("document.querySelector('#letters').scrollIntoView()")
        chromium.picture(HERE / "page-dead-letters.png")
        pricing.goes_on.set()
        stopped.set()
        writer.join()
    sharing.remove_shared_directory()


if __name__ == "__main__":
    main()
