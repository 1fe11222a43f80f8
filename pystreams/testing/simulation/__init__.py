"""A seeded simulation of everything around a stream thread: broker, disks, time and trouble.

The threads under test are the real ones; what they talk to is made of dictionaries and one
`random.Random`. The same seed gives the same run, call by call, so that a failure found among
thousands of seeds can be replayed and read. Reading order: `faults`, `partition_log`,
`transactions`, `group`, `broker`, `consumers`, `clients`, `disk`, `process`.
"""

from pystreams.testing.simulation.broker import SimulatedBroker
from pystreams.testing.simulation.clients import SimulatedClients
from pystreams.testing.simulation.clock import InlineExecutor, ManualClock, ManualEvent
from pystreams.testing.simulation.disk import SimulatedDirectories, SimulatedDisk, SimulatedEngine
from pystreams.testing.simulation.faults import (
    NO_FAULTS,
    FaultRates,
    Faults,
    Lifeline,
    SimulatedCrash,
)
from pystreams.testing.simulation.process import SimulatedProcess

__all__ = [
    "NO_FAULTS",
    "FaultRates",
    "Faults",
    "InlineExecutor",
    "Lifeline",
    "ManualClock",
    "ManualEvent",
    "SimulatedBroker",
    "SimulatedClients",
    "SimulatedCrash",
    "SimulatedDirectories",
    "SimulatedDisk",
    "SimulatedEngine",
    "SimulatedProcess",
]
