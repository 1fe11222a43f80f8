"""Makes the real Kafka clients from the configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from pystreams.config import GroupProtocol, StreamsConfig, clients
from pystreams.config.buffer_shares import input_share
from pystreams.kernel.clock import Clock, SystemClock
from pystreams.runtime.adapters.administering.confluent_admin import ConfluentAdmin
from pystreams.runtime.adapters.administering.topic_limits import described_limits
from pystreams.runtime.adapters.connection.connections import BrokerOutage
from pystreams.runtime.adapters.consuming.confluent_consumer import ConfluentConsumer
from pystreams.runtime.adapters.consuming.confluent_restore_consumer import ConfluentRestoreConsumer
from pystreams.runtime.adapters.consuming.paused_partitions import HeldLimits, PausedPartitions
from pystreams.runtime.adapters.producing.batch_limits import BatchLimits
from pystreams.runtime.adapters.producing.confluent_producer import ConfluentProducer
from pystreams.runtime.core.failures.error_handlers import DeadLetterListener, handler_of, told_of


class ConfluentClients:
    """Implements `ClientFactory` with confluent-kafka.

    Args:
        clock: Tells when to ask again what topics take.
        dead_letter_listener: Told of the dead letters of records that topics have refused.
    """

    def __init__(
        self,
        config: StreamsConfig,
        clock: Clock | None = None,
        dead_letter_listener: DeadLetterListener = lambda *_: None,
    ) -> None:
        self._config = config
        self._dead_letter_listener = dead_letter_listener
        self._outage = BrokerOutage(config.bootstrap_servers, config.task_timeout_ms / 1000)
        asking = clients.admin_config(config, client_id=f"{config.application_id}-limits")
        ask = partial(described_limits, asking, self._outage)
        self._batch_limits = BatchLimits(ask, clock or SystemClock())

    def consumer(self, client_id: str, group_instance_id: str) -> ConfluentConsumer:
        """Make the group consumer of a thread.

        Under the classic protocol it is a static member: after a crash it takes its partitions
        back at once. Under KIP-848 the broker refuses an instance id until the session of the
        crashed member has ended, so there it is a dynamic one.
        """
        static = self._config.group_protocol is GroupProtocol.CLASSIC and group_instance_id
        own = clients.consumer_config(
            self._config,
            client_id=client_id,
            group_instance_id=group_instance_id if static else None,
        )
        share = input_share(self._config.input_buffer_max_bytes, self._config.num_stream_threads)
        held = PausedPartitions(HeldLimits(bytes=share.client_bytes))
        return ConfluentConsumer(own, self._outage, paused=held)

    def restore_consumer(self, client_id: str) -> ConfluentRestoreConsumer:
        """Make the restore consumer of a thread."""
        own = clients.restore_consumer_config(self._config, client_id=client_id)
        return ConfluentRestoreConsumer(own, self._outage)

    def global_consumer(self, client_id: str) -> ConfluentRestoreConsumer:
        """Make the consumer of global topics of a process."""
        own = clients.global_consumer_config(self._config, client_id=client_id)
        return ConfluentRestoreConsumer(own, self._outage, reads="global topic")

    def history_consumer(self, client_id: str) -> ConfluentRestoreConsumer:
        """Make a consumer of source topics that is in no group; it reads what is committed."""
        own = clients.history_consumer_config(self._config, client_id=client_id)
        return ConfluentRestoreConsumer(own, self._outage, reads="history")

    def producer(
        self,
        client_id: str,
        transactional_id: str | None,
        topics: Collection[str] = (),
        sharing: int = 1,
    ) -> ConfluentProducer:
        """Make a producer; transactional when an id is given."""
        config, told = self._config, self._dead_letter_listener
        queue = config.errors_dead_letter_queue_topic_name
        return ConfluentProducer(
            clients.producer_config(
                self._config, transactional_id, client_id=client_id, sharing=sharing
            ),
            self._outage,
            self._batch_limits,
            topics=topics,
            handler=told_of(handler_of(config.production_exception_handler, queue), told),
            commit_timeout_s=self._config.task_timeout_ms / 1000,
        )

    def admin(self, stopping: Callable[[], bool] = lambda: False) -> ConfluentAdmin:
        """Make the admin client."""
        own = clients.admin_config(self._config, client_id=f"{self._config.application_id}-admin")
        return ConfluentAdmin(own, self._outage, self._config.replication_factor, stopping=stopping)
