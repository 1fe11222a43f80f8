"""Tools for testing topologies, shipped for users: no broker, no threads, no waiting."""

from pystreams.testing.driver_topics import TestInputTopic, TestOutputTopic
from pystreams.testing.key_value_contract import KeyValueStoreContract
from pystreams.testing.session_contract import SessionStoreContract
from pystreams.testing.store_contract import StateStoreContract
from pystreams.testing.topology_test_driver import TopologyTestDriver
from pystreams.testing.trace import Hop, StateChange, TraceEvent, Written
from pystreams.testing.versioned_contract import VersionedStoreContract
from pystreams.testing.window_contract import WindowStoreContract

__all__ = [
    "Hop",
    "KeyValueStoreContract",
    "SessionStoreContract",
    "StateChange",
    "StateStoreContract",
    "TestInputTopic",
    "TestOutputTopic",
    "TopologyTestDriver",
    "TraceEvent",
    "VersionedStoreContract",
    "WindowStoreContract",
    "Written",
]
