"""What a `GlobalStreamThread` is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pystreams.errors import StreamsError
from pystreams.kernel.clock import Clock
from pystreams.runtime.core.global_task import GlobalTask
from pystreams.runtime.ports import AdminPort, ProducerPort, RestoreConsumerPort
from pystreams.runtime.settings import ThreadSettings
from pystreams.runtime.tasks.restore_listener import StateRestoreListener
from pystreams.runtime.tasks.task_directories import TaskDirectories


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalParts:
    """What the thread is made of.

    Attributes:
        consumer: Reads the topics; in no group.
        producer: Makes what sends dead letters.
        settings: How long to wait for records, how often to commit, and how much to hold.
        look_interval_ms: How often to look whether the topics are still the same.
        failed: Called with what has failed, when it has; tasks are to end then.
        listener: Told how the stores are filled.
    """

    task: GlobalTask
    consumer: RestoreConsumerPort
    producer: Callable[[], ProducerPort]
    admin: AdminPort
    directories: TaskDirectories
    clock: Clock
    settings: ThreadSettings
    look_interval_ms: int
    failed: Callable[[StreamsError], None]
    listener: StateRestoreListener
