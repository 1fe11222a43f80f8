"""A real Apache Kafka broker for development and tests.

    broker = DevelopmentBroker.start(Path("data"))
    ...  # clients use broker.bootstrap_servers
    broker.stop()

It is Kafka itself, in one JVM of 0.4 GB on the loopback address; nothing is imitated. Reading
order: `server` (start, find, stop), `settings` (how the server is set up), `state` (how it is found
again), then `process`, `network` and `jars`.
"""

from pystreams.broker.errors import BrokerError, BrokerStartError, PortTakenError
from pystreams.broker.jars import KAFKA_VERSION
from pystreams.broker.server import DevelopmentBroker
from pystreams.broker.state import BrokerRegistry, default_data_dir

__all__ = [
    "KAFKA_VERSION",
    "BrokerError",
    "BrokerRegistry",
    "BrokerStartError",
    "DevelopmentBroker",
    "PortTakenError",
    "default_data_dir",
]
