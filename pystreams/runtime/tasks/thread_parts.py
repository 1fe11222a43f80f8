"""What a stream thread is made of; put together by the client, or by a simulation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field

from pystreams.config import GroupProtocol, StreamsConfig
from pystreams.errors import StreamsError
from pystreams.ids import TopicPartition
from pystreams.kernel.clock import Clock
from pystreams.runtime.cluster.streams_metadata import client_id_with
from pystreams.runtime.core.task_settings import TaskSettings
from pystreams.runtime.ports import AdminPort, ClientFactory
from pystreams.runtime.settings import ThreadSettings
from pystreams.runtime.tasks.concurrent_calls import waiting_pool
from pystreams.runtime.tasks.restore_listener import StateRestoreListener
from pystreams.runtime.tasks.task_directories import TaskDirectories
from pystreams.runtime.topics.input_topics import InputTopics
from pystreams.topology.plan.topology_plan import TopologyPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """Who a process is, for the group and for the broker.

    Attributes:
        process_id: Stable across restarts.
        group_instance_id: Its identity in the group, stable across restarts.
        transactional_id: What the transactional ids of its threads begin with. It is made of what
            the group sees of it, so that others can end what it leaves open.
        survives: Whether the identity was there before this run, and so may be for the next: then
            a static member stays in its group when it stops.
        application_server: Where it answers, `host:port`; empty if it does not say.
        topology_digest: What tells its topology from others; empty if it does not say.
        directory_id: What tells its state directory from others; empty if it does not say.
        newcomer: Whether the group can't know it: it was made in this run, and may stand in for one
            that has died.
    """

    process_id: str
    client_id: str
    group_instance_id: str
    transactional_id: str
    survives: bool
    application_server: str = ""
    topology_digest: str = ""
    directory_id: str = ""
    newcomer: bool = False

    @classmethod
    def of(
        cls,
        config: StreamsConfig,
        process_id: str,
        *,
        kept: bool,
        topology_digest: str = "",
        directory_id: str = "",
    ) -> ProcessIdentity:
        """Return the identity of a process.

        Args:
            process_id: Stable across restarts.
            kept: Whether the state directory had it before this run.
            topology_digest: What tells its topology from others.
            directory_id: What tells its state directory from others.
        """
        identity = f"{config.application_id}-{process_id}"
        survives = kept or bool(config.group_instance_id)
        # The group holds those that are the user's apart under the classic protocol only.
        classic = config.group_protocol is GroupProtocol.CLASSIC
        own_name = (config.group_instance_id if classic else None) or process_id
        return cls(
            process_id=process_id,
            client_id=config.client_id or identity,
            group_instance_id=config.group_instance_id or identity,
            transactional_id=f"{config.application_id}-{own_name}",
            survives=survives,
            application_server=config.application_server,
            topology_digest=topology_digest,
            directory_id=directory_id,
            newcomer=not survives,
        )

    def consumer_id(self, thread: str) -> str:
        """Return the client id of a thread's consumer, which the whole group sees."""
        return client_id_with(
            f"{thread}-consumer",
            self.application_server,
            self.topology_digest,
            self.directory_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadParts:
    """What a thread is made of, beside its own number.

    Attributes:
        admin: The application's admin client.
        input_topics: Tells whether committed offsets are of the topics that are there.
        directories: Locked task directories.
        partition_counts: Given the assigned partitions, returns partition counts of all topics;
            asks the broker when some are new, so that new partitions become tasks.
        recount: Asks the broker for these counts anew: topics that a pattern found may be gone.
        shut_down: Ends this process in order, as another one asks for; called with what to tell.
        paused: Set while nothing is to be processed or restored.
        restore_listener: Told of restores, or None.
        warming: The threads of the process that warm up what is to come to them: they join the
            group together.
        held_back: Those that must not join yet for another reason; none of the others does then.
        make_stop_event: Makes the event that ends the loop; pauses wait on it. A simulation puts
            one on a manual clock here.
        make_waiting_pool: Makes what runs several calls to the broker side by side; a simulation
            makes them one after the other.
    """

    plan: TopologyPlan
    task_settings: TaskSettings
    settings: ThreadSettings
    clients: ClientFactory
    admin: AdminPort
    input_topics: InputTopics
    directories: TaskDirectories
    clock: Clock
    identity: ProcessIdentity
    partition_counts: Callable[[Collection[TopicPartition]], Mapping[str, int]]
    recount: Callable[[], object]
    shut_down: Callable[[StreamsError], None]
    paused: threading.Event = field(default_factory=threading.Event)
    restore_listener: StateRestoreListener | None = None
    warming: set[str] = field(default_factory=set)
    held_back: set[str] = field(default_factory=set)
    make_stop_event: Callable[[], threading.Event] = threading.Event
    make_waiting_pool: Callable[[], Executor] = waiting_pool
