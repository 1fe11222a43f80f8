"""Tools for testing topologies, shipped for users: no broker, no threads, no waiting."""

from pystreams.testing.driver_topics import TestInputTopic, TestOutputTopic
from pystreams.testing.store_contract import KeyValueStoreContract
from pystreams.testing.topology_test_driver import TopologyTestDriver

__all__ = ["KeyValueStoreContract", "TestInputTopic", "TestOutputTopic", "TopologyTestDriver"]
